"""Measures the accuracy of `flowdiag compare` on recordings with known truth.

    python -m benchmarks.reports measure facts/        # once, with Spark
    python -m benchmarks.compare --measured facts/     # a minute, without it
    python -m benchmarks.compare --measured facts/ --write    # writes the tables of docs/compare.md

Two healthy runs of the same job, and the two halves of one run, must show no change. The behavior
of the test on autocorrelated series is simulated, because recordings have too few values.
"""

from __future__ import annotations

import argparse
import itertools
import math
import pickle
import random
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any, Final

from benchmarks.reports import RECORDINGS
from flowdiag.analyses.comparison.chance import (
    FEWEST,
    LEVEL,
    autocorrelation,
    independent_stretches,
    rank_test,
    share_test,
    stretches,
)
from flowdiag.analyses.comparison.compare import compare_reports
from flowdiag.analyses.comparison.measures import BUSY, FACTOR, PROCESSING
from flowdiag.analyses.comparison.wire import Change, Comparison
from flowdiag.analyses.contract.report import Report
from flowdiag.analyses.diagnosis import InspectedInputs, report_on
from flowdiag.analyses.selection.options import Options
from flowdiag.analyses.selection.span import Selection, parse_moment
from flowdiag.analyses.topic import Measured
from flowdiag.analyses.topic_names import ENGINES
from flowdiag.analyses.topics import topic

PAGE: Final = Path("docs") / "compare.md"
_BLOCK: Final = re.compile(r"(<!-- measured -->\n).*?(<!-- /measured -->)", re.DOTALL)
_SERIES: Final = 1000  # simulated pairs for each row and column
_SEED: Final = 20

# Faulty and healthy runs of the same job, on the same machine.
PAIRS: Final = (
    ("flink/1.20.5/healthy", "flink/1.20.5/hot-key"),
    ("flink/1.20.5/healthy", "flink/1.20.5/slow-sync-snapshot"),
    ("flink/1.20.5/healthy", "flink/1.20.5/async-failure"),
    ("flink/1.20.5/healthy", "flink/1.20.5/taskmanager-killed"),
    ("flink/2.3.0/healthy", "flink/2.3.0/unaligned-hot-key"),
    ("flink/1.14.6/healthy", "flink/1.14.6/slow-sync-snapshot"),
    ("startup/1.14.6/enough-buffers", "startup/1.14.6/too-few-buffers"),
    ("startup/1.14.6/enough-buffers", "startup/1.14.6/slow-open"),
    ("spark/4.3.0/stable", "spark/4.3.0/overloaded"),
    ("spark/4.3.0/stable", "spark/4.3.0/fixed-cost"),
    ("spark/4.3.0/query-stable", "spark/4.3.0/query-overloaded"),
    ("spark/3.5.7/stable", "spark/3.5.7/overloaded"),
)
VERSIONS: Final = (
    ("flink/1.14.6/hot-key", "flink/1.20.5/hot-key"),
    ("flink/1.20.5/hot-key", "flink/2.3.0/hot-key"),
    ("flink/1.12.5/slow-sync-snapshot", "flink/2.3.0/slow-sync-snapshot"),
    ("spark/3.5.7/overloaded", "spark/4.3.0/overloaded"),
    ("spark/3.4.4/query-overloaded", "spark/4.3.0/query-overloaded"),
)


