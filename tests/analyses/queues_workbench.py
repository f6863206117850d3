"""Hand-written queue metrics: a job of four tasks, minute by minute."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from flowdiag.analyses.flink.job import (
    ClusterFacts,
    Graph,
    Incident,
    JobFacts,
    Setting,
    SubtaskLoad,
    Vertex,
)
from flowdiag.analyses.flink.tasks.placement import SubtaskKey
from flowdiag.analyses.flink.tasks.topology import Topology
from flowdiag.analyses.model.finding import Finding, Inconclusive
from flowdiag.analyses.model.keys import JobKey, Ref
from flowdiag.analyses.queues.capacity import GateShape, input_capacity
from flowdiag.analyses.queues.facts import (
    Flow,
    Gauge,
    JobQueues,
    QueueFacts,
    Sample,
    TaskManagerSample,
)
from flowdiag.analyses.queues.rules import RULES as QUEUE_RULES
from flowdiag.analyses.report.verdicts import Judgement, judge

from .judged import outcomes_of

SECOND = 1_000_000
MINUTE = 60 * SECOND
FIRST = 28_000_000  # number of the first window: minutes since 1970

CHAIN = (("Source: orders", 2), ("enrich", 4), ("aggregate", 6), ("Sink: deliver", 2))


@dataclass
class Queues:
    """A builder for one job. Subtasks without values are idle, with empty queues and equal record
    counts."""

    tasks: tuple[tuple[str, int], ...] = CHAIN
    edges: tuple[tuple[str, str], ...] | None = None
    version: str | None = "1.20.5"
    managers: int = 3
    minutes: int = 5
    per_minute: int = 6
    legacy_sources: bool = True
    linked: bool = True
    values: dict[tuple[str, int, int], dict[str, float]] = field(default_factory=dict)
    absent: set[tuple[str, int]] = field(default_factory=set)
    incidents: list[Incident] = field(default_factory=list)
    settings: list[Setting] = field(default_factory=list)
    totals: list[SubtaskLoad] = field(default_factory=list)
    machines: dict[str, dict[str, float]] = field(default_factory=dict)
    starts: list[int] = field(default_factory=list)
    descriptions: dict[str, str] = field(default_factory=dict)
    flows: tuple[Flow, ...] = ()
    cores: dict[str | None, float] = field(default_factory=dict)
    key: JobKey = field(default_factory=lambda: JobKey("", "a" * 32))

    def set_metrics(
        self,
        task: str,
        subtasks: Iterable[int] | int | None = None,
        minutes: Iterable[int] | None = None,
        **values: float,
    ) -> Queues:
        """Set gauges and counters of some subtasks in some minutes; None means all."""
        size = dict(self.tasks)[task]
        if isinstance(subtasks, int):
            subtasks = [subtasks]
        for index in range(size) if subtasks is None else subtasks:
            for minute in range(self.minutes) if minutes is None else minutes:
                self.values.setdefault((task, index, minute), {}).update(values)
        return self

    def place(self, task: str, index: int) -> str:
        """Return the TaskManager of a subtask. Each task starts on a different TaskManager, round
        robin."""
        shift = [name for name, _ in self.tasks].index(task)
        return f"taskmanager-{(index + shift) % self.managers + 1}"

    def job(self) -> JobQueues:
        chain = tuple(zip(*(iter([n for n, _ in self.tasks][i:]) for i in (0, 1)), strict=False))
        edges = self.edges if self.edges is not None else chain
        graph = Graph(
            job=self.key,
            vertices=tuple(
                Vertex(
                    job=self.key,
                    vertex_id=f"{n:032x}",
                    task=task,
                    parallelism=size,
                    order=n,
                    description=self.descriptions.get(task),
                )
                for n, (task, size) in enumerate(self.tasks)
            ),
            edges=edges if self.linked else (),
            source="plan" if self.linked else "metrics",
            shipping=tuple((a, b, "HASH") for a, b in edges) if self.linked else (),
        )
        facts = JobFacts(
            key=self.key,
            name="orders",
            version=self.version,
            graph=graph,
            incidents=tuple(self.incidents),
            settings=tuple(self.settings),
            loads=tuple(self.totals),
        )
        topology = Topology(facts)
        version = tuple(int(part) for part in (self.version or "1.20").split(".")[:2])
        capacity = {}
        samples: dict[SubtaskKey, tuple[Sample, ...]] = {}
        for task, size in self.tasks:
            for index in range(size):
                key = SubtaskKey(task, index)
                if (task, index) in self.absent:
                    continue
                each = tuple(self._sample(task, index, minute) for minute in range(self.minutes))
                samples[key] = each
                shapes = [
                    GateShape(
                        channels=dict(self.tasks)[before],
                        remote=sum(
                            self.place(before, i) != self.place(task, index)
                            for i in range(dict(self.tasks)[before])
                        ),
                        subpartitions=size,
                    )
                    for before in topology.upstream.get(task, ())
                ]
                if shapes and self.linked:
                    capacity[key] = input_capacity(shapes, {}, (version[0], version[1]))
        if self.minutes == 0:
            samples = {}
        return JobQueues(
            job=facts,
            topology=topology,
            samples=samples,
            taskmanagers={
                name: tuple(self._machine(name, values, minute) for minute in range(self.minutes))
                for name, values in self.machines.items()
            },
            capacity=capacity,
            starts_us=tuple(sorted(self.starts)),
            flows=self.flows,
            cores=self.cores,
            version=(version[0], version[1]),
        )

    def _sample(self, task: str, index: int, minute: int) -> Sample:
        source = task.startswith("Source:")
        values: dict[str, float] = {
            "busy": 20.0,
            "idle": 980.0,
            "back_pressured": 0.0,
            "is_back_pressured": 0.0,
            "input_queue": 0.0 if source else 1.0,
            "in_pool": 0.0,
            "floating": 0.0,
            "exclusive": 0.0,
            "out_pool": 0.25,
            "records_in": 0.0 if source else 1000.0,
        }
        if source and self.legacy_sources:
            del values["busy"]
        values |= self.values.get((task, index, minute), {})
        begin = (FIRST + minute) * MINUTE
        counters = ("records_in", "records_out", "bytes_in")
        version = tuple(int(part) for part in (self.version or "1.20").split(".")[:2])
        for name, since in (("busy", (1, 13)), ("back_pressured", (1, 13)), ("idle", (1, 11))):
            if version < since:
                values.pop(name, None)
        if version < (1, 10):
            values.pop("is_back_pressured", None)
        return Sample(
            window=FIRST + minute,
            taskmanager=self.place(task, index),
            host=self.place(task, index).replace("taskmanager", "worker"),
            gauges={
                name: Gauge(self.per_minute, value * self.per_minute, value, value)
                for name, value in values.items()
                if name not in counters
            },
            increases={name: values[name] for name in counters if name in values},
            samples=self.per_minute,
            first_us=begin,
            last_us=begin + 50 * SECOND if self.per_minute > 1 else begin,
            ref=Ref(0, 100 * minute + index),
        )

    def _machine(self, name: str, values: Mapping[str, float], minute: int) -> TaskManagerSample:
        begin = (FIRST + minute) * MINUTE
        return TaskManagerSample(
            window=FIRST + minute,
            taskmanager=name,
            gauges={
                key: Gauge(self.per_minute, value * self.per_minute, value, value)
                for key, value in values.items()
                if key != "gc_ms"
            },
            gc_ms=values.get("gc_ms"),
            span_ms=60_000.0,
            samples=self.per_minute,
            first_us=begin,
            last_us=begin + 50 * SECOND,
            ref=Ref(1, minute),
        )

    def at(self, minute: float) -> int:
        return round((FIRST + minute) * MINUTE)

    def restored(self, minute: float) -> Queues:
        """Record a restore of the job at that time."""
        self.incidents.append(
            Incident(kind="restored", time_us=self.at(minute), job=self.key, ref=Ref(9, 0))
        )
        self.starts.append(self.at(minute))
        return self


def findings(*jobs: JobQueues) -> dict[str, Finding]:
    """Return the first finding of each rule, by code."""
    found: dict[str, Finding] = {}
    for outcome in outcomes_of(QUEUE_RULES, facts_of(*jobs)):
        for finding in outcome.findings:
            found.setdefault(outcome.code, finding)
    return found


def reasons(*jobs: JobQueues) -> list[Inconclusive]:
    """Return the reasons of inconclusive rules."""
    return [item for o in outcomes_of(QUEUE_RULES, facts_of(*jobs)) for item in o.inconclusive]


def judged(*jobs: JobQueues) -> Judgement:
    """Return the verdict, the cause and the culprits."""
    return judge(outcomes_of(QUEUE_RULES, facts_of(*jobs)))


def facts_of(*jobs: JobQueues) -> QueueFacts:
    """Return the input of the rules."""
    return QueueFacts(
        common=ClusterFacts(jobs=tuple(job.job for job in jobs), processes=()), jobs=jobs
    )
