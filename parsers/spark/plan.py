"""Reads properties of a streaming query's physical plan from the start of an SQL execution in an event log.

These are the output mode, the watermark delay, the length of windows, the Python functions, and the tables that every
trigger reads again. The line contains the
plan first as text, then as a tree of tens of kilobytes, so only the text is decoded.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from json.decoder import scanstring  # type: ignore[attr-defined]
from typing import Final

from flowdiag.parsers.rows import Event, Row

EXECUTION_START: Final = "org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionStart"
_TRIGGER: Final = re.compile(
    r"id = (?P<id>[0-9a-f-]{36})(?:\n|<br/>)runId = (?P<run_id>[0-9a-f-]{36})(?:\n|<br/>)batch = (?P<batch>\w+)"
)
_MODE: Final = re.compile(
    r"^\(\d+\) \w{0,40}State\w{0,40}\n.{0,4000}?[,)\]] (Append|Update|Complete),",
    re.MULTILINE | re.DOTALL,
)
_COLUMN: Final = re.compile(
    r"^\(\d+\) EventTimeWatermark[^\n]{0,80}\n[^\n]{0,4000}\nArguments: (?:[0-9a-f-]{36}, )?(\w{1,100})#",
    re.MULTILINE,
)
_JOIN: Final = "StreamingSymmetricHashJoin"
_DELAY: Final = re.compile(r"-T(\d{1,15})ms\b")  # an attribute that has a watermark
_WINDOW: Final = re.compile(r"END\) - -?\d{1,15}\) \+ (\d{1,15})\), LongType, TimestampType")
_PYTHON: Final = re.compile(
    r"^\(\d+\) (?=[^\n]{0,60}(?:Python|Pandas|Arrow))[^\n]{0,80}\n(?:[^\n]{0,4000}\n){0,2}?Arguments: ([^\n]{1,4000})",
    re.MULTILINE,
)
# A source of the newer interface has a scan of its own, so every other scan reads a table. Sources of files look alike.
_STREAM: Final = "MicroBatchScan"
_CACHED: Final = "InMemoryRelation"
_TABLE: Final = re.compile(
    r"^\(\d+\) Scan (?:(?P<jdbc>JDBCRelation\([^)\n]{1,200}\))|\w{1,40} ?(?P<name>[\w.]{0,200})(?: \[[^\n]{0,40})?\n"
    r"(?:(?!\n)[^\n]{0,4000}\n){0,4}?Location: \w{1,40} ?(?:\([^)\n]{1,40}\) ?)?\[(?P<path>[^\],\n]{1,500}))",
    re.MULTILINE,
)
_MOST_FUNCTIONS: Final = 8
_MOST_TABLES: Final = 4
_MOST_MS: Final = 2**53


def plan_rows(data: bytes) -> list[Row]:
    """Return a `spark_plan` row if the line starts a streaming query's execution with a plan of interest."""
    text = data.decode("utf-8", "replace")
    query = _TRIGGER.search(_string(text, "description"))
    if query is None:
        return []
    fields = {**fields_of(_string(text, "physicalPlanDescription"))}
    if not fields:
        return []
    named = {"id": query["id"], "run_id": query["run_id"]}
    return [{"event": Event.SPARK_PLAN.value, "fields": {**named, **fields}}]


def _string(text: str, key: str) -> str:
    """Return the first string value of a key in JSON text, or an empty string."""
    mark = f'"{key}":"'
    place = text.find(mark)
    return "" if place < 0 else str(scanstring(text, place + len(mark), False)[0])


def fields_of(plan: str) -> dict[str, str]:
    """Return the properties found in a plan, given as Spark's formatted text.

    >>> fields_of("(3) BatchEvalPython\\nInput [1]: [v#1L]\\nArguments: [ask((v#1L % 97))#2], [pythonUDF0#7]\\n")
    {'functions': 'ask'}
    """
    mode = _MODE.search(plan)
    if mode is not None:
        found = {"mode": mode[1].lower()}
    else:
        found = {"mode": "append"} if _JOIN in plan else {}
    delays = [int(text) for text in _DELAY.findall(plan)]
    windows = [int(text) // 1000 for text in _WINDOW.findall(plan)]
    for name, values in (("delay_ms", delays), ("window_ms", windows)):
        if values and max(values) < _MOST_MS:
            found[name] = str(max(values))
    if (column := _COLUMN.search(plan)) is not None:
        found["column"] = column[1]
    names = [name for text in _PYTHON.findall(plan) for name in _functions(text)]
    if names:
        found["functions"] = " ".join(list(dict.fromkeys(names))[:_MOST_FUNCTIONS])
    if tables := _tables(plan):
        found["tables"] = "\n".join(tables[:_MOST_TABLES])
    return found


def _tables(plan: str) -> list[str]:
    """Return the tables that a trigger reads in addition to its sources, unless they are cached.

    >>> _tables("(1) MicroBatchScan\\n\\n(6) Scan csv \\nBatched: false\\nLocation: InMemoryFileIndex [file:/srv/prices]\\n")
    ['file:/srv/prices']
    """
    if _STREAM not in plan or _CACHED in plan:
        return []
    found = (match["jdbc"] or match["name"] or match["path"] for match in _TABLE.finditer(plan))
    return list(dict.fromkeys(found))


def _functions(arguments: str) -> Iterator[str]:
    """Yield the functions that are called at the top level of a node's arguments: `[f(a, g(b))#1, h(c)#2], [out#3]`."""
    depth, name = 0, ""
    for character in arguments.removeprefix("["):
        if character == "(":
            if depth == 0 and name:
                yield name
            depth += 1
        elif character == ")":
            depth -= 1
        elif character == "]" and depth == 0:
            return
        if depth == 0 and (character.isalnum() or character in "_<>."):
            name += character
        else:
            name = ""
