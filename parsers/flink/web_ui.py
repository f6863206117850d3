"""Reads tables copied from Flink's Web UI.

They contain the data of REST responses, separated by tabs, newlines or bars. Supported pages, from Flink 1.5 to 2.3
(the columns differ between versions, but hardly their order):

| page | rows |
|---|---|
| Checkpoints, Overview | counts; the latest completed and the latest failed checkpoint with its cause |
| Checkpoints, History | one per checkpoint; below an expanded row its path, type and failure message |
| Checkpoints, details | one per operator, and the SubTasks of an expanded operator |
| a vertex, SubTasks | one per subtask: place, attempt, accumulated back-pressured, idle and busy time |
| a vertex, BackPressure | one per subtask |

Cells are recognized by their format, not by their position in a line, because a copy may put each cell on its own
line. Each table is converted to the equivalent REST body, which the REST reader then parses. The UI shows the
browser's wall clock, so times are `local_us`. Subtasks are numbered from 0, as in REST. A vertex without a name above
its table gets the placeholder `NO_NAME`, which matches no other vertex.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from flowdiag.parsers.flink.rest_rows import READERS, Context
from flowdiag.parsers.flink.rest_shapes import Ids, Kind
from flowdiag.parsers.rows import Row
from flowdiag.parsers.units import SIZE_UNITS, TIME_UNITS

TEXT_BYTES: Final = 256 * 1024
"""Maximum size of a text to search; a copied page is much smaller."""
NO_NAME: Final = "the vertex"
"""Placeholder for a vertex whose name was not copied."""

EXPIRED: Final = "Checkpoint expired before completing."
"""Flink's message for a checkpoint that exceeds the timeout."""

_S: Final = r"[\s|]{1,60}"
_ROW: Final = r"^[ \t|>]{0,40}"
_DATE: Final = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d{1,3})?"
_TIME: Final = rf"(?:{_DATE}|\d\d:\d\d:\d\d)"
_NA: Final = r"(?:n/a|N/A|-|–)"
_DURATION: Final = r"(?:\d{1,9}(?:ms|s|m|h|d)(?![a-z]) ?){1,5}"
_SIZE: Final = r"(?:\d{1,12}(?:[.,]\d{1,6})? ?(?:[KMGTP]i?B|B|[Bb]ytes)|-(?=[\s|]))"
_BRACKETS: Final = rf"(?: ?\({_SIZE}\))?"
_ACKNOWLEDGED: Final = r"(?P<acked>\d{1,6}) ?/ ?(?P<all>\d{1,6})(?:\s{0,4}\(\d{1,3}(?:\.\d+)?%\))?"

