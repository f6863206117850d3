"""Saved answers of Flink's REST interface and History Server archives → rows of `EVENTS`.

An answer is recognised by its keys, since users name the files as they like; ids that a body
lacks (most lack the job, some the vertex) come from the file's name, the folders above it or the
files beside it. An archive is a list of such answers with their paths, each a JSON text inside
the JSON. Shapes of Flink 1.4 to 2.3: catalogue/flink.md section 6.

What a row means follows `flowdiag.parsers.rows`; more about the rows of this module:

| event | from | notes |
|---|---|---|
| checkpoint_status | checkpoints, details | `utc_us`, `epoch_ms`: trigger; `duration_ms`: end to end; `to_state` and fields.status: `COMPLETED`, `FAILED`, `IN_PROGRESS`; `cause`: failure message; fields.type, is_savepoint, num_subtasks, num_acknowledged_subtasks, latest_ack_ms, failure_ms, external_path, discarded, checkpointed_size, processed_data, persisted_data, detail (`history`, `latest`, `details`) |
| checkpoint_vertex | details | the same per vertex; `utc_us`: its latest acknowledgement |
| checkpoint_subtask | details of a vertex | `utc_us`: acknowledgement; `duration_ms`: end to end; `bytes`; fields.status (`completed`, `pending_or_failed`), ack_ms, sync_ms, async_ms, alignment_ms, start_delay_ms, alignment_buffered, alignment_processed, alignment_persisted, unaligned, aborted, checkpointed_size, checkpoint_status |
| checkpoint_config, checkpoint_counts | config, checkpoints | fields as in the JSON, nested keys joined by a dot |
| restored | checkpoints | `utc_us`: the restore |
| job_state | jobs | `to_state` at `utc_us`; fields.at_STATE: when it was last in each, ms |
| vertex, edge | job, vertex, plan | fields.order counts from the sources |
| placed | vertex, subtask times | a subtask's attempt and its place; fields.status, io metrics as in the JSON, ms_STATE: time spent |
| task_state | exceptions | to FAILED, with `cause`, place and time; fields.exception, user_frame; without a task: a failure of the job |
| taskmanager_registered | taskmanagers | no time: fields.last_heartbeat_ms is when it was last heard of |
| metric | backpressure, metrics | as in metrics reports, one sample |
| configuration | configurations | fields.key, fields.value |
| process_identity | overview, config | fields.version, fields.timezone_offset_ms |

Every row has fields.origin: `rest` or `archive` (`dump` for `flowdiag.parsers.flink.statistics_dump`).
Times that the JSON says are -1 or 0 are absent. Percentiles of `end_to_end_duration` in summaries
are time stamps in Flink, so that summaries are not read at all.
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
from flowdiag.parsers.sources.codecs import open_file
from flowdiag.parsers.sources.collected import Collected, TaskPlaces, collected_kind, collected_of
from flowdiag.parsers.sources.file_times import NO_MOMENT, Moment, moment_of_name
from flowdiag.parsers.sources.open import Source, stream_error
from flowdiag.parsers.sources.printed import begins_as_json, json_printed
from flowdiag.parsers.sources.remote import is_url, list_files

MAX_FILE_BYTES: Final = 512 * 1024 * 1024
"""A larger file is not read: nobody's cluster answers that much, and it must fit in memory."""
MAX_BODY_BYTES: Final = 64 * 1024 * 1024
"""One answer, in a file or in an archive; decoded it takes about ten times as much memory."""
MAX_ANSWERS: Final = 1_000_000
"""Answers in an archive: five thousand subtasks with all their attempts are not a tenth of it."""

_SIBLINGS: Final = 400
_SIBLING_BYTES: Final = 512 * 1024


_Route = tuple[str, Ids] | None  # kind and ids of a path


class _ArchiveEntry(msgspec.Struct):
    path: str
    json: msgspec.Raw


class _Archive(msgspec.Struct):
    archive: list[_ArchiveEntry]


@dataclass(frozen=True, slots=True)
class _Answer:
    """One answer of a document: where it lies, its path if the document says, its text."""

    offset: int
    path: str | None
    body: Any = None
    raw: Any = None  # JSON text, not decoded yet
    moment: Moment = NO_MOMENT  # when its values were true, where something beside it says so

    def decoded(self) -> Any:
        """The body; raises Unreadable when it is damaged or too large."""
        if self.raw is None:
            return self.body
        if len(memoryview(self.raw)) > MAX_BODY_BYTES:
            raise Unreadable("larger than 64 MiB")
        value = decode_json(self.raw)
        # In an archive the answer is a JSON text inside the JSON.
        return (
            decode_json(value.encode("utf-8", "surrogatepass")) if isinstance(value, str) else value
        )


