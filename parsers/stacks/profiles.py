"""Reads profiles of the JVM, which contain many samples of stacks.

| format | origin |
|---|---|
| `{"endTimestamp": …, "data": {"name": "root", …}}` | Flink's REST API: `/jobs/:jobid/vertices/:vertexid/flamegraph` |
| `a;b;c 42` | collapsed stacks from async-profiler, py-spy, and scripts around `perf` |
| `{"$schema": ".../file-format-schema.json", …}` | speedscope |
| `{"recording": {"events": …}}` | `jfr print --json` |

Equal readings of one thread become one row of `Event.THREAD`, as in `dumps`, with `fields.samples`. Samples without
the name of a thread belong to no task, except in a flame graph, where the path contains the vertex.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, lru_cache
from itertools import islice, zip_longest
from typing import Any, Final, NamedTuple

from flowdiag.parsers.json_values import as_moment, as_number, as_string, object_at, objects_at
from flowdiag.parsers.rows import Event, Row
from flowdiag.parsers.stacks.activities import Reading
from flowdiag.parsers.stacks.dumps import Thread, owner_columns, reading_fields

MAX_NODES: Final = 200_000
MAX_STACKS: Final = 200  # maximum stacks that keep their frames
MAX_READINGS: Final = 1000  # maximum readings of a profile that keep their frame and call
PERIOD_MS: Final = 20.0
"""The time that one sample of Java Flight Recorder represents: the default period of `ExecutionSample`."""


class Sample(NamedTuple):
    """A stack, with the topmost frame first, and how often it was seen."""

    thread: str
    frames: tuple[str, ...]
    state: str = ""
    lock: str | None = None
    owner: str | None = None
    times: int = 1


def profile_rows(
    samples: Iterable[Sample], profile: str, columns: Mapping[str, Any] | None = None
) -> Iterator[Row]:
    """Yield one row per thread and reading, most frequent first.

    Args:
        samples: the samples of the profile.
        profile: identifier of the profile.
        columns: columns of the task, if the profile is about a single task.
    """
    owners: dict[str, Mapping[str, Any] | None] = {}
    stacks: Counter[Stack] = Counter()
    for sample in samples:
        if columns is None:
            if sample.thread not in owners:
                owners[sample.thread] = owner_columns(sample.thread)
            if owners[sample.thread] is None:
                continue
        stacks[sample[:-1]] += sample.times
    readings = _without_rare_frames(_read(stacks))
    for number, ((name, reading, lock, owner), count) in enumerate(readings.most_common()):
        held = {"lock": lock, "owner": owner}
        own = owners.get(name) or {}
        yield {
            "event": Event.THREAD.value,
            "template": "thread-profile",
            "thread": name,
            **(columns or {}),
            **{key: value for key, value in own.items() if key != "fields"},
            "fields": {
                "dump": f"{profile}#{number}",
                "samples": str(count),
                **reading_fields(reading),
                **{key: value for key, value in held.items() if value},
                **own.get("fields", {}),
            },
        }


Stack = tuple[str, tuple[str, ...], str, str | None, str | None]
"""The fields of a `Sample` without `times`."""


Readings = Counter[tuple[str, Reading, str | None, str | None]]
"""The number of occurrences of each combination of thread, reading, lock and owner of the lock."""


def _without_rare_frames(found: Readings) -> Readings:
    """Combine the rare readings of a large profile by thread and activity, because each row costs time."""
    if len(found) <= MAX_READINGS:
        return found
    combined: Readings = Counter()
    alike: dict[tuple[str, bool, bool], Reading] = {}
    for number, ((thread, reading, lock, owner), count) in enumerate(found.most_common()):
        if number >= MAX_READINGS:
            key = reading.activity, reading.inside_async, reading.chained
            if key not in alike:
                alike[key] = replace(reading, frame=None, call=None, component=None, path=())
            reading = alike[key]
        combined[thread, reading, lock, owner] += count
    return combined


def _read(stacks: Counter[Stack]) -> Readings:
    """Count the readings of each thread; only the most frequent stacks keep their frames."""

    @cache
    def read(frames: tuple[str, ...], state: str, path: bool) -> Reading:
        return Thread("", state, frames).read(path=path)  # subtasks have the same stacks

    found: Readings = Counter()
    for number, (stack, count) in enumerate(stacks.most_common()):
        thread, frames, state, lock, owner = stack
        found[thread, read(frames, state, number < MAX_STACKS), lock, owner] += count
    return found


# -- Flink's flame graphs ------------------------------------------------------------------------


def is_flame_graph(body: Mapping[str, Any]) -> bool:
    """Return whether a decoded response of Flink is a flame graph, or reports that there is none."""
    if "endTimestamp" not in body:
        return False
    return body.keys() == {"endTimestamp"} or "value" in object_at(body, "data")


def flame_graph_samples(body: Mapping[str, Any]) -> tuple[list[Sample], int | None]:
    """Return the stacks of a flame graph, and its time in ms. Both are empty if flame graphs are disabled."""
    found: list[Sample] = []
    open_nodes: list[tuple[Mapping[str, Any], tuple[str, ...]]] = [(object_at(body, "data"), ())]
    seen = 0
    while open_nodes and seen < MAX_NODES:
        node, above = open_nodes.pop()
        seen += 1
        children = objects_at(node, "children")
        name = as_string(node.get("name")) or ""
        path = above if name == "root" else (_with_line(name), *above)
        inside = sum(_count(child.get("value")) for child in children)
        own = _count(node.get("value")) - inside
        if path and own > 0:
            found.append(Sample("", path, times=own))
        if len(path) < MAX_DEPTH:
            open_nodes += [(child, path) for child in children]
    return found, as_moment(body.get("endTimestamp"))


MAX_DEPTH: Final = 400
_LINE = re.compile(r":(-?\d{1,9})$")


def _with_line(name: str) -> str:
    """Convert a frame of a flame graph to the format of stack traces.

    >>> _with_line("com.acme.Price.map:31"), _with_line("java.lang.Thread.sleep:-2")
    ('com.acme.Price.map(line 31)', 'java.lang.Thread.sleep')
    """
    found = _LINE.search(name)
    if found is None:
        return name
    line = int(found[1])
    return name[: found.start()] + (f"(line {line})" if line > 0 else "")


def _count(value: object) -> int:
    number = as_number(value)
    return int(number) if number is not None and 0 <= number < 2**40 else 0


# -- collapsed stacks ----------------------------------------------------------------------------

_COLLAPSED = re.compile(
    rb"^(?P<stack>[^\n;]{1,2000}(?:;[^\n;]{1,2000}){2,2000}) (?P<count>\d{1,12})\r?$", re.MULTILINE
)
_COUNT = re.compile(r"[0-9]{1,12}")
_THREAD_FRAME = re.compile(r"\[?(?P<name>.{1,400}?)(?: tid=\d{1,10})?\]?$")
_JAVA = re.compile(r"^(?:[\w$.-]{1,80}/)+[\w$/.+-]{1,300}\.[^\s/]{1,200}$")
_SUFFIX = re.compile(r"_\[[jikt01]\]$")


def is_collapsed(head: bytes) -> bool:
    """Return whether a text consists of collapsed stacks.

    >>> is_collapsed(b"java/lang/Thread.run;a/B.c;a/B.d 3\\n" * 3)
    True
    """
    lines = [line for line in head[:65536].split(b"\n")[:60] if line.strip()][:50]
    others = (line for line in lines if _COLLAPSED.fullmatch(line) is None)
    most = len(lines) // 10
    return len(lines) > 0 and sum(1 for _ in islice(others, most + 1)) <= most


def collapsed_samples(data: bytes) -> Iterator[Sample]:
    """Yield the stacks in a text of collapsed stacks, whose lines start with the root frame or the thread."""
    for line in data.decode("utf-8", "replace").split("\n"):
        text, _, count = line.rstrip("\r").rpartition(" ")
        stack = text.split(";")
        if len(stack) <= 2 or not _COUNT.fullmatch(count) or "" in stack:
            continue
        thread = _thread_of(stack[0])
        if thread:
            del stack[0]
        yield Sample(thread, tuple(map(_with_dots, stack[: -MAX_DEPTH - 1 : -1])), times=int(count))


@lru_cache(maxsize=4096)
def _thread_of(frame: str) -> str:
    """Return the thread that the first frame of a stack names. Empty if the frame is a method.

    >>> _thread_of("[enrich (1/4)#0 tid=7]"), _thread_of("java/lang/Thread.run")
    ('enrich (1/4)#0', '')
    """
    named = None if _JAVA.match(frame) else _THREAD_FRAME.match(frame)
    return "" if named is None else named["name"]


@lru_cache(maxsize=65_536)
def _with_dots(frame: str) -> str:
    """Convert a frame with slashes to the format of stack traces.

    >>> _with_dots("com/acme/Price.map_[j]"), _with_dots("[libjvm.so]")
    ('com.acme.Price.map', '[libjvm.so]')
    """
    frame = _SUFFIX.sub("", frame)
    return frame.replace("/", ".") if _JAVA.match(frame) else frame


# -- speedscope ----------------------------------------------------------------------------------


def is_speedscope(body: Mapping[str, Any]) -> bool:
    """Return whether a decoded document is a profile in speedscope's format."""
    return "speedscope" in str(body.get("$schema", ""))[:200] and isinstance(
        body.get("profiles"), list
    )


