"""Recognizes JSON and other exports: log events, REST responses, event logs, metric histories."""

from __future__ import annotations

import codecs
import re
from itertools import pairwise
from typing import Any, Final

import msgspec

from flowdiag.parsers.envelopes.documents import DOCUMENT_BYTES, json_values, read_document
from flowdiag.parsers.envelopes.objects import unwrap_json
from flowdiag.parsers.envelopes.tables import is_table_of_records
from flowdiag.parsers.envelopes.wrapped import unwrapped_lines
from flowdiag.parsers.flink.rest_shapes import recognize
from flowdiag.parsers.lines.traces import is_trace_line
from flowdiag.parsers.logs.paste_patterns import BEHIND_OBJECT
from flowdiag.parsers.sniff.signs import (
    SEATUNNEL,
    Signs,
    holds_flink_message,
    is_seatunnel,
    log_of,
    looks_like_log,
)
from flowdiag.parsers.sniff.verdict import Sample, Sniffed, not_read
from flowdiag.parsers.sources.collected import MANIFEST_LINE, collected_kind
from flowdiag.parsers.sources.printed import PrintedJson
from flowdiag.parsers.spark.events import is_event_log
from flowdiag.parsers.spark.rest import recognize_response

MANIFEST: Final = "the manifest of a collection; its responses are in the other files of the folder"
_LINES: Final = 50
_LONG_LINE: Final = 16 * 1024 * 1024  # the first line of an event log can be longer than the head


def sniff_json(sample: Sample, start: bytes) -> Sniffed | None:
    """Return the verdict on text that starts like JSON, or None if it is not JSON or is damaged."""
    if (collected := collected_kind(start)) is not None:
        return _COLLECTED.get(collected, not_read("a collection of a kind unknown to this version"))
    if re.match(rb'\{\s*"metric"\s*:', start) and (history := _sniff_history(start)) is not None:
        return history
    if MANIFEST_LINE.match(start):
        return not_read(MANIFEST)
    lines = start.split(b"\n")
    if any(is_event_log(line) for line in _first_complete_lines(lines, sample)):
        return Sniffed(kind="spark-events", engine="spark", role="driver")
    if not sample.complete:
        lines = lines[:-1]
    return _sniff_objects(sample, start, lines)


def _sniff_objects(sample: Sample, start: bytes, lines: list[bytes]) -> Sniffed | None:
    """Return the verdict on a file with one object per line, a record above plain lines, or a document."""
    objects = [_object(line) for line in lines[:_LINES] if line.strip()]
    found = [value for value in objects if value is not None]
    if len(found) > 0.5 * len(objects) and len(objects) > 1 and objects[0] is not None:
        return _sniff_lines(sample, start, lines, found)
    if _is_record_with_trace(lines, objects) or _has_trace_behind(lines):
        return _sniff_records(sample, start, lines)
    return _sniff_document(sample)


def _is_record_with_trace(lines: list[bytes], objects: list[dict[str, Any] | None]) -> bool:
    """Return whether the first line is a log record that is followed by stack frames as plain lines."""
    if not objects or objects[0] is None:
        return False
    frames = (line for line in lines[1:_LINES] if is_trace_line(line.decode("utf-8", "replace")))
    return next(frames, None) is not None and unwrap_json(lines[0]) is not None


def _has_trace_behind(lines: list[bytes]) -> bool:
    """Return whether one of the lines contains a log record followed by an exception."""
    for line in lines[:_LINES]:
        text = line[:_LONG_TRACE].decode("utf-8", "replace")
        behind = BEHIND_OBJECT.search(text) if text.startswith("{") else None
        if behind is not None and unwrap_json(text[: behind.end()].rstrip().encode()) is not None:
            return True
    return False


_LONG_TRACE: Final = 32 * 1024


_COLLECTED: Final = {
    "flink": Sniffed(kind="rest", engine="flink"),
    "spark": Sniffed(kind="spark-rest", engine="spark", role="driver"),
    "prometheus": Sniffed(kind="prometheus", engine="flink"),
}
"""Verdicts on files from `flowdiag collect`, by kind."""


