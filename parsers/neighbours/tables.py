"""Reads the rows of database clients: aligned as by psql, expanded, or comma-separated."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from flowdiag.parsers.neighbours.times import time_of_line, time_of_name

MAX_TEXT: Final = 16 * 1024 * 1024
EXPANDED: Final = re.compile(r"^-\[ RECORD \d+ \]", re.MULTILINE)
_SEPARATORS: Final = ("|", ",", "\t")
_LINE: Final = 65_536  # maximum characters of a row; the csv module refuses longer fields


class Row(NamedTuple):
    """A row by column; `offset` is where its first line begins, in bytes."""

    values: dict[str, str]
    time_us: int | None
    offset: int


def columns_of(line: str) -> Iterator[tuple[list[str], str]]:
    """Split a line at each known separator, and yield the cells with the separator."""
    for separator in _SEPARATORS:
        yield [part.strip().strip('"') for part in line.split(separator)], separator


def read_rows(
    text: str, name: str, header: Callable[[str], tuple[list[str], str] | None]
) -> Iterator[Row]:
    """Yield the rows below each header.

    Args:
        text: the output, maybe of several queries in a loop.
        name: name of the file, which may contain the time.
        header: returns the columns and their separator if a line is a header.
    """
    columns: list[str] = []
    separator = "|"
    record: dict[str, str] = {}
    time_us, start, at = time_of_name(name), 0, 0
    expanded = False
    for line in text[:MAX_TEXT].splitlines(keepends=True):
        begin, at = at, at + len(line.encode("utf-8", "surrogatepass"))
        stripped = line.strip()
        if EXPANDED.match(line):
            yield Row(record, time_us, start)
            record, start, columns, expanded = {}, begin, [], True
        elif expanded and not columns and "|" in line:
            key, _, value = line.partition("|")
            record[key.strip()] = value.strip()
        elif not stripped or set(stripped) <= set("-+"):
            continue
        elif found := header(stripped):
            columns, separator = found
        elif columns and separator in line:
            yield Row(_cells(stripped, columns, separator), time_us, begin)
        elif (printed := time_of_line(line)) is not None:
            yield Row(record, time_us, start)
            record, time_us = {}, printed
    yield Row(record, time_us, start)


def _cells(line: str, columns: list[str], separator: str) -> dict[str, str]:
    line = line[:_LINE]
    values = (
        next(csv.reader(io.StringIO(line)), [])
        if separator == ","
        else [part.strip() for part in line.split(separator, len(columns) - 1)]
    )
    return dict(zip(columns, values, strict=False))
