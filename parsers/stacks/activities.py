"""Determines the activity of a thread from the frame patterns in `formats/stacks.toml`."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Final, NamedTuple

from flowdiag.parsers.components import component_named
from flowdiag.parsers.formats import read_format
from flowdiag.parsers.lines.traces import is_library

_MAILBOX: Final = "org.apache.flink.streaming.runtime.tasks.mailbox.MailboxProcessor."
_GENERATED: Final = re.compile(
    r"\$\$Lambda|\$Proxy\d|\$\$FastClass|LambdaForm\$|\$\$Enhancer|(?:^|/)0x[0-9a-f]{6}"
)
"""Generated classes, which are in no source file. The name of a hidden class contains an address."""
_COMPILED: Final = re.compile(r"\w+\$\d+\.")
"""Classes without a package that Flink's SQL compiles when a job starts, as `LookupFunction$4`. They have no source."""
_FRAME: Final = re.compile(r"(?:[\w.@+-]{0,120}/){0,3}(?P<method>[^\s(]+)(?P<place>\([^)\n]*\)?)?")
_MODULE: Final = re.compile(r"\((?:[\w.-]{1,80}(?:@[\w.+-]{1,40})?/)")
_FRAMES: Final = 40  # maximum frames of a path, enough for a flame graph
_FRAME_CHARACTERS: Final = 200
_CALLERS: Final = 40  # library frames above the user frame that may identify the called system


class Frame(NamedTuple):
    """A stack frame: `package.Class.method`, and the location such as `(File.java:7)`."""

    method: str
    place: str

    @property
    def text(self) -> str:
        return f"{self.method}{self.place}"


class Activity(NamedTuple):
    """An entry of the table; the header of the data file explains the fields."""

    name: str
    kind: str
    what: str
    states: frozenset[str]
    frames: tuple[str, ...]
    below: tuple[str, ...]
    top: int
    caller: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """The activity of one thread.

    Attributes:
        activity: name of the entry in the table.
        kind: what the activity means for a job; the data file lists the words.
        frame: the topmost frame of user code, if any.
        call: the library method that the user code calls.
        component: the software that the user code calls, from the table of components.
        inside_async: whether the code runs in the asynchronous function of an `AsyncWaitOperator`.
        chained: whether the thread processes a record that the input or another operator of the chain passed on.
        path: the frames above Flink's mailbox loop, topmost first.
    """

    activity: str
    kind: str
    frame: str | None = None
    call: str | None = None
    component: str | None = None
    inside_async: bool = False
    chained: bool = False
    path: tuple[str, ...] = ()


@functools.cache
def activities() -> tuple[Activity, ...]:
    """Return the entries in the order of the table; the first entry that matches counts."""
    return tuple(
        Activity(
            name=entry["name"],
            kind=entry["kind"],
            what=entry["what"],
            states=frozenset(entry.get("states", ())),
            frames=tuple(entry.get("frames", ())),
            below=tuple(entry.get("below", ())),
            top=entry.get("top", 0),
            caller=entry.get("caller", False),
        )
        for entry in read_format("formats/stacks.toml")["activity"]
    )


@functools.cache
def activity_named(name: str) -> Activity | None:
    """Return the entry of the table with this name."""
    return next((each for each in activities() if each.name == name), None)


@functools.lru_cache(maxsize=65_536)
def frame_of(text: str) -> Frame | None:
    """Parse a frame, and drop its module or class loader.

    >>> frame_of("java.base@17.0.15/java.lang.Thread.sleep(Native Method)")
    Frame(method='java.lang.Thread.sleep', place='(Native Method)')
    >>> frame_of("app//com.acme.Enrich$$Lambda$7/0x00007f5d.accept(Unknown Source)").method
    'com.acme.Enrich$$Lambda$7/0x00007f5d.accept'
    """
    found = _FRAME.match(text.strip())
    if found is None or "." not in found["method"]:
        return None
    return Frame(found["method"], _MODULE.sub("(", found["place"] or "", count=1))


