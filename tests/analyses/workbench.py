"""Hand-written facts, for rules and judgements that need no JVM."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from flowdiag.analyses.flink.job import (
    Attempt,
    Checkpoint,
    ClusterFacts,
    Decline,
    Graph,
    Incident,
    JobFacts,
    LateAcknowledgement,
    Setting,
    Status,
    SubtaskCheckpoint,
    SubtaskLoad,
    Vertex,
)
from flowdiag.analyses.model.keys import JobKey, Ref

SECOND = 1_000_000
T0 = 1_700_000_000 * SECOND
Who = tuple[str, int]


@dataclass
class Bench:
    """A builder for one job: `bench.completes(5)`, `bench.expires(2)`, `bench.job()`."""

    version: str | None = "1.20.5"
    interval_s: float = 60.0
    timeout_s: float = 600.0
    key: JobKey = field(default_factory=lambda: JobKey("", "a" * 32))
    tasks: tuple[tuple[str, int], ...] = (
        ("Source: orders", 2),
        ("enrich", 4),
        ("aggregate", 6),
        ("Sink: deliver", 2),
    )
    managers: int = 3
    now_s: float = 0.0
    next_id: int = 1
    run: int = 1
    with_graph: bool = True
    checkpoints: list[Checkpoint] = field(default_factory=list)
    late: list[LateAcknowledgement] = field(default_factory=list)
    declines: list[Decline] = field(default_factory=list)
    rows: list[SubtaskCheckpoint] = field(default_factory=list)
    loads: list[SubtaskLoad] = field(default_factory=list)
    incidents: list[Incident] = field(default_factory=list)
    settings: list[Setting] = field(default_factory=list)
    offset: int = 0

    def ref(self) -> Ref:
        self.offset += 100
        return Ref(0, self.offset)

    def at(self, second: float) -> int:
        return T0 + round(second * SECOND)

    # --- checkpoints ----------------------------------------------------------------------------

    def _add(self, status: Status, lasted_s: float, kind: str, **more: Any) -> Checkpoint:
        begun = self.now_s
        ended = status is not Status.IN_FLIGHT
        checkpoint = Checkpoint(
            job=self.key,
            run=self.run,
            id=self.next_id,
            status=status,
            type=kind,
            triggered_us=self.at(begun),
            ended_us=self.at(begun + lasted_s) if ended else None,
            duration_ms=round(lasted_s * 1000) if ended else None,
            trigger_ref=self.ref(),
            end_ref=self.ref() if ended else None,
            **more,
        )
        self.checkpoints.append(checkpoint)
        self.next_id += 1
        self.now_s = begun + max(self.interval_s, lasted_s)
        return checkpoint

    def completes(
        self,
        count: int = 1,
        lasted_s: float = 1.0,
        size: int = 1_000_000,
        kind: str = "checkpoint",
        **more: Any,
    ) -> list[Checkpoint]:
        return [
            self._add(Status.COMPLETED, lasted_s, kind, bytes=size, **more) for _ in range(count)
        ]

    def expires(self, count: int = 1, kind: str = "checkpoint") -> list[Checkpoint]:
        return [self._add(Status.EXPIRED, self.timeout_s, kind) for _ in range(count)]

    def declined(self, count: int = 1, reason: str | None = None) -> list[Checkpoint]:
        return [self._add(Status.DECLINED, 1.0, "checkpoint", reason=reason) for _ in range(count)]

    def fails(self, reason: str, count: int = 1, kind: str = "checkpoint") -> list[Checkpoint]:
        return [self._add(Status.FAILED, 1.0, kind, reason=reason) for _ in range(count)]

    def aborted(
        self, reason: str, count: int = 1, kind: str = "checkpoint", lasted_s: float = 1.0
    ) -> list[Checkpoint]:
        return [self._add(Status.ABORTED, lasted_s, kind, reason=reason) for _ in range(count)]

    def in_flight(self, count: int = 1) -> list[Checkpoint]:
        return [self._add(Status.IN_FLIGHT, 0.0, "checkpoint") for _ in range(count)]

    # --- the job graph --------------------------------------------------------------------------

    def manager_of(self, task: str, index: int) -> str:
        before = 0
        for name, parallelism in self.tasks:
            if name == task:
                return f"tm-{(before + index) % self.managers + 1}"
            before += parallelism
        raise KeyError(task)

    def attempt(self, task: str, index: int, number: int = 0) -> Attempt:
        manager = self.manager_of(task, index)
        return Attempt(
            job=self.key,
            attempt_id=f"{task}-{index}-{number}",
            vertex_id=f"vertex-{task}",
            task=task,
            subtask_index=index,
            parallelism=dict(self.tasks)[task],
            attempt=number,
            taskmanager=manager,
            host=f"host-{manager}",
            deployed_us=self.at(-10),
            ref=self.ref(),
        )

    def everyone(self, *tasks: str) -> list[Who]:
        """Yield every subtask of the given tasks, or of all tasks."""
        return [(t, i) for t, n in self.tasks if not tasks or t in tasks for i in range(n)]

    def on(self, manager: str) -> list[Who]:
        """Yield every subtask on a TaskManager."""
        return [who for who in self.everyone() if self.manager_of(*who) == manager]

    def graph(self) -> Graph | None:
        if not self.with_graph:
            return None
        names = [task for task, _ in self.tasks]
        return Graph(
            job=self.key,
            vertices=tuple(
                Vertex(job=self.key, vertex_id=f"vertex-{t}", task=t, parallelism=n, order=i)
                for i, (t, n) in enumerate(self.tasks)
            ),
            edges=tuple(pairwise(names)),
            source="plan",
        )

    # --- signals --------------------------------------------------------------------------------

    def is_late(
        self, checkpoint: Checkpoint, task: str, index: int, after_s: float = 5.0
    ) -> LateAcknowledgement:
        ended = checkpoint.ended_us if checkpoint.ended_us is not None else self.at(0)
        late = LateAcknowledgement(
            job=self.key,
            run=checkpoint.run,
            checkpoint=checkpoint.id,
            attempt=self.attempt(task, index),
            received_us=ended + round(after_s * SECOND),
            after_trigger_ms=round((self.timeout_s + after_s) * 1000),
            after_expiry_ms=round(after_s * 1000),
            expired=checkpoint.status is Status.EXPIRED,
            ref=self.ref(),
        )
        self.late.append(late)
        return late

    def refuses(self, checkpoint: Checkpoint, task: str, index: int, reason: str) -> None:
        self.declines.append(
            Decline(
                job=self.key,
                run=checkpoint.run,
                checkpoint=checkpoint.id,
                attempt=self.attempt(task, index),
                time_us=checkpoint.ended_us,
                reason=reason,
                ref=self.ref(),
            )
        )

    def acknowledgements(
        self,
        checkpoint: Checkpoint,
        missing: Iterable[Who] = (),
        special: Mapping[Who, dict[str, Any]] | None = None,
        source: str = "rest",
        **common: Any,
    ) -> None:
        """Add a row per subtask, acknowledged after 100 ms unless it is missing."""
        lost = set(missing)
        for task, index in self.everyone():
            gone = (task, index) in lost
            values: dict[str, Any] = {"acknowledged": not gone}
            if not gone:
                values |= {"end_to_end_ms": 100, "sync_ms": 5, "async_ms": 10} | common
            values |= (special or {}).get((task, index), {})
            self.rows.append(
                SubtaskCheckpoint(
                    job=self.key,
                    checkpoint=checkpoint.id,
                    vertex_id=f"vertex-{task}",
                    task=task,
                    subtask_index=index,
                    taskmanager=self.manager_of(task, index),
                    source=source,
                    ref=self.ref(),
                    **values,
                )
            )

    def loaded(
        self,
        special: Mapping[tuple[str, int | None], dict[str, float | None]] | None = None,
        **common: float | None,
    ) -> None:
        """Add loads of every subtask; the keys of `special` are (task, index), or (task, None) for a whole task."""
        quiet: dict[str, float | None] = {
            "busy": 100.0,
            "idle": 900.0,
            "back_pressured": 0.0,
            "records_in": 1000.0,
        }
        self.loads.clear()
        for task, index in self.everyone():
            values: dict[str, Any] = quiet | common
            values |= (special or {}).get((task, None), {})
            values |= (special or {}).get((task, index), {})
            manager = self.manager_of(task, index)
            self.loads.append(
                SubtaskLoad(
                    job=self.key,
                    task=task,
                    subtask_index=index,
                    taskmanager=manager,
                    host=f"host-{manager}",
                    samples=12,
                    ref=self.ref(),
                    **values,
                )
            )

    def happens(self, kind: str, second: float | None = None, **more: Any) -> Incident:
        moment = self.at(self.now_s if second is None else second)
        incident = Incident(kind=kind, time_us=moment, job=self.key, ref=self.ref(), **more)
        self.incidents.append(incident)
        return incident

    def job(self, **more: Any) -> JobFacts:
        last = max(
            [c.ended_us or c.triggered_us or 0 for c in self.checkpoints]
            + [i.time_us or 0 for i in self.incidents]
            + [T0]
        )
        values: dict[str, Any] = {
            "key": self.key,
            "name": "orders",
            "version": self.version,
            "checkpoints": tuple(self.checkpoints),
            "late": tuple(self.late),
            "declines": tuple(self.declines),
            "attempts": tuple(self.attempt(*who) for who in self.everyone()),
            "graph": self.graph(),
            "subtask_checkpoints": tuple(self.rows),
            "loads": tuple(self.loads),
            "incidents": tuple(sorted(self.incidents, key=lambda i: i.time_us or 0)),
            "settings": (
                self.setting("execution.checkpointing.interval", self.interval_s),
                self.setting("execution.checkpointing.timeout", self.timeout_s),
                *self.settings,
            ),
            "first_us": T0,
            "last_us": last,
        }
        return JobFacts(**(values | more))

    def setting(self, key: str, seconds: float) -> Setting:
        return Setting(job=self.key, key=key, value=str(round(seconds * 1000)), source="rest")

    def facts(self, **more: Any) -> ClusterFacts:
        values: dict[str, Any] = {
            "jobs": (self.job(),),
            "processes": (),
            "has_jobmanager_log": True,
            "has_rest": bool(self.rows),
        }
        return ClusterFacts(**(values | more))