_HISTORY = re.compile(
    rf"{_ROW}(?P<id>\d{{1,18}})(?:{_S}(?P<status>COMPLETED|FAILED|IN_PROGRESS))"
    rf"(?:\s{{0,4}}\[?(?P<savepoint>Savepoint)\]?)?{_S}{_ACKNOWLEDGED}{_S}(?P<trigger>{_TIME})"
    rf"{_S}(?P<ack>{_TIME}|{_NA}){_S}(?P<duration>{_DURATION}|{_NA})"
    rf"(?:{_S}(?P<size>{_SIZE}))?(?:{_S}(?P<full>{_SIZE}(?! ?\()))?"
    rf"(?:{_S}(?P<processed>{_SIZE}){_BRACKETS})?",
    re.MULTILINE,
)
# Up to 1.8, the status is only an icon, and times have no date.
_OLD_HISTORY = re.compile(
    rf"{_ROW}(?P<id>\d{{1,18}}){_S}{_ACKNOWLEDGED}{_S}(?P<trigger>{_TIME})"
    rf"{_S}(?P<ack>{_TIME}|{_NA}){_S}(?P<duration>{_DURATION}|{_NA})(?:{_S}(?P<size>{_SIZE}))?",
    re.MULTILINE,
)
_OPERATOR = re.compile(
    rf"{_ROW}(?P<name>(?!\d{{1,18}}[\s|])[^\s|>][^\t\n|]{{0,400}}?)(?:[\t\n|]| {{2,}}| (?=\d{{1,6}}/))[\s|]{{0,60}}"
    rf"{_ACKNOWLEDGED}{_S}(?P<ack>{_TIME}|{_NA}){_S}(?P<duration>{_DURATION}|{_NA})(?:{_S}(?P<size>{_SIZE}))?",
    re.MULTILINE,
)
_PART = re.compile(
    rf"{_ROW}(?P<id>\d{{1,6}}){_S}(?:(?P<ack>{_TIME}){_S}(?P<duration>{_DURATION}){_S}(?P<size>{_SIZE})"
    rf"(?:{_S}(?P<full>{_SIZE}))?{_S}(?P<sync>{_DURATION}){_S}(?P<async>{_DURATION})"
    rf"(?:{_S}(?P<processed>{_SIZE}){_BRACKETS})?(?:{_S}(?P<alignment>{_DURATION}))?"
    rf"(?:{_S}(?P<delay>{_DURATION}))?(?:{_S}(?P<unaligned>true|false))?|(?P<missing>n/a))(?=[\s|]|\Z)",
    re.MULTILINE,
)
_PRESSURE = re.compile(
    rf"{_ROW}(?P<id>\d{{1,6}})(?:{_S}\d{{1,3}})?{_S}(?:(?P<waits>\d{{1,3}}|NaN|N/A)%? ?/ ?(?P<idle>\d{{1,3}}|NaN|N/A)%?"
    rf" ?/ ?(?P<busy>\d{{1,3}}|NaN|N/A)%?|(?P<ratio>[01](?:\.\d{{1,20}})?)){_S}(?P<level>OK|LOW|HIGH|ok|low|high)\b",
    re.MULTILINE,
)
_LOADING: Final = r"(?:loading\.\.\.|-)"
_COUNT: Final = rf"(?:\d[\d,. ]{{0,20}}|{_LOADING})"
_SUBTASK = re.compile(
    rf"{_ROW}(?P<id>\d{{1,6}}){_S}(?P<read>{_SIZE}|{_LOADING}){_S}(?P<in>{_COUNT}){_S}(?P<wrote>{_SIZE}|{_LOADING})"
    rf"{_S}(?P<out>{_COUNT}){_S}(?P<attempt>\d{{1,6}}){_S}(?P<host>[\w.:\[\]()-]{{1,255}}){_S}(?P<rest>[^|]?)",
    re.MULTILINE,
)
_STATE: Final = re.compile(
    r"\b(?:CREATED|SCHEDULED|DEPLOYING|INITIALIZING|RUNNING|FINISHED|CANCELING|CANCELED|FAILED|RECONCILING)\b"
)
_SPENT = re.compile(
    rf"({_DURATION}|{_NA}|NaN)\s?/\s?({_DURATION}|{_NA}|NaN)\s?/\s?({_DURATION}|{_NA}|NaN)"
)
_COUNTS = re.compile(
    r"Triggered:\s{0,9}(?P<total>\d{1,12})[\s|]{1,40}In Progress:\s{0,9}(?P<in_progress>\d{1,9})[\s|]{1,40}"
    r"Completed:\s{0,9}(?P<completed>\d{1,12})[\s|]{1,40}Failed:\s{0,9}(?P<failed>\d{1,12})"
    r"(?:[\s|]{1,40}Restored:\s{0,9}(?P<restored>\d{1,9}))?"
)
_LATEST_FAILED = re.compile(
    rf"Latest Failed Checkpoint{_S}ID:\s{{0,9}}(?P<id>\d{{1,18}}){_S}Failure Time:\s{{0,9}}(?P<at>{_TIME})"
    rf"(?:{_S}(?:Cause|Failure Cause|Failure Message):\s{{0,9}}(?P<cause>[^\n]{{1,2000}}))?"
)
_LATEST_COMPLETED = re.compile(
    rf"Latest Completed Checkpoint{_S}ID:\s{{0,9}}(?P<id>\d{{1,18}}){_S}Completion Time:\s{{0,9}}(?P<at>{_TIME})"
    rf"(?:{_S}End to End Duration:\s{{0,9}}(?P<duration>{_DURATION}))?"
    rf"(?:{_S}(?:Checkpointed Data|State) Size:\s{{0,9}}(?P<size>{_SIZE}))?"
)
_MESSAGE = re.compile(r"Failure (?:Message|Cause):\s{0,9}(?P<text>[^\n]{1,2000})")
_TYPE = re.compile(r"Checkpoint Type:\s{0,9}(?P<text>aligned|unaligned|savepoint)", re.IGNORECASE)
_ID = re.compile(r"\bCheckpoint(?: ID)?:?\s{0,9}(?P<id>\d{1,18})\b")
_NOT_A_NAME: Final = re.compile(
    r"[\d\s|%/.:-]*\Z|.*(?:Bytes (?:Received|Sent)|Records (?:Received|Sent)|Back ?[Pp]ressure|Measurement:"
    r"|End to End|Start Time|End Time|Sync Duration|Thread Dump|Accumulated Time|Flame ?Graph|Show history|Data Size)"
    r"|(?:ID|Sub ?[Tt]asks?:?|Ratio|Status|Attempt|Host|Endpoint|Duration|More|Detail|Task ?Managers|Watermarks"
    r"|Accumulators|Metrics|Start Delay|Acknowledged|Operators:|Minimum|Average|Maximum|Name|loading\.\.\.)\b",
    re.DOTALL,
)


