"""Reads thread dumps in every format into rows of `Event.THREAD`, one per interesting thread.

| format | origin |
|---|---|
| `{"threadInfos": …}` | Flink's REST API: `/taskmanagers/:id/thread-dump`, `/jobmanager/thread-dump` |
| `Full thread dump …` | `jstack`, `jcmd Thread.print`, `kill -3`; alone or inside a log |
| `{"threadDump": …}` | `jcmd Thread.dump_to_file -format=json` (21 and later); without states before 24 |
| `[{"threadId": …, "stackTrace": …}]` | Spark's REST API: `/executors/:id/threads` |

Interesting are threads that run tasks, streaming queries or batches, and threads in a deadlock.

| column | meaning |
|---|---|
| thread, task, subtask_index, parallelism, attempt | from the name of the thread |
| to_state | state of the thread |
| fields.dump | identifier of the dump |
| fields.activity, kind, frame, call, component, async, chained, path | see `activities.Reading` |
| fields.legacy | whether the thread is that of a legacy source |
| fields.lock, owner, owner_frame, owner_activity, owner_component | the lock that the thread waits for, and the thread that holds it |
| fields.deadlock | the threads that wait for each other |
| fields.crowd, crowd_name | size and name of the largest group of at least `CROWD` threads with similar names |
| fields.samples | number of samples, in a profile |
| fields.cpu_ms, threads | CPU time of the thread; number of threads in the dump |
| fields.role, thread, stage, query, run | for Spark's threads: `task`, `query` or `batch`, and what the thread runs |
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import accumulate
from typing import Any, AnyStr, Final

from flowdiag.parsers.envelopes.objects import unwrap_json
from flowdiag.parsers.json_values import as_string, object_at, objects_at
from flowdiag.parsers.messages import parse_task
from flowdiag.parsers.rows import Event, Row
from flowdiag.parsers.stacks.activities import Frame, Reading, frame_of, read_stack

TEXT_BYTES: Final = 64 * 1024 * 1024
"""Maximum size of a text to search; a dump of 10,000 threads has 20 MB."""
MAX_FRAMES: Final = 400
CROWD: Final = 100
"""Minimum number of threads with similar names to combine in one row."""
_DIGITS: Final = re.compile(r"[0-9]{1,20}|(?<=[-@#])[0-9a-f]{6,40}\b")
_OWN: Final = re.compile(
    r"(?i)^(?:flink|akka|pekko|taskexecutor|jobmanager|netty|GC |G1 )|\(#/#\)|OutputFlusher"
)
_DEADLOCK: Final = 20  # maximum threads of a deadlock that are listed
_NAME: Final = 400  # maximum characters of a thread's name

_LEGACY: Final = "Legacy Source Thread - "
_SPARK: Final = (
    (
        "task",
        re.compile(
            r"Executor task launch worker for task (?:\S{1,20} in stage (?P<stage>\d{1,9}))?"
        ),
    ),
    (
        "query",
        re.compile(
            r"stream execution thread for (?P<query>.{0,400}?)"
            r"(?: ?\[id = [0-9a-f-]{36}, runId = (?P<run>[0-9a-f-]{36})\])?$"
        ),
    ),
    ("batch", re.compile(r"streaming-job-executor-\d")),
)
"""Names of Spark's threads that run tasks of a stage, triggers of a query, or batches of DStreams."""


@dataclass(slots=True)
class Thread:
    """A thread in a dump.

    Attributes:
        name: name of the thread.
        state: RUNNABLE, BLOCKED, WAITING, TIMED_WAITING, or empty if the format does not contain it.
        lines: the frames as printed, topmost first.
        lock: the lock that the thread waits for.
        owner: name of the thread that holds the lock.
        number, owner_number: IDs of the thread and of the owner, because several threads may have the same name.
        cpu_ms: CPU time since the thread started.
        offset: offset of the first line.
        block: the lines below the first line, in HotSpot's text.
        block_at: offset of the block.
    """

    name: str
    state: str
    lines: Sequence[str] = ()
    lock: str | None = None
    owner: str | None = None
    number: str | None = None
    owner_number: str | None = None
    cpu_ms: float | None = None
    offset: int = 0
    block: bytes = b""
    block_at: int = 0
    frames: list[Frame] = field(default_factory=list)

    def read(self, *, path: bool = True) -> Reading:
        """Parse the frames, and return what the thread is doing.

        Parsing waits until this call, because most threads of a large dump are idle helpers and never read.

        Args:
            path: whether the reading includes the frames.
        """
        self.lines = self.lines or [
            found[1].decode("utf-8", "replace") for found in _AT.finditer(self.block)
        ]
        parsed = map(frame_of, self.lines[:MAX_FRAMES])
        self.frames = [frame for frame in parsed if frame is not None]
        self.state = self.state or _state_by(self.frames)
        return read_stack(self.frames, self.state, path=path)