def _first_complete_lines(lines: list[bytes], sample: Sample) -> list[bytes]:
    """Return the first complete lines; if the first line is longer than the head, read all of it."""
    if len(lines) == 1 and not sample.complete:
        data = sample.read(_LONG_LINE)
        lines = data.lstrip(b"\0 \t\r\n").split(b"\n", 1)
        return lines[:1]
    return [line for line in lines[:_LINES] if line.strip()][:3]


def _object(line: bytes) -> dict[str, Any] | None:
    try:
        value = msgspec.json.decode(line.strip(b" \t\r,[]") if line[:1] != b"{" else line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


_BATCHES: Final = ("logEvents", "resourceLogs", "streams", "hits", "data", "events")


def _sniff_lines(
    sample: Sample, start: bytes, lines: list[bytes], found: list[dict[str, Any]]
) -> Sniffed:
    """Return the verdict on a file with one JSON object per line: records, batches, responses, or others."""
    batches = any(isinstance(found[0].get(key), (list, dict)) for key in _BATCHES)
    if start[:1] == b"[" or (batches and unwrap_json(lines[0]) is None):
        verdict = _sniff_document(sample)
        if verdict is not None and verdict.kind != "not-read":
            return verdict
    if recognize(lines[0], sample.name) is not None:
        return Sniffed(kind="rest", engine="flink")
    if (spark := recognize_response(lines[0])) is not None:
        return _spark_answer(spark)
    if any(unwrap_json(line) is not None for line in lines[:_LINES]):
        return _sniff_records(sample, start, lines)
    if holds_flink_message(start + sample.elsewhere):
        return log_of(Signs(start + sample.elsewhere))
    return not_read("JSON lines, but no log records")


def _sniff_records(sample: Sample, start: bytes, lines: list[bytes]) -> Sniffed:
    """Return the verdict on a file with one JSON log record per line."""
    if is_seatunnel(start):
        return not_read(SEATUNNEL)
    if _newest_first(lines):  # multi-line records are in reverse order, so read it as a document
        verdict = _sniff_document(sample)
        if verdict is not None and verdict.kind == "document":
            return verdict
    return log_of(Signs(start + sample.elsewhere), "json-lines")


def _newest_first(lines: list[bytes]) -> bool:
    """Return whether the times of the carriers decrease from line to line, as in exports."""
    events = (unwrap_json(line) for line in lines[:-1])
    times = [
        time
        for event in events
        if event is not None
        for time in (event.timestamp_us if event.timestamp_us is not None else event.local_us,)
        if time is not None
    ]
    falls = sum(after < before for before, after in pairwise(times))
    rises = sum(after > before for before, after in pairwise(times))
    return falls > 2 * rises


def _sniff_document(sample: Sample) -> Sniffed | None:
    data = sample.head if sample.complete else sample.read(DOCUMENT_BYTES + 1)
    if len(data) > DOCUMENT_BYTES:
        return _too_large()
    if (history := _sniff_history(data)) is not None:
        return history
    if (answer := recognize(data, sample.name)) is not None:
        return Sniffed(kind=answer[0], engine="flink", url=answer[1])
    if (spark := recognize_response(data)) is not None:
        return _spark_answer(spark)
    if verdict := _sniff_events(data):
        return verdict
    values, whole = json_values(data.removeprefix(codecs.BOM_UTF8))
    if not values or not whole:
        return None
    first = values[0]
    if isinstance(first, dict) and str(first.get("schema", "")).startswith("flowdiag."):
        return not_read("a flowdiag report")
    return not_read("JSON, but neither log events nor a known REST response")


def _spark_answer(kind: str) -> Sniffed:
    url = f"/streaming/{kind}" if kind not in ("environment", "progress") else f"/{kind}"
    return Sniffed(kind="spark-rest", engine="spark", role="driver", url=url)


def sniff_printed(printed: PrintedJson) -> Sniffed | None:
    """Return the verdict on JSON from a terminal or web page: REST responses and query reports."""
    body = printed.data.strip()
    if (answer := recognize(body, printed.path or "")) is not None:
        return Sniffed(kind=answer[0], engine="flink", url=printed.path or answer[1])
    if (spark := recognize_response(body)) is not None:
        return _spark_answer(spark)
    return None


_HISTORY: Final = re.compile(rb'"resultType"\s*:\s*"(?:matrix|vector)"')
_LABELLED: Final = re.compile(rb'"__name__"\s*:\s*"(flink[._](?:task|job)manager)?')


def _sniff_history(data: bytes) -> Sniffed | None:
    """Return the verdict on a response of Prometheus' query API or an export from VictoriaMetrics."""
    head = data[:4096]
    if _HISTORY.search(head) is None and not re.match(rb'\s*\{\s*"metric"\s*:\s*\{', head):
        return None
    names = [found[1] for found in _LABELLED.finditer(data)]
    if any(names):
        return Sniffed(kind="prometheus", engine="flink")
    if names:
        return not_read("a Prometheus response without Flink metrics")
    if b'"metric"' in data:
        return not_read("a Prometheus response without metric names: query the series, not rate(…)")
    return not_read("a Prometheus response without any series")


def _too_large() -> Sniffed:
    return not_read(
        f"a document of more than {DOCUMENT_BYTES // 2**20} MB:"
        " split it, or write one event per line (`jq -c '.[]'`)"
    )


def _sniff_events(data: bytes) -> Sniffed | None:
    """Return the verdict on a document with log events, if their texts look like a log."""
    events = read_document(data)
    if not events:
        return None
    if len(events) >= 6000:
        events = [*events[:4000], *events[-2000:]]
    texts = [
        b"%b %b - %b"
        % tuple(
            (part or "").encode("utf-8", "replace")
            for part in (event.level, event.logger, event.text)
        )
        for event in events
    ]
    joined = b"\n".join(texts)
    signs = Signs(joined)
    if signs.is_seatunnel:
        return not_read(SEATUNNEL)
    if signs.engine == "unknown" and not looks_like_log(texts):
        return None
    return log_of(signs, "document")


def sniff_wrapped(sample: Sample, start: bytes) -> Sniffed | None:
    """Return the verdict on a log wrapped by a mail program or a terminal."""
    lines = unwrapped_lines(start) if sample.complete else None
    if lines is None:
        return None
    signs = Signs("\n".join(lines).encode("utf-8", "replace"))
    return not_read(SEATUNNEL) if signs.is_seatunnel else log_of(signs, "document")


_EXPORT_COLUMN: Final = re.compile(
    rb"(?i)(?:^|[,;\t])\"?(?:_raw|line|@?message|log|msg|textPayload|LogMessage|LogEntry|content"
    rb"|body|jsonPayload\.message|_source\.message)\"?(?:[,;\t]|\s*$)"
)
_GRAFANA_LINE: Final = re.compile(rb"\n\d{13}\t\d{4}-\d\d-\d\dT[\d:.]+Z\t")


def sniff_export(sample: Sample, start: bytes) -> Sniffed | None:
    """Return the verdict on tables of log lines and on text downloads from Grafana."""
    first = start.split(b"\n", 1)[0].rstrip(b"\r")
    is_table = len(first) < 4096 and len(_EXPORT_COLUMN.findall(first)) > 0 and len(first) > 8
    if not is_table and not _GRAFANA_LINE.search(b"\n" + start[: 16 * 1024]):
        beginning = start[: 64 * 1024].decode("utf-8", "replace")
        if not is_table_of_records(beginning):
            return None
    data = sample.head if sample.complete else sample.read(DOCUMENT_BYTES + 1)
    if len(data) > DOCUMENT_BYTES:
        return _too_large()
    return _sniff_events(data)