def contains_table(data: bytes) -> bool:
    """Return whether a text contains rows of a supported table."""
    if not any(word in data for word in _WORDS):
        return False
    return next(_Page(data).bodies(), None) is not None


_WORDS: Final = (
    b"COMPLETED", b"FAILED", b"IN_PROGRESS", b"Trigger Time", b"Triggered:", b"Sync", b"n/a",
    b"HIGH", b"LOW", b"OK", b"RUNNING", b"Latest Failed", b"FINISHED", b"high", b"low",
)  # fmt: skip


def copied_rows(data: bytes) -> Iterator[tuple[int, Row]]:
    """Yield the offset of each row and the row, whose own source and offset are not set.

    Args:
        data: the text in UTF-8.
    """
    for body in _Page(data).bodies():
        context = Context(ids=Ids(None, body.checkpoint, body.vertex))
        if body.vertex is not None:
            context.tasks = {body.vertex: body.vertex}
        for row in READERS[body.kind](body.content, context):
            yield body.offset, _as_wall_clock(row, dated=body.dated)


def _as_wall_clock(row: Row, *, dated: bool) -> Row:
    """Mark a row's times as the browser's wall clock, whose time zone is unknown."""
    row["local_us"], row["utc_us"], row["epoch_ms"] = row.get("utc_us"), None, None
    if row["local_us"] is not None and not dated:
        row["clock"] = "time"
    fields = row["fields"]
    for name in [name for name in fields if name.endswith("_ms") and name in _INSTANTS]:
        del fields[name]
    if "metric" in row:  # the table has no time
        fields["origin"] = "page"
    return row


_INSTANTS: Final = frozenset({"latest_ack_ms", "failure_ms", "ack_ms", "start_ms", "end_ms"})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Body:
    """A table converted to the equivalent REST body, with the table's offset in the text."""

    kind: Kind
    offset: int
    content: Mapping[str, Any]
    checkpoint: int | None = None
    vertex: str | None = None
    dated: bool = True


