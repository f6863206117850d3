"""Judges the reports on failure texts from outside the catalogue: the open half of the paste benchmark.

The texts and their expected answers are in `fixtures/pastes/open`, one file per group of components and part. The hash
of a name decides whether a text is in `develop` or `run-only`. flowdiag is developed on `develop`; `run-only` was only run
and counted until 2026-11-26. `fresh` was written and committed on that day, before its first run. `rounds` followed it: each file
was written before its first run, and flowdiag was fixed before the next one. The figures of first runs (`FIRST_RUN`,
`FIRST_RUNS`) are the honest ones, because repairs followed.

An expected answer names what a report must and must not contain:

- `cause`: causes that fit. `unrecognised-failure` and the causes that only name the failed part always fit.
- `deepest`: a fragment of the deepest message. A report quotes it, or names a fitting cause.
- `names`: more that the report must contain: a user's frame, a table, a number. `a|b` accepts either.
- `never`: what the report must not contain.
- `options`: options of another process that nevertheless fit.
- `failure = false`: the text has no failure, and the report must not find one.

`engine` and `process` are the place of the failure. Advice for another engine or process is wrong, and so is a first
proposal (`flowdiag next`) to read the log of another process.
"""

from __future__ import annotations

import hashlib
import re
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from flowdiag.analyses.contract.report import Report
from flowdiag.cli.exit_codes import exit_code
from flowdiag.cli.settings import Settings

FOLDER: Final = Path(__file__).parents[1] / "fixtures" / "pastes" / "open"
HALVES: Final = ("develop", "run-only")
PARTS: Final = (*HALVES, "fresh", "rounds")
VERDICTS: Final = ("right", "fair", "inconclusive", "silent", "wrong")

HISTORY: Final[tuple[tuple[str, str, tuple[int, ...], tuple[int, ...]], ...]] = (
    ("2026-11-24", "04f79fed", (45, 38, 7, 48, 20), (36, 55, 7, 35, 24)),
    ("2026-11-26", "6eed4589", (232, 56, 4, 0, 1), (98, 42, 4, 5, 8)),
)
"""Earlier figures: date, commit, and the counts of `VERDICTS` for each half."""
FIRST_RUN: Final = ("2026-11-26", (72, 23, 2, 0, 5))
"""The first run of `fresh`: date and counts of `VERDICTS`."""

FIRST_RUNS: Final[dict[str, tuple[int, ...]]] = {
    "flink-0": (9, 1, 0, 0, 6),
    "flink-1": (21, 3, 1, 0, 0),
    "flink-2": (12, 12, 0, 0, 1),
    "flink-3": (16, 5, 1, 1, 1),
    "flink-4": (16, 4, 2, 1, 1),
    "flink-5": (16, 4, 1, 1, 3),
    "flink-6": (14, 4, 2, 2, 3),
    "flink-7": (14, 6, 3, 2, 0),
    "flink-8": (15, 3, 0, 1, 1),
    "flink-9": (19, 2, 3, 1, 0),
    "spark-1": (9, 9, 1, 4, 2),
    "spark-2": (9, 9, 1, 4, 2),
    "spark-3": (18, 3, 0, 1, 3),
    "spark-4": (14, 8, 2, 1, 0),
    "spark-5": (22, 1, 1, 1, 0),
    "mixed-1": (17, 3, 0, 1, 4),
    "mixed-2": (12, 3, 0, 3, 0),
    "mixed-3": (18, 5, 2, 1, 4),
    "mixed-4": (18, 6, 1, 0, 4),
    "mixed-5": (30, 9, 3, 0, 7),
    "mixed-6": (30, 11, 3, 0, 5),
    "mixed-7": (19, 3, 0, 0, 4),
    "mixed-8": (37, 11, 3, 2, 3),
    "mixed-9": (23, 3, 0, 0, 2),
    "mixed-10": (30, 8, 3, 0, 8),
    "mixed-11": (25, 1, 0, 1, 2),
    "mixed-12": (23, 2, 1, 1, 0),
    "mixed-13": (28, 6, 2, 1, 1),
}
"""The first run of each file of `rounds`: counts of `VERDICTS`."""

_FITTING: Final = {
    "flink": frozenset({"unrecognised-failure", "restarts-used-up"}),
    "spark": frozenset({"unrecognised-failure", "failing-batches"}),
    "undecided": frozenset({"unrecognised-failure"}),
}
_TASKS: Final = (None, "taskmanager", "python-worker")  # processes for which task-failure fits

