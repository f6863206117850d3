"""Measures the accuracy of verdicts on recordings of jobs with neighbours and large state, by available input.

Run from a checkout with the development extras:

    python -m benchmarks.neighbours --write     # and writes the section "Neighbours and state" of docs/accuracy.md

Each recording is diagnosed with all of its files, with one kind of them, and with forty lines of its logs. The page of
`benchmarks.accuracy` keeps the section.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from flowdiag.cli.spark.starter import SparkStarter
from tests import windows
from tests.windows import Run, runs

from .accuracy import NEIGHBOURS, PAGE, with_section
from .live import ORDER, diagnose_paths

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FAMILIES: Final = ("neighbours", "state", "rescaling")
FILES: Final[Mapping[str, tuple[str, ...]]] = {
    "everything": ("*",),
    "logs": ("logs",),
    "JobManager's log": ("logs/*jobmanager*",),
    "saved responses": ("rest",),
    "collected responses": ("collected",),
}
"""Patterns of the files of a recording that each input consists of."""
WINDOWS: Final[Mapping[str, Callable[[Run], windows.Window]]] = {
    "last 40 lines of each log": windows.at_its_end,
    "40 lines around the first trouble": windows.around_trouble,
}

_GENERAL: Final[Mapping[str, frozenset[str]]] = {
    "constraint-violated": frozenset({"taskmanager-lost", "task-failure"}),
    "database-deadlock": frozenset(
        {"taskmanager-lost", "slow-database", "task-failure", "snapshot-exception"}
    ),
    "database-lock": frozenset({"slow-operator", "slow-database"}),
    "fenced-transaction": frozenset({"task-failure"}),
    "invalid-sql": frozenset({"submission-failed"}),
    "kafka-quota": frozenset({"slow-kafka", "slow-operator", "task-failure"}),
    "local-disk-fails": frozenset({"storage-failure"}),
    "log-position-lost": frozenset({"task-failure"}),
    "no-connection-left": frozenset({"task-failure"}),
    "multiplied-state": frozenset({"slow-open", "slow-restore"}),
    "offsets-out-of-range": frozenset({"slow-operator", "sleeping-in-operator"}),
    "offsets-went-back": frozenset({"unknown-topic"}),
    "out-of-memory": frozenset({"taskmanager-lost"}),
    "record-too-large": frozenset({"task-failure"}),
    "rescale-loop": frozenset({"taskmanager-lost"}),
    "service-unreachable": frozenset({"taskmanager-lost", "task-failure"}),
    "small-fetches": frozenset({"slow-kafka"}),
    "slow-async-state": frozenset({"slow-operator"}),
    "slow-database": frozenset({"slow-operator"}),
    "slow-kafka": frozenset({"kafka-timeout", "slow-operator"}),
    "slow-local-disk": frozenset({"slow-operator", "slow-sync-snapshot"}),
    "storage-failure": frozenset(
        {"service-unreachable", "slow-checkpoint-storage", "submission-failed", "task-hangs"}
    ),
    "too-few-replicas": frozenset({"kafka-timeout", "snapshot-exception"}),
    "write-stall": frozenset({"slow-operator", "slow-sync-snapshot"}),
    "wrong-advertised-listeners": frozenset({"kafka-timeout"}),
}
"""By true cause, the causes that describe the same fault less precisely, because the input does not show its reason."""

# Recorded jobs sleep instead of computing, and thread dumps show it.
_PRECISE: Final = {"slow-operator": "sleeping-in-operator"}

Case = tuple[str, str, str, str]  # input, recording, grade, and the cause that is not the true one


def measure(spark: SparkSession, parts: Sequence[str], done: set[str]) -> Iterator[Case]:
    """Yield the grade of every recording that is not done, with each of the inputs that it has."""
    for part in parts:
        for run in runs(FAMILIES):
            if f"{part} {run.name}" not in done:
                with tempfile.TemporaryDirectory() as folder:
                    if paths := lay_out(run, part, Path(folder)):
                        yield part, run.name, *grade(run.truth["expected"], paths, spark)


def lay_out(run: Run, part: str, folder: Path) -> list[str]:
    """Return the paths of an input; empty if the recording has no such files.

    Args:
        part: a name of `FILES` or `WINDOWS`.
        folder: an empty folder for the lines of a window.
    """
    if part in WINDOWS:
        return WINDOWS[part](run).write(folder)
    files = windows.files_of(run.name)
    return [str(path) for pattern in FILES[part] for path in sorted(files.glob(pattern))]


def grade(expected: Mapping[str, Any], paths: list[str], spark: SparkSession) -> tuple[str, str]:
    """Grade the first incident of the report on these paths.

    Returns:
        A word from `ORDER`, and the reported cause unless it is right.
    """
    summary = diagnose_paths(paths, spark).summary
    first = next(iter(summary.stories), None)
    reported = "" if first is None else first.cause or ""
    if expected["cause"] is None:
        healthy = "right" if summary.verdict == "healthy" else "inconclusive"
        return ("wrong" if reported else healthy), reported
    if first is None or reported in ("", "unrecognised-failure"):
        return ("called healthy" if summary.verdict == "healthy" else "inconclusive"), ""
    if not _is_consistent(expected, first.subject):
        return "wrong", f"{reported} of {first.subject.task or first.subject.kind}"
    if reported in (expected["cause"], _PRECISE.get(expected["cause"])):
        return "right", ""
    general = reported in _GENERAL.get(expected["cause"], ())
    return ("less precise" if general else "wrong"), reported


def _is_consistent(expected: Mapping[str, Any], subject: Any) -> bool:
    """Return whether a subject contradicts neither the culprit of the truth nor its task."""
    named = (expected.get("culprit") or {}) | {"task": expected.get("task")}
    return all(
        value is None or getattr(subject, name, None) in (None, value)
        for name, value in named.items()
    )


def table(graded: Sequence[Case]) -> Iterator[str]:
    """Yield the lines of the section."""
    yield from (
        "Recordings of jobs with Kafka, databases, object stores and large state, and of rescaled jobs. Each input is",
        "diagnosed as `flowdiag diagnose` does. *Less precise* answers name",
        "the effect, because the input does not show the reason. *Called healthy*: the input does not show the fault. Measured by `python -m benchmarks.neighbours`.",
        "",
        "| input | " + " | ".join(ORDER) + " |",
        "|---" * (len(ORDER) + 1) + "|",
    )
    for part in dict.fromkeys(case[0] for case in graded):
        words = Counter(word for name, _, word, _ in graded if name == part)
        yield f"| {part} | {' | '.join(str(words[word]) for word in ORDER)} |"
    wrong = [
        f"{name} from {part}: {reported}"
        for part, name, word, reported in graded
        if word == "wrong"
    ]
    if wrong:
        yield from ("", "Wrong:", "", *(f"- {case}" for case in wrong))


def main() -> int:
    """Measure, print the section, and write it into the page."""
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--write", action="store_true", help="write the section of the page")
    options.add_argument("--part", action="append", help="only this input")
    options.add_argument("--keep", type=Path, help="file with earlier results; extended")
    args = options.parse_args()
    graded: list[Case] = []
    if args.keep and args.keep.exists():
        graded = [tuple(json.loads(line)) for line in args.keep.read_text().splitlines()]
    with SparkStarter.begin() as starter:
        session = starter.session()
        starter.tune(0)
        done = {f"{part} {name}" for part, name, *_ in graded}
        for case in measure(session, args.part or [*FILES, *WINDOWS], done):
            graded.append(case)
            if case[2] != "right":
                print(*case, sep=", ", file=sys.stderr, flush=True)
            if args.keep:
                with args.keep.open("a") as kept:
                    kept.write(json.dumps(case) + "\n")
    text = "\n".join(table(graded)) + "\n"
    print(text)
    if args.write:
        PAGE.write_text(with_section(PAGE.read_text(), NEIGHBOURS, text))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