def _state_by(frames: Sequence[Frame]) -> str:
    """Infer the state from the frames, for a format that does not contain it."""
    top = frames[0].method if frames else ""
    waits = top.endswith((".park", ".sleep", ".sleepNanos0", ".sleep0", ".wait", ".wait0"))
    return "WAITING" if waits else "RUNNABLE"


def thread_rows(threads: Sequence[Thread], dump: str) -> Iterator[tuple[int, Row]]:
    """Yield the rows of a dump, each with its offset.

    Args:
        threads: all threads of the dump.
        dump: identifier of the dump, such as its time or its place.
    """
    by_name = {thread.name: thread for thread in threads}
    by_number = {thread.number: thread for thread in threads if thread.number is not None}
    cycles = _deadlocks(threads)
    whole = {"dump": dump, "threads": str(len(threads)), **_crowd(threads)}
    for thread in threads:
        cycle = cycles.get(thread.name)
        columns = _task_columns(thread.name)
        spark = _spark_fields(thread.name)
        known = columns is not None or cycle is not None or spark is not None
        reading = _reading_of(thread) if known else _checkpoint_reading(thread)
        if reading is None:
            continue
        owner = by_number.get(thread.owner_number or "") or by_name.get(thread.owner or "")
        fields = _fields_of(thread, reading, owner)
        if cycle is not None:
            fields["deadlock"] = "\n".join(cycle[:_DEADLOCK])
        yield (
            _offset_of(thread, reading),
            {
                "event": Event.THREAD.value,
                "template": "thread-dump",
                "thread": thread.name,
                **(columns or {}),
                "to_state": thread.state,
                "fields": {**whole, **fields, **(spark or {})},
            },
        )


def _reading_of(thread: Thread) -> Reading:
    """Return what a thread is doing.

    Without a state, user code on top of the stack either computes or waits for a monitor.
    """
    printed = thread.state
    reading = thread.read()
    if printed or reading.activity != "user-code":
        return reading
    thread.state = ""
    return replace(reading, activity="unknown", kind="unknown")


def _checkpoint_reading(thread: Thread) -> Reading | None:
    """Return what a thread does for a checkpoint in an external system, or None if it does not.

    These threads belong to no task: the JobManager prepares the directory of a checkpoint, and a TaskManager writes its
    state there.
    """
    if _CHECKPOINT_THREAD.match(thread.name) is None:
        return None
    reading = _reading_of(thread)
    works = any(frame.method.startswith(_CHECKPOINT_WORK) for frame in thread.frames)
    known = works and reading.component is not None
    return replace(reading, activity="checkpoint-storage", kind="checkpoint") if known else None


def _crowd(threads: Sequence[Thread]) -> dict[str, str]:
    """Return, as fields, the largest group of threads with equal names apart from numbers, without Flink's own."""
    if len(threads) < CROWD:
        return {}
    names = Counter(_DIGITS.sub("#", each.name[:_NAME]) for each in threads)
    others = ((name, count) for name, count in names.most_common() if not _OWN.search(name))
    name, count = next(others, ("", 0))
    return {"crowd": str(count), "crowd_name": name} if count >= CROWD else {}


def _fields_of(thread: Thread, reading: Reading, owner: Thread | None) -> dict[str, str]:
    """Return the known fields of a thread and of the thread that holds the lock it waits for."""
    held = owner.read() if owner is not None else None
    found = {
        **reading_fields(reading),
        "legacy": "1" if thread.name.startswith(_LEGACY) else None,
        "lock": thread.lock,
        "owner": thread.owner,
        "owner_frame": held and held.frame,
        "owner_activity": held and held.activity,
        "owner_component": held and held.component,
        "cpu_ms": thread.cpu_ms and f"{thread.cpu_ms:.15g}",
    }
    return {key: str(value) for key, value in found.items() if value is not None}


