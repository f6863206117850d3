"""How right `flowdiag diagnose` is, and what it costs beside the commands that ask one question each.

    python -m benchmarks.diagnose                      # every recording, against its truth
    python -m benchmarks.diagnose --measured facts/    # the same without Spark: see benchmarks.reports measure
    python -m benchmarks.diagnose --cost               # time on some recordings, beside the single commands
    python -m benchmarks.diagnose --write              # writes docs/diagnose.md with what was asked for

The first story of each report is held against `truth.json` (`tests/diagnoses.py` says how). Times are those of a
session that is there and has run the same queries before: what is compared is the work, not the start of Java.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from benchmarks.reports import joined
from flowdiag.analyses.diagnosis import inspect_inputs, measure, report_on
from flowdiag.analyses.model.options import Options
from flowdiag.analyses.report.fitting import engines_of
from flowdiag.analyses.report.wire import Report
from flowdiag.analyses.topics import ENGINES, EVERYTHING, names_of, topic
from tests.archives import FIXTURES
from tests.diagnoses import ORDER, answer, truth_of

PAGE: Final = Path("docs") / "diagnose.md"
_ASKED: Final = Options(everything=True)
_TIMED: Final = ("flink/1.20.5/hot-key", "flink/2.3.0/healthy", "startup/1.20.5/too-few-slots")
_ROUNDS: Final = 5


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--measured", type=Path, help="a folder of `benchmarks.reports measure`")
    parser.add_argument("--cost", action="store_true", help="time it, beside the single commands")
    parser.add_argument("--write", action="store_true", help=f"write {PAGE}")
    given = parser.parse_args()
    reports = _kept(given.measured) if given.measured else measured_reports()
    said = [_said(folder, report) for folder, report in reports]
    lines = [*_head(), *_table(said)]
    if given.cost:
        lines += _costs()
    page = "\n".join(lines) + "\n"
    print(page)
    if given.write:
        PAGE.write_text(page)
    return any(right.startswith("wrong") for _, right, _ in said)


Said = tuple[str, str, Report]  # name of a recording, how right, the report


def _folders() -> Iterator[Path]:
    for path in sorted((FIXTURES / "recordings").rglob("truth.json")):
        if truth_of(path.parent):
            yield path.parent


def _kept(facts: Path) -> Iterator[tuple[Path, Report]]:
    """Reports on what was measured command by command, which is the same as at once."""
    top = FIXTURES.parent
    for stem, report in joined(facts, top):
        folder = top / stem.replace("__", "/")
        if (folder / "truth.json").exists() and truth_of(folder):
            yield folder, report


def measured_reports() -> Iterator[tuple[Path, Report]]:
    """Every recording that has a truth, with the report on it, as Spark measures it now."""
    from flowdiag.cli.spark.starter import SparkStarter

    with SparkStarter.begin() as starter:
        session = starter.session()
        starter.tune(0)
        for folder in _folders():
            topics, found = _inputs(folder)
            inspected = inspect_inputs(topics, found, _ASKED)
            measured = measure(topics, inspected, lambda: session, _ASKED)
            yield folder, report_on(topics, inspected, measured, _ASKED)
            sys.stderr.write(".")


def _inputs(folder: Path) -> tuple[Any, Any]:
    from flowdiag.analyses.inputs import find

    found = find([str(folder)], strict=False)
    sources, engines = engines_of(found.sources)
    return tuple(map(topic, names_of(EVERYTHING, engines))), replace(found, sources=sources)


def _said(folder: Path, report: Report) -> Said:
    truth = truth_of(folder)
    return str(folder.relative_to(FIXTURES / "recordings")), answer(truth, report), report


def _head() -> list[str]:
    return [
        "# How right `flowdiag diagnose` is",
        "",
        "Written by `python -m benchmarks.diagnose --cost --write`: the first story of every recording, with all of its",
        "files, held against the truth that the job itself wrote. *Right*: its cause is the true one and nothing that",
        "its culprit names contradicts the truth; a healthy job has no story. *Inconclusive*: a story without a cause,",
        "or no story and a verdict that says so. *Silent*: a sick job without a story.",
        "",
    ]


def _table(said: list[Said]) -> list[str]:
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for name, right, _ in said:
        counts[" ".join(name.split("/")[:2])][right] += 1
    total = sum(counts.values(), Counter[str]())
    rows = [*sorted(counts.items()), ("**all**", total)]
    shown = [word for word in ORDER if total[word] or not word.startswith("wrong")]
    shown += ["wrong"] if not any(word.startswith("wrong") for word in shown) else []
    lines = [f"| recordings | {' | '.join(shown)} |", f"|---|{'--:|' * len(shown)}"]
    lines += [
        f"| {name} | {' | '.join(str(count[word]) for word in shown)} |" for name, count in rows
    ]
    others = [(name, right, report) for name, right, report in said if right != "right"]
    if others:
        lines += ["", "Not right:", ""]
        lines += [
            f"- {name}: {right}; {report.summary.reason or 'a story without a cause'}"
            for name, right, report in others
        ]
    return [*lines, ""]


def _costs() -> list[str]:
    from flowdiag.cli.spark.starter import SparkStarter

    lines = [
        "## What it costs",
        "",
        f"Median of {_ROUNDS} runs each in one session, in seconds, after two that do not count.",
        "",
        "| recording | " + " | ".join(name for name in ENGINES if ENGINES[name] == "flink"),
        "|---" * 5 + "|--:|--:|",
    ]
    lines[-2] += " | diagnose | of the dearest |"
    with SparkStarter.begin() as starter:
        session = starter.session()
        starter.tune(0)
        for name in _TIMED:
            topics, found = _inputs(FIXTURES / "recordings" / name)
            asked = [*((each,) for each in topics), topics]
            taken: list[list[float]] = [[] for _ in asked]
            for _ in range(_ROUNDS + 2):
                for number, some in enumerate(asked):
                    begun = time.perf_counter()
                    inspected = inspect_inputs(some, found, _ASKED)
                    report_on(
                        some, inspected, measure(some, inspected, lambda: session, _ASKED), _ASKED
                    )
                    taken[number].append(time.perf_counter() - begun)
            *single, together = (statistics.median(times[2:]) for times in taken)
            cells = [f"{seconds:.2f}" for seconds in (*single, together)]
            lines.append(f"| {name} | {' | '.join(cells)} | {together / max(single):.2f} |")
    return [*lines, ""]


if __name__ == "__main__":
    raise SystemExit(main())
