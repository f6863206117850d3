"""Measures the accuracy of verdicts on recordings of live jobs, by available input.

Run from a checkout with the development extras:

    python -m benchmarks.live --write     # and writes the section "Live jobs" of docs/accuracy.md

The recordings of Flink are collections of REST responses next to a running job, diagnosed whole and as collections
with fewer ticks. Those of Spark are scripts as users start them: their log, their event log, and both. The page of
`benchmarks.accuracy` keeps the section.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from flowdiag.analyses.diagnosis import diagnose
from flowdiag.analyses.inputs import find, with_owners
from flowdiag.analyses.selection.options import Options
from flowdiag.analyses.topic_names import EVERYTHING, names_of
from flowdiag.analyses.topics import topic
from flowdiag.cli.spark.starter import SparkStarter
from tests import test_live_recordings as flink
from tests import test_spark_live_recordings as spark_live
from tests.archives import unpacked

from .accuracy import LIVE, PAGE, section, with_section

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from flowdiag.analyses.contract.report import Report

FLINK_PARTS: Final[Mapping[str, int | None]] = {
    "Flink: responses and logs": None,
    "Flink: all responses": 0,
    **{f"Flink: last {number} ticks": number for number in flink.TICKS},
}
ORDER: Final = ("right", "less precise", "inconclusive", "called healthy", "wrong")

_CODE: Final = "sleeping-in-operator"  # recorded jobs sleep instead of working


def measure(spark: SparkSession, parts: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    """Yield the input, the recording and the grade of each case."""
    for part, ticks in FLINK_PARTS.items():
        for folder in flink.ALL if part in parts else ():
            expected = json.loads((folder / "truth.json").read_text())["expected"]
            report = _diagnose_flink(folder, ticks, spark)
            story = next(iter(report.summary.stories), None)
            yield part, folder.name, grade(expected, report.summary.verdict, _first(story), "")
    for part, names in spark_live.PARTS.items():
        column = f"Spark: {part}"
        if column in parts:
            paths = [str(unpacked(folder) / name) for folder in spark_live.ALL for name in names]
            yield from _grade_spark(column, part, diagnose_paths(paths, spark))


def _diagnose_flink(folder: Path, ticks: int | None, spark: SparkSession) -> Report:
    files = unpacked(folder)
    with tempfile.TemporaryDirectory() as target:
        collected = files / "collected"
        if ticks:
            collected = flink.last_ticks(collected, ticks, Path(target))
        return diagnose_paths(
            [str(collected), *([] if ticks is not None else [str(files / "logs")])], spark
        )


def diagnose_paths(paths: Sequence[str], spark: SparkSession) -> Report:
    """Return the report of `flowdiag diagnose` on these paths."""
    found, engines = with_owners(find(paths, strict=False))
    topics = tuple(map(topic, names_of(EVERYTHING, engines)))
    return diagnose(topics, found, lambda: spark, Options(everything=True))


def _grade_spark(column: str, part: str, report: Report) -> Iterator[tuple[str, str, str]]:
    applications = {each.application: each for each in report.data.applications or ()}
    for folder in spark_live.ALL:
        truth = json.loads((folder / "truth.json").read_text())
        name = folder.name.removeprefix("live-")
        app = applications.get(truth["application"])
        first = next(
            (f for f in report.findings if f.subject.application == truth["application"]), None
        )
        fair = spark_live.LESS_PRECISE.get((name, part)) or ""
        verdict = "inconclusive" if app is None else str(app.verdict)
        yield column, folder.name, grade(truth["expected"], verdict, _first(first), fair)


def _first(story: Any) -> tuple[str | None, Any] | None:
    return None if story is None else (story.cause, story.subject)


def grade(
    expected: Mapping[str, Any],
    verdict: str,
    first: tuple[str | None, Any] | None,
    fair: str,
) -> str:
    """Grade the first incident of a report with a word from `ORDER`.

    Args:
        expected: the verdict in the recording's truth.
        verdict: the reported verdict.
        first: cause and subject of the first reported incident.
        fair: a less precise cause that is acceptable for the input.
    """
    cause = None if first is None else first[0]
    if expected["cause"] is None:
        if cause is not None:
            return "wrong"
        return "right" if verdict == "healthy" else "inconclusive"
    if first is None or cause is None:
        return "called healthy" if verdict == "healthy" else "inconclusive"
    known = {expected["cause"], expected.get("reading", {}).get("cause")}
    if cause not in known:
        alike = {fair, _CODE if expected["cause"] == "slow-operator" else "slow-operator"}
        return "less precise" if cause in alike - {""} and agrees(expected, first[1]) else "wrong"
    return "right" if agrees(expected, first[1]) else "wrong"


def agrees(expected: Mapping[str, Any], subject: Any) -> bool:
    """Return whether a subject is consistent with the culprit of the truth."""
    culprit = expected.get("culprit") or {}
    return all(getattr(subject, name, None) in (None, value) for name, value in culprit.items())


def table(graded: Sequence[tuple[str, str, str]]) -> Iterator[str]:
    """Yield the lines of the section."""
    yield from (
        "Recordings of running jobs that flowdiag was developed with: `flowdiag collect` next to Flink, and",
        "Spark scripts as users start them. Each input is diagnosed as `flowdiag diagnose` does. *Less precise*: the",
        "input does not show the cause, and the report names the effect. Measured by `python -m benchmarks.live`.",
        "",
        "| input | " + " | ".join(ORDER) + " |",
        "|---" * (len(ORDER) + 1) + "|",
    )
    counts: dict[str, Counter[str]] = {}
    for part, _, word in graded:
        counts.setdefault(part, Counter())[word] += 1
    total: Counter[str] = Counter()
    for part, words in counts.items():
        total += words
        yield f"| {part} | {' | '.join(str(words[word]) for word in ORDER)} |"
    yield f"| **live** | {' | '.join(str(total[word]) for word in ORDER)} |"
    wrong = [f"{part}, {name}" for part, name, word in graded if word == "wrong"]
    if wrong:
        yield from ("", f"Wrong: {'; '.join(wrong)}.")


def main() -> int:
    """Measure, print the section, and write it into the page."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--write", action="store_true", help="write the section of the page")
    options.add_argument("--part", action="append", help="only this input")
    options.add_argument("--keep", type=Path, help="file with earlier results; extended")
    args = options.parse_args()
    parts = args.part or [*FLINK_PARTS, *(f"Spark: {part}" for part in spark_live.PARTS)]
    kept = args.keep if args.keep and args.keep.exists() else None
    graded = [tuple(case) for case in json.loads(kept.read_text())] if kept else []
    with SparkStarter.begin() as starter:
        session = starter.session()
        starter.tune(0)
        for case in measure(
            session, [part for part in parts if part not in {name for name, *_ in graded}]
        ):
            graded.append(case)
            print(*case, sep=", ", file=sys.stderr, flush=True)
    if args.keep:
        args.keep.write_text(json.dumps(graded))
    text = "\n".join(table(graded))
    print(text)
    if args.write:
        page = PAGE.read_text()
        _, title, code = section(page, LIVE).partition("### ")  # `benchmarks.code` writes the rest
        PAGE.write_text(with_section(page, LIVE, f"{text}\n\n{title}{code}".rstrip() + "\n"))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