def reading_fields(reading: Reading) -> dict[str, str]:
    """Return the fields of a reading, without unknown ones."""
    found = {
        "activity": reading.activity,
        "kind": reading.kind,
        "frame": reading.frame,
        "call": reading.call,
        "component": reading.component,
        "async": "1" if reading.inside_async else None,
        "chained": "1" if reading.chained else None,
        "path": "\n".join(reading.path) or None,
    }
    return {key: value for key, value in found.items() if value is not None}


def owner_columns(name: str) -> dict[str, Any] | None:
    """Return the columns for a thread that runs a task, query or batch, or None for other threads."""
    columns, spark = _task_columns(name), _spark_fields(name)
    if columns is None and spark is None:
        return None
    legacy = {"legacy": "1"} if name.startswith(_LEGACY) else {}
    return {**(columns or {}), "fields": {**legacy, **(spark or {})}}


def _task_columns(name: str) -> dict[str, Any] | None:
    """Return the columns for the thread of a task or of a legacy source, or None for other threads."""
    task = parse_task(name.removeprefix(_LEGACY))
    known = task.attempt is not None or (name.startswith(_LEGACY) and task.parallelism is not None)
    return task._asdict() if known and not _HELPER.match(name) else None


def _spark_fields(name: str) -> dict[str, str] | None:
    """Return the role, the name and the known task or batch of a Spark thread, or None for other threads."""
    for role, pattern in _SPARK:
        if (found := pattern.match(name)) is not None:
            known = {key: value for key, value in found.groupdict().items() if value}
            return {"role": role, "thread": name[:_NAME], **known}
    return None


# The names of a task's helper threads end with the name of the task.
_HELPER: Final = re.compile(
    r"(?:OutputFlusher|System Time Trigger|Time Trigger|Source Data Fetcher|AsyncOperations|Channel state writer"
    r"|Canceler/Interrupts|Cancellation Watchdog|Task Canceler|flink-)"
)


_CHECKPOINT_THREAD: Final = re.compile(r"(?:jobmanager-io-thread|AsyncOperations-thread)-\d")
_CHECKPOINT_WORK: Final = (
    "org.apache.flink.runtime.checkpoint.",
    "org.apache.flink.runtime.state.",
    "org.apache.flink.state.",
    "org.apache.flink.streaming.runtime.tasks.AsyncCheckpointRunnable.",
)


def _offset_of(thread: Thread, reading: Reading) -> int:
    """Return the offset of the user's frame in the text or, failing that, that of the thread."""
    for found in _AT.finditer(thread.block) if reading.frame is not None else ():
        frame = frame_of(found[1].decode("utf-8", "replace"))
        if frame is not None and frame.text == reading.frame:
            return thread.block_at + found.start()
    return thread.offset


def _deadlocks(threads: Sequence[Thread]) -> dict[str, list[str]]:
    """Map the name of each deadlocked thread to all threads of its deadlock."""
    owners = {t.name: t.owner for t in threads if t.owner is not None and t.owner != t.name}
    found: dict[str, list[str]] = {}
    for name, owner in owners.items():
        chain, at = [name], owner
        while at in owners and at not in chain and at not in found:
            chain.append(at)
            at = owners[at]
        if at == name:
            found |= dict.fromkeys(chain, chain)
    return found


# -- Flink's REST API ----------------------------------------------------------------------------

_INFO = re.compile(
    r'"(?P<name>.*)"(?: daemon)?(?: prio=\d{1,3})? Id=(?P<number>\d{1,19}) (?P<state>[A-Z_]{3,20})'
    r'(?: on (?P<lock>\S{1,400}))?(?: owned by "(?P<owner>.*)" Id=(?P<owner_number>\d{1,19}))?'
)


def is_flink_dump(body: Mapping[str, Any]) -> bool:
    """Return whether a decoded response of Flink is a thread dump."""
    return isinstance(body.get("threadInfos"), list)


