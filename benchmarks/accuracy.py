"""How often the verdict on a recording is right, inconclusive, silent or wrong, by what of it is there.

Run from a checkout with the development extras:

    python -m benchmarks.accuracy            # prints the page
    python -m benchmarks.accuracy --write    # and writes docs/accuracy.md
    python -m benchmarks.accuracy --keep kept.json --seconds 170     # a part of it; again: the next one

Every recording under `fixtures/recordings` is diagnosed with all of its files, with parts of them missing
(`tests/recordings.py` says how) and in windows of its logs (`tests/windows.py`), and held against the truth
that the job itself wrote.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from flowdiag.analyses.diagnosis import inspect_inputs, measure, report_on
from flowdiag.analyses.inputs import find
from flowdiag.analyses.model.options import Options
from flowdiag.analyses.topics import topic
from flowdiag.cli.spark.starter import SparkStarter
from tests import windows
from tests.recordings import VARIANTS, Recording, variant
from tests.windows import ORDER, Run, Window, runs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGE: Final = Path(__file__).parents[1] / "docs" / "accuracy.md"
RANDOM: Final = 2  # random windows per recording
PARTS: Final = 2  # halves or thirds of the time of some of a recording's logs
_NUMBERED: Final = ("random window", "some logs, in part")
PARTS_OF_THE_TIME: Final[dict[str, Callable[[Run], Window]]] = {
    "first half": partial(windows.part_of_the_time, first=0, last=1 / 2),
    "second half": partial(windows.part_of_the_time, first=1 / 2, last=1),
    "first third": partial(windows.part_of_the_time, first=0, last=1 / 3),
    "second third": partial(windows.part_of_the_time, first=1 / 3, last=2 / 3),
    "last third": partial(windows.part_of_the_time, first=2 / 3, last=1),
    **{
        f"some logs, in part {n + 1}": partial(windows.part_of_some_logs, number=n)
        for n in range(PARTS)
    },
}
WINDOWS: Final[dict[str, Callable[[Run], Window]]] = {
    "last 40 lines": windows.at_its_end,
    "40 lines around the first trouble": windows.around_trouble,
    "70 s around the first trouble": windows.sick_time,
    **PARTS_OF_THE_TIME,
    **{f"random window {n + 1}": partial(windows.draw, number=1000 + n) for n in range(RANDOM)},
}
SPARK_PARTS: Final = {
    "everything": ("driver", "listener", "eventlog", "rest"),
    "driver log": ("driver",),
    "event log": ("eventlog",),
    "listener": ("listener",),
}
TOPICS: Final = {"flink": "checkpoints", "queues": "queues", "spark": "rate"}  # by folder

Kept = dict[str, dict[str, str]]
"""By topic, then by recording and what is there of it: what the report comes to."""


def cases() -> Iterator[tuple[Run, str]]:
    """Every recording with every part of it that is looked at."""
    looked_at = [run for run in runs() if run.name.partition("/")[0] in TOPICS]
    for name in dict.fromkeys((*WINDOWS, *SPARK_PARTS, *VARIANTS)):
        for run in looked_at:
            parts = SPARK_PARTS if run.engine == "spark" else VARIANTS
            if name in WINDOWS or (name in parts and run.name.startswith(("flink/", "spark/"))):
                yield run, name


def laid_out(run: Run, name: str, folder: Path) -> list[str] | None:
    """Lay out the files of a case that is no window; None where the recording has no such part.

    Args:
        run: the recording.
        name: one of `VARIANTS` or `SPARK_PARTS`.
        folder: an empty one, for what has to be written.
    """
    whole = windows.files_of(run.name)
    if run.engine == "spark":
        return [str(whole / part) for part in SPARK_PARTS[name] if (whole / part).is_dir()] or None
    return variant(Recording(windows.ROOT / run.name, run.truth), name, folder)


def topic_of(run: Run) -> str:
    """The topic that a recording was made for."""
    return TOPICS[run.name.partition("/")[0]]


def outcome(run: Run, name: str, spark: SparkSession) -> str | None:
    """What is said of a case: one of `ORDER`; None where the recording has no such part."""
    with tempfile.TemporaryDirectory() as folder:
        window = WINDOWS[name](run) if name in WINDOWS else None
        paths = window.write(Path(folder)) if window else laid_out(run, name, Path(folder))
        if not paths:
            return None
        topics = (topic(topic_of(run)),)
        inspected = inspect_inputs(topics, find(paths, strict=False, engine=run.engine), Options())
        report = report_on(topics, inspected, measure(topics, inspected, lambda: spark))
    return windows.outcome(run, report, window.span if window else None)


def measured_into(kept: Kept, spark: SparkSession, seconds: float, keep: Path | None) -> bool:
    """Diagnose what is not kept yet, for so long; whether all of it is.

    Args:
        kept: filled, and what it holds is not measured again.
        spark: the session.
        seconds: no case is begun later.
        keep: where to write it after each case.
    """
    ends = time.monotonic() + seconds
    for run, name in cases():
        key = f"{run.name} {name}"
        if key in kept.setdefault("done", {}):
            continue
        if time.monotonic() > ends:
            return False
        said = outcome(run, name, spark)
        kept["done"][key] = said or ""
        if said is not None:
            kept.setdefault(topic_of(run), {})[key] = said
            if said.startswith("wrong"):
                print(f"{key}: {said}", file=sys.stderr)
        if keep is not None:
            keep.write_text(json.dumps(kept, indent=0))
    return True


# --- the page -------------------------------------------------------------------------------------

TITLES: Final = {
    "checkpoints": "Checkpoints: who makes them fail",
    "queues": "Queues: where back pressure begins",
    "rate": "Rate: why a Spark stream does not keep up",
}


def page(kept: Kept) -> str:
    """The document, as Markdown."""
    lines = [
        "# How often the culprit is right",
        "",
        "Generated by `python -m benchmarks.accuracy --write` from the recordings of real clusters",
        "(`fixtures/README.md`): whole, with files missing, and in windows of their logs, dressed as people",
        f"paste them (`tests/windows.py`; {RANDOM} random ones of 1 to 400 lines each), in halves and thirds of",
        f"the time, also of some of the logs only ({PARTS} draws each); what a part of a Spark run shows, its",
        "own batches in it tell. *Right*: the first culprit is who the job itself says it is, the cause where it",
        "names nobody, and a healthy job accuses nobody. *Inconclusive*: nobody is accused. *Silent*: the window",
        "holds nothing to diagnose, and the report says so. *Called healthy*: a sick job's checkpoints complete, or",
        "its batches keep up, as far as these files tell; of parts of the time most are first ones. *Wrong*:",
        "somebody else is accused, or a healthy job is called sick.",
        "",
    ]
    lines += _left_out(kept)
    for each, title in TITLES.items():
        lines += [f"## {title}", "", *_summary(kept.get(each, {})), ""]
        lines += [*_shapes(kept.get(each, {})), ""]
    lines += ["## Each recording", "", *_folded("every recording, part by part", _each(kept))]
    return "\n".join(lines) + "\n"


def _left_out(kept: Kept) -> Iterator[str]:
    """A sentence about the cases that nobody has measured yet."""
    done = kept.get("done", {})
    left = Counter(_column(name) for run, name in cases() if f"{run.name} {name}" not in done)
    if left:
        told = ", ".join(f"{name} ({number})" for name, number in left.items())
        yield from (f"Not measured yet, of so many recordings: {told}.", "")


def _place(key: str) -> tuple[str, str]:
    recording, _, name = key.partition(" ")
    return recording, name


def _column(name: str) -> str:
    drawn = next((each for each in _NUMBERED if name.startswith(each)), None)
    return name if drawn is None else drawn.replace("window", "windows")


def _summary(said: Mapping[str, str]) -> Iterator[str]:
    counts: dict[str, Counter[str]] = {}
    for key, word in said.items():
        counts.setdefault(_column(_place(key)[1]), Counter())[word] += 1
    yield "| what is there | " + " | ".join(ORDER) + " |"
    yield "|---" * (len(ORDER) + 1) + "|"
    for name in dict.fromkeys(map(_column, (*VARIANTS, *SPARK_PARTS, *WINDOWS))):
        if name in counts:
            numbers = (str(counts[name][word]) for word in ORDER)
            yield f"| {name} | " + " | ".join(numbers) + " |"


Shape = tuple[str, str]  # the scenario, and the fault of its truth

_WELL: Final = "none"  # the fault of a healthy job


def _shapes(said: Mapping[str, str]) -> Iterator[str]:
    """What is said by the shape of the trouble, the version and what is there; what is right throughout is folded.

    Parts of the files count; windows, which hold little of a recording, where they are wrong or there is nothing else.
    """
    whole = {
        key: word
        for key, word in said.items()
        if _place(key)[1] not in WINDOWS or word.startswith("wrong")
    }
    cells: dict[tuple[Shape, str], dict[str, list[str]]] = {}
    shapes = {run.name: _shape_of(run) for run in runs()}
    for key, word in (whole or said).items():
        recording, name = _place(key)
        version = recording.split("/")[1]
        files = cells.setdefault((shapes[recording], version), {})
        names = files.setdefault(word, [])
        if _column(name) not in names:
            names.append(_column(name))
    alike: dict[tuple[Shape, tuple[tuple[str, tuple[str, ...]], ...]], list[str]] = {}
    for (shape, version), files in cells.items():
        told = tuple((word, tuple(files[word])) for word in ORDER if word in files)
        alike.setdefault((shape, told), []).append(version)
    rows = sorted(
        ((fault, scenario, ", ".join(_in_order(versions)), dict(told)))
        for ((scenario, fault), told), versions in alike.items()
    )
    doubtful = [row for row in rows if set(row[3]) != {"right"}]
    right = [row for row in rows if set(row[3]) == {"right"}]
    if doubtful:
        yield "By the fault, the scenario and the version: how many parts of the files tell, and which do not:"
        yield ""
        yield from _table_of_shapes(doubtful)
        yield ""
    if right:
        yield from _folded("right with whatever files are there", _table_of_shapes(right))


def _shape_of(run: Run) -> Shape:
    """The scenario of a recording, and the faults of its jobs."""
    causes = dict.fromkeys(job["expected"].get("cause") or _WELL for job in run.jobs)
    return run.name.split("/")[2], " and ".join(causes)


def _in_order(versions: Iterable[str]) -> list[str]:
    return sorted(versions, key=lambda version: tuple(map(int, version.split("."))))


_FAIR: Final = ("inconclusive", "silent", "called healthy")


def _table_of_shapes(
    rows: Iterable[tuple[str, str, str, Mapping[str, Sequence[str]]]],
) -> Iterator[str]:
    """A row per fault, scenario and versions that are told alike: with which files the answer is what."""
    yield f"| fault | scenario | version | right | fair: {' | '.join(_FAIR)} | wrong |"
    yield "|---|---|---|---|" + "---|" * (len(_FAIR) + 1)
    for fault, scenario, versions, told in rows:
        wrong = [
            f"{name} {word.removeprefix('wrong ')}"
            for word in ORDER
            if word.startswith("wrong")
            for name in told.get(word, ())
        ]
        right = f"{len(told.get('right', ()))} of {sum(map(len, told.values()))}"
        others = [", ".join(told.get(word, ())) or "–" for word in _FAIR]
        cells = (right, *others, ", ".join(wrong) or "–")
        yield f"| {fault} | {scenario} | {versions} | {' | '.join(cells)} |"


def _folded(title: str, lines: Iterable[str]) -> Iterator[str]:
    """Lines that open with a click."""
    yield from (f"<details><summary>{title}</summary>", "", *lines, "", "</details>")


def _each(kept: Kept) -> Iterator[str]:
    """A table per topic: a row per recording, a column per part; of drawn windows the worst."""
    for each, title in TITLES.items():
        said = kept.get(each, {})
        names = [
            name
            for name in dict.fromkeys(map(_column, (*VARIANTS, *SPARK_PARTS, *WINDOWS)))
            if any(_column(_place(key)[1]) == name for key in said)
        ]
        rows: dict[str, dict[str, str]] = {}
        for key, word in said.items():
            recording, name = _place(key)
            cell = rows.setdefault(recording, {})
            worst = max(cell.get(_column(name), ORDER[0]), word, key=ORDER.index)
            cell[_column(name)] = worst
        yield f"### {title.partition(':')[0]}"
        yield ""
        yield f"| recording | {' | '.join(names)} |"
        yield "|---" * (len(names) + 1) + "|"
        for recording, cell in sorted(rows.items()):
            yield f"| {recording} | {' | '.join(cell.get(name, '–') for name in names)} |"
        yield ""


def main() -> int:
    """Print the page, or measure a part of it; 1 where something is left to be measured."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--write", action="store_true", help="write docs/accuracy.md")
    options.add_argument("--keep", type=Path, help="a file for what was measured, to go on from")
    options.add_argument("--seconds", type=float, default=1e9, help="measure no longer than that")
    options.add_argument("--as-it-is", action="store_true", help="the page of what is kept by now")
    given = options.parse_args()
    kept: Kept = {}
    if given.keep and given.keep.exists():
        kept = json.loads(given.keep.read_text())
    done = kept.get("done", {})
    if not given.as_it_is and any(f"{run.name} {name}" not in done for run, name in cases()):
        with SparkStarter.begin() as starter:
            session = starter.session()
            starter.tune(0)
            whole = measured_into(kept, session, given.seconds, given.keep)
        if not whole:
            print(f"{len(kept['done'])} of {len(list(cases()))} are measured", file=sys.stderr)
            return 1
    text = page(kept)
    print(text)
    if given.write:
        PAGE.write_text(text.rstrip() + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
