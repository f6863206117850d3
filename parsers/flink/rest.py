"""Reads saved responses of Flink's REST API and History Server archives into rows of `EVENTS`.

A response is recognized by its keys, because users choose the file names. Most bodies lack the job ID, and some lack
the vertex ID. These come from the name of the file, the folders above it or the files next to it. An archive is a
list of such responses with their paths, each as JSON text inside the JSON.

`flowdiag.parsers.rows` describes the columns in general. The rows from this module:

| event | from | notes |
|---|---|---|
| checkpoint_status | checkpoints, details | `utc_us`, `epoch_ms`: trigger; `duration_ms`: end to end; `to_state` and fields.status: `COMPLETED`, `FAILED`, `IN_PROGRESS`; `cause`: failure message; fields.type, is_savepoint, num_subtasks, num_acknowledged_subtasks, latest_ack_ms, failure_ms, external_path, discarded, checkpointed_size, processed_data, persisted_data, detail (`history`, `latest`, `details`) |
| checkpoint_vertex | details | the same per vertex; `utc_us`: its latest acknowledgement |
| checkpoint_subtask | details of a vertex | `utc_us`: acknowledgement; `duration_ms`: end to end; `bytes`; fields.status (`completed`, `pending_or_failed`), ack_ms, sync_ms, async_ms, alignment_ms, start_delay_ms, alignment_buffered, alignment_processed, alignment_persisted, unaligned, aborted, checkpointed_size, checkpoint_status |
| checkpoint_config, checkpoint_counts | config, checkpoints | fields as in the JSON, nested keys joined by a dot |
| restored | checkpoints | `utc_us`: the restore |
| job_state | jobs | `to_state` at `utc_us`; fields.at_STATE: when the job last entered each state, ms |
| vertex, edge | job, vertex, plan | fields.order counts from the sources |
| placed | vertex, subtask times | a subtask's attempt and its place; fields.status, io metrics as in the JSON, ms_STATE: time spent |
| task_state | exceptions | to FAILED, with `cause`, place and time; fields.exception, user_frame; without a task: a failure of the job |
| taskmanager_registered | taskmanagers | no time: fields.last_heartbeat_ms is its last heartbeat |
| metric | backpressure, metrics | as in metrics reports, one sample |
| configuration | configurations | fields.key, fields.value |
| process_identity | overview, config | fields.version, fields.timezone_offset_ms |

Every row has fields.origin: `rest` or `archive` (`dump` for `flowdiag.parsers.flink.statistics_dump`).
Times of -1 or 0 count as missing. Summaries are ignored, because their percentiles of `end_to_end_duration` are
actually timestamps.
"""

from __future__ import annotations

import gzip
import json
import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, BinaryIO, Final, cast

import msgspec
import pyarrow as pa

from flowdiag.parsers.errors import FlowdiagError, Unreadable
from flowdiag.parsers.flink.rest_rows import READERS, Context
from flowdiag.parsers.flink.rest_shapes import (
    ARCHIVE_HEAD,
    UNINTERESTING,
    Ids,
    Kind,
    ids_of,
    is_har,
    kind_of,
    route_of,
)
from flowdiag.parsers.json_values import (
    as_integer,
    as_string,
    close_truncated_json,
    decode_json,
    object_at,
    objects_at,
)
from flowdiag.parsers.rows import METRIC_ROWS, Row, RowBuilder, Tally
from flowdiag.parsers.source import Source, stream_error
from flowdiag.parsers.sources.codecs import open_file
from flowdiag.parsers.sources.collected import Collected, TaskPlaces, collected_kind, collected_of
from flowdiag.parsers.sources.file_times import NO_MOMENT, Moment, moment_of_name
from flowdiag.parsers.sources.printed import begins_as_json, json_printed
from flowdiag.parsers.sources.remote import is_url, list_files

MAX_FILE_BYTES: Final = 512 * 1024 * 1024
"""Maximum size of a file, which must fit into memory. No cluster responds with that much data."""
MAX_BODY_BYTES: Final = 64 * 1024 * 1024
"""Maximum size of one response, in a file or an archive; decoded, it takes about ten times as much memory."""
MAX_RESPONSES: Final = 1_000_000
"""Maximum number of responses in an archive. 5,000 subtasks with all their attempts need less than a tenth of that.
"""