def speedscope_samples(body: Mapping[str, Any]) -> Iterator[Sample]:
    """Yield the sampled stacks of each profile. A profile covers one thread."""
    frames = [_speedscope_frame(item) for item in objects_at(object_at(body, "shared"), "frames")]
    for profile in objects_at(body, "profiles"):
        name = as_string(profile.get("name")) or ""
        samples, weights = (
            value if isinstance(value := profile.get(key), list) else []
            for key in ("samples", "weights")
        )
        known = [as_number(weight) or 0.0 for weight in weights]
        least = min((weight for weight in known if weight > 0), default=1.0)
        for stack, weight in zip_longest(samples, known[: len(samples)], fillvalue=least):
            path = tuple(_frames_at(frames, stack))
            yield Sample(name, path, times=min(max(1, round(weight / least)), 2**30))


def _frames_at(frames: Sequence[str], stack: object) -> Iterator[str]:
    """Yield the frames of a stack of frame indices, topmost first."""
    for index in reversed(stack[-MAX_DEPTH:]) if isinstance(stack, list) else ():
        if isinstance(index, int) and 0 <= index < len(frames):
            yield frames[index]


def _speedscope_frame(item: Mapping[str, Any]) -> str:
    name, file, line = as_string(item.get("name")) or "", item.get("file"), item.get("line")
    place = f"({file}:{line})" if isinstance(file, str) and isinstance(line, int) else ""
    return _with_dots(name) + place


