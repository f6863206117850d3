"""Determines the code in which threads spend their time, from thread dumps.

Each dump is a sample that shows what every thread does at one moment. If threads do the same in most samples, this
shows why a task or a batch is slow. The topmost frame of user code is the line to change.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypedDict

from flowdiag.analyses.model import fmt
from flowdiag.analyses.model.finding import (
    Cited,
    Confidence,
    Evidence,
    FindingFields,
    StackPath,
    cite,
    measurement,
)
from flowdiag.analyses.model.keys import Ref
from flowdiag.analyses.model.rule import Limits, limit
from flowdiag.parsers.components import Component, components
from flowdiag.parsers.focus import Focus
from flowdiag.parsers.stacks.activities import activity_named

CODE_CAUSES: Final = {
    "external": "slow-external-call",
    "lock": "lock-contention",
    "pool": "connection-pool-exhausted",
    "sleep": "sleeping-in-operator",
    "state": "state-access-bound",
    "serialization": "serialisation-cost",
    "logging": "slow-logging",
    "cpu": "cpu-bound-code",
    "async-queue": "async-queue-full",
    "python": "python-worker-bound",
}
"""The cause for each kind of activity that slows a task down. Threads in other kinds of activities wait for other
tasks or for snapshots.
"""
_CALLS: Final = ("slow-external-call", "connection-pool-exhausted")
ALL_CODE_CAUSES: Final = (*CODE_CAUSES.values(), "deadlock", "blocking-in-async")

WAITING: Final = frozenset({"idle", "output", "job", "shuffle"})
"""Kinds of activities in which a thread waits for other tasks, so that its own code is not to blame."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """How many samples must agree.

    In the recorded jobs with slow code, all working samples of the culprit show the fault (half of them for a lock). The
    culprit works in all its samples, or in 40% of them if two of its subtasks are in a deadlock.

    Args:
        same_activity: minimum share of the working samples with the same activity. Between slow calls, a task also serializes
            and reads state.
        contended: minimum share of the working samples that wait for a lock or a pool. One of two threads that share it
            always waits.
        working: minimum share of the samples in which the threads work. A task that others wait for is rarely idle.
    """

    same_activity: float = 0.4
    contended: float = 0.34
    working: float = 0.3


DEFAULT_AGREEMENT: Final = Agreement()


class CodeLimits(Limits):
    """The limits of rules about code."""

    same_activity: float = limit(
        DEFAULT_AGREEMENT.same_activity,
        "share",
        "minimum share of working samples with the same activity; between slow calls, a task does other work",
    )
    contended: float = limit(
        DEFAULT_AGREEMENT.contended,
        "share",
        "minimum share of working samples that wait for a lock or pool; of two threads, one always waits",
    )
    working: float = limit(
        DEFAULT_AGREEMENT.working,
        "share",
        "minimum share of all samples in which the task works; a task that others wait for is rarely idle",
    )
    agreeing_dumps: float = limit(
        3, "dumps", "minimum number of dumps for medium confidence; fewer may show a rare moment"
    )


def agreement_of(limits: CodeLimits) -> Agreement:
    return Agreement(
        same_activity=limits.same_activity, contended=limits.contended, working=limits.working
    )


MAX_PATHS: Final = 40
"""Maximum number of different stacks in a finding."""
_LONGEST: Final = 120  # maximum number of characters of a frame in a sentence


@dataclass(frozen=True, slots=True, kw_only=True)
class Stack:
    """A thread in one thread dump, as classified by `parsers.stacks`.

    Args:
        dump: identifies the dump.
        task, subtask_index: the Flink subtask.
        taskmanager: the process; for Spark, the executor or `driver`.
        activity, kind: the entry in `formats/stacks.toml`, and its kind.
        frame, call: the topmost frame of user code, and the library method that it calls.
        component: the software to which the call belongs.
        inside_async: whether it runs in the function of an asynchronous operator.
        chained: whether it processes a record of another operator, instead of reading a source.
        legacy: whether it is the thread of a legacy source, and not the task's own.
        lock, owner: the lock that the thread waits for, and the thread that holds it.
        owner_frame, owner_activity, owner_component: `frame`, `activity` and `component` of that thread.
        deadlock: the threads that wait for each other in a cycle.
        threads: number of threads in the whole dump.
        crowd: size of the largest group of threads with similar names.
        samples: how often a profile contains this stack; 1 in a dump.
        path: the frames, topmost first.
    """

    dump: str
    thread: str
    task: str | None = None
    subtask_index: int | None = None
    taskmanager: str | None = None
    time_us: int | None = None
    state: str = ""
    activity: str = "unknown"
    kind: str = "unknown"
    frame: str | None = None
    call: str | None = None
    component: str | None = None
    inside_async: bool = False
    chained: bool = False
    legacy: bool = False
    lock: str | None = None
    owner: str | None = None
    owner_frame: str | None = None
    owner_activity: str | None = None
    owner_component: str | None = None
    deadlock: tuple[str, ...] = ()
    cpu_ms: float | None = None
    threads: int = 0
    crowd: int = 0
    crowd_name: str = ""
    samples: int = 1
    path: tuple[str, ...] = ()
    ref: Ref | None = None


def stack_of(
    fields: Mapping[str, str],
    *,
    thread: str,
    state: str = "",
    task: str | None = None,
    subtask_index: int | None = None,
    taskmanager: str | None = None,
    time_us: int | None = None,
    ref: Ref | None = None,
) -> Stack:
    """Return a thread from the fields of its row, which `parsers.stacks.dumps` describes."""
    cpu = fields.get("cpu_ms")
    return Stack(
        dump=fields.get("dump", ""),
        thread=thread,
        task=task,
        subtask_index=subtask_index,
        taskmanager=taskmanager,
        time_us=time_us,
        state=state,
        activity=fields.get("activity", "unknown"),
        kind=fields.get("kind", "unknown"),
        frame=fields.get("frame"),
        call=fields.get("call"),
        component=fields.get("component"),
        inside_async="async" in fields,
        chained="chained" in fields,
        legacy="legacy" in fields,
        lock=fields.get("lock"),
        owner=fields.get("owner"),
        owner_frame=fields.get("owner_frame"),
        owner_activity=fields.get("owner_activity"),
        owner_component=fields.get("owner_component"),
        deadlock=tuple(fields.get("deadlock", "").splitlines()),
        cpu_ms=None if cpu is None else float(cpu),
        threads=int(fields.get("threads", 0)),
        crowd=int(fields.get("crowd", 0)),
        crowd_name=fields.get("crowd_name", ""),
        samples=int(fields.get("samples", 1)),
        path=tuple(fields.get("path", "").splitlines()),
        ref=ref,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeReading:
    """The activity of a suspect's threads in most samples.

    Args:
        cause: a value of `CODE_CAUSES`, `deadlock` or `blocking-in-async`.
        stack: a sample that shows the cause, with the most common frame.
        agreeing: the samples that show the cause.
        samples, seen: number of samples in which the suspect works, and of all its samples.
        dumps: number of thread dumps with a sample that shows the cause.
    """

    cause: str
    stack: Stack
    agreeing: tuple[Stack, ...]
    samples: int
    seen: int
    dumps: int

    @property
    def refs(self) -> tuple[Cited, ...]:
        """The threads in the dumps that show this activity."""
        return tuple(evidence_of(stack) for stack in self.agreeing if stack.ref is not None)

    @property
    def count(self) -> int:
        """The number of samples that show this activity."""
        return _count(self.agreeing)

    @property
    def paths(self) -> tuple[StackPath, ...]:
        """The different stacks that show the cause, most frequent first."""
        counts: Counter[tuple[str, ...]] = Counter()
        for stack in self.agreeing:
            counts[stack.path] += stack.samples
        found = [(path, count) for path, count in counts.most_common(MAX_PATHS + 1) if path]
        return tuple(StackPath(samples=n, frames=path[::-1]) for path, n in found[:MAX_PATHS])

    @property
    def share(self) -> float:
        return self.count / max(self.samples, 1)

    @property
    def place(self) -> str:
        """The activity and the line, for example "waits for a response in com.acme.Price.map(Price.java:31)"."""
        stack = self.stack
        activity = activity_named(stack.activity)
        text = activity.what if activity is not None else "works"
        if self.cause in ("lock-contention", "deadlock"):
            text = f"waits for the lock {stack.lock}" if stack.lock else "waits for a lock"
            text += f" that thread {stack.owner} holds" if stack.owner else ""
        return text if stack.frame is None else f"{text} in {stack.frame[:_LONGEST]}"

    @property
    def client(self) -> Component | None:
        """The client outside of user code in which the thread waits, or the thread whose lock it waits for, such as
        the thread that writes the batches of a sink.
        """
        stack = self.stack
        if stack.frame is not None:
            return None
        if self.cause in _CALLS:
            return components().get(stack.component or "")
        owner = activity_named(stack.owner_activity or "")
        waits = owner is not None and CODE_CAUSES.get(owner.kind) in _CALLS
        if self.cause != "lock-contention" or not waits or stack.owner_frame is not None:
            return None
        return components().get(stack.owner_component or "")

    @property
    def clause(self) -> str:
        """`place`, plus the owner of a lock, or the call with its component."""
        calls = self.stack.call
        text = self.place + self._owner_clause
        if self.stack.frame is not None and calls is not None:
            text += f", which calls {short_method(calls)}"
        component = components().get(self.stack.component or "")
        return text if component is None else f"{text} ({component.what})"

    @property
    def _owner_clause(self) -> str:
        """The activity of the thread that holds the lock, because it explains why the others wait."""
        activity, frame = activity_named(self.stack.owner_activity or ""), self.stack.owner_frame
        if activity is None or self.cause != "lock-contention":
            return ""
        return f"; its owner {activity.what}" + (f" in {frame[:_LONGEST]}" if frame else "")

    @property
    def evidence_text(self) -> str:
        """The number of samples, as a clause."""
        return f"{self.count} of {fmt.plural(self.samples, 'stack sample')}"


def short_method(method: str) -> str:
    """Return a method with its class, without the package.

    >>> short_method("sun.net.www.protocol.http.HttpURLConnection.getInputStream")
    'HttpURLConnection.getInputStream'
    """
    return ".".join(method.split(".")[-2:])


def read_samples(
    samples: Sequence[Stack],
    causes: Mapping[str, str] = CODE_CAUSES,
    agreement: Agreement = DEFAULT_AGREEMENT,
) -> CodeReading | None:
    """Return the activity of the threads in most samples, or None without enough agreement.

    Dumps from before or after the problem do not matter, because the threads are idle there.

    Args:
        samples: samples of the threads of a suspect.
        causes: the cause for each kind of activity.
        agreement: how many samples must agree.
    """
    working = [stack for stack in samples if stack.kind not in WAITING]
    if not working or _count(working) < agreement.working * _count(samples):
        return None
    cause, agreeing = _most_common(working, causes, agreement)
    return None if cause is None else _reading(cause, agreeing, working, _count(samples))


def _count(stacks: Iterable[Stack]) -> int:
    return sum(stack.samples for stack in stacks)


def _most_common(
    working: Sequence[Stack], causes: Mapping[str, str], agreement: Agreement
) -> tuple[str | None, Sequence[Stack]]:
    """Return the cause that the samples agree on, and the samples that show it."""
    if cycle := [stack for stack in working if stack.deadlock]:
        return "deadlock", cycle
    counts: Counter[str] = Counter()
    for stack in working:
        counts[stack.kind] += stack.samples
    kind, total = counts.most_common(1)[0][0], counts.total()
    shared = [each for each in ("lock", "pool") if counts[each] >= agreement.contended * total]
    if shared:
        kind = shared[0]
    elif counts[kind] < agreement.same_activity * total:
        return None, ()
    agreeing = [stack for stack in working if stack.kind == kind]
    inside_async = _count(stack for stack in agreeing if stack.inside_async) * 2 > counts[kind]
    if inside_async and kind in ("external", "pool", "sleep"):
        return "blocking-in-async", agreeing
    return causes.get(kind), agreeing


def _reading(
    cause: str, agreeing: Sequence[Stack], working: Sequence[Stack], seen: int
) -> CodeReading:
    frames: Counter[tuple[str | None, str]] = Counter()
    for stack in agreeing:
        frames[stack.frame, stack.activity] += stack.samples
    (frame, activity), _ = frames.most_common(1)[0]
    first = next(s for s in agreeing if (s.frame, s.activity) == (frame, activity))
    return CodeReading(
        cause=cause,
        stack=first,
        agreeing=tuple(agreeing),
        samples=_count(working),
        seen=seen,
        dumps=len({stack.dump for stack in agreeing}),
    )


def code_fields(code: CodeReading, agreeing: float, *, waits_for: str) -> FindingFields:
    """Return the fields of a finding about code that follow from its samples.

    Args:
        code: the activity.
        agreeing: number of dumps for medium confidence.
        waits_for: in words, what idle threads wait for in addition to input. Their samples do not count.
    """
    times = [stack.time_us for stack in code.agreeing if stack.time_us is not None]
    working = f"of the samples that wait neither for input nor for {waits_for}"
    threads = "of its threads show this activity"
    return {
        "cause": code.cause,
        "confidence": confidence_of(code, agreeing),
        "first_us": min(times, default=None),
        "last_us": max(times, default=None),
        "count": code.count,
        "measurements": (
            measurement("stack-samples", code.count, "samples", over=threads),
            measurement("stack-share", round(code.share, 4), "share", over=working),
            measurement("thread-dumps", code.dumps, "dumps", agreeing),
        ),
        "evidence": cite((ref, None) for ref in code.refs),
        "stacks": code.paths,
    }


def evidence_of(stack: Stack) -> Evidence:
    """Return the thread in the dump as evidence. Its record must be known."""
    if stack.ref is None:
        raise ValueError("a sample without a record")
    focus = Focus(thread=stack.thread)
    return Evidence(*stack.ref, time_us=stack.time_us, focus=focus)


def confidence_of(code: CodeReading, agreeing: float) -> Confidence:
    """Return medium confidence for at least `agreeing` dumps. A lock names its owner, so one dump is enough."""
    if code.cause in ("deadlock", "lock-contention"):
        return Confidence.HIGH
    return Confidence.MEDIUM if code.dumps >= agreeing else Confidence.LOW


class AdviceNames(TypedDict):
    """The values that replace the names in braces in remedies."""

    code: str
    call: str
    task: str


def names_in_advice(code: CodeReading, unknown: str) -> AdviceNames:
    """Return the values that replace the names in braces in remedies. `unknown` replaces an unknown frame of user
    code.
    """
    stack = code.stack
    return {
        "code": stack.frame.partition("(")[0].rstrip() if stack.frame else unknown,
        "call": short_method(stack.call) if stack.call else "the blocking call",
        "task": fmt.shorten(stack.task or "the task"),
    }
