"""Recognizes log records by their content, if no key or column name identifies them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from flowdiag.parsers.catalogue import load_catalogue
from flowdiag.parsers.envelopes.times import read_time
from flowdiag.parsers.lines import prefix

SAMPLE_ROWS: Final = 100
"""Number of first rows that determine the columns of a table."""

_SHORTEST: Final = 16
_CLOCK: Final = re.compile(r".{0,60}?\d\d:\d\d:\d\d")  # excludes stack frames and similar lines
_LONGEST: Final = 4096  # maximum characters parsed


def is_record(text: str) -> bool:
    """Return whether a text is a log line with a header, or starts with a known message.

    >>> is_record("26/11/21 06:00:00 INFO JobScheduler: Started JobScheduler"), is_record("prod")
    (True, False)
    """
    if len(text) < _SHORTEST:
        return False
    text = text[:_LONGEST].partition("\n")[0]
    head = prefix.parse(text)
    if head.complete and head.dated and not head.alone:
        return True
    return any(load_catalogue(engine).recognize(text) is not None for engine in ("flink", "spark"))


def holds_records(lines: Sequence[Any]) -> bool:
    """Return whether all items are strings and at least two of the first are log records.

    >>> holds_records(["26/11/21 06:00:00 INFO JobScheduler: Started JobScheduler", "prod"])
    False
    """
    if len(lines) < 2 or not all(isinstance(line, str) for line in lines):
        return False
    found = (line for line in lines[:SAMPLE_ROWS] if _CLOCK.match(line) and is_record(line))
    return next(found, None) is not None and next(found, None) is not None


def record_column(rows: Sequence[Sequence[Any]], named: int | None = None) -> int | None:
    """Return the column of log records, or None if there is none.

    Args:
        rows: the first rows of a table.
        named: index of a column whose name fits. It wins unless another column has more than twice as many records.
    """
    width = max(map(len, rows), default=0)
    scores = [
        sum(
            isinstance(row[at], str) and is_record(row[at])
            for row in rows[:SAMPLE_ROWS]
            if at < len(row)
        )
        for at in range(width)
    ]
    best = max(scores, default=0)
    if named is not None and named < width and (scores[named] * 2 >= best):
        return named
    return scores.index(best) if best else named


def time_column(rows: Sequence[Sequence[Any]], excluded: int) -> int | None:
    """Return the first column, apart from `excluded`, in which all cells are times, or None."""
    for at in range(max(map(len, rows), default=0)):
        cells = [row[at] for row in rows[:SAMPLE_ROWS] if at < len(row) and row[at]]
        if at != excluded and cells and all(read_time(cell) != (None, None) for cell in cells):
            return at
    return None


def record_in(value: Mapping[str, Any], depth: int = 3) -> str | None:
    """Return the first log record among the values of an object and its nested objects."""
    below: list[Mapping[str, Any]] = []
    for inner in value.values():
        if isinstance(inner, str) and is_record(inner):
            return inner
        if isinstance(inner, dict):
            below.append(inner)
    if depth:
        for inner in below:
            if (found := record_in(inner, depth - 1)) is not None:
                return found
    return None


def time_in(value: Mapping[str, Any]) -> object:
    """Return the first string in an object that is a time. Numbers do not count, because they are ambiguous."""
    for inner in value.values():
        if isinstance(inner, str) and read_time(inner)[1] is not None:
            return inner
    return None
