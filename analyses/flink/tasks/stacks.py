"""The code in which the threads of a task spend their time, from thread dumps.

Dumps are samples: each shows what every thread does at one moment. Threads of busy subtasks that do the same in
most samples show why the task is slow, and the topmost frame of user code is the line to change.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from flowdiag.analyses.flink.job import JobFacts, Stack
from flowdiag.analyses.flink.tasks.placement import SubtaskKey
from flowdiag.analyses.flink.tasks.topology import topology_of
from flowdiag.analyses.model import fmt
from flowdiag.analyses.model.derived import once
from flowdiag.analyses.model.finding import Cited, Evidence
from flowdiag.parsers.components import components
from flowdiag.parsers.focus import Focus
from flowdiag.parsers.stacks.activities import activity_named

CODE_CAUSES: Final = {
    "external": "slow-external-call",
    "lock": "lock-contention",
    "pool": "connection-pool-exhausted",
    "sleep": "sleeping-in-operator",
    "state": "state-access-bound",
    "serialisation": "serialisation-cost",
    "logging": "slow-logging",
    "cpu": "cpu-bound-code",
    "async-queue": "async-queue-full",
}
"""The cause for each kind of activity that slows a task down. Other kinds wait for other tasks or for snapshots."""
ALL_CODE_CAUSES: Final = (*CODE_CAUSES.values(), "deadlock", "blocking-in-async")

AGREEING: Final = 0.4
"""Share of the working samples that do the same. A task also serializes, and reads state, between slow calls."""
CONTENDED: Final = 0.34
"""Share of the working samples that wait for a lock: of two subtasks that share it, one always waits."""
WORKING: Final = 0.3
"""Share of the samples in which the threads work. A task that others wait for is rarely idle."""
_LONGEST: Final = 120  # characters of a frame in a sentence


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeReading:
    """The activity of a suspect's threads in most samples.

    Args:
        cause: a word of `CODE_CAUSES` or `deadlock` or `blocking-in-async`.
        stack: a sample that shows it, with the most common frame.
        agreeing: the samples that show it.
        samples: samples of the suspect in which it works.
        dumps: thread dumps with a sample that shows it.
    """

    cause: str
    stack: Stack
    agreeing: tuple[Stack, ...]
    samples: int
    dumps: int

    @property
    def refs(self) -> tuple[Cited, ...]:
        """The threads in the dumps that show it."""
        return tuple(evidence_of(stack) for stack in self.agreeing if stack.ref is not None)

    @property
    def share(self) -> float:
        return len(self.agreeing) / max(self.samples, 1)

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
    def clause(self) -> str:
        """The place, with the call and its component."""
        calls = self.stack.call
        text = self.place
        if self.stack.frame is not None and calls is not None:
            text += f", which calls {short_method(calls)}"
        component = components().get(self.stack.component or "")
        return text if component is None else f"{text} ({component.what})"

    @property
    def evidence_text(self) -> str:
        """The number of samples, as a clause."""
        return f"{len(self.agreeing)} of {fmt.plural(self.samples, 'stack sample')}"


def short_method(method: str) -> str:
    """Return a method with its class, without the package.

    >>> short_method("sun.net.www.protocol.http.HttpURLConnection.getInputStream")
    'HttpURLConnection.getInputStream'
    """
    return ".".join(method.split(".")[-2:])


@once
def stacks_by_subtask(job: JobFacts) -> dict[SubtaskKey, tuple[Stack, ...]]:
    """Return the samples of each subtask, one per dump.

    The thread of a legacy source replaces the task's own, which only waits for it.
    """
    topology = topology_of(job)
    found: dict[SubtaskKey, dict[str, Stack]] = {}
    for stack in job.stacks:
        task = topology.canonical(stack.task)
        if task is None or stack.subtask_index is None:
            continue
        by_dump = found.setdefault(SubtaskKey(task, stack.subtask_index), {})
        if stack.legacy or stack.dump not in by_dump:
            by_dump[stack.dump] = stack
    return {key: tuple(by_dump.values()) for key, by_dump in found.items()}


def read_code(job: JobFacts, keys: Collection[SubtaskKey]) -> CodeReading | None:
    """Return what the threads of these subtasks do in most samples; None without enough agreement.

    Dumps from before or after their trouble do not matter, because the threads are idle there.
    """
    held = stacks_by_subtask(job)
    samples = [stack for key in sorted(keys) for stack in held.get(key, ())]
    working = [stack for stack in samples if stack.kind not in ("idle", "output")]
    if not working or len(working) < WORKING * len(samples):
        return None
    cause, agreeing = _most_common(working)
    return None if cause is None else _reading(cause, agreeing, working)


def read_tasks(job: JobFacts) -> dict[str, CodeReading]:
    """Return the activity of each task whose threads agree, by task."""
    tasks = dict.fromkeys(key.task for key in stacks_by_subtask(job))
    readings = {
        task: read_code(job, [key for key in stacks_by_subtask(job) if key.task == task])
        for task in tasks
    }
    return {task: reading for task, reading in readings.items() if reading is not None}


def _most_common(working: Sequence[Stack]) -> tuple[str | None, Sequence[Stack]]:
    """Return the cause that the samples agree on, and the samples that show it."""
    if cycle := [stack for stack in working if stack.deadlock]:
        return "deadlock", cycle
    locked = [stack for stack in working if stack.kind == "lock"]
    if len(locked) >= CONTENDED * len(working):
        return "lock-contention", locked
    kind, count = Counter(stack.kind for stack in working).most_common(1)[0]
    agreeing = [stack for stack in working if stack.kind == kind]
    if count < AGREEING * len(working):
        return None, ()
    inside_async = sum(stack.inside_async for stack in agreeing) * 2 > count
    if inside_async and kind in ("external", "pool", "sleep"):
        return "blocking-in-async", agreeing
    return CODE_CAUSES.get(kind), agreeing


def _reading(cause: str, agreeing: Sequence[Stack], working: Sequence[Stack]) -> CodeReading:
    frames = Counter((stack.frame, stack.activity) for stack in agreeing)
    (frame, activity), _ = frames.most_common(1)[0]
    first = next(s for s in agreeing if (s.frame, s.activity) == (frame, activity))
    return CodeReading(
        cause=cause,
        stack=first,
        agreeing=tuple(agreeing),
        samples=len(working),
        dumps=len({stack.dump for stack in agreeing}),
    )


def evidence_of(stack: Stack) -> Evidence:
    """Return the thread in the dump as evidence; the record must be known."""
    if stack.ref is None:
        raise ValueError("a sample without a record")
    focus = Focus(thread=stack.thread)
    return Evidence(*stack.ref, time_us=stack.time_us, focus=focus)