def read_stack(frames: Sequence[Frame], state: str, *, path: bool = True) -> Reading:
    """Return what a thread with these frames is doing.

    Args:
        frames: all frames, topmost first. From the first frame of Flink's mailbox loop down, they are the same in
            every task.
        state: Java's name of the state: RUNNABLE, BLOCKED, WAITING or TIMED_WAITING.
        path: whether the reading includes the frames.
    """
    # A profile has ten thousand stacks but only a few thousand methods, so classify each method once. The frames of a
    # stack have only a few different marks.
    marks = [_marks(method, "Unknown Source" in place) for method, place in frames]
    loop = _first(marks, _LOOP)
    active, marks = frames[:loop], marks[:loop]
    mine, whole = _first(marks, _USER), reduce(or_, set(marks), 0)
    chained = _first(marks, _CHAINED)
    if mine is not None and chained is not None and chained < mine:
        mine = None  # the user's function has passed the record on to a chained operator, such as a sink
    # Without user code, what the last operator of the chain calls.
    caller = chained if mine is None else mine
    calls = marks[:caller][::-1]  # from the call upwards
    above = active[:caller][::-1]
    component = _component(above, calls)
    entry = _entry(marks, whole, state, known=mine is not None or component is not None)
    call = None
    if mine is not None:
        call = next((above[n].method for n, each in enumerate(calls) if not each & _HIDDEN), None)
    return Reading(
        activity=entry.name,
        kind=entry.kind,
        frame=None if mine is None else active[mine].text,
        call=call,
        component=component,
        inside_async=bool(whole & _ASYNC),
        path=tuple(each.text[:_FRAME_CHARACTERS] for each in active[:_FRAMES]) if path else (),
        chained=bool(whole & _CHAINED),
    )


def _first(marks: Sequence[int], mark: int) -> int | None:
    """Return the index of the topmost frame with this mark, or None."""
    return min((marks.index(each) for each in set(marks) if each & mark), default=None)


def _entry(marks: Sequence[int], whole: int, state: str, *, known: bool) -> Activity:
    """Return the first matching entry; an entry with `caller` matches only if `known` is true.

    Args:
        marks: marks of each frame, topmost first.
        whole: the marks of all frames combined.
        state: state of the thread.
        known: whether the stack contains user code or a known component.
    """
    for first, each in _candidates(whole, state):
        # The frame must be near the top: the user code's own serializer counts, but not the engine's below it.
        if (known or not each.caller) and (
            not each.top or reduce(or_, marks[: each.top], 0) & first == first
        ):
            return each
    return _UNKNOWN


@functools.lru_cache(maxsize=65_536)
def _candidates(whole: int, state: str) -> tuple[tuple[int, Activity], ...]:
    """Return the entries that may match these combined marks, each with the mark that one of the topmost frames needs."""
    found = []
    for number, each in enumerate(activities()):
        first = _USER if "user" in each.frames else (1 << _TABLE + 2 * number) * bool(each.frames)
        needed = first | (1 << _TABLE + 2 * number + 1) * bool(each.below)
        if whole & needed == needed and (not each.states or state in each.states):
            found.append((first * ("user" not in each.frames), each))
    return tuple(found)


_UNKNOWN: Final = Activity("unknown", "unknown", "works", frozenset(), (), (), 0, caller=False)
# Marks of a method. The last three mark generated classes, specific components and transports.
_ASYNC, _CHAINED, _LOOP, _USER, _HIDDEN, _PART, _TRANSPORT = (1 << n for n in range(7))
_TABLE: Final = 7  # the marks of the table's entries start at this bit
_ROLES: Final = {"part": _PART, "transport": _TRANSPORT}


@functools.lru_cache(maxsize=65_536)
def _marks(method: str, without_source: bool) -> int:
    """Return the marks of a method, with one bit for `frames` and one for `below` of each entry in the table."""
    found = _ASYNC if method.startswith("org.apache.flink.streaming.api.operators.async.") else 0
    if ".processElement" in method or "ChainingOutput." in method:
        found |= _CHAINED
    if method.startswith(_MAILBOX):
        found |= _LOOP
    if _GENERATED.search(method) or (without_source and _COMPILED.match(method)):
        found |= _HIDDEN
    component = component_named(method)
    if component is not None:
        found |= _ROLES.get(component.role, 0)
    elif not found & _HIDDEN and not is_library(method):
        found |= _USER
    if not method.startswith(_all_prefixes()):
        return found
    for number, each in enumerate(activities()):
        for place, prefixes in enumerate((each.frames, each.below)):
            if method.startswith(prefixes):
                found |= 1 << _TABLE + 2 * number + place
    return found


@functools.cache
def _all_prefixes() -> tuple[str, ...]:
    """Return all patterns of the table, for one fast check that rules out most methods."""
    return tuple(prefix for each in activities() for prefix in (*each.frames, *each.below))


def _component(frames: Sequence[Frame], marks: Sequence[int]) -> str | None:
    """Return the software that user code calls: the first specific component or, failing that, a transport.

    Args:
        frames: the frames that may identify it, from the user code's call upwards.
        marks: their marks.
    """
    near = marks[:_CALLERS]
    part = _first(near, _PART)
    at = _first(near, _TRANSPORT) if part is None else part
    found = None if at is None else component_named(frames[at].method)
    return None if found is None else found.name