def read_document(
    stream: BinaryIO,
    source: Source,
    tally: Tally,
    metrics: Collection[str] | None = None,
) -> Iterator[pa.RecordBatch]:
    """Read a source of kind `rest` or `archive` into batches of `EVENTS`.

    Args:
        stream: the source, opened and decoded.
        source: its index, name and place: files beside it may tell what it lacks.
        tally: counts the answers while the batches are drawn.
        metrics: names in the table of the metrics that become rows; None for all.

    Yields:
        batches of rows; `offset` is where the answer lies in the decoded stream.

    Raises:
        FlowdiagError: the document is too large, no JSON, or cut; one sentence without the
            file's name. Batches before it are good.
    """
    data = _read_capped(stream)
    trouble = stream_error(stream)
    tally.bytes = len(data)
    try:
        if not begins_as_json(data):
            # What `curl -v`, a prompt or a page printed around it is blanked.
            data = printed.data if (printed := json_printed(data)) is not None else data
        wanted = None if metrics is None else frozenset(metrics)
        yield from _batches(_rows_of(data, source, tally, wanted), source.index, tally)
    except Unreadable as error:
        raise FlowdiagError(trouble or str(error)) from None
    if trouble:
        raise FlowdiagError(trouble)


def rows_of_bytes(data: bytes, file_name: str = "", *, url: str | None = None) -> list[Row]:
    """All rows of one document given as bytes; raises Unreadable for damaged JSON."""
    return [row for _, row in _rows(data, file_name, url, Tally(), _Neighbours())]


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
    # What was read before a damaged part is good.
    if len(builder):
        yield builder.take()
    if trouble is not None:
        raise trouble


def _rows_of(
    data: bytes, source: Source, tally: Tally, wanted: frozenset[str] | None
) -> Iterator[tuple[int, Row]]:
    name = source.name if source.name != "-" else ""
    neighbours = _Neighbours(source.path, source.member)
    return _rows(data, name, source.url, tally, neighbours, wanted)


def _rows(
    data: bytes,
    name: str,
    url: str | None,
    tally: Tally,
    neighbours: _Neighbours,
    wanted: frozenset[str] | None = None,
) -> Iterator[tuple[int, Row]]:
    collected = _collected(data)
    answers, cut = _all_of(_answers(data) if collected is None else _of_collection(collected, data))
    tally.candidates = len(answers)
    archived = bool(answers) and all(answer.path is not None for answer in answers)
    routes = [route_of(answer.path) if answer.path else None for answer in answers]
    superseded = _SUPERSEDED if any(route and route[0] == Kind.JOB for route in routes) else ()
    shared = _shared_context(data, collected, answers, routes, wanted)
    named = moment_of_name(name) if len(answers) == 1 else NO_MOMENT
    for answer, route in zip(answers, routes, strict=True):
        told = _told(answer, route, tally)
        if told is None:
            continue
        known = _identify(told.body, answer, route, name, url, neighbours)
        if known is None:
            tally.add_unrecognised(answer.path or _describe(told.body))
            continue
        kind, ids = known
        tally.recognised += 1
        if archived and kind in superseded:
            continue
        context = replace(shared, ids=ids, moment=named if collected is None else answer.moment)
        if not archived and _needs_names(kind):
            context.tasks = neighbours.tasks(ids.job_id)
        for row in READERS[kind](told.body, context):
            yield answer.offset, row
    if cut is not None:
        raise cut


def _all_of(answers: Iterable[_Answer]) -> tuple[list[_Answer], Unreadable | None]:
    """The answers of a document up to where it is damaged, and what is wrong there."""
    whole: list[_Answer] = []
    try:
        whole.extend(answers)
    except Unreadable as trouble:
        return whole, trouble
    return whole, None


def _shared_context(
    data: bytes,
    collected: Collected | None,
    answers: list[_Answer],
    routes: list[_Route],
    wanted: frozenset[str] | None,
) -> Context:
    """What all answers of a document have in common."""
    archived = bool(answers) and all(answer.path is not None for answer in answers)
    shared = Context(origin="archive" if archived and ARCHIVE_HEAD.match(data.lstrip()) else "rest")
    shared.wanted = wanted
    if collected is not None:
        shared.places = TaskPlaces.of(collected.context)
        shared.tasks = shared.places.names
        shared.measured = _measured(answers, routes)
    elif archived:
        shared.tasks = _tasks_of(answers, routes)
    if archived:
        shared.detailed = frozenset(
            route[1].checkpoint
            for route in routes
            if route and route[0] == Kind.DETAILS and route[1].checkpoint is not None
        )
    return shared