_PROCESS_NAMES: Final = {
    "jobmanager": r"jobmanager",
    "taskmanager": r"taskmanager|\b(sub)?task\b",
    "client": r"\bclient\b|\bsubmi",
    "operator": r"\boperator\b|autoscaler",
    "history-server": r"history ?server",
    "driver": r"\bdriver\b|\bquery\b",
    "executor": r"\bexecutor\b|\btask\b|\breceiver\b",
    "am": r"application ?master|\bAM\b",
    "python-worker": r"\bpython\b",
}
# Words that only make sense to users of the other engine, and option prefixes of other processes.
_FLINK_PROCESSES: Final = r"taskmanager|jobmanager"
_SPARK_PROCESSES: Final = r"\bexecutors?\b"
_OTHER_ENGINE: Final = {
    "flink": rf"\bspark\b|{_SPARK_PROCESSES}",
    "spark": rf"\bflink\b|{_FLINK_PROCESSES}|\bsavepoint",
    "undecided": rf"{_FLINK_PROCESSES}|{_SPARK_PROCESSES}|\bspark\.",
}
_OTHER_PROCESS: Final = {
    "taskmanager": ("jobmanager.",),
    "jobmanager": ("taskmanager.",),
    "client": ("taskmanager.", "jobmanager."),
    "operator": ("taskmanager.",),
    "history-server": ("taskmanager.", "jobmanager."),
    "driver": ("spark.executor.",),
    "am": ("spark.executor.", "taskmanager."),
    "executor": ("spark.driver.",),
}