_SIBLINGS: Final = 400
_SIBLING_BYTES: Final = 512 * 1024


_Route = tuple[str, Ids] | None  # kind and IDs in a path


class _ArchiveEntry(msgspec.Struct):
    path: str
    json: msgspec.Raw


class _Archive(msgspec.Struct):
    archive: list[_ArchiveEntry]


@dataclass(frozen=True, slots=True)
class _Response:
    """A response in a document, with its path if the document contains it."""

    offset: int
    path: str | None
    body: Any = None
    raw: Any = None  # JSON text that is not decoded yet
    moment: Moment = NO_MOMENT  # when its values were measured, if known

    def decoded(self) -> Any:
        """Decode the body.

        Raises:
            Unreadable: the body is damaged or too large.
        """
        if self.raw is None:
            return self.body
        if len(memoryview(self.raw)) > MAX_BODY_BYTES:
            raise Unreadable("larger than 64 MiB")
        value = decode_json(self.raw)
        # In an archive, the response is JSON text inside the JSON.
        return (
            decode_json(value.encode("utf-8", "surrogatepass")) if isinstance(value, str) else value
        )


_Routed = tuple[_Response, _Route]


def read_document(
    stream: BinaryIO,
    source: Source,
    tally: Tally,
    metrics: Collection[str] | None = None,
) -> Iterator[pa.RecordBatch]:
    """Read a source of kind `rest` or `archive` into batches of `EVENTS`.

    Args:
        stream: the decoded stream of the source.
        source: provides the index, name and path. Files next to it may supply missing IDs.
        tally: counts the responses while batches are consumed.
        metrics: metrics to keep, as named in the table; None for all.

    Yields:
        Batches of rows; `offset` is the position of the response in the decoded stream.

    Raises:
        FlowdiagError: the document is too large, is not JSON, or is truncated. The message does not contain the
            file name. Batches yielded before are valid.
    """
    data = _read_capped(stream)
    trouble = stream_error(stream)
    tally.bytes = len(data)
    try:
        if not begins_as_json(data):
            # Blank out text around the JSON, such as the output of `curl -v`, a prompt, or a web page.
            data = printed.data if (printed := json_printed(data)) is not None else data
        metric_names = None if metrics is None else frozenset(metrics)
        name = source.name if source.name != "-" else ""
        neighbours = _Neighbours(source.path, source.member)
        rows = _rows(data, name, source.url, tally, neighbours, metric_names)
        yield from _batches(rows, source.index, tally)
    except Unreadable as error:
        raise FlowdiagError(trouble or str(error)) from None
    if trouble:
        raise FlowdiagError(trouble)


def _read_capped(stream: Any) -> bytes:
    data: bytes = stream.read(MAX_FILE_BYTES + 1) or b""
    while len(data) <= MAX_FILE_BYTES:
        more = stream.read(MAX_FILE_BYTES + 1 - len(data))
        if not more:
            break
        data += more
    if len(data) > MAX_FILE_BYTES:
        raise FlowdiagError("the JSON is larger than 512 MiB")
    return data


def _batches(
    rows: Iterable[tuple[int, Row]], source: int, tally: Tally
) -> Iterator[pa.RecordBatch]:
    builder = RowBuilder(METRIC_ROWS)
    trouble: Exception | None = None
    try:
        for offset, row in rows:
            tally.add_time(row.get("utc_us"))
            row["source"], row["offset"] = source, offset
            builder.add(row)
            if builder.full:
                yield builder.take()
    except Exception as error:  # noqa: BLE001 - raised again below
        trouble = error
    # Rows before a damaged part are valid.
    if len(builder):
        yield builder.take()
    if trouble is not None:
        raise trouble


