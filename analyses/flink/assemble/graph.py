"""Builds the job graph from plans or, without a plan, from the order of deployment."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from flowdiag.analyses.flink.assemble.jobs import Jobs
from flowdiag.analyses.flink.assemble.rows import Row
from flowdiag.analyses.flink.job import Attempt, Graph, Vertex
from flowdiag.analyses.model.keys import JobKey, Ref
from flowdiag.parsers.rows import Event


def graphs_of(
    records: Iterable[Row], attempts: Mapping[str, Attempt], jobs: Jobs
) -> dict[JobKey, Graph]:
    """Return the graphs from plans or, without a plan, the vertices in deployment order."""
    plans: dict[JobKey, _Plan] = defaultdict(_Plan)
    for row in records:
        if row["event"] not in (Event.VERTEX, Event.EDGE) or not row["vertex_id"]:
            continue
        key = jobs.named(row)
        if key is not None:
            plans[key].add(key, row)
    graphs = {key: plan.graph(key) for key, plan in plans.items() if plan.vertices}
    by_job: dict[JobKey, list[Attempt]] = defaultdict(list)
    for attempt in attempts.values():
        if attempt.job and attempt.task and attempt.ref:
            by_job[attempt.job].append(attempt)
    return graphs | {
        key: _graph_of_attempts(key, members)
        for key, members in by_job.items()
        if key not in graphs
    }


@dataclass(slots=True)
class _Plan:
    """The vertices and edges of a job, by vertex ID."""

    vertices: dict[str, Vertex] = field(default_factory=dict)
    edges: set[tuple[str, str]] = field(default_factory=set)
    shipping: dict[tuple[str, str], str] = field(default_factory=dict)
    descriptions: dict[str, str] = field(default_factory=dict)
    origin: str = ""

    def add(self, key: JobKey, row: Row) -> None:
        """Add a vertex or an edge. A later row replaces an earlier one."""
        fields = row["fields"] or {}
        if row["event"] == Event.VERTEX and row["task"]:
            order = fields.get("order")
            known = self.vertices.get(row["vertex_id"])
            self.vertices[row["vertex_id"]] = Vertex(
                job=key,
                vertex_id=row["vertex_id"],
                task=row["task"],
                parallelism=row["parallelism"] or (known.parallelism if known else 0),
                order=int(order) if order else (known.order if known else None),
            )
            self.origin = self.origin or fields.get("origin", "rest")
        elif row["event"] == Event.EDGE and fields.get("upstream"):
            edge = (fields["upstream"], row["vertex_id"])
            self.edges.add(edge)
            if fields.get("ship_strategy"):
                self.shipping[edge] = fields["ship_strategy"]
            if fields.get("description"):
                self.descriptions[row["vertex_id"]] = fields["description"]

    def graph(self, key: JobKey) -> Graph:
        """Return the graph with named vertices."""
        names = {vertex_id: vertex.task for vertex_id, vertex in self.vertices.items()}
        known = {
            edge: (names[edge[0]], names[edge[1]])
            for edge in self.edges
            if edge[0] in names and edge[1] in names
        }
        return Graph(
            job=key,
            vertices=tuple(
                replace(vertex, description=self.descriptions.get(vertex.vertex_id or ""))
                for vertex in _ordered(self.vertices, self.edges)
            ),
            edges=tuple(sorted(known.values())),
            source=self.origin,
            shipping=tuple(
                sorted(
                    (*known[edge], strategy)
                    for edge, strategy in self.shipping.items()
                    if edge in known
                )
            ),
        )


def _graph_of_attempts(key: JobKey, attempts: Iterable[Attempt]) -> Graph:
    """Return a graph without edges, with the vertices in order of their first deployment."""
    first: dict[tuple[str, int], Attempt] = {}
    for attempt in sorted(attempts, key=lambda a: (a.deployed_us or 0, a.ref or Ref(0, 0))):
        first.setdefault((attempt.task or "", attempt.parallelism or 0), attempt)
    return Graph(
        job=key,
        vertices=tuple(
            Vertex(
                job=key,
                vertex_id=attempt.vertex_id,
                task=task,
                parallelism=parallelism,
                order=index,
            )
            for index, ((task, parallelism), attempt) in enumerate(first.items())
        ),
        edges=(),
        source="deployment order",
    )


def _ordered(vertices: Mapping[str, Vertex], edges: set[tuple[str, str]]) -> tuple[Vertex, ...]:
    """Sort the vertices from sources to sinks. Without edges, keep the listed order."""
    depth = dict.fromkeys(vertices, 0)
    for _ in vertices:
        for upstream, downstream in edges:
            if upstream in depth and downstream in depth:
                depth[downstream] = max(depth[downstream], depth[upstream] + 1)
    listed = list(vertices)
    ranked = sorted(vertices, key=lambda v: (depth[v], vertices[v].order or 0, listed.index(v)))
    return tuple(
        replace(vertices[vertex_id], order=index) for index, vertex_id in enumerate(ranked)
    )
