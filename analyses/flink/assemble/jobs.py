"""Identifies the jobs of an input, and the job of each record."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Final

from flowdiag.analyses.flink.assemble.rows import Row, key_of
from flowdiag.analyses.flink.clocks.settle import Writer
from flowdiag.analyses.model.keys import JobKey, Process
from flowdiag.parsers.rows import Event

# The tasks of a starting job are scheduled within this time of its record.
SCHEDULED_WITHIN_US: Final = 1_000_000


# Records that always concern a job, even if they do not name it.
_OF_A_JOB: Final = frozenset(
    {
        Event.EXCEPTION,
        Event.FAILURE,
        Event.JOB_STATE,
        Event.JOB_FINISHED,
        Event.JOB_RESTARTING,
        Event.RESTORED,
        Event.COORDINATOR_STOPPED,
        Event.CHECKPOINT_NOT_TRIGGERED,
        Event.CHECKPOINT_COUNTS,
        Event.TASK_STATE,
        Event.TASK_STUCK,
        Event.TASKMANAGER_LOST,
        Event.RESOURCE_FAILURE,
        Event.SNAPSHOT_FAILED,
        Event.ABORT_NOTIFIED,
        Event.ASYNCHRONOUS_PART,
        Event.ACKNOWLEDGE_REFUSED,
        Event.BARRIER_DELAYED,
        Event.NETWORK_MEMORY,
        Event.EXTERNAL_FAILURE,
        Event.PLACED,
        Event.VERTEX,
        Event.THREAD,
    }
)


_TERMINAL: Final = frozenset({"FINISHED", "CANCELED", "FAILED"})


class Jobs:
    """The jobs of an input by name, and the job of each record."""

    def __init__(
        self,
        by_what: Mapping[str, Sequence[Row]],
        records: Sequence[Row],
        writers: Sequence[Writer],
    ) -> None:
        """Index the records that name a job.

        Args:
            by_what: rows of `lifecycle.facts`.
            records: rows of incidents, by time.
            writers: the writers of the streams.
        """
        self.names: dict[JobKey, str] = {}
        self.clusters: dict[JobKey, str] = {}
        self._graphs: dict[str, JobKey] = {}
        self._by_stream: dict[tuple[int, str | None], JobKey] = {}
        self._starts: dict[tuple[int, str | None], list[tuple[int, JobKey]]] = defaultdict(list)
        keys: dict[JobKey, None] = {}
        times: dict[JobKey, list[int]] = defaultdict(list)
        ended: set[JobKey] = set()
        for row in by_what["checkpoint"]:
            key = key_of(row["job_cluster"], row["job_id"])
            keys.setdefault(key)
            if row["triggered_us"] is not None:
                times[key].append(row["triggered_us"])
        for row in (*by_what["late"], *by_what["decline"]):
            keys.setdefault(key_of(row["job_cluster"], row["job_id"]))
        for row in records:
            if row["job_id"]:
                key = key_of(row["cluster"], row["job_id"])
                keys.setdefault(key)
                if row["time_us"] is not None:
                    times[key].append(row["time_us"])
                if row["event"] == Event.JOB_STATE and row["to_state"] in _TERMINAL:
                    ended.add(key)
                self._add_names_of(row, key)
        if not keys:
            keys = dict.fromkeys(_unnamed_jobs(by_what, records))
        self.keys = tuple(keys)
        self._known = frozenset(keys)
        for started in self._starts.values():
            started.sort(key=itemgetter(0))
        self._next_other_starts = {
            stream: _next_other_starts(started) for stream, started in self._starts.items()
        }
        self._lives = {key: (min(found), max(found)) for key, found in times.items()}
        self._ended = frozenset(ended)
        self.versions = self._versions(writers)
        self._by_name: dict[str, set[JobKey]] = defaultdict(set)
        for key, name in self.names.items():
            self._by_name[name].add(key)
            self._by_name[re.sub(r"[^A-Za-z0-9]", "_", name)].add(key)

    def _add_names_of(self, row: Row, key: JobKey) -> None:
        """Take a job's name, execution graph and start time from a record that names the job."""
        if row["job_name"]:
            self.names.setdefault(key, row["job_name"])
        if row["event"] == Event.GRAPH_CREATED:
            graph = (row["fields"] or {}).get("graph_id")
            if graph:
                self._graphs[graph] = key
        starts = row["event"] == Event.JOB_STATE and row["to_state"] == "RUNNING"
        if starts and row["time_us"] is not None:
            self._starts[row["source"], row["owner"]].append((row["time_us"], key))

    def _versions(self, writers: Sequence[Writer]) -> dict[JobKey, str]:
        """Return the version of each job from its streams, and assign streams to jobs and clusters.

        A stream with only one job belongs to that job. A job is in the cluster of its JobManager's stream.
        """
        printed: dict[JobKey, str] = {}
        by_wording: dict[JobKey, str] = {}
        for writer in writers:
            known = {key_of(writer.cluster, job_id) for job_id in writer.job_ids} & self._known
            if not known:
                known = {JobKey(writer.cluster, "")} & self._known
            if len(known) == 1:
                self._by_stream[(writer.stream.source, writer.stream.owner)] = next(iter(known))
            if writer.role not in ("jobmanager", "mixed"):
                continue
            for key in known:
                self.clusters.setdefault(key, writer.cluster)
                if writer.version:
                    printed.setdefault(key, writer.version)
                elif writer.wording:
                    by_wording.setdefault(key, writer.wording)
        if printed or by_wording:
            return by_wording | printed
        versions = {writer.version or writer.wording for writer in writers} - {None}
        only = versions.pop() if len(versions) == 1 else None
        return dict.fromkeys(self.keys, only) if only else {}

    def named(self, row: Row) -> JobKey | None:
        """Return the job that a row names. If it names none, return the only job, or None."""
        return key_of(row["cluster"], row["job_id"]) if row["job_id"] else self.only

    def of_graph(self, attempt_id: str | None) -> JobKey | None:
        """Return the job whose execution graph ID is the first part of a four-part attempt ID."""
        return self._graphs.get((attempt_id or "").partition("_")[0])

    def of_stream(self, source: int | None, owner: str | None) -> JobKey | None:
        """Return the only job of a stream, or None if it has several."""
        if source is None:
            return None
        return self._by_stream.get((source, owner))

    def of_start(self, source: int | None, owner: str | None, time_us: int | None) -> JobKey | None:
        """Return the only job that started just before, according to the same JobManager's log.

        Tasks are scheduled when their job switches to RUNNING, including after restarts.
        """
        if source is None or time_us is None:
            return None
        starts = self._starts.get((source, owner), [])
        first = bisect_left(starts, time_us - SCHEDULED_WITHIN_US, key=itemgetter(0))
        last = bisect_right(starts, time_us, key=itemgetter(0))
        if first == last or self._next_other_starts[source, owner][first] < last:
            return None
        return starts[first][1]

    def of_load(self, row: Row) -> JobKey | None:
        """Return the job of a metric row, by ID or name. If several share the name, cluster and time decide."""
        if row.get("job_id"):
            return next((key for key in self.keys if key.job_id == row["job_id"]), None)
        found = self._by_name.get(row["job_name"] or "", set())
        if not found:
            return self.only
        if len(found) > 1:
            found = {key for key in found if self.clusters.get(key) == row["cluster"]} or found
        if len(found) > 1 and row["first_us"] is not None:
            found = self._possibly_running(found, row)
        return next(iter(found)) if len(found) == 1 else None

    def _possibly_running(self, keys: set[JobKey], row: Row) -> set[JobKey]:
        """Return the jobs that ran or may have run at the time of a row."""
        lives = {key: self._lives[key] for key in keys if key in self._lives}
        latest = max((first for first, _ in lives.values()), default=0)
        return {
            key
            for key, (first, last) in lives.items()
            if first <= row["last_us"] and (row["first_us"] <= last or self._may_hang(key, latest))
        }

    def _may_hang(self, key: JobKey, latest_us: int) -> bool:
        """Return whether a job may still run without logging: it did not end, and no job of its name replaced it."""
        return key not in self._ended and latest_us <= self._lives[key][1]

    @property
    def only(self) -> JobKey | None:
        """The only job, or None if there are several or none."""
        return self.keys[0] if len(self.keys) == 1 else None