def _rows(
    data: bytes,
    name: str,
    url: str | None,
    tally: Tally,
    neighbours: _Neighbours,
    metric_names: frozenset[str] | None = None,
) -> Iterator[tuple[int, Row]]:
    collected = _parse_collected(data)
    answers, damage = _responses_until_damage(data, collected, name)
    tally.candidates = len(answers)
    routed = [(answer, route_of(answer.path) if answer.path else None) for answer in answers]
    archived = bool(answers) and all(answer.path is not None for answer in answers)
    superseded = _redundant_kinds(routed) if archived else ()
    shared = _shared_context(data, collected, routed, metric_names, archived=archived)
    for answer, route in routed:
        decoded = _decode_response(answer, route, tally)
        if decoded is None:
            continue
        identity = _identify(decoded.body, answer, route, name, url, neighbours)
        if identity is None:
            tally.add_unrecognized(answer.path or _describe(decoded.body))
            continue
        tally.recognised += 1
        kind, ids = identity
        if kind in superseded:
            continue
        context = replace(shared, ids=ids, moment=answer.moment, document=os.path.basename(name))
        if not archived and _needs_names(kind):
            context.tasks = neighbours.tasks(ids.job_id)
        for row in READERS[kind](decoded.body, context):
            yield answer.offset, row
    if damage is not None:
        raise damage


def _responses_until_damage(
    data: bytes, collected: Collected | None, name: str
) -> tuple[list[_Response], Unreadable | None]:
    """Return the responses before the first damaged part, and the error at that position, or None."""
    answers: list[_Response] = []
    damage = None
    try:
        answers.extend(
            _responses(data) if collected is None else _collection_responses(collected, data)
        )
    except Unreadable as error:
        damage = error
    if len(answers) == 1 and collected is None:
        answers = [replace(answers[0], moment=moment_of_name(name))]
    return answers, damage


def _shared_context(
    data: bytes,
    collected: Collected | None,
    routed: list[_Routed],
    metric_names: frozenset[str] | None,
    *,
    archived: bool,
) -> Context:
    """Build the context shared by all responses of a document."""
    shared = Context(origin="archive" if archived and ARCHIVE_HEAD.match(data.lstrip()) else "rest")
    shared.metric_names = metric_names
    if collected is not None:
        shared.places = TaskPlaces.of(collected.context)
        shared.tasks = shared.places.names
        shared.measured = _measured_subtasks(routed)
    elif archived:
        shared.tasks = _tasks_of(routed)
    if archived:
        shared.detailed = frozenset(
            route[1].checkpoint
            for _, route in routed
            if route and route[0] == Kind.DETAILS and route[1].checkpoint is not None
        )
    return shared


@dataclass(frozen=True, slots=True)
class _Decoded:
    body: Any


def _decode_response(answer: _Response, route: _Route, tally: Tally) -> _Decoded | None:
    """Decode a response; return None if it is damaged or if no rule uses it."""
    optional = answer.path is not None and UNINTERESTING.search(answer.path) is not None
    if optional and route is None:
        tally.recognised += 1
        return None
    try:
        body = answer.decoded()
    except ValueError as error:
        tally.add_unrecognized(f"{answer.path}: {error}")
        return None
    # Empty, as before the first checkpoint, or from a feature that is disabled, such as the history of rescales.
    is_off = optional and isinstance(body, Mapping) and body.keys() == {"errors"}
    if route is not None and (is_off or body in ({}, [])):
        tally.recognised += 1
        return None
    return _Decoded(body)


def _identify(
    body: object,
    answer: _Response,
    route: tuple[str, Ids] | None,
    name: str,
    url: str | None,
    neighbours: _Neighbours,
) -> tuple[str, Ids] | None:
    """Determine the kind and IDs of a response from its path, body, file name and neighboring files."""
    if route is not None and answer.path is not None:
        kind, ids = route
        # The body decides: an error page has the right path, but the wrong shape.
        shape = kind_of(body, answer.path)
        if shape is None and not (isinstance(body, Mapping) and kind in _SHAPELESS):
            return None
        return (shape or kind), _merge_ids(ids, ids_of(body, ""))
    kind_of_body = kind_of(body, name)
    if kind_of_body is None:
        return None
    ids = ids_of(body, name)
    requested = route_of(url) if url else None
    if requested is not None:
        ids = _merge_ids(requested[1], ids)
    return kind_of_body, _completed_ids(ids, kind_of_body, body, neighbours)


