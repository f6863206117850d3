"""Growing sets of the inputs of a recording, to check that more input never makes an answer worse.

A chain is drawn from its number: some of the pieces of a recording, then more of them, then all.
A piece is one log, one event log, all REST answers, or the archive. The first set may contain only
the beginning of its logs. The last sets may add files that are unrelated to the fault, such as a
README or the printed output of the application.
"""

from __future__ import annotations

import random
import re
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from flowdiag.analyses.contract.report import Report
from flowdiag.analyses.diagnosis import diagnose
from flowdiag.analyses.inputs import find, with_owners
from flowdiag.analyses.selection.options import Options
from flowdiag.analyses.topic_names import EVERYTHING, names_of
from flowdiag.analyses.topics import topic

from .diagnoses import grade_report
from .recordings import culprits_of
from .windows import Run, Window, files_of, part_of_the_time

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Files next to logs that are unrelated to the health of a job.
UNRELATED: Final = {
    "stdout": "Started the demo, open http://localhost:4040\n",
    "driver/stdout": "rows so far: 4711\n",
    "README.md": "# Orders\n\nCounts orders per key. Start it with `make run`.\n\nSee also the [runbook](https://wiki/orders).\n",
    "requirements.txt": "pyspark==4.3.0\npyarrow>=20\n",
    "log4j2.properties": "rootLogger.level = INFO\nrootLogger.appenderRef.rolling.ref = RollingFileAppender\n",
    "app.py": "import sys\n\n\ndef main() -> None:\n    raise SystemExit(sys.argv[1:] and 0)\n",
    "docker-compose.yml": "services:\n  worker:\n    image: orders:1.4\n    restart: on-failure\n",
}

_BY_FILE: Final = ("logs", "driver", "executor", "listener", "eventlog")


@dataclass(frozen=True, order=True)
class Piece:
    """A file, or a folder with files that belong together.

    Args:
        kind: such as `jobmanager log`, `taskmanager log`, `rest`, `eventlog`.
    """

    kind: str
    path: Path


@dataclass(frozen=True)
class Inputs:
    """Some inputs of a recording.

    Args:
        until: the share of the time that the logs cover, from their beginning.
        unrelated: names from `UNRELATED`.
    """

    run: Run
    pieces: frozenset[Piece]
    until: float = 1
    unrelated: tuple[str, ...] = ()

    def __str__(self) -> str:
        names = [f"{piece.kind} {piece.path.name}" for piece in sorted(self.pieces)]
        part = "" if self.until == 1 else f" (first {self.until:.0%} of the logs)"
        return f"{self.run.name}: {', '.join([*names, *self.unrelated])}{part}"

    def write(self, folder: Path) -> list[str]:
        """Lay out the files below an empty folder, and return the paths to diagnose."""
        paths = [str(piece.path) for piece in sorted(self.pieces)]
        if self.until < 1:
            whole = part_of_the_time(self.run, 0, self.until)
            chosen = {piece.path for piece in self.pieces}
            first = Window(self.run, tuple(p for p in whole.parts if p.path in chosen))
            logs = {path for path in chosen if path in self.run.logs}
            paths = [path for path in paths if Path(path) not in logs]
            (folder / "logs").mkdir()
            paths += first.write(folder / "logs")
        for name in self.unrelated:
            path = folder / "more" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(UNRELATED[name])
        return [*paths, *([str(folder / "more")] if self.unrelated else [])]


@cache
def pieces_of(run: Run) -> tuple[Piece, ...]:
    """Return the pieces of a recording, in order."""
    found = []
    for folder in sorted(path for path in files_of(run.name).iterdir() if path.is_dir()):
        if folder.name in _BY_FILE:
            found += [
                Piece(_kind(folder, path), path)
                for path in sorted(folder.iterdir())
                if path.is_dir() or path.stat().st_size
            ]
        else:
            found.append(Piece(folder.name, folder))
    return tuple(found)


