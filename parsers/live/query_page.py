"""Reads the statistics page of a streaming query in Spark's Web UI (3.0 to 4.3) as progress reports.

The REST API has no path for queries, so a live driver shows them only on this page. Each chart on the page is a
variable with one value per trigger. The page does not show event times, sources and written rows.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec

QUERIES: Final = "/StreamingQuery/"
_RUN: Final = re.compile(r"statistics/?\?id=([0-9a-f-]{36})")
_STATUS: Final = re.compile(r"<td[^>]{0,200}>\s{0,40}(FINISHED|FAILED)\s{0,40}</td>")
_TAG: Final = re.compile(r"<[^>]{0,2000}>")
_LABEL: Final = re.compile(r"<strong>\s{0,40}(Name|Id|RunId): \s{0,40}</strong>([^<]{0,500})<")
_CHART: Final = re.compile(r"drawTimeline\(\s{0,40}'#([\w-]{1,80})-timeline',\s{0,40}(v\d{1,4}),")
_STACK: Final = re.compile(r"drawAreaStack\('#duration-area-stack', v\d{1,4}, (v\d{1,4}),")
_VARIABLE: Final = re.compile(r"var (v\d{1,4}) = (\[\{[^\]]{0,2000000}\]);")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_STATE: Final = {
    "aggregated-num-total-state-rows": "numRowsTotal",
    "aggregated-num-updated-state-rows": "numRowsUpdated",
    "aggregated-state-memory-used-bytes": "memoryUsedBytes",
    "aggregated-num-rows-dropped-by-watermark": "numRowsDroppedByWatermark",
}
Json = dict[str, Any]


def runs_on(page: str) -> list[str]:
    """Return the run IDs that the list of queries links to, without duplicates.

    >>> runs_on('<a href="/StreamingQuery/statistics/?id=e0119127-6d52-4860-95e0-26fbbb886a38">')
    ['e0119127-6d52-4860-95e0-26fbbb886a38']
    """
    return list(dict.fromkeys(_RUN.findall(page)))


def ended_on(page: str) -> list[Json]:
    """Return the queries that are listed as finished or failed, with their exceptions.

    The exception is the text of the row's last cell. If it is long, its lines are in a hidden part of that cell.
    """
    found = []
    for row in _elements(page, "tr"):
        run, status = _RUN.search(row), _STATUS.search(row)
        if run is None or status is None:
            continue
        cells = [_text_of(cell) for cell in _elements(row, "td")]
        stacks = _elements(row, "pre")
        error = _text_of(stacks[0]) if stacks else cells[-1]
        found.append(
            {
                "name": None if cells[0] == "<no name>" else cells[0],
                "id": cells[2] if len(cells) > 2 else None,
                "runId": run[1],
                "status": status[1],
                "exception": error if status[1] == "FAILED" else None,
            }
        )
    return found


def _elements(page: str, tag: str) -> list[str]:
    """Return the contents of elements that do not contain themselves, in linear time for any page.

    >>> _elements("<td>a</td><td class='b'>c<br></td><td>cut", "td")
    ['a', 'c<br>']
    """
    closed = page.split(f"</{tag}>")[:-1]
    return [part.rpartition(f"<{tag}")[2].partition(">")[2] for part in closed]


def _text_of(content: str) -> str:
    return html.unescape(_TAG.sub("", content)).strip()


def statistics_path(run: str) -> str:
    return f"{QUERIES}statistics/?id={run}"


def progress_of(page: str) -> list[Json]:
    """Return the triggers on a statistics page as progress reports, oldest first. Other pages have none."""
    labels = {name: html.unescape(text).strip() for name, text in _LABEL.findall(page)}
    variables = {name: text for name, text in _VARIABLE.findall(page)}
    charts = {chart: _values(variables.get(name, "")) for chart, name in _CHART.findall(page)}
    stack = _STACK.search(page)
    parts = _parts(variables.get(stack[1], "")) if stack is not None else []
    durations = charts.get("batch-duration", {})
    if "RunId" not in labels or not durations:
        return []
    whole = len(parts) == len(durations)
    head = {"id": labels.get("Id"), "runId": labels["RunId"], "name": labels.get("Name")}
    return [
        head | _trigger(time, charts, parts[number] if whole else {})
        for number, time in enumerate(sorted(durations))
    ]


def _trigger(time: int, charts: dict[str, dict[int, float]], parts: dict[str, int]) -> Json:
    """Build the progress report of one trigger."""

    def value(chart: str) -> float | None:
        return charts.get(chart, {}).get(time)

    lasted = round(value("batch-duration") or 0)
    state = {
        key: round(found) for chart, key in _STATE.items() if (found := value(chart)) is not None
    }
    gap = value("watermark-gap")
    return {
        "timestamp": _moment(time),
        "numInputRows": round(value("input-rows") or 0),
        "inputRowsPerSecond": value("input-rate"),
        "processedRowsPerSecond": value("process-rate"),
        "batchDuration": lasted,
        "durationMs": {**parts, "triggerExecution": lasted},
        "eventTime": {} if gap is None else {"watermark": _moment(round(time - gap * 1000))},
        "stateOperators": [state] if state else [],
        "sources": [],
    }


def _moment(time_ms: int) -> str | None:
    try:
        return (_EPOCH + timedelta(milliseconds=time_ms)).isoformat(timespec="milliseconds")
    except OverflowError:
        return None


def _values(text: str) -> dict[int, float]:
    """Return the values of a chart by the time of their trigger."""
    return {
        point["x"]: float(point["y"])
        for point in _items(text)
        if isinstance(point.get("x"), int) and isinstance(point.get("y"), int | float)
    }


def _parts(text: str) -> list[dict[str, int]]:
    """Return the durations of each trigger's phases in ms, from items `{x: "22:49:16.459", "addBatch": "31318.0"}`."""
    found = []
    for point in _items(text.replace("{x:", '{"x":')):
        numbers = {name: str(value) for name, value in point.items() if name != "x"}
        found.append(
            {
                n: int(t.partition(".")[0])
                for n, t in numbers.items()
                if t.partition(".")[0].isdecimal()
            }
        )
    return found


def _items(text: str) -> Iterator[Json]:
    try:
        value = msgspec.json.decode(text) if text else []
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return
    yield from (item for item in value if isinstance(item, dict))