def _completed_ids(ids: Ids, kind: str, body: object, neighbours: _Neighbours) -> Ids:
    """Fill in missing IDs from neighboring files."""
    if (ids.job_id is None or ids.by_folder) and ":jobid" in kind:
        job_id = neighbours.job_id() or ids.job_id
        # The only ID in the name looked like the vertex's, but it is the job's.
        vertex_id = None if ids.vertex_id == job_id else ids.vertex_id
        ids = replace(ids, job_id=job_id, vertex_id=vertex_id)
    if ids.vertex_id is None and kind == Kind.SUBTASKS:
        ids = replace(ids, vertex_id=neighbours.vertex_of(body))
    return ids


def _redundant_kinds(routed: list[_Routed]) -> tuple[Kind, ...]:
    """Return the kinds of responses to skip: the archive's response for the job already contains their data."""
    has_job = any(route and route[0] == Kind.JOB for _, route in routed)
    return (Kind.JOBS_OVERVIEW, Kind.PLAN) if has_job else ()


# Recognized only by their path, because the body may be empty or contain nothing but a status.
_SHAPELESS: Final = frozenset(
    (
        Kind.BACKPRESSURE,
        Kind.JOB_STATUS,
        Kind.JOB_CONFIG,
        Kind.EXCEPTIONS,
        Kind.JOBS,
        Kind.JOBS_OVERVIEW,
    )
)


def _merge_ids(first: Ids, second: Ids) -> Ids:
    def either(name: str) -> Any:
        value = getattr(first, name)
        return getattr(second, name) if value is None or str(value).startswith(":") else value

    return Ids(*(either(name) for name in Ids.__slots__))


def _needs_names(kind: str) -> bool:
    return ":vertexid" in kind and kind not in (
        Kind.VERTEX,
        Kind.SUBTASK_TIMES,
        Kind.VERTEX_TASKMANAGERS,
    )


def _parse_collected(data: bytes) -> Collected | None:
    """Parse a file of a collection; return None for other documents.

    Raises:
        Unreadable: the file is damaged.
    """
    if collected_kind(data[:200]) is None:
        return None
    try:
        return collected_of(decode_json(data))
    except ValueError:
        raise Unreadable("the JSON is damaged or cut off") from None


def _collection_responses(collected: Collected, data: bytes) -> Iterator[_Response]:
    # The collector writes one response per line. If the file was reformatted, cite it as a whole.
    starts = (hit.start() + 1 for hit in _RESPONSE_LINE.finditer(data))
    position = 0
    for answer in collected.answers:
        at_ms = answer.at_ms or answer.time_ms
        moment = Moment(utc_us=at_ms * 1000) if at_ms is not None else NO_MOMENT
        position = next(starts, position)
        yield _Response(position, answer.path, answer.body, moment=moment)


_RESPONSE_LINE: Final = re.compile(rb'\n\{"path":')


def _measured_subtasks(routed: list[_Routed]) -> frozenset[tuple[str, int]]:
    """Return the subtasks whose time shares are collected as metrics. For these, `/backpressure` adds nothing."""
    return frozenset(
        (route[1].vertex_id or "", int(subtask))
        for answer, route in routed
        if route and route[0] == Kind.VERTEX_METRICS and isinstance(answer.body, list)
        for item in answer.body
        if isinstance(item, Mapping) and isinstance(item.get("id"), str)
        for subtask, _, metric in (item["id"].partition("."),)
        if metric == "busyTimeMsPerSecond" and subtask.isdecimal() and len(subtask) <= 6
    )


def _describe(body: object) -> str:
    if isinstance(body, Mapping):
        return "an object with the keys " + ", ".join(list(map(str, body))[:8])
    return f"a {type(body).__name__}"


def _responses(data: bytes) -> Iterator[_Response]:
    """Split a document into responses.

    Raises:
        Unreadable: the JSON is damaged.
    """
    start = len(data) - len(data.removeprefix(b"\xef\xbb\xbf").lstrip())
    text = memoryview(data)[start:]
    if ARCHIVE_HEAD.match(data, start):
        yield from _archive_responses(data, text, start)
        return
    if len(text) > MAX_BODY_BYTES:
        raise Unreadable("the JSON is larger than 64 MiB and not an archive")
    try:
        body = decode_json(text)
    except ValueError:
        yield from _concatenated_responses(data, start)
        return
    if isinstance(body, Mapping) and is_har(body):
        # An export from a browser's developer tools.
        for entry in objects_at(object_at(body, "log"), "entries"):
            url = as_string(object_at(entry, "request").get("url"))
            content = as_string(object_at(object_at(entry, "response"), "content").get("text"))
            if url and content and content[:1] in "{[" and route_of(url):
                yield _Response(0, url, raw=content.encode("utf-8", "surrogatepass"))
    else:
        yield _Response(start, None, body)


