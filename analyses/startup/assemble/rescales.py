"""Builds the rescales of a job with the adaptive scheduler, from logs or from Flink's own rescale history.

Such a job switches from CREATED to RUNNING again with the same ID but different tasks.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import takewhile
from typing import Final

from flowdiag.analyses.flink.failures.crises import kind_of
from flowdiag.analyses.flink.job import Incident, JobFacts
from flowdiag.analyses.startup.assemble.timeline import Row, ref_of
from flowdiag.analyses.startup.facts import Rescale, TaskTimes, Usage

_REQUIRED: Final = re.compile(r"numberOfRequiredSlots=([0-9]{1,9})")
# A failure can cause a run that begins this much later, because the scheduler waits up to five minutes for slots.
_FAILED_US: Final = 300_000_000
_CAUSES: Final = {
    "UPDATE_REQUIREMENT": "requirements",
    "NEW_RESOURCE_AVAILABLE": "new-resources",
    "RECOVERABLE_FAILOVER": "failure",
}


def count_slots(text: str) -> int:
    """Sum up the slots in a declaration of required slots."""
    return sum(int(n) for n in _REQUIRED.findall(text))


def rescale_times(job: JobFacts, since_us: int = 0) -> list[int]:
    """Return the times at which all tasks of a run had ended because of a rescale, not a failure.

    New tasks may be scheduled some milliseconds before the job switches to RUNNING.
    """
    changed = sorted(i.time_us for i in job.incidents if i.kind == "rescaled" and i.time_us)
    running = sorted(i.time_us for i in job.incidents if i.kind == "job-running" and i.time_us)
    last = {bisect_right(running, time): time for time in changed}
    return [t for place, t in sorted(last.items()) if place < len(running) and t > since_us]


class Runs:
    """The runs of one job, each with its tasks, their maximum parallelism, and the slots that the job requested."""

    def __init__(self, job: JobFacts, marks: Sequence[Row], tasks: Sequence[TaskTimes]) -> None:
        """Collect the runs, each of which begins when the job switches to RUNNING."""
        self._job = job
        self._begins = sorted(
            {i.time_us for i in job.incidents if i.kind == "job-running" and i.time_us}
        )
        self._widths = _widths(self._begins, tasks)
        self._required = [
            (row["time_us"], slots, row)
            for row in marks
            if row["template"] == "slots-required"
            and (slots := count_slots((row["fields"] or {}).get("requirements", "")))
        ]
        # With several slot sharing groups, a job needs more slots than its widest task has subtasks.
        self._allocated = {
            (row["fields"] or {}).get("slot")
            for row in marks
            if row["template"] == "slot-allocation"
        }
        self._history = [row for row in marks if row["template"] == "rest-rescale"]
        self._declared = [row for row in marks if row["template"] == "rest-resource-requirements"]

    def rescales(self) -> tuple[Rescale, ...]:
        """Return the rescales based on the logs or, without logs, on REST."""
        found = [
            self._rescale(number)
            for number in range(1, len(self._begins))
            if self._widths[number] and self._widths[number - 1]
        ]
        changed = tuple(r for r in found if r.before != r.after)
        return changed or tuple(_from_history(self._history))

    def usage(self) -> Usage | None:
        """Return the slots at the end of the input, or None without a run or a declaration."""
        if self._required and self._widths and self._widths[-1] == len(self._allocated):
            time_us, desired, row = self._required[-1]
            since_us = max(self._begins[-1], time_us)
            used = self._widths[-1]
            return Usage(
                used=used,
                desired=desired,
                since_us=since_us,
                last_us=self._job.last_us,
                ref=ref_of(row),
            )
        vertices = self._job.graph.vertices if self._job.graph else ()
        if self._declared and vertices:
            desired = _declared_slots(self._declared[-1])
            same = [*takewhile(lambda r: _declared_slots(r) == desired, reversed(self._declared))]
            # `collect` stores a response again only if it differs.
            last_us = max(same[0]["time_us"], self._job.last_us or 0)
            return Usage(
                used=max(vertex.parallelism for vertex in vertices),
                desired=desired,
                since_us=max([same[-1]["time_us"], *self._begins[-1:]]),
                last_us=last_us,
                ref=ref_of(same[0]),
            )
        return None

    def _desired_slots(self, time_us: int) -> int | None:
        return next((slots for at, slots, _ in reversed(self._required) if at <= time_us), None)

    def _rescale(self, number: int) -> Rescale:
        begin, time_us = self._begins[number - 1], self._begins[number]
        failure = self._failure(begin, time_us)
        desired, before = self._desired_slots(time_us), self._desired_slots(begin)
        requested = desired is not None and before is not None and desired != before
        cause = "failure" if failure else "requirements" if requested else "new-resources"
        mark = next((i.ref for i in self._job.incidents if i.time_us == time_us), None)
        return Rescale(
            time_us=time_us,
            cause=cause,
            before=self._widths[number - 1],
            after=self._widths[number],
            desired=desired,
            failure=kind_of(failure) if failure else None,
            taskmanager=failure.taskmanager if failure else None,
            host=failure.host if failure else None,
            ref=failure.ref if failure else mark,
        )

    def _failure(self, begin: int, time_us: int) -> Incident | None:
        """Return the failure between two runs. The loss of a TaskManager takes precedence over other failures."""
        low = max(begin, time_us - _FAILED_US)
        restarts = [
            i
            for i in self._job.incidents
            if i.kind == "restart" and i.time_us and low < i.time_us <= time_us
        ]
        near = [
            i
            for i in self._job.incidents
            if i.time_us and low < i.time_us <= time_us and kind_of(i) is not None
        ]
        lost = [i for i in near if kind_of(i) == "taskmanager-lost"]
        return next(iter((*lost, *near, *restarts)), None) if restarts else None


def _declared_slots(row: Row) -> int:
    return int((row["fields"] or {}).get("desired", "0"))


def _widths(begins: Sequence[int], tasks: Iterable[TaskTimes]) -> list[int]:
    """Return the parallelism of the widest task of each run."""
    found = [0] * len(begins)
    for task in tasks:
        place = bisect_right(begins, (task.begins_us or 0) + 1_000_000) - 1
        if place >= 0 and task.parallelism:
            found[place] = max(found[place], task.parallelism)
    return found


def _from_history(rows: Iterable[Row]) -> list[Rescale]:
    """Return the completed rescales in responses of `/jobs/:jobid/rescales`, without repetitions."""
    found: dict[str, Rescale] = {}
    for row in rows:
        fields = row["fields"] or {}
        before, after = int(fields.get("before", "0")), int(fields.get("after", "0"))
        if fields.get("state") != "COMPLETED" or not before or not after or before == after:
            continue
        found[fields.get("uuid", "")] = Rescale(
            time_us=row["time_us"],
            cause=_CAUSES.get(fields.get("trigger", ""), "unknown"),
            before=before,
            after=after,
            desired=int(fields.get("desired", "0")) or None,
            ref=ref_of(row),
        )
    return sorted(found.values(), key=lambda rescale: rescale.time_us)
