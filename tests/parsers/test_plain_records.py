"""Plain records can be skipped: no failure is missed, and every skipped text reports none."""

from __future__ import annotations

from collections.abc import Sequence
from re import _constants as c  # type: ignore[attr-defined]
from re import _parser  # type: ignore[attr-defined]
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowdiag.parsers.lines.failure_lines import FailureLine, failure_lines
from flowdiag.parsers.lines.plain_records import STEMS, plain_runs
from flowdiag.parsers.logs import pastes
from flowdiag.parsers.logs.paste_patterns import ENDS, PYTHON_BEGIN

FLINK = "2024-01-02 03:04:0{},678 {:<5} org.apache.flink.runtime.A             [] - {}"
SPARK = "24/01/02 03:04:0{} {} MicroBatchExecution: {}"
_WITHOUT_HEADER = {
    "main-class"
}  # the launcher prints them; the other languages have letters that no plain record has
_BRACKETED = r"\A\["


def _requires_stem(pattern: Any) -> bool:
    """Return whether each text that a parsed pattern matches contains one of the stems."""
    literal = ""
    for code, value in [*pattern, (None, None)]:
        same = (
            {chr(each).lower() for kind, each in value if kind is c.LITERAL}
            if code is c.IN
            else set()
        )
        if code is c.LITERAL:
            literal += chr(value).lower()
        elif code is c.IN and len(same) == 1 and all(kind is c.LITERAL for kind, _ in value):
            literal += same.pop()
        elif code is not c.AT:
            if any(stem in literal for stem in STEMS) or _contains_stem(code, value, literal):
                return True
            literal = ""
    return False


def _contains_stem(code: Any, value: Any, before: str) -> bool:
    if code is c.SUBPATTERN:
        return _requires_stem(value[3])
    if code is c.BRANCH:
        ahead = [(c.LITERAL, ord(letter)) for letter in before]
        return all(_requires_stem([*ahead, *each]) for each in value[1])
    return code in (c.MAX_REPEAT, c.MIN_REPEAT) and value[0] >= 1 and _requires_stem(value[2])


@pytest.mark.parametrize(
    ("line", "pattern"),
    [(line, each.pattern) for line in failure_lines() if not line.weak for each in line.patterns],
    ids=lambda value: value.name if isinstance(value, FailureLine) else "",
)
def test_each_failure_has_a_stem(line: FailureLine, pattern: str) -> None:
    assert (
        pattern.startswith(_BRACKETED)
        or line.name in _WITHOUT_HEADER
        or _requires_stem(_parser.parse(pattern))
    )


def test_exceptions_have_a_stem() -> None:
    assert _requires_stem(_parser.parse(ENDS))
    assert any(stem in PYTHON_BEGIN.lower() for stem in STEMS)


MESSAGES = st.sampled_from(
    [
        "Completed checkpoint 7 for job 0d (12 bytes).",
        "Source: orders (1/4) switched from DEPLOYING to RUNNING.",
        "at most three attempts remain",
        "Lost executor 3 on worker-1: Container killed by YARN",
        "java.io.IOException: gone",
        "Checkpoint 7 of job 0d expired before completing.",
        "[STREAM_FAILED] Query orders failed",
        "Streaming query made progress: {",
        "",
    ]
)
RECORD = st.builds(
    str.format,
    st.sampled_from([FLINK, SPARK]),
    st.integers(0, 9),
    st.sampled_from(["INFO", "DEBUG", "WARN", "ERROR"]),
    MESSAGES,
)
OTHER = st.sampled_from(
    [
        "java.lang.IllegalStateException: no price",
        "\tat shop.Enrich.map(Enrich.java:12)",
        "Caused by: java.net.ConnectException: Connection refused",
        "Traceback (most recent call last):",
        '  File "job.py", line 6, in enrich',
        "KeyError: 'price'",
        "the order has no price",
        "",
        "2024-01-02 03:04:05",
    ]
)
PLAIN = [FLINK.format(i, "INFO", f"Completed checkpoint {i} for job 0d.") for i in range(6)]


def _failures(text: str, *, skip: bool, whole: bool) -> list[tuple[Any, ...]]:
    with pytest.MonkeyPatch.context() as patch:
        if not skip:
            patch.setattr(pastes, "plain_runs", lambda data: ())
        found = pastes.failures_in(text.encode(), whole=whole)
        return [(one.offset, one.chain, one.frames, one.heading, one.after) for one in found]


@given(
    parts=st.lists(st.one_of(st.just(PLAIN), st.lists(RECORD, max_size=3), st.lists(OTHER))),
    whole=st.booleans(),
)
def test_skipping_changes_no_failure(parts: Sequence[Sequence[str]], whole: bool) -> None:
    text = "\n".join(line for part in parts for line in part)
    assert _failures(text, skip=True, whole=whole) == _failures(text, skip=False, whole=whole)


def test_most_of_an_ordinary_log_is_skipped() -> None:
    text = "\n".join(PLAIN * 100).encode()
    assert sum(end - begin for begin, end in plain_runs(text)) > 0.9 * len(text)