def _next_other_starts(starts: Sequence[tuple[int, JobKey]]) -> list[int]:
    """Return, for each start, the index of the next start of a different job, which skips bursts of restarts."""
    found = [len(starts)] * len(starts)
    for index in range(len(starts) - 2, -1, -1):
        same = starts[index][1] == starts[index + 1][1]
        found[index] = found[index + 1] if same else index + 1
    return found


def _unnamed_jobs(by_what: Mapping[str, Sequence[Row]], records: Sequence[Row]) -> Iterable[JobKey]:
    """Yield a job for each cluster with records about a job that they do not name.

    A pasted exception or a paste of forty lines rarely names its job.
    """
    for row in records:
        if row["event"] in _OF_A_JOB:
            yield key_of(row["cluster"], None)
    for row in by_what["attempt"]:
        yield key_of(row["cluster"], None)


def processes_of(writers: Iterable[Writer]) -> tuple[Process, ...]:
    """Return the processes that wrote a log."""
    return tuple(
        Process(
            source=writer.stream.source,
            label=writer.stream.owner,
            role=writer.role,
            cluster=writer.cluster,
            version=writer.version,
            taskmanager=writer.taskmanager,
            host=writer.host,
            zone_offset_ms=writer.clock.zone_ms if writer.dated else None,
            zone_from=writer.clock.known_from if writer.dated else None,
            zone_changes=len(writer.clock.segments) > 1,
            clock_offset_ms=writer.clock.drift_ms,
            first_us=writer.first_us,
            last_us=writer.last_us,
            events=writer.events,
        )
        for writer in writers
        if writer.logged
    )
