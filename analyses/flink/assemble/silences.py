"""Finds silences in logs, where lines are missing or the process stalled."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import pairwise

from flowdiag.analyses.flink.clocks.settle import Writer
from flowdiag.analyses.flink.job import Incident
from flowdiag.parsers.flink.marks import merge_spans


def silences_of(writers: Iterable[Writer]) -> Iterator[Incident]:
    """Yield `silent` incidents in order, for all JobManagers together and for each TaskManager.

    Several files may be parts of one log, and one JobManager may take over from another. A silence is a
    period without records in any of them.
    """
    heard: defaultdict[tuple[str, str], list[tuple[int, int]]] = defaultdict(list)
    for writer in writers:
        if writer.logged and writer.role == "taskmanager":
            name = writer.taskmanager or f"{writer.stream.source} {writer.stream.owner}"
            heard["taskmanager", name] += writer.heard
        elif writer.logged:
            heard["jobmanager", ""] += writer.heard
    for (role, name), spans in sorted(heard.items()):
        for (_, before), (after, _) in pairwise(merge_spans(spans)):
            yield Incident(
                kind="silent",
                time_us=before,
                duration_ms=(after - before) // 1000,
                taskmanager=name or None,
                text={"role": role},
            )
