"""Checks with generated texts that any exception is a finding with its deepest message, and that other texts have none.

Packages, classes, frames and messages are random or those of known components. The record above is in any layout of
`layouts.toml`, at any level, and the text in any wrapping.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from benchmarks.pastes import PasteJudge
from flowdiag.parsers.components import components
from flowdiag.parsers.lines import prefix

from .parsers.traces import CUT, WRAPPINGS

LOWER = st.text("abcdefghijklmnopqrstuvwxyz", min_size=2, max_size=8)
CAPITAL = LOWER.map(str.capitalize)
MARKS = (
    "=7", "key=17", "(x)", "[a, b]", "'q'", '"q"', "a.b.c", "/tmp/x", "s3://b/k", "12 ms", "50%", "€", "订单", "a:b",
    "{k=1}", "<init>", "->", "#3", "@7f", "1.2.3", "10.0.0.1:80", "null", "-1", "…", "é", "a_b", "$v",
)  # fmt: skip
# Words of no failure, and of no routine stop: random letters.
MESSAGE = st.lists(st.one_of(LOWER, LOWER, st.sampled_from(MARKS)), min_size=2, max_size=9)
KNOWN = sorted(
    package
    for component in components().values()
    for package in component.packages
    if "." in package and not re.search(r"\.[A-Z]", package)
)
PACKAGE = st.one_of(st.sampled_from(KNOWN), st.lists(LOWER, min_size=1, max_size=5).map(".".join))
NAME = st.builds(
    lambda outer, words, end: f"{outer}{''.join(words)}{end}",
    st.one_of(st.just(""), CAPITAL.map(lambda name: f"{name}$")),
    st.lists(CAPITAL, min_size=1, max_size=3),
    st.sampled_from(["Exception", "Exception", "Error", "Throwable", "Failure"]),
)
FRAME = st.builds(
    lambda package, name, method, file, line: f"\tat {package}.{name}.{method}({name}.{file}:{line})",
    PACKAGE, CAPITAL, LOWER, st.sampled_from(["java", "scala", "kt"]), st.integers(1, 999),
)  # fmt: skip
LEVELS = ("TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL")


def _heads() -> list[str]:
    """Return the header of each layout: a sample without its message."""
    samples = ((sample["text"], sample["gives"].get("message", "")) for _, sample in _layouts())
    return [text.removesuffix(message) for text, message in samples if message and text.endswith(message)]  # fmt: skip


def _layouts() -> list[tuple[dict[str, Any], dict[str, Any]]]:
    kinds = ("layout", "suffix")
    return [(entry, one) for kind, entry, one in prefix.samples() if kind in kinds and not entry.get("alone")]  # fmt: skip


HEADS = st.sampled_from(_heads())


@st.composite
def records(draw: st.DrawFn, levels: tuple[str, ...] = LEVELS) -> str:
    """Return a log record about nothing, in any layout, at one of the levels."""
    head = re.sub(
        r"\b(?:TRACE|DEBUG|INFO|WARN|ERROR)\b", draw(st.sampled_from(levels)), draw(HEADS), count=1
    )
    return head + " ".join(draw(st.lists(LOWER, min_size=3, max_size=5)))


@st.composite
def chains(draw: st.DrawFn) -> tuple[list[str], str]:
    """Return the lines of a stack trace, and the message of its deepest exception."""
    lines, message = [], ""
    for number in range(draw(st.integers(1, 4))):
        message = f"{draw(LOWER)} {' '.join(draw(MESSAGE))} no. {number + 1}"
        lines.append(f"{'Caused by: ' * (number > 0)}{draw(PACKAGE)}.{draw(NAME)}: {message}")
        lines += draw(st.lists(FRAME, min_size=1, max_size=4))
    return lines, message


def assert_reported(text: str, message: str, judge: PasteJudge) -> None:
    report = judge.report_on_text(text)
    assert report is not None
    loud = [finding for finding in report.findings if finding.severity != "info"]
    shown = " ".join(" ".join((one.title, one.why or "", one.explain)) for one in loud)
    assert message in " ".join(shown.split()), f"{text}\n{[one.title for one in report.findings]}"


# These add a date or a column to the first line, or write frames on it, which must then be an exception.
_OF_EXCEPTIONS = {"date above", "table with date", "table of counts", "frames on a line"}
WHOLE = [name for name in WRAPPINGS if name not in CUT]
BELOW_RECORDS = [name for name in WHOLE if name not in _OF_EXCEPTIONS]
SILENT = [name for name in BELOW_RECORDS if name not in {"words around", "json value"}]
"""Wrappings whose own words are not about a failure."""
RUN = settings(max_examples=120, deadline=None, derandomize=True, phases=(Phase.generate,))


@RUN
@given(chains(), st.sampled_from(WHOLE))
def test_any_exception_in_any_wrapping(
    tmp_path_factory: pytest.TempPathFactory, chain: tuple[list[str], str], wrapping: str
) -> None:
    lines, message = chain
    judge = PasteJudge(tmp_path_factory.getbasetemp(), None)
    assert_reported(WRAPPINGS[wrapping](lines), message, judge)


@RUN
@given(chains(), records(), st.sampled_from(BELOW_RECORDS))
def test_any_exception_below_any_record_in_any_wrapping(
    tmp_path_factory: pytest.TempPathFactory,
    chain: tuple[list[str], str],
    record: str,
    wrapping: str,
) -> None:
    lines, message = chain
    judge = PasteJudge(tmp_path_factory.getbasetemp(), None)
    assert_reported(WRAPPINGS[wrapping]([record, *lines]), message, judge)


@RUN
@given(chains(), st.sampled_from(LEVELS), LOWER)
def test_any_exception_in_a_record_in_json(
    tmp_path_factory: pytest.TempPathFactory,
    chain: tuple[list[str], str],
    level: str,
    text: str,
) -> None:
    lines, message = chain
    judge = PasteJudge(tmp_path_factory.getbasetemp(), None)
    record = {"time": "2024-03-02T11:04:19Z", "level": level, "logger": "a.b.C", "message": text}
    assert_reported("\n".join([json.dumps(record), *lines]), message, judge)
    whole = json.dumps(record | {"message": "\n".join([text, *lines])})
    assert_reported(f"{whole}\n", message, judge)


@RUN
@given(st.lists(records(LEVELS[:4]), min_size=1, max_size=12), st.sampled_from(SILENT))
def test_a_text_without_words_of_failures_has_none(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str], wrapping: str
) -> None:
    judge = PasteJudge(tmp_path_factory.getbasetemp(), None)
    report = judge.report_on_text(WRAPPINGS[wrapping](lines))
    assert report is not None
    assert report.findings == []


LINES = (
    "Job aborted due to stage failure: Task 3 in stage 12.0 failed 4 times, most recent failure: no price",
    "Query [id = 5a2b4f1c-7f6d-4c1e-9a5e-0b1c2d3e4f5a, runId = x] terminated with exception: disk quota used up",
    "Query orders [id = x, runId = y] terminated with exception: disk quota used up",
    "Task did not exit gracefully within 180 + seconds.",
    "Recovery is suppressed by NoRestartBackoffTimeStrategy",
    "java.lang.IllegalArgumentException: Invalid lambda deserialization",
    "Map -> Sink: out (21/128) switched from RUNNING to FAILED.",
    "Container exited with a non-zero exit code 143",
    "Container killed by YARN for exceeding memory limits. 2.0 GB of 2 GB physical memory used.",
    "Checkpoint 7 of job 1fcd2ae5b3a7d1be2ce9c7d9cbd1d8b3 expired before completing.",
    "Heartbeat of TaskManager with id tm-3 timed out.",
    "ORA-01555: snapshot too old: rollback segment number 12",
    "Could not acquire the minimum required resources.",
    "[DELTA_CONCURRENT_APPEND] Files were added to the root of the table by a concurrent update.",
)
PLACES = {
    "bold": lambda line: f"**{line}**",
    "bold in a chat": lambda line: f"*{line}*",
    "code": lambda line: f"`{line}`",
    "quotes": lambda line: f'"{line}"',
    "quoted": lambda line: f"> {line}",
    "bullet": lambda line: f"- {line}",
    "cell": lambda line: f'2024-05-02T10:00:01.000Z,orders,ERROR,"{line}"',
    "cell without a level": lambda line: f'"10:00","{line}"',
    "row": lambda line: f"| 1 | {line} |",
    "string": lambda line: json.dumps({"message": line}),
    "string of an error": lambda line: json.dumps({"error": line}, indent=1),
    "string with a newline": lambda line: json.dumps({"log": f"stopped\n{line}\n"}),
    "logging of Python": lambda line: f"ERROR:__main__:{line}",
    "Airflow": lambda line: (
        f"[2024-05-02T10:00:01.000+0000] {{taskinstance.py:1937}} ERROR - {line}"
    ),
    "Glue": lambda line: (
        f"2024-05-02 10:00:01,123 ERROR [main] glue.ProcessLauncher (Logging.scala:logError(73)): {line}"
    ),
    "log": lambda line: f"2024-05-02 10:00:01,123 ERROR com.acme.Main [] - {line}",
    "log at WARN": lambda line: f"24/05/02 10:00:01 WARN Main: {line}",
    "date": lambda line: f"2024-05-02 10:00:01 {line}",
    "label": lambda line: f"Error: {line}",
    "field": lambda line: f"error: {line}",
    "event": lambda line: f"Warning  Failed  2m  flink  {line}",
    "sentence": lambda line: f"Since Monday we see {line}\nAny idea?",
    "sentence with a colon": lambda line: f"The job stops with: {line}",
    "HTML": lambda line: f"<b>{line}</b>",
    "XML": lambda line: f"<message>{line}</message>",
}


@pytest.mark.parametrize("place", PLACES)
def test_any_line_without_a_class_in_any_place(place: str, tmp_path: Path) -> None:
    judge = PasteJudge(tmp_path, None)
    for line in LINES:
        report = judge.report_on_text(f"{PLACES[place](line)}\n")
        # None: a record with a known message, whose rules other tests cover.
        assert report is None or [one for one in report.findings if one.severity != "info"], line


@pytest.mark.parametrize("line", LINES[:6])
def test_a_line_that_lost_its_first_letter(line: str, tmp_path: Path) -> None:
    report = PasteJudge(tmp_path, None).report_on_text(f"{line[1:]}\n")
    assert report is not None
    assert report.findings