class Facts:
    """Stored facts of every recording, which can be judged repeatedly."""

    def __init__(self, folder: Path) -> None:
        """Index the files that `benchmarks.reports measure` wrote."""
        self._paths: defaultdict[str, dict[str, Path]] = defaultdict(dict)
        start = f"{RECORDINGS}/".replace("/", "__")
        for path in sorted(folder.glob(f"{start}*.pickle")):
            stem, _, name = path.name.removesuffix(".pickle").rpartition(".")
            self._paths[stem.removeprefix(start).replace("__", "/")][name] = path

    @property
    def names(self) -> list[str]:
        """The recordings as paths below `fixtures/recordings`."""
        return list(self._paths)

    def report(self, name: str, selection: Selection | None = None) -> Report:
        """Return the `diagnose` report on a recording, or on a time range of it."""
        parts: dict[str, tuple[InspectedInputs, Measured]] = {
            topic_name: pickle.loads(self._paths[name][topic_name].read_bytes())
            for topic_name in ENGINES
            if topic_name in self._paths[name]
        }
        looked, first = parts.get("memory") or next(iter(parts.values()))
        facts: dict[str, Any] = {each: found.facts[each] for each, (_, found) in parts.items()}
        options = Options(everything=True, selection=selection or Selection())
        return report_on(tuple(map(topic, parts)), looked, replace(first, facts=facts), options)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--measured",
        type=Path,
        required=True,
        help="folder written by `benchmarks.reports measure`",
    )
    parser.add_argument("--write", action="store_true", help=f"write the tables of {PAGE}")
    args = parser.parse_args()
    facts = Facts(args.measured)
    reports = {name: facts.report(name) for name in facts.names}
    false, lines = _false_changes(reports, facts)
    lines += [
        "",
        *_simulated(),
        "",
        *_verdict_table("Healthy to faulty", PAIRS, reports, expected=True),
    ]
    healed = [(faulty, healthy) for healthy, faulty in PAIRS]
    lines += ["", *_verdict_table("Faulty to repaired", healed, reports, expected=False)]
    lines += [
        "",
        *_verdict_table("The same fault in two versions", VERSIONS, reports, expected=None),
    ]
    text = "\n".join(lines) + "\n"
    print(text)
    if args.write:
        page = PAGE.read_text()
        PAGE.write_text(_BLOCK.sub(lambda hit: f"{hit[1]}\n{text}\n{hit[2]}", page))
    wrong = sum("**no**" in line for line in lines)
    return 1 if false or wrong else 0


# --- healthy and healthy --------------------------------------------------------------------------


def _false_changes(reports: dict[str, Report], facts: Facts) -> tuple[int, list[str]]:
    """Count the changes claimed between healthy runs of the same job, and between halves of one
    run. All are false.
    """
    alike: defaultdict[str, list[str]] = defaultdict(list)
    for name, report in reports.items():
        if report.summary.verdict == "healthy":
            engine, _, scenario = name.split("/", 2)
            alike[f"{engine}/*/{scenario}"].append(name)
    lines = [
        "| healthy to healthy | pairs | measures compared | claimed changes | regressions |",
        "|---|--:|--:|--:|--:|",
    ]
    total: Counter[str] = Counter()
    for scenario, names in sorted(alike.items()):
        pairs = list(itertools.combinations(names, 2))
        if pairs:
            found = _count_changes(
                compare_reports(reports[one], reports[other]) for one, other in pairs
            )
            lines.append(_row(scenario, found))
            total += found
    halves = _count_changes(
        _halves([one for some in alike.values() for one in some], reports, facts)
    )
    lines.append(_row("the two halves of each", halves))
    total += halves
    lines.append(_row("**all**", total))
    return total["claims"] + total["regressions"], lines


def _halves(names: Iterable[str], reports: dict[str, Report], facts: Facts) -> Iterator[Comparison]:
    for name in names:
        times = [at for source in reports[name].inputs for at in (source.first, source.last) if at]
        first, last = (parse_moment(at).utc_us or 0 for at in (min(times), max(times)))
        middle = parse_moment(f"{(last - first) // 2_000_000}s")
        yield compare_reports(
            facts.report(name, Selection(until=middle)), facts.report(name, Selection(since=middle))
        )


def _count_changes(comparisons: Iterable[Comparison]) -> Counter[str]:
    found: Counter[str] = Counter()
    for one in comparisons:
        found["pairs"] += 1
        # Memory is configured: Flink versions configure it differently, so this change is real.
        measured = [
            each for each in one.measures if each.name != "memory" and each.change != "unknown"
        ]
        claims = [each for each in measured if each.significant]
        found["compared"] += len(measured)
        found["claims"] += len(claims)
        found["regressions"] += one.regression
        for each in claims:
            sys.stderr.write(f"claimed: {each}\n")
    return found


def _row(name: str, found: Counter[str]) -> str:
    cells = [f"{found[key]}" for key in ("pairs", "compared", "claims", "regressions")]
    return f"| {name} | {' | '.join(cells)} |"


# --- simulated ------------------------------------------------------------------------------------