def flink_threads(body: Mapping[str, Any]) -> list[Thread]:
    """Return the threads in a response of Flink's REST API."""
    found = (
        info_thread(
            as_string(item.get("stringifiedThreadInfo")) or "", as_string(item.get("threadName"))
        )
        for item in objects_at(body, "threadInfos")
    )
    return [thread for thread in found if thread is not None]


def info_thread(text: str, name: str | None = None) -> Thread | None:
    """Parse a thread printed by `ThreadInfo.toString`; return None for other texts.

    Args:
        text: the first line and the frames below it.
        name: name of the thread, if known.
    """
    head, _, below = text.partition("\n")
    info = _INFO.match(head)
    if info is None or not (name or info["name"]):
        return None
    return Thread(
        name=name or info["name"],
        state=info["state"],
        lines=[line.strip()[3:] for line in below.split("\n") if line[:4] == "\tat "],
        lock=info["lock"],
        owner=info["owner"],
        number=info["number"],
        owner_number=info["owner_number"],
    )


# -- jcmd Thread.dump_to_file --------------------------------------------------------------------


def is_jcmd_dump(body: Mapping[str, Any]) -> bool:
    """Return whether a decoded document is a thread dump that `jcmd` wrote as JSON."""
    return isinstance(object_at(body, "threadDump").get("threadContainers"), list)


def jcmd_threads(body: Mapping[str, Any]) -> tuple[list[Thread], int | None]:
    """Return the threads in JSON written by `jcmd`, and the time of the dump in microseconds."""
    dump = object_at(body, "threadDump")
    items = [
        item
        for container in objects_at(dump, "threadContainers")
        for item in objects_at(container, "threads")
    ]
    names = {as_string(item.get("tid")): as_string(item.get("name")) for item in items}
    holders = {
        as_string(lock): as_string(item.get("tid"))
        for item in items
        for owned in objects_at(item, "monitorsOwned")
        for lock in owned.get("locks") or ()
    }
    found = []
    for item in items:
        stack, (lock, owner) = item.get("stack"), _awaited(item, holders)
        found.append(
            Thread(
                name=as_string(item.get("name")) or "",
                state=as_string(item.get("state")) or "",
                lines=[line for line in stack if isinstance(line, str)]
                if isinstance(stack, list)
                else [],
                lock=lock,
                owner=names.get(owner),
                number=as_string(item.get("tid")),
                owner_number=owner,
            )
        )
    return found, instant_us(as_string(dump.get("time")))


def _awaited(
    item: Mapping[str, Any], holders: Mapping[str | None, str | None]
) -> tuple[str | None, str | None]:
    """Return the lock that a thread waits for, and the ID of its known owner.

    Args:
        item: the thread in `jcmd`'s JSON.
        holders: the IDs of the threads that hold each monitor.
    """
    if monitor := as_string(item.get("blockedOn")):
        return monitor, holders.get(monitor)
    blocker = object_at(item, "parkBlocker")
    return as_string(blocker.get("object")) or None, as_string(blocker.get("owner"))


def instant_us(text: str | None) -> int | None:
    """Return a time in ISO 8601 with its zone, in microseconds, or None for other texts."""
    try:
        moment = datetime.fromisoformat(text or "")
    except ValueError:
        return None
    return int(moment.timestamp() * 1e6) if moment.tzinfo is not None else None


# -- Spark's REST API ----------------------------------------------------------------------------


def is_spark_dump(body: object) -> bool:
    """Return whether a decoded response of Spark is a list of threads."""
    first = body[0] if isinstance(body, list) and body else None
    return isinstance(first, Mapping) and {"threadId", "threadName", "stackTrace"} <= first.keys()


def spark_threads(body: Sequence[Any]) -> list[Thread]:
    """Return the threads in a response of Spark's REST API."""
    items = [item for item in body if isinstance(item, Mapping)]
    names = {item.get("threadId"): as_string(item.get("threadName")) or "" for item in items}
    found = []
    for item in items:
        trace = item.get("stackTrace")
        elements = trace.get("elems") if isinstance(trace, Mapping) else None
        lines = elements if isinstance(elements, list) else str(trace or "").split("\n")
        found.append(
            Thread(
                name=names[item.get("threadId")],
                state=as_string(item.get("threadState")) or "",
                lines=[line for line in lines if isinstance(line, str)],
                lock=_lock_name(as_string(item.get("blockedByLock"))),
                owner=names.get(item.get("blockedByThreadId")),
            )
        )
    return found


