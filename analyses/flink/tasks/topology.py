"""Determines the order of a job's tasks, for signals and rules.

The order comes from the plan, if there is one. If only the deployment order is known, each task is assumed to
feed the next one, and sources to feed the first task that is not a source. This is right for the linear chains
of most jobs. The report shows where the order comes from (`known_from`).
"""

from __future__ import annotations

import re
from collections import defaultdict
from typing import Final

from flowdiag.analyses.flink.job import JobFacts
from flowdiag.analyses.model.derived import once

_SINK: Final = re.compile("^Sink:|-> ?Sink:")
"""Tasks that end in a sink, by the names that Flink gives them."""
# Metric scopes truncate task names (at 80 characters in most versions), unlike logs and REST.
_CUT = 60


@once
def topology_of(job: JobFacts) -> Topology:
    return Topology(job)


class Topology:
    """The tasks of a job from the sources downstream, with their parallelism and neighbors."""

    def __init__(self, job: JobFacts) -> None:
        """Read the graph of a job or derive it from the attempts."""
        sizes, edges, self.known_from = _graph_of(job)
        self.parallelism = sizes
        self.tasks = tuple(sizes)
        self._order = {task: number for number, task in enumerate(self.tasks)}
        self._by_sign = {_comparable_name(task): task for task in reversed(self.tasks)}
        self._called: dict[str, str | None] = {}
        self._downstream: dict[str, frozenset[str]] = {}
        self.exact = bool(edges) or len(sizes) <= 1
        upstream: dict[str, list[str]] = defaultdict(list)
        for before, after in sorted(edges, key=lambda e: (self._order[e[0]], self._order[e[1]])):
            upstream[after].append(before)
        if not edges:
            upstream = self._by_deployment()
        self.sources = frozenset(task for task in self.tasks if not upstream.get(task))
        self.upstream = {task: tuple(upstream.get(task, ())) for task in self.tasks}

    def _by_deployment(self) -> dict[str, list[str]]:
        """Chain the tasks in deployment order, with all sources feeding the first other task, and sinks last.

        Metrics alone do not show the order of deployment.
        """
        first = [task for task in self.tasks if not _SINK.search(task)][:1] or self.tasks[:1]
        sources = [task for task in self.tasks if task.startswith("Source:") or task in first]
        inner = [task for task in self.tasks if task not in sources]
        inner.sort(key=lambda task: _SINK.search(task) is not None)
        return {task: inner[n - 1 : n] or sources for n, task in enumerate(inner)}

    def canonical(self, task: str | None) -> str | None:
        """Return the graph's name for a truncated or filtered task name, or None if no task matches.

        Without a graph, the name is returned unchanged.
        """
        if task is None or task in self._order or not self.tasks:
            return task
        if task not in self._called:
            self._called[task] = self._matching_task(task)
        return self._called[task]

    def _matching_task(self, task: str) -> str | None:
        """Return the task in the graph whose name is spelled differently but means this task."""
        sign = _comparable_name(task)
        if sign in self._by_sign:
            return self._by_sign[sign]
        if len(task) < _CUT:
            return None
        near = [name for known, name in self._by_sign.items() if known.startswith(sign)]
        return near[0] if len(near) == 1 else None

    def order(self, task: str) -> int:
        """Return the position of a task, sources first, unknown tasks last."""
        return self._order.get(task, len(self._order))

    def downstream(self, task: str) -> frozenset[str]:
        """Return all tasks that barriers reach after passing this task."""
        if task not in self._downstream:
            found: set[str] = set()
            for other in self.tasks:
                if any(before == task or before in found for before in self.upstream[other]):
                    found.add(other)
            self._downstream[task] = frozenset(found)
        return self._downstream[task]

    def direct_successors(self, task: str) -> tuple[str, ...]:
        return tuple(other for other in self.tasks if task in self.upstream[other])


def _graph_of(job: JobFacts) -> tuple[dict[str, int], set[tuple[str, str]], str | None]:
    """Return the tasks with their parallelism, the edges, and where they come from."""
    sizes: dict[str, int] = {}
    if job.graph is None:
        for attempt in job.attempts:
            if attempt.task is not None:
                sizes[attempt.task] = max(sizes.get(attempt.task, 0), attempt.parallelism or 0)
        return sizes, set(), "deployment order" if sizes else None
    ranked = sorted(
        enumerate(job.graph.vertices),
        key=lambda item: (item[1].order if item[1].order is not None else item[0], item[0]),
    )
    for _, vertex in ranked:
        sizes[vertex.task] = max(sizes.get(vertex.task, 0), vertex.parallelism)
    edges = {(a, b) for a, b in job.graph.edges if a in sizes and b in sizes}
    return sizes, edges, job.graph.source


def _comparable_name(task: str) -> str:
    """Return a name without the characters that metric filters replace."""
    return re.sub(r"[^0-9a-z]+", "_", task.lower()).strip("_")