# -- Java Flight Recorder ------------------------------------------------------------------------

_JFR_STATES: Final = {
    "jdk.ExecutionSample": "RUNNABLE",
    "jdk.NativeMethodSample": "RUNNABLE",
    "jdk.SocketRead": "RUNNABLE",
    "jdk.SocketWrite": "RUNNABLE",
    "jdk.FileRead": "RUNNABLE",
    "jdk.FileWrite": "RUNNABLE",
    "jdk.JavaMonitorEnter": "BLOCKED",
    "jdk.JavaMonitorWait": "WAITING",
    "jdk.ThreadPark": "WAITING",
    "jdk.ThreadSleep": "TIMED_WAITING",
}
_DURATION = re.compile(r"PT(?:(\d{1,6})H)?(?:(\d{1,6})M)?(?:(\d{1,9}(?:\.\d{1,9})?)S)?$")


def is_flight_recording(body: Mapping[str, Any]) -> bool:
    """Return whether a decoded document is the output of `jfr print --json`."""
    return isinstance(object_at(body, "recording").get("events"), list)


def flight_samples(body: Mapping[str, Any]) -> Iterator[Sample]:
    """Yield the samples of a flight recording, and its waits as one sample per `PERIOD_MS`."""
    for event in objects_at(object_at(body, "recording"), "events"):
        state = _JFR_STATES.get(as_string(event.get("type")) or "")
        values = object_at(event, "values")
        frames = objects_at(object_at(values, "stackTrace"), "frames")
        if state is None or not frames:
            continue
        thread = object_at(values, "sampledThread") or object_at(values, "eventThread")
        previous = object_at(values, "previousOwner")
        monitor = object_at(values, "monitorClass") or object_at(values, "parkedClass")
        blocked = state == "BLOCKED"
        yield Sample(
            as_string(thread.get("javaName")) or as_string(thread.get("osName")) or "",
            tuple(_jfr_frame(frame) for frame in frames[:MAX_DEPTH]),
            state,
            _class_name(monitor) or None if blocked else None,
            as_string(previous.get("javaName")) if blocked else None,
            times=max(1, round(_milliseconds(values.get("duration")) / PERIOD_MS)),
        )


def _jfr_frame(frame: Mapping[str, Any]) -> str:
    method = object_at(frame, "method")
    line = as_number(frame.get("lineNumber"))
    place = f"(line {int(line)})" if line is not None and line > 0 else ""
    return f"{_class_name(object_at(method, 'type'))}.{as_string(method.get('name')) or ''}{place}"


def _class_name(value: Mapping[str, Any]) -> str:
    return (as_string(value.get("name")) or "").replace("/", ".")


def _milliseconds(value: object) -> float:
    """Parse an ISO 8601 duration into milliseconds.

    >>> _milliseconds("PT0.0523S"), _milliseconds(None)
    (52.3, 0.0)
    """
    found = _DURATION.match(value) if isinstance(value, str) else None
    if found is None:
        return 0.0
    hours, minutes, seconds = (float(part or 0) for part in found.groups())
    return (hours * 3600 + minutes * 60 + seconds) * 1000