def _kind(folder: Path, path: Path) -> str:
    if folder.name != "logs":
        return folder.name
    return "jobmanager log" if "jobmanager" in path.name else "taskmanager log"


def chain(run: Run, number: int) -> list[Inputs]:
    """Return growing inputs of a recording, the last one with all pieces."""
    dice = random.Random(f"chain {run.name} {number}")
    pieces = list(pieces_of(run))
    dice.shuffle(pieces)
    if dice.random() < 0.5:  # whole kinds, in a drawn order
        order = dice.sample(sorted({p.kind for p in pieces}), len({p.kind for p in pieces}))
        pieces.sort(key=lambda piece: order.index(piece.kind))
    few = dice.randint(1, max(1, len(pieces) // 2))
    more = dice.randint(few, len(pieces))
    sets = [Inputs(run, frozenset(pieces[:n])) for n in dict.fromkeys((few, more, len(pieces)))]
    if run.engine == "flink" and dice.random() < 0.3:
        sets[0] = replace(sets[0], until=dice.choice((0.5, 0.7, 0.85)))
    names = tuple(sorted(dice.sample(list(UNRELATED), 2)))
    since = dice.randint(1, len(sets))
    if since == len(sets):
        sets.append(sets[-1])
    return [*sets[:since], *(replace(each, unrelated=names) for each in sets[since:])]


def report_on_inputs(inputs: Inputs, spark: SparkSession) -> Report:
    """Return the report of `flowdiag diagnose` on inputs."""
    with tempfile.TemporaryDirectory() as folder:
        found, engines = with_owners(find(inputs.write(Path(folder)), strict=False))
        topics = tuple(map(topic, names_of(EVERYTHING, engines)))
        return diagnose(topics, found, lambda: spark, Options(everything=True))


ORDER: Final = ("right", "less precise", "inconclusive", "silent", "wrong")
"""From the best answer to the worst."""
_MISSING: Final = re.compile(
    r"the metrics of \d+ of \d+ subtasks are missing|the logs show only \d+ of the job's \d+ tasks"
)
_USEFUL: Final = ("right", "less precise")


def grade(run: Run, report: Report) -> str:
    """Grade the first incident of a report with a word from `ORDER`.

    A less precise answer names the true culprit with a weaker cause: `slow-subtask` instead of
    `data-skew`.
    """
    word = grade_report(run.truth, report).partition(" ")[0]
    # Logs of some TaskManagers never show that a job is healthy, and the answer shows how many are missing.
    if word == "inconclusive" and _MISSING.search(report.summary.reason or ""):
        return "right"
    if word == "wrong" and any(_accuses(culprit, report) for culprit in _culprits(run)):
        return "less precise"
    return word


def _culprits(run: Run) -> list[dict[str, Any]]:
    return [culprit for job in run.jobs for culprit in culprits_of(job)]


def _accuses(culprit: dict[str, Any], report: Report) -> bool:
    subject = report.summary.stories[0].subject
    named = ("task", "subtask_index") if culprit.get("subtask_index") is not None else ("host",)
    return all(
        culprit.get(name) is not None and getattr(subject, name) == culprit[name] for name in named
    )


def losses(steps: Sequence[tuple[Inputs, str]]) -> Iterator[str]:
    """Yield the steps of a chain that make the answer worse.

    Args:
        steps: growing inputs with the grade of their answer.
    """
    best: tuple[int, Inputs] | None = None
    for inputs, word in steps:
        place = ORDER.index(word)
        if best is not None and place > best[0]:
            yield f"{ORDER[best[0]]} on {best[1]}\n  but {word} on {inputs}"
        elif word in _USEFUL:
            best = place, inputs


def grades(inputs: Sequence[Inputs], spark: SparkSession) -> list[tuple[Inputs, str]]:
    """Diagnose and grade each of several inputs."""
    return [(each, grade(each.run, report_on_inputs(each, spark))) for each in inputs]