@dataclass(frozen=True, slots=True)
class _Told:
    """The decoded body of an answer that may say something."""

    body: Any


def _told(answer: _Answer, route: _Route, tally: Tally) -> _Told | None:
    """Decode an answer; None, and counted, where it says nothing to any rule or is damaged."""
    if answer.path and route is None and UNINTERESTING.search(answer.path):
        tally.recognised += 1
        return None
    try:
        body = answer.decoded()
    except ValueError as error:
        tally.add_unrecognised(f"{answer.path}: {error}")
        return None
    if route is not None and body in ({}, []):
        tally.recognised += 1  # nothing to say, as before the first checkpoint
        return None
    return _Told(body)


def _identify(
    body: object,
    answer: _Answer,
    route: tuple[str, Ids] | None,
    name: str,
    url: str | None,
    neighbours: _Neighbours,
) -> tuple[str, Ids] | None:
    """The kind and the ids of one answer, from its path, its body, its names and neighbours."""
    if route is not None and answer.path is not None:
        kind, ids = route
        # The body has the last word: an error page has the path, but not the shape.
        shape = kind_of(body, answer.path)
        if shape is None and not (isinstance(body, Mapping) and kind in _SHAPELESS):
            return None
        return (shape or kind), _merged(ids, ids_of(body, ""))
    kind_of_body = kind_of(body, name)
    if kind_of_body is None:
        return None
    ids = ids_of(body, name)
    told = route_of(url) if url else None
    if told is not None:
        ids = _merged(told[1], ids)
    if (ids.job_id is None or ids.by_folder) and ":jobid" in kind_of_body:
        job_id = neighbours.job_id() or ids.job_id
        # The only id in a name was taken for the vertex's, and is the job's.
        vertex_id = None if ids.vertex_id == job_id else ids.vertex_id
        ids = replace(ids, job_id=job_id, vertex_id=vertex_id)
    if ids.vertex_id is None and kind_of_body == Kind.SUBTASKS:
        ids = replace(ids, vertex_id=neighbours.vertex_of(body))
    return kind_of_body, ids


# In an archive the answer for the job has all that these have.
_SUPERSEDED: Final = (Kind.JOBS_OVERVIEW, Kind.PLAN)

# Known by their path only: the body may be empty, or nothing but a status.
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


def _merged(first: Ids, second: Ids) -> Ids:
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


def _collected(data: bytes) -> Collected | None:
    """The file of a collection that this is; raises Unreadable when it is damaged."""
    if collected_kind(data[:200]) is None:
        return None
    try:
        return collected_of(decode_json(data))
    except ValueError:
        raise Unreadable("the JSON is damaged or cut off") from None


def _of_collection(collected: Collected, data: bytes) -> Iterator[_Answer]:
    position = 0
    for answer in collected.answers:
        at_ms = answer.at_ms or answer.time_ms
        moment = Moment(utc_us=at_ms * 1000) if at_ms is not None else NO_MOMENT
        # The collector writes an answer per line; a file that somebody made prettier is cited as a whole.
        found = data.find(b'\n{"path":', position)
        position = found + 1 if found >= 0 else position
        yield _Answer(position, answer.path, answer.body, moment=moment)