def _archive_responses(data: bytes, text: memoryview, start: int) -> Iterator[_Response]:
    if data.count(b'"path"') > MAX_RESPONSES:
        raise Unreadable("the archive has more than a million responses")
    try:
        entries = msgspec.json.decode(text, type=_Archive).archive
    except (msgspec.DecodeError, RecursionError) as error:
        raise Unreadable(_damage(error)) from None
    position = start
    for entry in entries:
        # `entry.json` is a slice of `data`, and entries are in order: search after the previous one.
        found = data.find(memoryview(entry.json), position)
        position = found if found >= 0 else position
        yield _Response(position, entry.path, raw=entry.json)


def _damage(error: BaseException) -> str:
    """Describe a decoding error in one clause, without the decoder's wording.

    >>> _damage(ValueError("Input data was truncated"))
    'the JSON is cut off'
    """
    text = str(error)
    if "truncated" in text or "Unterminated" in text:
        return "the JSON is cut off"
    found = re.search(r"byte (\d+)|char (\d+)", text)
    return (
        f"the JSON is damaged near byte {found[1] or found[2]}" if found else "the JSON is damaged"
    )


def _concatenated_responses(data: bytes, start: int) -> Iterator[_Response]:
    """Yield concatenated responses, as written by a loop around curl."""
    text = data[start:].decode("utf-8", "replace")
    decoder = json.JSONDecoder()
    position = 0
    while True:
        while position < len(text) and text[position].isspace():
            position += 1
        if position >= len(text):
            return
        try:
            body, end = decoder.raw_decode(text, position)
        except RecursionError:
            raise Unreadable("the JSON is nested too deeply") from None
        except json.JSONDecodeError as error:
            cut = error.pos >= len(text.rstrip()) or "Unterminated" in error.msg
            if cut:  # copied from a terminal: only the beginning is readable
                beginning = close_truncated_json(text[position:].encode("utf-8", "surrogatepass"))
                yield _Response(start + position, None, decode_json(beginning))
            raise Unreadable(
                "the JSON is cut off" if cut else f"the JSON is damaged near byte {error.pos}"
            ) from None
        # Byte and character offsets differ only after non-ASCII names, so this is close enough to cite.
        yield _Response(start + position, None, body)
        position = end


def _tasks_of(routed: list[_Routed]) -> dict[str, str]:
    """Return the vertex names by vertex ID, from an archive's response for the job."""
    tasks: dict[str, str] = {}
    for answer, route in routed:
        if route and route[0] == Kind.JOB:
            try:
                body = answer.decoded()
            except ValueError:
                continue
            if isinstance(body, Mapping):
                tasks |= _names_in(body)
    return tasks


def _names_in(body: Mapping[str, Any]) -> dict[str, str]:
    return {
        vertex_id: name
        for item in objects_at(body, "vertices")
        if (vertex_id := as_string(item.get("id"))) and (name := as_string(item.get("name")))
    }


@dataclass(frozen=True, slots=True)
class _Folder:
    """Jobs and vertices found in the JSON files of a folder."""

    job_ids: frozenset[str] = frozenset()
    tasks: Mapping[str, str] = field(default_factory=dict)
    owners: Mapping[str, str] = field(default_factory=dict)  # vertex ID -> job ID
    details: tuple[tuple[int, Mapping[str, Any]], ...] = ()