class _Page:
    """A text that is searched for tables."""

    def __init__(self, data: bytes) -> None:
        text = data[:TEXT_BYTES].decode("utf-8", "replace").replace("\xa0", " ")
        self._text = text.replace("\r", " ")
        self._rows = [
            *_HISTORY.finditer(self._text),
            *(_OLD_HISTORY.finditer(self._text) if "Trigger Time" in text else ()),
        ]

    def bodies(self) -> Iterator[_Body]:
        """Yield the tables of the text as REST bodies."""
        yield from self._checkpoints()
        yield from self._parts()
        yield from self._vertices()
        yield from self._pressures()

    def _offset(self, at: int) -> int:
        return len(self._text[:at].encode("utf-8", "replace"))

    # -- checkpoints ---------------------------------------------------------------------------

    def _checkpoints(self) -> Iterator[_Body]:
        known = set()
        timeout = _timeout(self._rows)
        for index, found in enumerate(self._rows):
            end = self._rows[index + 1].start() if index + 1 < len(self._rows) else len(self._text)
            item = _checkpoint(found, newest=found is self._rows[0])
            below = self._text[found.end() : end]
            if (message := _MESSAGE.search(below)) is not None and item["status"] == "FAILED":
                item["failure_message"] = message["text"].partition("Operators:")[0].strip(" \t|")
            elif item["status"] == "FAILED" and item["end_to_end_duration"] == timeout is not None:
                item["failure_message"] = EXPIRED
            if (kind := _TYPE.search(below)) is not None:
                item["checkpoint_type"] = _TYPES[kind["text"].lower()]
            known.add(item["id"])
            yield _Body(
                kind=Kind.CHECKPOINTS,
                # Cite the line that contains most of the row.
                offset=self._offset(found.start("acked")),
                content={"history": [item]},
                dated="-" in found["trigger"],
            )
        yield from self._overview(known)

    def _overview(self, known: set[int]) -> Iterator[_Body]:
        if (counts := _COUNTS.search(self._text)) is not None:
            numbers = {name: int(value or 0) for name, value in counts.groupdict().items()}
            at = self._offset(counts.start())
            yield _Body(kind=Kind.CHECKPOINTS, offset=at, content={"counts": numbers})
        for key, pattern in (("failed", _LATEST_FAILED), ("completed", _LATEST_COMPLETED)):
            found = pattern.search(self._text)
            if found is None or int(found["id"]) in known:
                continue
            took = _ms(found.groupdict().get("duration"))
            latest = {
                "id": int(found["id"]),
                "status": key.upper(),
                "trigger_timestamp": _epoch_ms(found["at"]) - (took or 0),
                "end_to_end_duration": took,
                "state_size": _bytes(found.groupdict().get("size")),
                "failure_message": found.groupdict().get("cause"),
            }
            yield _Body(
                kind=Kind.CHECKPOINTS,
                offset=self._offset(found.start("id")),
                content={"latest": {key: latest}},
                dated="-" in found["at"],
            )

    def _parts(self) -> Iterator[_Body]:
        """Yield the operators of checkpoints, with their subtasks."""
        if not self._rows and "Acknowledg" not in self._text:
            return
        operators = [row for row in _OPERATOR.finditer(self._text) if row["name"] not in _STATES]
        starts = [row.start() for row in operators]
        subtasks: dict[int, list[re.Match[str]]] = {}
        for part in _PART.finditer(self._text):
            if not any(row.start() <= part.start() < row.end() for row in self._rows):
                subtasks.setdefault(bisect_right(starts, part.start()) - 1, []).append(part)
        vertices: dict[str, dict[str, Any]] = {}
        for order, operator in enumerate(operators):
            number = self._checkpoint_at(operator.start())
            if number is None:
                continue
            name, size = operator["name"].strip(" \t|"), int(operator["all"])
            offset = self._offset(operator.start("name"))
            vertices[name] = {"id": name, "name": name, "parallelism": size}
            yield self._vertex_body(number, name, offset, operator, subtasks.get(order, []))
        if vertices:  # operators are listed from the sources downstream
            offset = self._offset(operators[0].start("name"))
            yield _Body(kind=Kind.JOB, offset=offset, content={"vertices": [*vertices.values()]})
        if -1 in subtasks and (number := self._checkpoint_at(subtasks[-1][0].start())) is not None:
            parts = subtasks[-1]
            name = self._title(parts[0].start())
            yield self._vertex_body(number, name, self._offset(parts[0].start("id")), None, parts)

    def _vertex_body(
        self,
        number: int,
        name: str,
        offset: int,
        operator: re.Match[str] | None,
        parts: list[re.Match[str]],
    ) -> _Body:
        content: dict[str, Any] = {"id": number, "subtasks": [_part(part) for part in parts]}
        if operator is not None:
            content |= {
                "num_subtasks": int(operator["all"]),
                "num_acknowledged_subtasks": int(operator["acked"]),
                "end_to_end_duration": _ms(operator["duration"]),
                "state_size": _bytes(operator["size"]),
            }
        else:
            content["num_subtasks"] = len(parts)
        return _Body(
            kind=Kind.SUBTASKS, offset=offset, content=content, checkpoint=number, vertex=name
        )

    def _checkpoint_at(self, at: int) -> int | None:
        """Return the checkpoint whose details contain a position."""
        above = [row for row in self._rows if row.start() < at]
        if above:
            return int(above[-1]["id"])
        named = [*_ID.finditer(self._text, 0, at)]
        return int(named[-1]["id"]) if named else None

    # -- vertices ------------------------------------------------------------------------------

    def _vertices(self) -> Iterator[_Body]:
        for group in _groups([*_SUBTASK.finditer(self._text)]):
            name = self._title(group[0].start())
            content = {"id": name, "name": name, "parallelism": len(group)}
            ends = [*(row.start() for row in group[1:]), group[-1].end() + 400]
            content["subtasks"] = [
                _subtask(row, self._text[row.start("rest") : end])
                for row, end in zip(group, ends, strict=True)
            ]
            offset = self._offset(group[0].start("id"))
            yield _Body(kind=Kind.VERTEX, offset=offset, content=content, vertex=name)

    def _pressures(self) -> Iterator[_Body]:
        for group in _groups([*_PRESSURE.finditer(self._text)]):
            yield _Body(
                kind=Kind.BACKPRESSURE,
                offset=self._offset(group[0].start("id")),
                content={"subtasks": [_pressure(row) for row in group]},
                vertex=self._title(group[0].start()),
            )

    def _title(self, at: int) -> str:
        """Return the vertex name above a table."""
        above = self._text[max(0, at - 4000) : at].split("\n")
        for line in reversed(above[-50:]):
            name = line.strip(" \t|>#*`")
            if not name or _NOT_A_NAME.match(name):
                continue
            like = "->" in name or "Source:" in name or "Sink:" in name or name.count(" ") < 4
            return name if like and len(name) < 400 and not name.endswith(("?", ".")) else NO_NAME
        return NO_NAME


