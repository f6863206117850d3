"""Scores the predictions of any tool on the recordings (`fixtures/DATASET.md`).

    python -m benchmarks.score predictions.jsonl [--split test]
    python -m benchmarks.score --predict flowdiag > predictions.jsonl
    python -m benchmarks.score --write          # predicts with everything here, and writes the card's table

A prediction is a line of JSON. Fields that the tool does not know are left out:

    {"id": "flink/1.20.5/hot-key", "sick": true, "cause": "data-skew",
     "culprit": {"task": "enrich", "subtask_index": 0, "taskmanager": "taskmanager-2"}}
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks import baselines
from fixtures.dataset import Case, cases

CARD: Final = Path(__file__).parents[1] / "fixtures" / "DATASET.md"

Prediction = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Score:
    """Counts of right answers of each kind, and of the cases that have such an answer."""

    sick: tuple[int, int]
    healthy: tuple[int, int]
    cause: tuple[int, int]
    culprit: tuple[int, int]

    @classmethod
    def of(cls, about: Sequence[Case], predictions: Mapping[str, Prediction]) -> Score:
        """Compare predictions with the truth. A missing prediction counts as a wrong answer."""
        sick = [case for case in about if case.cause]
        healthy = [case for case in about if not case.cause]
        named = [case for case in sick if case.culprits]

        def right(some: Iterable[Case], is_right: Callable[[Case, Prediction], bool]) -> int:
            return sum(is_right(case, predictions.get(case.id, {})) for case in some)

        return cls(
            sick=(right(sick, lambda case, one: one.get("sick") is True), len(sick)),
            healthy=(right(healthy, lambda case, one: one.get("sick") is False), len(healthy)),
            cause=(right(sick, lambda case, one: one.get("cause") == case.cause), len(sick)),
            culprit=(right(named, _names_the_culprit), len(named)),
        )


def _names_the_culprit(case: Case, prediction: Prediction) -> bool:
    """Return whether a prediction names a culprit that agrees with the truth in all fields that both have."""
    found = prediction.get("culprit") or {}
    return any(
        any(found.get(name) is not None for name in culprit)
        and all(found.get(name) in (None, value) for name, value in culprit.items())
        for culprit in case.culprits
    )


def read(lines: Iterable[str]) -> dict[str, Prediction]:
    """Return predictions by case.

    Raises:
        SystemExit: a line is not a prediction, or its case does not exist.
    """
    known = {case.id for case in cases()}
    found: dict[str, Prediction] = {}
    for number, line in enumerate(lines, 1):
        try:
            one = json.loads(line)
            name = one["id"]
        except (ValueError, TypeError, KeyError):
            raise SystemExit(f"line {number} is not a prediction: {line[:80]!r}") from None
        if name not in known:
            raise SystemExit(f"line {number}: no recording has the id {name!r}")
        found[name] = one
    return found


def predict(tool: str, about: Iterable[Case]) -> Iterator[Prediction]:
    """Yield the predictions of a tool of `baselines.TOOLS`."""
    answer = baselines.TOOLS[tool]
    for case in about:
        with tempfile.TemporaryDirectory() as folder:
            yield {"id": case.id, **answer(case.unpack(Path(folder)))}


def table(scores: Mapping[str, Score]) -> str:
    """Return a Markdown table with a row for each tool."""
    lines = [
        "| tool | sick called sick | healthy called healthy | cause | culprit |",
        "|---|--:|--:|--:|--:|",
    ]
    for tool, score in scores.items():
        cells = (score.sick, score.healthy, score.cause, score.culprit)
        shown = (f"{right} of {total} ({right / max(total, 1):.0%})" for right, total in cells)
        lines.append(f"| {tool} | {' | '.join(shown)} |")
    return "\n".join(lines) + "\n"


def write_card() -> None:
    """Predict with every tool, and replace the table of the card."""
    about = list(cases())
    scores: dict[str, Score] = {}
    for tool in baselines.TOOLS:
        predictions = {prediction["id"]: prediction for prediction in predict(tool, about)}
        for split in ("develop", "test"):
            part = [case for case in about if case.split == split]
            scores[f"{tool}, {split}"] = Score.of(part, predictions)
    text = with_section(CARD.read_text(encoding="utf-8"), "counts", counts())
    CARD.write_text(with_section(text, "scores", table(scores)), encoding="utf-8")


def with_section(text: str, name: str, content: str) -> str:
    """Replace a generated section of the card."""
    begin, end = f"<!-- {name}: benchmarks.score -->\n", f"<!-- /{name} -->"
    before, _, rest = text.partition(begin)
    return f"{before}{begin}{content}{end}{rest.partition(end)[2]}"


def counts() -> str:
    """Return a sentence with the number of cases, versions and causes in the data set."""
    about = list(cases())
    healthy = sum(case.cause is None for case in about)
    scenarios = {case.scenario for case in about}
    causes = {case.cause for case in about if case.cause}
    versions = {case.id.split("/")[1] for case in about}
    return (
        f"{len(about)} cases ({len(about) - healthy} sick, {healthy} healthy) of {len(scenarios)} scenarios with"
        f" {len(causes)} causes, on {len(versions)} versions of Flink and Spark.\n"
    )


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("predictions", nargs="?", help="a file of JSON lines; - for stdin")
    parser.add_argument("--split", choices=("develop", "test"), help="only this split")
    parser.add_argument("--predict", choices=tuple(baselines.TOOLS), help="print predictions")
    parser.add_argument("--write", action="store_true", help="write the table of the card")
    options = parser.parse_args(arguments)
    about = [case for case in cases() if options.split in (None, case.split)]
    if options.write:
        write_card()
    elif options.predict:
        for one in predict(options.predict, about):
            print(json.dumps(one), flush=True)
    elif options.predictions:
        text = (
            sys.stdin.read()
            if options.predictions == "-"
            else Path(options.predictions).read_text("utf-8")
        )
        print(table({options.predictions: Score.of(about, read(text.splitlines()))}), end="")
    else:
        parser.print_usage()
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
