"""Measures how often `flowdiag diagnose` is right, and its cost next to the single commands.

    python -m benchmarks.diagnose                      # every recording, against its truth
    python -m benchmarks.diagnose --measured facts/    # the same without Spark: see benchmarks.reports measure
    python -m benchmarks.diagnose --cost               # time on some recordings, next to the single commands
    python -m benchmarks.diagnose --write              # writes the requested parts to docs/diagnose.md

The first incident of each report is compared with `truth.json` (see `tests/diagnoses.py`). Times
are measured in a warm session that has already run the same queries, so they compare the work and
not the start of Java.
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
from flowdiag.analyses.contract.report import Report
from flowdiag.analyses.diagnosis import inspect_inputs, measure, report_on
from flowdiag.analyses.report.fitting import engines_of
from flowdiag.analyses.selection.options import Options
from flowdiag.analyses.topic_names import ENGINES, EVERYTHING, names_of
from flowdiag.analyses.topics import topic
from tests.archives import FIXTURES
from tests.diagnoses import ORDER, grade_report, truth_of

PAGE: Final = Path("docs") / "diagnose.md"
_OPTIONS: Final = Options(everything=True)
_TIMED: Final = ("flink/1.20.5/hot-key", "flink/2.3.0/healthy", "startup/1.20.5/too-few-slots")
_ROUNDS: Final = 5


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--measured", type=Path, help="a folder of `benchmarks.reports measure`")
    parser.add_argument("--cost", action="store_true", help="time it, beside the single commands")
    parser.add_argument("--write", action="store_true", help=f"write {PAGE}")
    args = parser.parse_args()
    reports = _stored_reports(args.measured) if args.measured else measured_reports()
    judged = [_judged_report(folder, report) for folder, report in reports]
    lines = [*_head(), *_table(judged)]
    if args.cost:
        lines += _costs()
    page = "\n".join(lines) + "\n"
    print(page)
    if args.write:
        PAGE.write_text(page)
    return any(verdict.startswith("wrong") for _, verdict, _ in judged)


JudgedReport = tuple[str, str, Report]  # name of a recording, verdict on the report, the report


def _folders() -> Iterator[Path]:
    for path in sorted((FIXTURES / "recordings").rglob("truth.json")):
        if truth_of(path.parent):
            yield path.parent


def _stored_reports(facts: Path) -> Iterator[tuple[Path, Report]]:
    """Yield reports on facts that were measured command by command and stored. Measuring all topics
    at once gives the same facts."""
    top = FIXTURES.parent
    for stem, report in joined(facts, top):
        folder = top / stem.replace("__", "/")
        if (folder / "truth.json").exists() and truth_of(folder):
            yield folder, report


def measured_reports() -> Iterator[tuple[Path, Report]]:
    """Yield every recording that has a truth with its report, measured now."""
    from flowdiag.cli.spark.starter import SparkStarter

    with SparkStarter.begin() as starter:
        session = starter.session()
        starter.tune(0)
        for folder in _folders():
            topics, found = _inputs(folder)
            inspected = inspect_inputs(topics, found, _OPTIONS)
            measured = measure(topics, inspected, lambda: session, _OPTIONS)
            yield folder, report_on(topics, inspected, measured, _OPTIONS)
            sys.stderr.write(".")


def _inputs(folder: Path) -> tuple[Any, Any]:
    from flowdiag.analyses.inputs import find

    found = find([str(folder)], strict=False)
    sources, engines = engines_of(found.sources)
    return tuple(map(topic, names_of(EVERYTHING, engines))), replace(found, sources=sources)


def _judged_report(folder: Path, report: Report) -> JudgedReport:
    truth = truth_of(folder)
    return str(folder.relative_to(FIXTURES / "recordings")), grade_report(truth, report), report


def _head() -> list[str]:
    return [
        "# Accuracy of `flowdiag diagnose`",
        "",
        "Written by `python -m benchmarks.diagnose --cost --write`. The first incident of every recording, with all of its",
        "files, is compared with the truth that the job itself wrote.",
        "",
        "- *Right*: the cause is the true one, and the culprit does not contradict the truth. A healthy job has no incident.",
        "- *Inconclusive*: an incident without a cause, or no incident and an inconclusive verdict.",
        "- *Silent*: a faulty job without an incident.",
        "",
    ]


def _table(judged: list[JudgedReport]) -> list[str]:
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for name, right, _ in judged:
        counts[" ".join(name.split("/")[:2])][right] += 1
    total = sum(counts.values(), Counter[str]())
    rows = [*sorted(counts.items()), ("**all**", total)]
    shown = [word for word in ORDER if total[word] or not word.startswith("wrong")]
    shown += ["wrong"] if not any(word.startswith("wrong") for word in shown) else []
    lines = [f"| recordings | {' | '.join(shown)} |", f"|---|{'--:|' * len(shown)}"]
    lines += [
        f"| {name} | {' | '.join(str(count[word]) for word in shown)} |" for name, count in rows
    ]
    others = [(name, right, report) for name, right, report in judged if right != "right"]
    if others:
        lines += ["", "Not right:", ""]
        lines += [
            f"- {name}: {right}; {report.summary.reason or 'an incident without a cause'}"
            for name, right, report in others
        ]
    return [*lines, ""]


def _costs() -> list[str]:
    from flowdiag.cli.spark.starter import SparkStarter

    lines = [
        "## Cost",
        "",
        f"Median of {_ROUNDS} runs each in one session, in seconds, after two warm-up runs.",
        "",
        "| recording | " + " | ".join(name for name in ENGINES if ENGINES[name] == "flink"),
        "|---" * 5 + "|--:|--:|",
    ]
    lines[-2] += " | diagnose | of the slowest |"
    with SparkStarter.begin() as starter:
        session = starter.session()
        starter.tune(0)
        for name in _TIMED:
            topics, found = _inputs(FIXTURES / "recordings" / name)
            selections = [*((each,) for each in topics), topics]
            taken: list[list[float]] = [[] for _ in selections]
            for _ in range(_ROUNDS + 2):
                for number, some in enumerate(selections):
                    begun = time.perf_counter()
                    inspected = inspect_inputs(some, found, _OPTIONS)
                    report_on(
                        some,
                        inspected,
                        measure(some, inspected, lambda: session, _OPTIONS),
                        _OPTIONS,
                    )
                    taken[number].append(time.perf_counter() - begun)
            *single, together = (statistics.median(times[2:]) for times in taken)
            cells = [f"{seconds:.2f}" for seconds in (*single, together)]
            lines.append(f"| {name} | {' | '.join(cells)} | {together / max(single):.2f} |")
    return [*lines, ""]


if __name__ == "__main__":
    raise SystemExit(main())
