"""Finds printed progress reports of streaming queries (`lastProgress` as JSON or a Python dict) anywhere in a text.

Reports may be between the records of a driver's log. Reports that Spark itself logs ("Streaming query made
progress: ") are parsed as records instead.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from itertools import chain, pairwise
from typing import Any, Final

from flowdiag.parsers.json_values import decode_json
from flowdiag.parsers.rows import Row
from flowdiag.parsers.spark.log import PROGRESS_BYTES
from flowdiag.parsers.spark.progress import progress_row

TEXT_BYTES: Final = 16 * 1024 * 1024
"""Maximum size of a text to search; in a larger text, only records are read."""
_MOST: Final = 20_000  # maximum reports in a text
_DEPTH: Final = 12
_BEGIN: Final = re.compile(
    rb"""\{\s{0,20}(["'])id\1\s{0,3}:\s{0,3}\1[0-9a-f]{8}-[0-9a-f-]{27}\1\s{0,20},\s{0,20}\1runId\1"""
)
_LOGGED: Final = b"made progress: "
# A string ends on its own line, so that a missing quote damages only that line.
_TOKEN: Final = re.compile(rb"""\"(?:[^"\\\n]|\\.)*+\"|'(?:[^'\\\n]|\\.)*+'|[{}]""")
_TRAILING_COMMA: Final = re.compile(r",(?=\s{0,200}[}\]])")
_DAMAGED: Final = 3
"""Maximum damaged lines in a report, for example because of a missing quote."""
_NO_NUMBER: Final = re.compile(r"(?<=[:\s,\[])-?(?:nan|inf)(?=\s{0,8}[,}\]])")


def contains_report(data: bytes) -> bool:
    """Return whether a text probably contains a report."""
    return b"runId" in data and _BEGIN.search(data) is not None


def printed_reports(data: bytes) -> Iterator[tuple[int, Row, list[int]]]:
    """Yield each report outside Spark's records: its offset, its row and its damaged lines.

    Args:
        data: the text.
    """
    number = 0
    begins = chain((found.start() for found in _BEGIN.finditer(data)), (len(data),))
    for begin, following in pairwise(begins):
        if data.endswith(_LOGGED, max(0, begin - 200), begin):
            continue
        end = _end(data, begin, following)
        if end is None:
            continue
        value, damaged = _decode(data[begin:end])
        row = progress_row(value)
        if row is not None:
            number += 1
            above = data.count(b"\n", 0, begin) if damaged else 0
            yield begin, row, [above + line for line in damaged]
            if number == _MOST:
                return


def _end(data: bytes, begin: int, following: int) -> int | None:
    """Return the end of the object at `begin`, or None if the next report starts before the object is closed."""
    depth = 0
    for token in _TOKEN.finditer(data, begin, min(following, begin + PROGRESS_BYTES)):
        if token[0] == b"{":
            depth += 1
        elif token[0] == b"}":
            depth -= 1
            if depth == 0:
                return token.end()
        if depth > _DEPTH:
            return None
    return None


def _decode(text: bytes) -> tuple[Any, list[int]]:
    """Decode JSON or a Python literal, and return the value with the numbers of damaged lines, or None for other
    text.
    """
    try:
        return decode_json(text), []
    except ValueError:
        pass
    try:
        return ast.literal_eval(_NO_NUMBER.sub("None", text.decode("utf-8", "replace"))), []
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return _without_damage(text.decode("utf-8", "replace"))


def _without_damage(text: str) -> tuple[Any, list[int]]:
    """Decode a report with one field per line, leaving out damaged lines. Return None if too many are damaged.

    >>> _without_damage('{\\n"batchId": 3,\\n"rows: 4,\\n"name": "orders"\\n}')
    ({'batchId': 3, 'name': 'orders'}, [3])
    """
    lines, damaged = text.split("\n"), list[int]()
    while len(damaged) <= _DAMAGED < len(lines):
        try:
            # Remove nothing but commas, so that line numbers in errors stay correct.
            return json.loads(_TRAILING_COMMA.sub("", "\n".join(lines))), damaged
        except json.JSONDecodeError as error:
            damaged.append(error.lineno)
            lines[error.lineno - 1] = ""
        except RecursionError:
            break
    return None, []
