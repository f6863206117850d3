"""Finds the code in which a task's threads spend their time, from thread dumps."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Final

from flowdiag.analyses.flink.job import JobFacts
from flowdiag.analyses.flink.tasks.placement import SubtaskKey
from flowdiag.analyses.flink.tasks.topology import topology_of
from flowdiag.analyses.model.derived import once
from flowdiag.analyses.stacks import DEFAULT_AGREEMENT, Agreement, CodeReading, Stack, read_samples

WHOLE: Final = -1
"""Index for samples that cover all subtasks together."""


@once
def stacks_by_subtask(job: JobFacts) -> dict[SubtaskKey, tuple[Stack, ...]]:
    """Return the samples of each subtask, one per dump. A flame graph covers all subtasks together.

    The thread of a legacy source replaces the task thread, which only waits for it.
    """
    topology = topology_of(job)
    found: dict[SubtaskKey, dict[str, Stack]] = {}
    for stack in job.stacks:
        task = topology.canonical(stack.task)
        if task is None:
            continue
        index = WHOLE if stack.subtask_index is None else stack.subtask_index
        by_dump = found.setdefault(SubtaskKey(task, index), {})
        if stack.legacy or stack.dump not in by_dump:
            by_dump[stack.dump] = stack
    return {key: tuple(by_dump.values()) for key, by_dump in found.items()}


def read_code(
    job: JobFacts, keys: Collection[SubtaskKey], agreement: Agreement = DEFAULT_AGREEMENT
) -> CodeReading | None:
    """Return what the threads of these subtasks do in most samples, or None without enough agreement."""
    held = stacks_by_subtask(job)
    found = [stack for key in sorted(keys) for stack in held.get(key, ())]
    whole = sorted({SubtaskKey(key.task, WHOLE) for key in keys})
    samples = found or [stack for key in whole for stack in held.get(key, ())]
    code = read_samples(samples, agreement=agreement)
    return (
        code
        if code is None or code.stack.kind != "python"
        else _prefer_worker_code(job, code, agreement)
    )


def _prefer_worker_code(job: JobFacts, code: CodeReading, agreement: Agreement) -> CodeReading:
    """Return what the Python workers do according to `py-spy`, if only one task runs Python, otherwise `code`."""
    tasks = {stack.task for stack in job.stacks if stack.kind == "python"}
    workers = [s for s in job.stacks if s.task is None and s.kind != "checkpoint"]
    shown = read_samples(workers, agreement=agreement) if len(tasks - {None}) == 1 else None
    if shown is None or shown.stack.kind != "python":
        return code
    return replace(shown, stack=replace(shown.stack, task=code.stack.task))


def read_tasks(job: JobFacts, agreement: Agreement = DEFAULT_AGREEMENT) -> dict[str, CodeReading]:
    """Return what each task does, for tasks whose threads agree."""
    tasks = dict.fromkeys(key.task for key in stacks_by_subtask(job))
    readings = {
        task: read_code(job, [k for k in stacks_by_subtask(job) if k.task == task], agreement)
        for task in tasks
    }
    return {task: reading for task, reading in readings.items() if reading is not None}