_CORRELATIONS: Final = (0.0, 0.3, 0.6, 0.8, 0.9, 0.95)
_LENGTHS: Final = ((8, 20), (16, 16), (40, 40), (100, 100), (400, 400))


def _simulated() -> list[str]:
    """Simulate two series of the same process, and count how often the test and the comparison
    report a change."""
    lines = [
        f"| correlation of consecutive values | {' | '.join(f'{a} and {b} values' for a, b in _LENGTHS)} |",
        f"|--:|{'--:|' * len(_LENGTHS)}",
    ]
    rng = random.Random(_SEED)
    for rho in _CORRELATIONS:
        cells = [" / ".join(f"{part:.1%}" for part in _false_rates(rng, rho, *n)) for n in _LENGTHS]
        lines.append(f"| {rho} | {' | '.join(cells)} |")
    shares = ", ".join(f"{_false_shares(rng, rho):.1%} at {rho}" for rho in _CORRELATIONS)
    text = f"Fractions of the time, means of 14 samples each: {shares}."
    return [*lines, "", text]


def _false_rates(rng: random.Random, rho: float, one: int, other: int) -> tuple[float, float]:
    """Return the shares of random pairs that the test separates and that the report calls changed."""
    apart = claimed = 0
    for _ in range(_SERIES):
        before, after = _delays(rng, rho, one), _delays(rng, rho, other)
        alike = autocorrelation(before, after)
        parts = independent_stretches(one, alike), independent_stretches(other, alike)
        if min(parts) < FEWEST:
            continue
        if rank_test(stretches(before, parts[0]), stretches(after, parts[1])) <= LEVEL:
            apart += 1
            low, high = sorted((median(before), median(after)))
            claimed += high >= FACTOR * low and high - low > PROCESSING.least
    return apart / _SERIES, claimed / _SERIES


def _delays(rng: random.Random, rho: float, count: int) -> list[float]:
    """Return log-normal delays around 300 ms with a scatter of 0.7, each correlated with the
    previous delay.
    """
    return [math.exp(math.log(300) + 0.7 * value) for value in _series(rng, rho, count)]


def _series(rng: random.Random, rho: float, count: int) -> list[float]:
    value = rng.gauss(0, 1)
    found = []
    for _ in range(count):
        found.append(value)
        value = rho * value + math.sqrt(1 - rho * rho) * rng.gauss(0, 1)
    return found


def _false_shares(rng: random.Random, rho: float, samples: int = 14) -> float:
    """Return the share of random pairs reported as changed when the values are shares of time, not
    durations."""
    claimed = 0
    for _ in range(_SERIES):
        one, other = (
            sum(1 / (1 + math.exp(1.1 - 1.5 * value)) for value in _series(rng, rho, samples))
            / samples
            for _ in range(2)
        )
        chance = share_test(one, samples, other, samples)
        claimed += chance is not None and chance <= LEVEL and abs(one - other) > BUSY.least
    return claimed / _SERIES


# --- faulty and healthy ---------------------------------------------------------------------------


def _verdict_table(
    title: str,
    pairs: Sequence[tuple[str, str]],
    reports: dict[str, Report],
    *,
    expected: bool | None,
) -> list[str]:
    """Render the verdicts on pairs.

    Args:
        expected: whether a regression is expected; None if no change is expected.
    """
    lines = [
        f"| {title}: before | after | verdict | findings | measures that changed | regression |",
        "|---|---|---|---|---|---|",
    ]
    for before, after in pairs:
        one = compare_reports(reports[before], reports[after])
        counts = Counter(finding.change for finding in one.findings)
        findings = ", ".join(f"{counts[change]} {change}" for change in Change if counts[change])
        changed = ", ".join(
            dict.fromkeys(
                f"{measure.name} {measure.change}"
                for measure in one.measures
                if measure.significant
            )
        )
        answer = "yes" if one.regression else "no"
        if expected is not None and one.regression is not expected:
            answer = f"**{answer}**"
        verdicts = f"{one.before.verdict} → {one.after.verdict}"
        lines.append(f"| {before} | {after} | {verdicts} | {findings} | {changed} | {answer} |")
    return lines


if __name__ == "__main__":
    raise SystemExit(main())