_STATES: Final = frozenset(
    {"COMPLETED", "FAILED", "IN_PROGRESS", "FAILED [Savepoint]", "COMPLETED [Savepoint]"}
)
_TYPES: Final = {
    "aligned": "CHECKPOINT",
    "unaligned": "UNALIGNED_CHECKPOINT",
    "savepoint": "SAVEPOINT",
}


def _timeout(rows: list[re.Match[str]]) -> int | None:
    """Infer the checkpoint timeout in ms, because the page does not show why checkpoints failed.

    Only a timeout makes checkpoints fail repeatedly after the same multiple of ten seconds while acknowledgements are
    missing.
    """
    took = [
        _ms(row["duration"])
        for row in rows
        if row.groupdict().get("status") == "FAILED" and row["acked"] != row["all"]
    ]
    round_times = [ms for ms in took if ms is not None and ms >= 10_000 and ms % 10_000 == 0]
    common = max(set(round_times), key=round_times.count, default=None)
    return common if common is not None and round_times.count(common) >= 2 else None


def _groups(found: list[re.Match[str]]) -> Iterator[list[re.Match[str]]]:
    """Group rows into tables; a row number that repeats starts the next table."""
    group: list[re.Match[str]] = []
    for row in found:
        if any(row["id"] == other["id"] for other in group):
            yield group
            group = []
        group.append(row)
    if group:
        yield group


def _checkpoint(found: re.Match[str], *, newest: bool) -> dict[str, Any]:
    cells = found.groupdict()
    acked, subtasks = int(found["acked"]), int(found["all"])
    status = cells.get("status")
    if status is None:
        status = "COMPLETED" if acked == subtasks else "IN_PROGRESS" if newest else "FAILED"
    return {
        "id": int(found["id"]),
        "status": status,
        "is_savepoint": bool(cells.get("savepoint")),
        "trigger_timestamp": _epoch_ms(found["trigger"]),
        "end_to_end_duration": _ms(found["duration"]),
        "checkpointed_size": _bytes(cells["size"]) if cells.get("full") else None,
        "state_size": _bytes(cells.get("full") or cells.get("size")),
        "processed_data": _bytes(cells.get("processed")),
        "num_subtasks": subtasks,
        "num_acknowledged_subtasks": acked,
    }