def _lock_name(text: str | None) -> str | None:
    """Return the name of a lock without the `Lock(…)` that Spark 4 puts around it.

    >>> _lock_name("Lock(java.lang.Object@1)"), _lock_name("")
    ('java.lang.Object@1', None)
    """
    return (text or "").removeprefix("Lock(").removesuffix(")") or None


# -- HotSpot's text ------------------------------------------------------------------------------

_TITLE: Final = b"Full thread dump "
_BEGIN = re.compile(
    rb"^(?:(?P<time>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)\r?\n)?Full thread dump [^\n]{0,200}\n",
    re.MULTILINE,
)
_TIME_BYTES: Final = 21  # bytes of the line with the time
# A literal at the start makes the search four times as fast as `^`.
_HEAD = re.compile(
    rb'\n"(?P<name>[^\n]{0,2000})"(?P<rest>(?: #\d+| \[\d+\]| daemon| prio=| os_prio=| cpu=| virtual| tid=)[^\n]*)$',
    re.MULTILINE,
)
_STATE_LINE = re.compile(rb"^\s{1,8}java\.lang\.Thread\.State: ([A-Z_]{3,20})", re.MULTILINE)
_CPU = re.compile(rb" cpu=(\d{1,15}(?:\.\d{1,6})?)ms")
_AT = re.compile(rb"^\s{1,8}at ([^\n]{1,2000})$", re.MULTILINE)
_WAITS = re.compile(
    rb"- (?:waiting to lock|parking to wait for|waiting to re-lock in wait\(\)) {1,2}<(0x[0-9a-f]{1,16})> "
    rb"\(a ([^)\n]{1,300})\)"
)
_HOLDS = re.compile(rb"- (?:locked )?<(0x[0-9a-f]{1,16})> \(a ")


def contains_dump(data: bytes) -> bool:
    """Return whether a text contains a thread dump."""
    return next(_begins(data), None) is not None


def _begins(data: bytes) -> Iterator[re.Match[bytes]]:
    """Yield the matches of `_BEGIN` in a text."""
    at = data.find(_TITLE)
    while at >= 0:
        found = _BEGIN.search(data, max(0, at - _TIME_BYTES), at + 256)
        end = at + len(_TITLE)
        if found is not None and found.end() > end:
            yield found
            end = found.end()
        at = data.find(_TITLE, end)


# The prefix of each line in a log of a container runtime (CRI).
_CARRIER = re.compile(rb"^\d{4}-\d\d-\d\dT[\d:.]{8,20}\S{1,6} std(?:out|err) [FP] ")


def wrapped_rows(data: bytes, place: str) -> Iterator[tuple[int, Row]]:
    """Yield the rows of dumps whose lines a container runtime wrapped in a prefix or in JSON.

    Args:
        data: the text.
        place: see `printed_rows`.
    """
    lines, texts = data.split(b"\n"), []
    for line in lines:
        event = unwrap_json(line) if line[:1] == b"{" else None
        text = _CARRIER.sub(b"", line) if event is None else event.text.encode("utf-8", "replace")
        texts.append(text.rstrip(b"\r\n").replace(b"\n", b" "))
    starts = [0, *accumulate(len(line) + 1 for line in lines)]
    plain = [0, *accumulate(len(text) + 1 for text in texts)]
    for at, row in printed_rows(b"\n".join(texts), place):
        yield starts[bisect_right(plain, at) - 1], row


# The first line after a dump is a log record or an exception.
_AFTER = re.compile(
    rb"^(?:\[?\d{2,4}[-/]\d\d[-/]\d\d[ T]\d\d:\d\d:\d\d[^\n\d][^\n]*|Exception in thread |(?:[\w$]{1,80}\.){1,12}"
    rb"[\w$]{0,80}(?:Exception|Error)\b)[^\n]*$",
    re.MULTILINE,
)


