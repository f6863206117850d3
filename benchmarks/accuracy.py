"""Measures the accuracy of verdicts on the recordings, by available input.

Run from a checkout with the development extras:

    python -m benchmarks.accuracy            # prints the page
    python -m benchmarks.accuracy --write    # and writes docs/accuracy.md
    python -m benchmarks.accuracy --keep kept.json --seconds 170     # a part; repeat for the next part

Every recording under `fixtures/recordings` is diagnosed with all of its files, with some files
missing (`tests/recordings.py`) and in windows of its logs (`tests/windows.py`). Each verdict is
compared with the truth that the job itself wrote.
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
from flowdiag.analyses.selection.options import Options
from flowdiag.analyses.topics import topic
from flowdiag.cli.spark.starter import SparkStarter
from tests import windows
from tests.recordings import VARIANTS, Recording, variant
from tests.windows import ORDER, Run, Window, runs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGE: Final = Path(__file__).parents[1] / "docs" / "accuracy.md"
RANDOM: Final = 2  # random windows per recording
PARTS: Final = 2  # halves or thirds of the duration of some of a recording's logs
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
    "70 s around the first trouble": windows.around_trouble_by_time,
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
"""Outcomes by topic, then by recording and variant."""


def cases() -> Iterator[tuple[Run, str]]:
    """Yield every recording with each of its variants."""
    recordings = [run for run in runs() if run.name.partition("/")[0] in TOPICS]
    for name in dict.fromkeys((*WINDOWS, *SPARK_PARTS, *VARIANTS)):
        for run in recordings:
            parts = SPARK_PARTS if run.engine == "spark" else VARIANTS
            if name in WINDOWS or (name in parts and run.name.startswith(("flink/", "spark/"))):
                yield run, name


def lay_out(run: Run, name: str, folder: Path) -> list[str] | None:
    """Write the files of a case that is not a window.

    Return None if the recording has no such files.

    Args:
        name: a name from `VARIANTS` or `SPARK_PARTS`.
        folder: an empty folder for the files.
    """
    whole = windows.files_of(run.name)
    if run.engine == "spark":
        return [str(whole / part) for part in SPARK_PARTS[name] if (whole / part).is_dir()] or None
    return variant(Recording(windows.ROOT / run.name, run.truth), name, folder)


def topic_of(run: Run) -> str:
    return TOPICS[run.name.partition("/")[0]]


def outcome(run: Run, name: str, spark: SparkSession) -> str | None:
    """Grade a case with a word from `ORDER`. Return None if the recording has no such files."""
    with tempfile.TemporaryDirectory() as folder:
        window = WINDOWS[name](run) if name in WINDOWS else None
        paths = window.write(Path(folder)) if window else lay_out(run, name, Path(folder))
        if not paths:
            return None
        topics = (topic(topic_of(run)),)
        inspected = inspect_inputs(topics, find(paths, strict=False, engine=run.engine), Options())
        report = report_on(topics, inspected, measure(topics, inspected, lambda: spark))
    return windows.outcome(run, report, window.span if window else None)


def measure_missing(kept: Kept, spark: SparkSession, seconds: float, keep: Path | None) -> bool:
    """Diagnose the cases that are not in `kept`, within a time limit.

    Args:
        kept: outcomes by case; new ones are added in place.
        seconds: no case starts after this many seconds.
        keep: the file that stores `kept` after each case.

    Returns:
        True if no case is left.
    """
    ends = time.monotonic() + seconds
    for run, name in cases():
        key = f"{run.name} {name}"
        if key in kept.setdefault("done", {}):
            continue
        if time.monotonic() > ends:
            return False
        verdict = outcome(run, name, spark)
        kept["done"][key] = verdict or ""
        if verdict is not None:
            kept.setdefault(topic_of(run), {})[key] = verdict
            if verdict.startswith("wrong"):
                print(f"{key}: {verdict}", file=sys.stderr)
        if keep is not None:
            keep.write_text(json.dumps(kept, indent=0))
    return True


# --- the page -------------------------------------------------------------------------------------

TITLES: Final = {
    "checkpoints": "Checkpoints: the culprit of failures",
    "queues": "Queues: the source of back pressure",
    "rate": "Rate: why a Spark stream does not keep up",
}


def page(kept: Kept) -> str:
    """Render the Markdown page."""
    lines = [
        "# How often the culprit is right",
        "",
        "Generated by `python -m benchmarks.accuracy --write` from the recordings of real clusters",
        "(`fixtures/README.md`). Each recording is diagnosed in full, with some files missing, and in windows",
        f"of its logs in the formats that people paste (`tests/windows.py`; {RANDOM} random windows of 1 to 400",
        "lines each). Further windows cover halves and thirds of the time, some of them with only some of the",
        f"logs ({PARTS} draws each). For a part of a Spark run, the batches in that part are the truth.",
        "",
        "- *Right*: the first culprit is the one in the job's own truth file. If the truth has no culprit, the",
        "  cause matches. A healthy job has no culprit.",
        "- *Inconclusive*: the report names no culprit.",
        "- *Silent*: the window contains nothing to diagnose, and the report states that.",
        "- *Called healthy*: the job is faulty, but the checkpoints in these files complete, or the batches keep",
        "  up. Most of these are first parts of the time.",
        "- *Wrong*: the report names another culprit, or calls a healthy job faulty.",
        "",
    ]
    lines += _unmeasured_note(kept)
    for each, title in TITLES.items():
        lines += [f"## {title}", "", *_summary(kept.get(each, {})), ""]
        lines += [*_by_scenario(kept.get(each, {})), ""]
    for title in (NEIGHBOURS, LIVE):
        if PAGE.is_file() and (kept_section := section(PAGE.read_text(), title)):
            lines += [*kept_section.rstrip().splitlines(), ""]
    lines += ["## More input, worse answer", "", *_losses(kept), ""]
    lines += [
        "## Each recording",
        "",
        *_folded("every recording, with each set of files", _per_recording(kept)),
    ]
    return "\n".join(lines) + "\n"


NEIGHBOURS: Final = "## Neighbours and state"
LIVE: Final = "## Live jobs"
_NEXT: Final = "## More input"  # the section behind those of other scripts


def section(page: str, title: str) -> str:
    """Return a section of the page that another script maintains, or an empty string."""
    begin = page.find(title)
    return page[begin : page.find("\n## ", begin) + 1] if begin >= 0 else ""


def with_section(page: str, title: str, text: str) -> str:
    """Replace a section of the page, or add it."""
    block = f"{title}\n\n{text}\n"
    old = section(page, title)
    return page.replace(old, block) if old else page.replace(f"\n{_NEXT}", f"\n{block}{_NEXT}")


def _unmeasured_note(kept: Kept) -> Iterator[str]:
    """Yield a sentence about cases that have not been measured yet."""
    done = kept.get("done", {})
    left = Counter(_column(name) for run, name in cases() if f"{run.name} {name}" not in done)
    if left:
        missing = ", ".join(f"{name} ({number})" for name, number in left.items())
        yield from (f"Not measured yet (number of recordings): {missing}.", "")


def _recording_and_variant(key: str) -> tuple[str, str]:
    recording, _, name = key.partition(" ")
    return recording, name


def _column(name: str) -> str:
    drawn = next((each for each in _NUMBERED if name.startswith(each)), None)
    return name if drawn is None else drawn.replace("window", "windows")


def _summary(outcomes: Mapping[str, str]) -> Iterator[str]:
    counts: dict[str, Counter[str]] = {}
    for key, word in outcomes.items():
        counts.setdefault(_column(_recording_and_variant(key)[1]), Counter())[word] += 1
    yield "| input | " + " | ".join(ORDER) + " |"
    yield "|---" * (len(ORDER) + 1) + "|"
    for name in dict.fromkeys(map(_column, (*VARIANTS, *SPARK_PARTS, *WINDOWS))):
        if name in counts:
            numbers = (str(counts[name][word]) for word in ORDER)
            yield f"| {name} | " + " | ".join(numbers) + " |"


Scenario = tuple[str, str]  # the scenario, and the fault of its truth

_NO_FAULT: Final = "none"  # the fault name of a healthy job


def _by_scenario(outcomes: Mapping[str, str]) -> Iterator[str]:
    """Group the outcomes by scenario, version and variant, and collapse the rows without a wrong outcome.

    Variants with some files missing are always counted. A window contains little of a recording, so it counts only if
    it is wrong or the only input.
    """
    whole = {
        key: word
        for key, word in outcomes.items()
        if _recording_and_variant(key)[1] not in WINDOWS or word.startswith("wrong")
    }
    cells: dict[tuple[Scenario, str], dict[str, list[str]]] = {}
    scenarios = {run.name: _scenario_of(run) for run in runs()}
    for key, word in (whole or outcomes).items():
        recording, name = _recording_and_variant(key)
        version = recording.split("/")[1]
        files = cells.setdefault((scenarios[recording], version), {})
        names = files.setdefault(word, [])
        if _column(name) not in names:
            names.append(_column(name))
    alike: dict[tuple[Scenario, tuple[tuple[str, tuple[str, ...]], ...]], list[str]] = {}
    for (scenario, version), files in cells.items():
        by_word = tuple((word, tuple(files[word])) for word in ORDER if word in files)
        alike.setdefault((scenario, by_word), []).append(version)
    rows = sorted(
        ((fault, scenario, ", ".join(_sorted_versions(versions)), dict(by_word)))
        for ((scenario, fault), by_word), versions in alike.items()
    )
    mixed = [row for row in rows if set(row[3]) != {"right"}]
    right = [row for row in rows if set(row[3]) == {"right"}]
    if mixed:
        yield "By fault, scenario and version: how many sets of files are enough, and which are not:"
        yield ""
        yield from _table_of_by_scenario(mixed)
        yield ""
    if right:
        yield from _folded("right with any set of files", _table_of_by_scenario(right))


def _scenario_of(run: Run) -> Scenario:
    """Return the scenario of a recording, and the faults of its jobs."""
    causes = dict.fromkeys(job["expected"].get("cause") or _NO_FAULT for job in run.jobs)
    return run.name.split("/")[2], " and ".join(causes)


def _sorted_versions(versions: Iterable[str]) -> list[str]:
    return sorted(versions, key=lambda version: tuple(map(int, version.split("."))))


_NOT_WRONG: Final = ("inconclusive", "silent", "called healthy")


def _table_of_by_scenario(
    rows: Iterable[tuple[str, str, str, Mapping[str, Sequence[str]]]],
) -> Iterator[str]:
    """Render a row per fault, scenario and group of versions with the same outcomes."""
    yield f"| fault | scenario | version | right | not wrong: {' | '.join(_NOT_WRONG)} | wrong |"
    yield "|---|---|---|---|" + "---|" * (len(_NOT_WRONG) + 1)
    for fault, scenario, versions, by_word in rows:
        wrong = [
            f"{name} {word.removeprefix('wrong ')}"
            for word in ORDER
            if word.startswith("wrong")
            for name in by_word.get(word, ())
        ]
        right = f"{len(by_word.get('right', ()))} of {sum(map(len, by_word.values()))}"
        others = [", ".join(by_word.get(word, ())) or "–" for word in _NOT_WRONG]
        cells = (right, *others, ", ".join(wrong) or "–")
        yield f"| {fault} | {scenario} | {versions} | {' | '.join(cells)} |"


_LARGER: Final[Mapping[str, tuple[str, ...]]] = {
    **dict.fromkeys(VARIANTS, ("logs", "everything")),
    **dict.fromkeys((*SPARK_PARTS, "rest", "archive"), ("everything",)),
    **dict.fromkeys(WINDOWS, ("logs", "everything")),
    "logs": ("everything",),
    "everything": (),
}
"""The sets of files that contain all of a smaller set, or of a window."""


def _losses(kept: Kept) -> Iterator[str]:
    """List the recordings with a right answer on part of the files, but not on all logs or all
    files."""
    rows = [
        f"| {recording} | {name} | {larger}: {outcomes[f'{recording} {larger}']} |"
        for each in TITLES
        for outcomes in [kept.get(each, {})]
        for key, word in outcomes.items()
        for recording, name in [_recording_and_variant(key)]
        for larger in _LARGER.get(name, ())
        if word == "right" and outcomes.get(f"{recording} {larger}", "right") != "right"
    ]
    if not rows:
        yield "None: each right answer on a part is also right on all logs and all files."
        return
    yield "A right answer on a part of the input that is not right on all logs or all files:"
    yield ""
    yield from ("| recording | right with | not right with |", "|---|---|---|", *rows)


def _folded(title: str, lines: Iterable[str]) -> Iterator[str]:
    """Put lines into a collapsed block."""
    yield from (f"<details><summary>{title}</summary>", "", *lines, "", "</details>")


def _per_recording(kept: Kept) -> Iterator[str]:
    """Render a table per topic, with a row per recording and a column per variant.

    For sampled windows, the cell shows the worst outcome.
    """
    for each, title in TITLES.items():
        outcomes = kept.get(each, {})
        names = [
            name
            for name in dict.fromkeys(map(_column, (*VARIANTS, *SPARK_PARTS, *WINDOWS)))
            if any(_column(_recording_and_variant(key)[1]) == name for key in outcomes)
        ]
        rows: dict[str, dict[str, str]] = {}
        for key, word in outcomes.items():
            recording, name = _recording_and_variant(key)
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
    """Print the page, or measure a part of it; return 1 if cases remain to be measured."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--write", action="store_true", help="write docs/accuracy.md")
    options.add_argument("--keep", type=Path, help="file with earlier results; extended")
    options.add_argument("--seconds", type=float, default=1e9, help="time limit of this run")
    options.add_argument("--so-far", action="store_true", help="render the results so far")
    args = options.parse_args()
    kept: Kept = {}
    if args.keep and args.keep.exists():
        kept = json.loads(args.keep.read_text())
    done = kept.get("done", {})
    if not args.so_far and any(f"{run.name} {name}" not in done for run, name in cases()):
        with SparkStarter.begin() as starter:
            session = starter.session()
            starter.tune(0)
            whole = measure_missing(kept, session, args.seconds, args.keep)
        if not whole:
            print(f"{len(kept['done'])} of {len(list(cases()))} are measured", file=sys.stderr)
            return 1
    text = page(kept)
    print(text)
    if args.write:
        PAGE.write_text(text.rstrip() + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
