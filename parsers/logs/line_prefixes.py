"""Finds the prefix that a tool adds to every line of a text: line numbers, file names, or times.

`parsers.lines.prefix` strips such prefixes before log records. Stack traces and messages without a record have no
timestamp of their own, so that only the regularity of the lines shows the prefix.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import islice, pairwise
from typing import Final, NamedTuple

from flowdiag.parsers.lines import prefix
from flowdiag.parsers.lines.decoration import LINE
from flowdiag.parsers.lines.traces import is_exception_line, is_trace_line

_SAMPLE: Final = 64 * 1024  # maximum bytes searched for a prefix
_FEWEST: Final = (
    3  # with fewer lines, all of them need the prefix, and a time counts only before a stack frame
)
_ONE_IN: Final = 10  # at most one line of this many may lack the prefix
_STAMP: Final = r"\[?(?:(?:\d{4}-\d\d-\d\d|\d\d/\d\d/\d\d)[T ,]{1,2})?\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?"
# Python's `File` lines are often the only frames of a traceback. Spark's error conditions have no class.
_OTHERS: Final = re.compile(
    r"\s{0,8}(?:Traceback \(most recent|File \")|\[[A-Z]{2,20}_[A-Z_.]{3,60}\] "
)


class LinePrefix(NamedTuple):
    """A prefix of every line.

    Attributes:
        pattern: the prefix.
        dated: whether it contains the time of the line.
    """

    pattern: re.Pattern[str]
    dated: bool = False

    def strip(self, line: str) -> str:
        found = self.pattern.match(line)
        return line if found is None else line[found.end() :]

    def stamp(self, line: str) -> prefix.Stamp | None:
        """Return the time in the prefix of a line, or None if the prefix has no time."""
        if not self.dated:
            return None
        start = len(line) - len(line.lstrip(" ["))
        return prefix.read_stamp(line.replace(", ", " ", 1), start)  # the comma of Airflow


RELAYED: Final = LinePrefix(
    re.compile(
        rf"{_STAMP} ?\w{{0,5}}\] \{{(?:subprocess|spark_submit|bash|ssh|docker|logging_mixin|pod_manager|pod_launcher)\.py:\d{{1,6}}\}}"
        r" INFO - (?:\[\w{1,60}\] )?"
    ),
    dated=True,
)
"""The prefix of Airflow before each line that another program printed. Its level is not the level of the line."""


def _numbers(texts: Sequence[str]) -> bool:
    """Return whether the lines are numbered in ascending order. Numbers before a tab may also be counts."""
    numbers = [int(_NUMBER.findall(text)[-1]) for text in texts]
    listed = texts[0].endswith("\t")
    if listed and len(numbers) < _FEWEST:
        return False
    return all(b == a + 1 if listed else b > a for a, b in pairwise(numbers))


_NUMBER: Final = re.compile(r"\d{1,7}(?=[\t:-]\Z)")


def _few(texts: Sequence[str]) -> bool:
    """Return whether the lines come from a few files."""
    return len(set(texts)) <= 1 + len(texts) // 10


def _anything(_: Sequence[str]) -> bool:
    return True


# Each prefix, whether it has a time, and what must be true of all its occurrences.
_PREFIXES: Final[tuple[tuple[LinePrefix, Callable[[Sequence[str]], bool]], ...]] = (
    (LinePrefix(re.compile(r"\s{0,8}\d{1,7}(?:\t|[:-](?!\d\d[:.]))")), _numbers),
    (LinePrefix(re.compile(r"[\w./@+-]{0,300}[./][\w./@+-]{0,300}[:-]\d{1,7}[:-]")), _numbers),
    (LinePrefix(re.compile(r"[\w./@+-]{0,300}\.(?:log|txt|out|err|\d{1,4})[:-]")), _few),
    (LinePrefix(re.compile(r"(?:std)?(?:err|out)\s?[:|>] ?")), _few),
    (LinePrefix(re.compile(rf"{_STAMP} ?\w{{0,5}}\] \{{[\w.]{{1,60}}:\d{{1,6}}\}} [A-Z]{{4,8}} - "), True), _anything),
    (LinePrefix(re.compile(r"[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d [\w.-]{1,255} [\w./@-]{1,255}(?:\[\d{1,10}\])?: "), True), _anything),
    (LinePrefix(re.compile(rf"{_STAMP}\]?(?: - |[ \t])(?!\s{{0,4}}[\[(]?(?:TRACE|DEBUG|INFO|WARN|ERROR|FATAL)\b)"), True), _anything),
)  # fmt: skip


@lru_cache(maxsize=1)  # a search for failures asks twice
def prefix_of_lines(data: bytes) -> LinePrefix | None:
    """Return the prefix that nearly every line has, if stack traces without records follow it.

    >>> text = b"7:a.b.CException: x\\n8:\\tat a.B.c(B.java:1)\\n9:Caused by: a.E: y\\n"
    >>> prefix_of_lines(text).strip("8:\\tat a.B.c(B.java:1)")
    '\\tat a.B.c(B.java:1)'
    >>> prefix_of_lines(b"2024-01-02 03:04:05 INFO a\\n2024-01-02 03:04:06 INFO b\\n2024-01-02 03:04:07 INFO c\\n")
    """
    raw = data[:_SAMPLE].split(b"\n")
    lines = [one[:LINE].decode("utf-8", "replace") for one in raw[: 200 + _FEWEST] if one.strip()]
    few = len(lines) < _FEWEST
    most = 0 if few else len(lines) // _ONE_IN  # lines without the prefix
    for candidate, fits in _PREFIXES:
        found = _occurrences(candidate, lines, most)
        if not found or not fits(found):
            continue
        is_sign = is_trace_line if few and candidate.dated else _is_of_trace
        if any(map(is_sign, map(candidate.strip, lines))):
            return candidate
    return None


def _occurrences(candidate: LinePrefix, lines: Sequence[str], most: int) -> list[str]:
    """Return the prefix of each line that has it, or nothing if more than `most` lines lack it."""
    others = (line for line in lines if candidate.pattern.match(line) is None)
    if sum(1 for _ in islice(others, most + 1)) > most:
        return []
    return [match[0] for match in map(candidate.pattern.match, lines) if match is not None]


def is_double_spaced(data: bytes) -> bool:
    """Return whether a blank line follows nearly every line, as some mail programs and web forms print them.

    >>> is_double_spaced(b"a\\n\\nb\\n\\nc\\n\\nd\\n"), is_double_spaced(b"a\\nb\\n\\nc\\nd\\n")
    (True, False)
    """
    filled = [bool(line.strip()) for line in data[:_SAMPLE].strip().split(b"\n")]
    return sum(filled) > _FEWEST and not any(filled[1::2])


def _is_of_trace(line: str) -> bool:
    return is_trace_line(line) or is_exception_line(line) or _OTHERS.match(line) is not None