def without_dumps(data: bytes) -> bytes:
    """Replace thread dumps with spaces, because their stack traces belong to no exception.

    >>> without_dumps(b"a\\nFull thread dump X\\n\\tat b.C.d(C.java:1)\\njava.io.IOException: e").split()
    [b'a', b'java.io.IOException:', b'e']
    """
    parts, at = [], 0
    for begin in _begins(data):
        if begin.start() < at:
            continue
        after = _AFTER.search(data, begin.end())
        end = after.start() if after is not None else len(data)
        parts += [data[at : begin.start()], re.sub(rb"[^\n]", b" ", data[begin.start() : end])]
        at = end
    return b"".join([*parts, data[at:]]) if parts else data


def with_ends(
    headings: Iterable[re.Match[AnyStr]], end: int
) -> Iterator[tuple[re.Match[AnyStr], int]]:
    """Yield each heading with the end of the text that belongs to it.

    Args:
        headings: in the order of the text.
        end: the end of the text.
    """
    found: list[re.Match[AnyStr]] = list(headings)
    ends = [*(heading.start() for heading in found[1:]), end]
    yield from zip(found, ends, strict=False)  # without headings, `ends` still has an item


def clock_us(text: str, layout: str) -> int:
    """Return the time on a clock without a zone, in microseconds."""
    return int(datetime.strptime(text, layout).replace(tzinfo=UTC).timestamp()) * 1_000_000


def printed_rows(data: bytes, place: str) -> Iterator[tuple[int, Row]]:
    """Yield the rows of all dumps in a text, each with its offset.

    Args:
        data: the text.
        place: identifier of the text, for dumps without a time.
    """
    for begin, end in with_ends(_begins(data), len(data)):
        threads = _printed_threads(data, begin.end(), end)
        printed = begin["time"].decode() if begin["time"] else None
        dump = printed or f"{place}:{begin.start()}"
        local_us = clock_us(printed, "%Y-%m-%d %H:%M:%S") if printed is not None else None
        for offset, row in thread_rows(threads, dump):
            yield offset, row | {"local_us": local_us}


def _printed_threads(data: bytes, start: int, end: int) -> list[Thread]:
    found: list[tuple[Thread, bytes | None]] = []
    holders: dict[bytes, str] = {}
    for head, stop in with_ends(_HEAD.finditer(data, start - 1, end), end):
        body = data[head.end() : stop]
        # With `-l`, the locked synchronizers follow after a blank line.
        frames, _, synchronizers = body.partition(b"\n\n")
        name = head["name"].decode("utf-8", "replace")
        state, waits = _STATE_LINE.search(frames), _WAITS.search(frames)
        for held in _HOLDS.findall(frames) + _HOLDS.findall(synchronizers[:_SYNCHRONIZERS]):
            if waits is None or held != waits[1]:
                holders.setdefault(held, name)
        cpu = _CPU.search(head["rest"])
        thread = Thread(
            name=name,
            state=state[1].decode() if state else "",
            cpu_ms=float(cpu[1]) if cpu else None,
            offset=head.start() + 1,
            block=frames,
            block_at=head.end(),
        )
        if waits is not None:
            kind = waits[2].decode("utf-8", "replace")
            thread.lock = f"{kind}@{waits[1][2:].lstrip(b'0').decode()}"
        found.append((thread, waits[1] if waits else None))
    owners = _owners_in_deadlocks(data, start, end)
    for thread, address in found:
        if address is not None:
            thread.owner = holders.get(address) or owners.get(thread.name)
    return [thread for thread, _ in found]


def _owners_in_deadlocks(data: bytes, start: int, end: int) -> dict[str, str]:
    """Return the owner of the lock that each thread of a deadlock waits for.

    Without `-l`, only the section about deadlocks names the owners of explicit locks.
    """
    section = data.find(_SECTION, start, end)
    found = _HELD_BY.finditer(data, section, end) if section >= 0 else ()
    pairs = ((held["name"], held["owner"]) for held in found)
    return {
        name.decode("utf-8", "replace"): owner.decode("utf-8", "replace") for name, owner in pairs
    }


_SECTION: Final = b"Java-level deadlock"
_HELD_BY = re.compile(
    rb'^"(?P<name>[^\n]{0,2000})":\r?\n {1,8}waiting [^\n]{1,400}\n {1,8}which is held by "(?P<owner>[^\n]{0,2000})"',
    re.MULTILINE,
)
_SYNCHRONIZERS: Final = 4096  # maximum bytes; a list of locks is short