def _part(found: re.Match[str]) -> dict[str, Any]:
    if found["missing"]:
        return {"index": int(found["id"]), "status": "pending_or_failed"}
    return {
        "index": int(found["id"]),
        "status": "completed",
        "ack_timestamp": _epoch_ms(found["ack"]),
        "end_to_end_duration": _ms(found["duration"]),
        "state_size": _bytes(found["full"] or found["size"]),
        "checkpoint": {"sync": _ms(found["sync"]), "async": _ms(found["async"])},
        "alignment": {
            "duration": _ms(found["alignment"]),
            "processed": _bytes(found["processed"]),
        },
        "start_delay": _ms(found["delay"]),
        "unaligned_checkpoint": found["unaligned"],
    }


def _subtask(found: re.Match[str], rest: str) -> dict[str, Any]:
    states = _STATE.findall(rest.split("\n\n")[0])
    item: dict[str, Any] = {
        "subtask": int(found["id"]),
        "status": states[-1] if states else None,
        "attempt": int(found["attempt"]) - 1 if int(found["attempt"]) else 0,
        "endpoint" if ":" in found["host"] else "host": found["host"],
        "metrics": {
            "read-bytes": _bytes(found["read"]),
            "write-bytes": _bytes(found["wrote"]),
            "read-records": _number(found["in"]),
            "write-records": _number(found["out"]),
        },
    }
    if (when := re.search(_DATE, rest)) is not None:
        item["start-time"] = _epoch_ms(when[0])
    if (spent := _SPENT.search(rest)) is not None:
        for name, cell in zip(("backpressured", "idle", "busy"), spent.groups(), strict=True):
            item["metrics"][f"accumulated-{name}-time"] = _ms(cell)
        rest = rest.replace(spent[0], " ")
    if (took := re.search(rf"(?<=[\s|]){_DURATION}", rest)) is not None:
        item["duration"] = _ms(took[0])
    return item


def _pressure(found: re.Match[str]) -> dict[str, Any]:
    if found["ratio"] is not None:
        return {"subtask": int(found["id"]), "ratio": float(found["ratio"])}
    shares = {
        name: int(found[cell]) / 100 if found[cell].isdecimal() else None
        for name, cell in (("ratio", "waits"), ("idleRatio", "idle"), ("busyRatio", "busy"))
    }
    return {"subtask": int(found["id"]), **shares}


def _epoch_ms(text: str) -> int:
    """Parse a wall clock as if it were UTC. A time of day gets the date 1970-01-01.

    >>> _epoch_ms("1970-01-02 00:00:01.5"), _epoch_ms("00:01:00")
    (86401500, 60000)
    """
    full = text if "-" in text else f"1970-01-01 {text}"
    try:
        when = datetime.fromisoformat(
            full.replace(" ", "T").ljust(23, "0") if "." in full else full
        )
    except ValueError:
        return 0
    return round(when.replace(tzinfo=UTC).timestamp() * 1000)


def _ms(text: str | None) -> int | None:
    """Parse a duration from the UI into milliseconds.

    >>> _ms("1h 2m 3s"), _ms("15ms"), _ms("n/a")
    (3723000, 15, None)
    """
    parts = re.findall(r"(\d{1,9})(ms|s|m|h|d)", text or "")
    return sum(int(number) * TIME_UNITS[unit] for number, unit in parts) if parts else None


def _bytes(text: str | None) -> int | None:
    """Parse a size from the UI into bytes.

    >>> _bytes("1.50 KB"), _bytes("12 B"), _bytes("-")
    (1536, 12, None)
    """
    found = re.match(r"(\d+(?:[.,]\d+)?) ?([A-Za-z]+)", text or "")
    if found is None:
        return None
    return round(float(found[1].replace(",", ".")) * SIZE_UNITS[found[2].lower()])


def _number(text: str) -> int | None:
    digits = re.sub(r"[,. ]", "", text)
    return int(digits) if digits.isdecimal() else None