# Logs and dumps that a first proposal must not name for a failure in another process.
_OTHER_LOGS: Final = {
    "jobmanager": r"of the TaskManager|of the executor",
    "client": r"of the TaskManager|of the executor",
    "operator": r"of the TaskManager|of the executor",
    "history-server": r"of the (?:TaskManager|JobManager|executor)",
    "driver": r"of the executor|of the TaskManager",
    "taskmanager": r"of the executor",
    "executor": r"of the TaskManager",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenPaste:
    """A text and the expected answer. The module docstring explains the fields."""

    half: str
    group: str
    name: str
    shape: str  # how the text looks
    engine: str  # flink, spark, or undecided if the text does not show it
    process: str | None
    text: str
    failure: bool = True
    cause: tuple[str, ...] = ()
    deepest: str = ""
    names: tuple[str, ...] = ()
    never: tuple[str, ...] = ()
    options: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenAnswer:
    """An answer: one of `VERDICTS`, with the reason."""

    verdict: str
    why: str = ""


def split_name(name: str) -> str:
    """Return the name of the part, `develop` or `run-only`, chosen by a hash of the text's name."""
    return HALVES[hashlib.sha256(name.encode()).digest()[0] % 2]


def open_pastes(*halves: str) -> list[OpenPaste]:
    """Return the texts of the given parts, or all texts."""
    return list(_load(halves or PARTS))


def _load(halves: Iterable[str]) -> Iterator[OpenPaste]:
    for half in halves:
        for path in sorted((FOLDER / half).glob("*.toml")):
            for entry in tomllib.loads(path.read_text())["paste"]:
                right: dict[str, Any] = {
                    key: tuple(value) if isinstance(value, list) else value
                    for key, value in entry["right"].items()
                }
                yield OpenPaste(
                    half=half,
                    group=path.stem,
                    name=entry["name"],
                    shape=entry["shape"],
                    engine=entry["engine"],
                    process=entry.get("process"),
                    text=entry["text"],
                    **right,
                )


def judge_open(paste: OpenPaste, report: Report) -> OpenAnswer:
    """Compare a report with the expected answer."""
    if not paste.failure:
        loud = [finding.title for finding in report.findings if finding.severity != "info"]
        return OpenAnswer(verdict="wrong" if loud else "right", why="; ".join(loud))
    if exit_code(report, Settings()) == 0:
        return OpenAnswer(verdict="wrong", why=f"{report.summary.verdict} and exit code 0")
    if not report.findings:
        return OpenAnswer(verdict="silent")
    full_text = _flat(" ".join(_texts(report)))
    if (fault := _fault(paste, report, full_text)) is not None:
        return OpenAnswer(verdict="wrong", why=fault)
    quoted = _flat(paste.deepest) in full_text
    lacks = [
        words for words in paste.names if not any(_flat(w) in full_text for w in words.split("|"))
    ]
    if paste.process is not None and not re.search(
        _PROCESS_NAMES[paste.process], full_text, re.IGNORECASE
    ):
        lacks.append(f"the process ({paste.process})")
    if not lacks and (quoted or report.summary.cause in paste.cause):
        return OpenAnswer(verdict="right")
    if quoted:
        return OpenAnswer(verdict="fair", why="lacks " + ", ".join(lacks))
    return OpenAnswer(
        verdict="inconclusive",
        why=f"cause {report.summary.cause or 'none'}; lacks {', '.join([paste.deepest, *lacks])}",
    )


def _fault(paste: OpenPaste, report: Report, full_text: str) -> str | None:
    """Return the first wrong statement of a report, or None."""
    cause = report.summary.cause
    fitting = _FITTING[paste.engine] | set(paste.cause)
    if paste.process in _TASKS:
        fitting |= {"task-failure"}
    if cause is not None and cause not in fitting:
        return f"cause {cause}"
    text = _flat(f"{paste.text} {' '.join(paste.options)}")
    for words in paste.never:
        if _flat(words) in full_text:
            return f"contains {words!r}"
    for found in re.finditer(_OTHER_ENGINE[paste.engine], full_text):
        if found[0] not in text:
            return f"contains {found[0]!r} for a user of {paste.engine}"
    proposed = report.summary.suggestions[0].text if report.summary.suggestions else ""
    if (other := re.search(_OTHER_LOGS.get(paste.process or "", "(?!)"), proposed)) is not None:
        return f"proposes {other[0]} for the {paste.process}"
    prefixes = _OTHER_PROCESS.get(paste.process or "", ())
    for finding in report.findings:
        for action in finding.actions:
            if (
                action.option
                and action.option.startswith(prefixes)
                and action.option.lower() not in text
            ):
                return f"{action.option} for the {paste.process}"
    return None


def _texts(report: Report) -> Iterator[str]:
    """Yield all texts of a report, except excerpts of the input."""
    for finding in report.findings:
        yield finding.title
        yield finding.why or ""
        yield finding.explain
        subject = finding.subject
        yield from (str(getattr(subject, name) or "") for name in subject.__struct_fields__)
        yield from (
            f"{measurement.name} {measurement.value} {measurement.unit or ''}"
            for measurement in finding.measurements
        )
        for action in finding.actions:
            yield from (action.text, action.option or "", action.verify or "")
    yield from (culprit.why for culprit in report.summary.culprits)
    yield from (suggestion.text for suggestion in report.summary.suggestions)


def _flat(text: str) -> str:
    return " ".join(text.split()).lower()


def answers_of(
    corpus: Iterable[OpenPaste], report_of: Callable[[str], Report | None]
) -> dict[OpenPaste, OpenAnswer]:
    """Return the answer to each text that could be measured."""
    reports = ((paste, report_of(paste.text)) for paste in corpus)
    return {p: judge_open(p, report) for p, report in reports if report is not None}


def section(answers: Mapping[OpenPaste, OpenAnswer]) -> list[str]:
    """Render the section of the page about the open pastes, as lines."""
    lines = [
        "## Failures outside the catalogue",
        "",
        "Most of these failures were not in the catalogue when the texts were written. The texts follow public facts: classes,",
        "messages and frames of the programs, in the shapes in which people paste them. Each expected answer was written before",
        "the first run. flowdiag is developed on the first part. The second part was only run and counted until 2026-11-26. The",
        "third part, `fresh`, was committed on that day before its first run. flowdiag was fixed after that run, so only the",
        "figures of the first run are unbiased. The texts of `rounds` were written later, in several rounds: flowdiag was fixed",
        "after each round, and the next round has other components. For 4 of the 8 wrong answers of the second part, the report was right: the",
        "cause was added after the expected answer. A comment next to each corrected answer gives the reason.",
        "",
        "- *Right*: the report names the cause or quotes the deepest message. It names the engine, the process, the user's frame",
        "  and the numbers that the text shows, and nothing in it is wrong.",
        "- *Fair*: the report quotes the deepest message, but something else is missing.",
        "- *Inconclusive*: the report finds a failure, but neither names its cause nor quotes the deepest message.",
        "- *Silent*: the report finds no failure.",
        "- *Wrong*: another cause, advice for another engine or process, or a healthy verdict. Also a failure found in a text",
        "  without one.",
        "",
        *(f"- **{_line(half, answers)}**" for half in PARTS),
        "",
        "| part | component | " + " | ".join(VERDICTS) + " |",
        "|---" * (len(VERDICTS) + 2) + "|",
    ]
    for half in PARTS:
        for group in sorted({paste.group for paste in answers if paste.half == half}):
            cells = " | ".join(map(str, counts(answers, half, group)))
            lines.append(f"| {half} | {group} | {cells} |")
    lines += ["", f"First run of fresh, on {FIRST_RUN[0]}: {_tally('fresh', FIRST_RUN[1])}."]
    lines += ["", "First run of each round, before the repairs that followed:", ""]
    lines += [f"- {_tally(name, numbers)}" for name, numbers in FIRST_RUNS.items()]
    if HISTORY:
        lines += ["", "Before:", ""]
    for date, commit, *halves in HISTORY:
        lines += [
            f"- {date}, `{commit}`: " + "; ".join(map(_tally, HALVES, halves)),
        ]
    return [*lines, ""]


def counts(
    answers: Mapping[OpenPaste, OpenAnswer], half: str, group: str | None = None
) -> tuple[int, ...]:
    """Return the number of answers per verdict."""
    number = Counter(
        answer.verdict
        for paste, answer in answers.items()
        if paste.half == half and group in (None, paste.group)
    )
    return tuple(number[verdict] for verdict in VERDICTS)


def _line(half: str, answers: Mapping[OpenPaste, OpenAnswer]) -> str:
    numbers = counts(answers, half)
    useful = 100 * sum(numbers[:2]) / max(sum(numbers), 1)
    return f"{_tally(half, numbers)}; right or fair {useful:.0f}%."


def _tally(half: str, numbers: Sequence[int]) -> str:
    verdicts = ", ".join(f"{v} {n}" for v, n in zip(VERDICTS, numbers, strict=True))
    return f"{half} ({sum(numbers)}): {verdicts}"