def _measured(answers: list[_Answer], routes: list[_Route]) -> frozenset[tuple[str, int]]:
    """Subtasks whose time shares come as metrics: what else tells them is the same sample again."""
    return frozenset(
        (route[1].vertex_id or "", int(subtask))
        for answer, route in zip(answers, routes, strict=True)
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


def _answers(data: bytes) -> Iterator[_Answer]:
    """Take a document apart; raises Unreadable for damaged JSON."""
    start = len(data) - len(data.removeprefix(b"\xef\xbb\xbf").lstrip())
    text = memoryview(data)[start:]
    if ARCHIVE_HEAD.match(data, start):
        yield from _archived(data, text, start)
        return
    if len(text) > MAX_BODY_BYTES:
        raise Unreadable("the JSON is larger than 64 MiB and no archive")
    try:
        body = decode_json(text)
    except ValueError:
        yield from _concatenated(data, start)
        return
    if isinstance(body, Mapping) and is_har(body):
        yield from _har(body)
    else:
        yield _Answer(start, None, body)


def _archived(data: bytes, text: memoryview, start: int) -> Iterator[_Answer]:
    if data.count(b'"path"') > MAX_ANSWERS:
        raise Unreadable("the archive has more than a million answers")
    try:
        entries = msgspec.json.decode(text, type=_Archive).archive
    except (msgspec.DecodeError, RecursionError) as error:
        raise Unreadable(_damage(error)) from None
    position = start
    for entry in entries:
        # A view into `data`; entries come in order, so that each is found right behind the last.
        found = data.find(memoryview(entry.json), position)
        position = found if found >= 0 else position
        yield _Answer(position, entry.path, raw=entry.json)


def _damage(error: BaseException) -> str:
    """One sentence, without the decoder's own words for it.

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


def _concatenated(data: bytes, start: int) -> Iterator[_Answer]:
    """Answers one behind the other, as a loop around curl writes them."""
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
            if cut:  # who copies out of a terminal gets its beginning
                beginning = close_truncated_json(text[position:].encode("utf-8", "surrogatepass"))
                yield _Answer(start + position, None, decode_json(beginning))
            raise Unreadable(
                "the JSON is cut off" if cut else f"the JSON is damaged near byte {error.pos}"
            ) from None
        # Bytes and characters differ only where names are not ASCII: near enough to cite.
        yield _Answer(start + position, None, body)
        position = end


def _har(body: Mapping[str, Any]) -> Iterator[_Answer]:
    """The requests of a browser, as its developer tools export them."""
    for entry in objects_at(object_at(body, "log"), "entries"):
        url = as_string(object_at(entry, "request").get("url"))
        content = as_string(object_at(object_at(entry, "response"), "content").get("text"))
        if url and content and content[:1] in "{[" and route_of(url):
            yield _Answer(0, url, raw=content.encode("utf-8", "surrogatepass"))


def _tasks_of(answers: list[_Answer], routes: list[_Route]) -> dict[str, str]:
    """Names of vertices: an archive has them in its answer for the job."""
    tasks: dict[str, str] = {}
    for answer, route in zip(answers, routes, strict=True):
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
    """What the JSON files of one folder say together."""

    job_ids: frozenset[str] = frozenset()
    tasks: Mapping[str, str] = field(default_factory=dict)
    owners: Mapping[str, str] = field(default_factory=dict)  # vertex -> job
    details: tuple[tuple[int, Mapping[str, Any]], ...] = ()


@dataclass(frozen=True, slots=True)
class _Neighbours:
    """The files beside a document, looked at only when the document lacks something."""

    path: str | None = None
    member: str | None = None

    def _folder(self) -> _Folder:
        # Members of a container lie in no folder of ours; a spooled stream has none either.
        if not self.path or self.member is not None:
            return _Folder()
        if is_url(self.path):
            return _look_into(self.path.rpartition("/")[0])
        return _look_into(os.path.dirname(os.path.abspath(self.path)))

    def job_id(self) -> str | None:
        """The job of the folder, if all its files are about one."""
        found = self._folder().job_ids
        return next(iter(found)) if len(found) == 1 else None

    def tasks(self, job_id: str | None) -> dict[str, str]:
        """Names of the vertices of a job."""
        folder = self._folder()
        return {
            vertex_id: name
            for vertex_id, name in folder.tasks.items()
            if job_id is None or folder.owners.get(vertex_id) in (None, job_id)
        }

    def vertex_of(self, body: object) -> str | None:
        """The vertex whose entry in the checkpoint's details has the numbers of this answer."""
        if not isinstance(body, Mapping):
            return None
        keys = ("latest_ack_timestamp", "state_size", "end_to_end_duration", "num_subtasks")
        wanted = [body.get(key) for key in keys]
        found = {
            vertex_id
            for number, tasks in self._folder().details
            if number == body.get("id")
            for vertex_id, task in tasks.items()
            if isinstance(task, Mapping) and [task.get(key) for key in keys] == wanted
        }
        return next(iter(found)) if len(found) == 1 else None


@lru_cache(maxsize=32)
def _look_into(folder: str) -> _Folder:
    """Read the small JSON files of a folder; what cannot be read is left out."""
    job_ids: set[str] = set()
    tasks: dict[str, str] = {}
    owners: dict[str, str] = {}
    details: list[tuple[int, Mapping[str, Any]]] = []
    try:
        names = _siblings(folder)
    except OSError:
        return _Folder()
    for name in names:
        body = _small_json(name)
        if not isinstance(body, Mapping):
            continue
        kind = kind_of(body, name)
        if kind is None:
            continue
        ids = ids_of(body, name)
        job_id = None if ids.by_folder else ids.job_id
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


def _siblings(folder: str) -> list[str]:
    """The first of the small files of a folder, sorted; raises OSError."""
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
            # A log beside the answers is not worth reading whole.
            if data.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] != b"{":
                return None
            data += stream.read(_SIBLING_BYTES)
        return decode_json(data.removeprefix(b"\xef\xbb\xbf"))
    except (OSError, EOFError, ValueError):
        return None