@dataclass(frozen=True, slots=True)
class _Neighbours:
    """The files next to a document, which are read only if the document lacks IDs or names."""

    path: str | None = None
    member: str | None = None

    def _folder(self) -> _Folder:
        # Members of containers and spooled streams have no folder.
        if not self.path or self.member is not None:
            return _Folder()
        if is_url(self.path):
            return _read_folder(self.path.rpartition("/")[0])
        return _read_folder(os.path.dirname(os.path.abspath(self.path)))

    def job_id(self) -> str | None:
        """Return the job ID in the folder's files, or None if they belong to several jobs."""
        found = self._folder().job_ids
        return next(iter(found)) if len(found) == 1 else None

    def tasks(self, job_id: str | None) -> dict[str, str]:
        """Return the vertex names of a job, by vertex ID."""
        folder = self._folder()
        return {
            vertex_id: name
            for vertex_id, name in folder.tasks.items()
            if job_id is None or folder.owners.get(vertex_id) in (None, job_id)
        }

    def vertex_of(self, body: object) -> str | None:
        """Return the vertex whose numbers in the checkpoint's details match this response."""
        if not isinstance(body, Mapping):
            return None
        keys = ("latest_ack_timestamp", "state_size", "end_to_end_duration", "num_subtasks")
        numbers = [body.get(key) for key in keys]
        found = {
            vertex_id
            for number, tasks in self._folder().details
            if number == body.get("id")
            for vertex_id, task in tasks.items()
            if isinstance(task, Mapping) and [task.get(key) for key in keys] == numbers
        }
        return next(iter(found)) if len(found) == 1 else None


@lru_cache(maxsize=32)
def _read_folder(folder: str) -> _Folder:
    """Read the small JSON files of a folder; skip unreadable files."""
    job_ids: set[str] = set()
    tasks: dict[str, str] = {}
    owners: dict[str, str] = {}
    details: list[tuple[int, Mapping[str, Any]]] = []
    for kind, job_id, body in _documents_in(folder):
        if job_id:
            job_ids.add(job_id)
        if kind == Kind.JOBS_OVERVIEW:
            listed = (
                item.get("jid") for key in ("jobs", "running") for item in objects_at(body, key)
            )
            job_ids |= {jid for jid in listed if isinstance(jid, str)}
        elif kind == Kind.JOB:
            names_here = _names_in(body)
            tasks |= names_here
            owners |= dict.fromkeys(names_here, job_id or "")
        elif kind in (Kind.VERTEX, Kind.SUBTASK_TIMES, Kind.VERTEX_TASKMANAGERS):
            vertex_id, label = as_string(body.get("id")), as_string(body.get("name"))
            if vertex_id and label:
                tasks[vertex_id] = label
        elif kind == Kind.DETAILS:
            number = as_integer(body.get("id"))
            if number is not None:
                details.append((number, object_at(body, "tasks")))
    return _Folder(frozenset(job_ids), tasks, owners, tuple(details))


def _documents_in(folder: str) -> Iterator[tuple[str, str | None, Mapping[str, Any]]]:
    """Yield the kind, job ID and body of each response in a folder."""
    try:
        names = _siblings(folder)
    except OSError:
        return
    for name in names:
        body = _small_json(name)
        kind = kind_of(body, name) if isinstance(body, Mapping) else None
        if kind is not None and isinstance(body, Mapping):
            ids = ids_of(body, name)
            yield kind, None if ids.by_folder else ids.job_id, body


def _siblings(folder: str) -> list[str]:
    """List the first small files of a folder, sorted."""
    if is_url(folder):
        found = [file for file in list_files(folder) if file.url.rpartition("/")[0] == folder]
        return [file.url for file in found if file.size <= _SIBLING_BYTES][:_SIBLINGS]
    with os.scandir(folder) as entries:
        return sorted(
            entry.path
            for entry in entries
            if entry.is_file() and entry.stat().st_size <= _SIBLING_BYTES
        )[:_SIBLINGS]


def _small_json(path: str) -> object:
    try:
        with open_file(path) as raw:
            file = cast(BinaryIO, raw)
            packed = file.read(2) == b"\x1f\x8b"
            file.seek(0)
            stream = gzip.GzipFile(fileobj=file) if packed else file
            data = stream.read(64)
            # Do not read a whole log that lies next to the responses.
            if data.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] != b"{":
                return None
            data += stream.read(_SIBLING_BYTES)
        return decode_json(data.removeprefix(b"\xef\xbb\xbf"))
    except (OSError, EOFError, ValueError):
        return None
