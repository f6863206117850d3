"""Collects from a Flink cluster what the rules need: `flowdiag collect flink`.

Every tick asks the JobManager's REST interface (1.9 to 2.3) for the state of the jobs, their checkpoints
with per-subtask details, exceptions, and the metrics of every subtask, in batches of ids that keep URLs
short. What hardly changes (placement, configuration) is asked for at the start, after a deployment, and
every `SLOW_TICKS` ticks. What did not change is not stored again.

The JobManager fetches metrics from the TaskManagers when somebody asks, at most every ten seconds, and
answers with what it has: so a tick asks for the job first, waits a moment, and asks for metrics then. From
1.13 on an answer about back pressure tells when they were fetched: a refresh is stored once, with its time,
and is not asked for twice.

Never asked for: the aggregated metrics endpoint (it logs a warning for each metric that is no number) and,
up to 1.12, the back pressure, unless wanted: it makes TaskManagers sample their tasks.

How many requests that is stands in `requests_per_tick` and docs/collect.md.
"""

from __future__ import annotations

import asyncio
import fnmatch
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote

from flowdiag.parsers.errors import FlowdiagError
from flowdiag.parsers.json_values import (
    as_count,
    as_integer,
    as_moment,
    as_number,
    as_string,
    object_at,
    objects_at,
)
from flowdiag.parsers.live.client import Answer, Client, RequestFailed
from flowdiag.parsers.live.folder import Folder, now_ms
from flowdiag.parsers.live.watching import Outcome, Say, Watch, hint_for, redacted
from flowdiag.parsers.units import TIME_UNITS, duration_ms

SLOW_TICKS: Final = 20
QUERY_CHARACTERS: Final = 1800
"""Of a query: with the path well below 2 KB, which every proxy takes (Netty takes 4 KB)."""
MAX_SUBTASKS: Final = 500
"""Subtasks whose metrics are asked for in one tick; of more, the suspects come first."""
SUSPECTS_SHARE: Final = 0.8  # of these; the others take turns
MAX_PARALLELISM: Final = 32_768  # Flink's own limit
MAX_KNOWN: Final = 100_000  # subtasks of one job that are kept in mind
MAX_IDS: Final = 300  # of metrics of one vertex
MAX_MANAGERS: Final = 20  # whose metrics are asked for in one tick
MAX_JOBS: Final = 20
CHECKPOINTS_PER_TICK: Final = 2  # whose per-subtask details are asked for
PENDING_MS: Final = 10_000  # a checkpoint in progress for longer is looked into
DUMPS: Final = 5  # thread dumps of one run at most
DUMP_TICKS: Final = 4  # between two of them
SETTLE_S: Final = 1.0  # for the JobManager to fetch metrics
WARM_UP: Final = 4  # times this, for a cluster that nobody asked before

TERMINAL: Final = frozenset(("CANCELED", "FAILED", "FINISHED", "SUSPENDED"))

# By name, see formats/metrics.toml. What an older version does not register is not listed and not asked for.
TASK_METRICS: Final = (
    "isBackPressured",
    "busyTimeMsPerSecond",
    "idleTimeMsPerSecond",
    "backPressuredTimeMsPerSecond",
    "hardBackPressuredTimeMsPerSecond",
    "accumulateBusyTimeMs",
    "accumulateIdleTimeMs",
    "accumulateBackPressuredTimeMs",
    "numRecordsIn",
    "numRecordsOut",
    "numBytesIn",
    "numBytesOut",
    "currentInputWatermark",
    "checkpointAlignmentTime",
    "checkpointStartDelayNanos",
    "estimatedTimeToConsumeBuffersMs",
    "debloatedBufferSize",
    "mailboxQueueSize",
    "Shuffle.Netty.Input.Buffers.inputQueueLength",
    "Shuffle.Netty.Input.Buffers.inputQueueSize",
    "Shuffle.Netty.Input.Buffers.inPoolUsage",
    "Shuffle.Netty.Input.Buffers.inputFloatingBuffersUsage",
    "Shuffle.Netty.Input.Buffers.inputExclusiveBuffersUsage",
    "Shuffle.Netty.Output.Buffers.outputQueueLength",
    "Shuffle.Netty.Output.Buffers.outPoolUsage",
    "Shuffle.Netty.Input.numBytesInLocal",
    "Shuffle.Netty.Input.numBytesInRemote",
)
_GATE = re.compile(
    r"Shuffle\.Netty\.(?:Input|Output)\.\d{1,4}\."
    r"(?:debloatedBufferSize|estimatedTimeToConsumeBuffersMs|(?:total|min|max|avg)QueueLen)"
)
_OPERATOR = re.compile(
    r".+\.(?:pendingRecords|pendingBytes|watermarkLag|currentFetchEventTimeLag"
    r"|currentEmitEventTimeLag|sourceIdleTime|currentSendTime|numRecordsOutErrors|numRecordsSendErrors)"
)
PROCESS_METRICS = re.compile(
    r"Status\.(?:JVM\.(?:CPU\.Load|Memory\.Heap\.(?:Used|Max)|Memory\.Direct\.MemoryUsed"
    r"|Memory\.Metaspace\.Used|Threads\.Count|GarbageCollector\.[^.]+\.(?:Count|Time))"
    r"|Flink\.Memory\.Managed\.(?:Used|Total)"
    r"|Shuffle\.Netty\.(?:TotalMemorySegments|AvailableMemorySegments|RequestedMemoryUsage))"
)
JOB_METRICS: Final = (
    "numRestarts",
    "fullRestarts",
    "numRescales",
    "uptime",
    "downtime",
    "numberOfInProgressCheckpoints",
    "numberOfCompletedCheckpoints",
    "numberOfFailedCheckpoints",
    "lastCheckpointDuration",
    "lastCheckpointSize",
    "lastCheckpointFullSize",
)


def requests_per_tick(vertices: int, taskmanagers: int, batches: int, jobs: int = 1) -> int:
    """The most requests of a tick in which nothing was deployed, while no checkpoint is looked into.

    Args:
        vertices: of all jobs that are watched; each checkpoint that is looked into (at most two per job
            and tick) costs one more request per vertex.
        taskmanagers: of the cluster.
        batches: of metric ids, see `batches_of`.
        jobs: that are watched.

    >>> requests_per_tick(vertices=4, taskmanagers=3, batches=8)
    18
    """
    overview, jobmanager, job, stamp = 1, 1, 4, 1
    return overview + jobmanager + min(taskmanagers, MAX_MANAGERS) + jobs * (job + stamp) + batches


def batches_of(ids: Iterable[str], most: int = QUERY_CHARACTERS) -> Iterator[str]:
    """Queries that ask for metrics, each within a length.

    >>> list(batches_of(["0.numRecordsIn", "1.numRecordsIn"], most=20))
    ['get=0.numRecordsIn', 'get=1.numRecordsIn']
    """
    query = ""
    for name in ids:
        part = quote(name, safe="")
        if query and len(query) + len(part) + 1 > most:
            yield query
            query = ""
        query = f"{query},{part}" if query else f"get={part}"
    if query:
        yield query


@dataclass(frozen=True, slots=True, kw_only=True)
class FlinkOptions:
    """What the user wants.

    Attributes:
        job: id or name of the job, `*` and `?` allowed; None for all that run.
        every_s, for_s, most_ticks: see `Watch`.
        sample_back_pressure: ask for the back pressure up to 1.12, too.
        thread_dumps: take thread dumps of suspect TaskManagers.
        settle_s: between asking for the jobs and asking for their metrics.
    """

    job: str | None = None
    every_s: float = 15.0
    for_s: float = 300.0
    most_ticks: int | None = None
    sample_back_pressure: bool = False
    thread_dumps: bool = True
    settle_s: float = SETTLE_S


@dataclass(slots=True)
class _Vertex:
    id: str
    name: str
    parallelism: int
    ids: tuple[str, ...] = ()  # of metrics, without the subtask
    managers: list[str | None] = field(default_factory=list)
    hosts: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class _Job:
    id: str
    name: str = ""
    state: str = ""
    vertices: list[_Vertex] = field(default_factory=list)
    deployed: object = None  # what changes when something is deployed
    detailed: set[int] = field(default_factory=set)
    plan_stored: bool = False
    refreshed_ms: int | None = None
    turn: int = 0  # of the subtasks that are no suspects


Values = dict[tuple[str, int], dict[str, float]]  # (vertex, subtask) -> metric -> value


async def collect_flink(
    client: Client, folder: Folder, options: FlinkOptions, *, tool: str, say: Say
) -> Outcome:
    """Collect until the time is up or the jobs have ended.

    Raises:
        FlowdiagError: it is no Flink, too old, has no such job, or nothing could be collected.
        asyncio.CancelledError: somebody interrupted; what was collected is stored.
    """
    collector = _Collector(client, folder, options, tool, say)
    await collector.begin()
    return await collector.run()


class _Collector:
    def __init__(
        self, client: Client, folder: Folder, options: FlinkOptions, tool: str, say: Say
    ) -> None:
        self._watch = Watch(
            client,
            folder,
            every_s=options.every_s,
            for_s=options.for_s,
            tool=tool,
            say=say,
            most_ticks=options.most_ticks,
        )
        self._client, self._options, self._say = client, options, say
        self._version: tuple[int, int] = (1, 9)
        self._version_text = ""
        self._jobs: dict[str, _Job] = {}
        self._managers: dict[str, str] = {}
        self._process_ids: dict[str, tuple[str, ...]] = {}
        self._number = 0
        self._manager_turn = 0
        self._refresh_ms = 10_000  # `metrics.fetcher.update-interval`
        self._skew_ms = 0  # the JobManager's clock minus ours
        self._dumps: dict[str, int] = {}
        self._ended: set[str] = set()
        self._suspects: list[str] = []
        self._beginning: Answer | None = None

    # -- first contact ---------------------------------------------------------------------

    async def begin(self) -> None:
        """Find out what it is.

        Raises:
            FlowdiagError: it is not Flink's REST interface, or older than 1.9, or cannot be asked.
        """
        self._say("asking for the version")
        url = self._watch.folder.url
        try:
            self._beginning = await self._client.get("/config")
        except RequestFailed as failed:
            raise FlowdiagError(f"{url}: {failed.why}", hint=hint_for(failed)) from None
        body = self._beginning.body
        version = body.get("flink-version") if isinstance(body, Mapping) else None
        if not isinstance(version, str):
            raise FlowdiagError(
                f"{url}: not the REST interface of a Flink JobManager",
                hint="give the address of its web UI, usually port 8081",
            )
        self._version_text = version
        if found := re.match(r"\s*v?(\d{1,3})\.(\d{1,4})", version):
            self._version = (int(found[1]), int(found[2]))
        if self._version < (1, 9):
            raise FlowdiagError(
                f"{url}: Flink {version} is too old", hint="collecting needs Flink 1.9 or later"
            )

    async def run(self) -> Outcome:
        """Tick until the end."""
        return await self._watch.run(
            self._tick, self._context, flink_version=self._version_text, job=self._options.job
        )

    def _context(self) -> dict[str, Any]:
        """Names and places, which answers about metrics lack."""
        return {
            "flink_version": self._version_text,
            "jobs": {
                job.id: {
                    "name": job.name,
                    "vertices": {
                        vertex.id: {
                            "name": vertex.name,
                            "parallelism": vertex.parallelism,
                            **({"taskmanagers": vertex.managers} if vertex.managers else {}),
                        }
                        for vertex in job.vertices
                    },
                }
                for job in self._jobs.values()
            },
            "taskmanagers": self._managers,
        }

    # -- one tick --------------------------------------------------------------------------

    async def _tick(self) -> str | None:
        slow = self._number % SLOW_TICKS == 0
        self._number += 1
        if self._beginning is not None:
            self._keep(self._beginning)
            self._watch.tick.answered += 1
            self._beginning = None
        jobs = await self._find_jobs()
        if jobs is None:
            return None
        if not jobs:
            return "no job is known"
        if slow:
            await self._cluster()
        began = asyncio.get_running_loop().time()
        await asyncio.gather(*(self._job(job, slow) for job in jobs))
        live = [job for job in jobs if job.state not in TERMINAL]
        if live:
            spent = asyncio.get_running_loop().time() - began
            await asyncio.sleep(max(0.0, self._options.settle_s - spent))
            for job in live:
                await self._metrics(job)
            await self._processes()
            await self._dump()
        self._progress(live)
        for job in jobs:
            if job.state in TERMINAL:
                self._ended.add(job.id)
        if not live:
            return "the job has ended" if len(jobs) == 1 else "the jobs have ended"
        return None

    def _progress(self, live: Sequence[_Job]) -> None:
        tick, subtasks = self._watch.tick, sum(v.parallelism for j in live for v in j.vertices)
        self._say(
            f"{self._watch.folder.tick + 1} snapshots of {len(live)} job{'s' * (len(live) != 1)} with"
            f" {subtasks} subtasks, {self._client.requests - tick.requests_before} requests in the last"
        )

    async def _find_jobs(self) -> list[_Job] | None:
        """The jobs to watch in this tick; None where nobody answered."""
        answer = await self._watch.ask("/jobs/overview")
        if answer is None:
            return None
        listed = objects_at(answer.body if isinstance(answer.body, Mapping) else {}, "jobs")
        wanted = self._options.job
        states = sorted((str(item.get("jid")), str(item.get("state"))) for item in listed)
        self._keep(answer, compare=states)
        if wanted is not None:
            chosen = [
                item
                for item in listed
                if fnmatch.fnmatchcase(str(item.get("jid")), wanted.lower())
                or fnmatch.fnmatchcase(str(item.get("name")), wanted)
            ]
            if not chosen and not self._jobs:
                names = ", ".join(sorted({str(item.get("name")) for item in listed})[:5])
                raise FlowdiagError(
                    f"no job is called '{wanted}'", hint=f"there are: {names}" if names else None
                )
        else:
            chosen = listed
        live = [item for item in chosen if str(item.get("state")) not in TERMINAL]
        # One that ended since the last tick is looked at once more; nobody runs: what is known of them.
        gone = [
            item
            for item in chosen
            if str(item.get("state")) in TERMINAL
            and str(item.get("jid")) not in self._ended
            and (str(item.get("jid")) in self._jobs or not live)
        ]
        found = []
        for item in [*live, *gone][:MAX_JOBS]:
            job_id = as_string(item.get("jid"))
            if job_id is not None and re.fullmatch(r"[0-9a-fA-F]{32}", job_id):
                job = self._jobs.setdefault(job_id, _Job(job_id))
                job.name, job.state = str(item.get("name") or ""), str(item.get("state") or "")
                found.append(job)
        return found

    async def _cluster(self) -> None:
        """Configuration and TaskManagers, which hardly change."""
        paths = ["/overview", "/jobmanager/config", "/taskmanagers"]
        for answer in await self._watch.ask_all((path, "") for path in paths):
            if answer is None:
                continue
            if answer.path == "/taskmanagers":
                self._know_managers(answer)
                continue
            self._keep(answer)
            for item in answer.body if isinstance(answer.body, list) else ():
                if (
                    isinstance(item, Mapping)
                    and item.get("key") == "metrics.fetcher.update-interval"
                ):
                    self._refresh_ms = _interval_ms(item.get("value")) or self._refresh_ms

    def _know_managers(self, answer: Answer) -> None:
        items = objects_at(answer.body if isinstance(answer.body, Mapping) else {}, "taskmanagers")
        known = {}
        for item in items:
            manager = as_string(item.get("id"))
            if manager is not None:
                host = re.search(r"@(\[[^\]]*\]|[^:/@\s]+)", as_string(item.get("path")) or "")
                known[manager] = host[1] if host else ""
        self._managers = known
        volatile = ("timeSinceLastHeartbeat", "hardware", "freeResource")
        self._keep(
            answer,
            compare=[{k: v for k, v in item.items() if k not in volatile} for item in items],
        )

    async def _job(self, job: _Job, slow: bool) -> None:
        base = f"/jobs/{job.id}"
        got, checkpoints, exceptions = await self._watch.ask_all(
            [(base, ""), (f"{base}/checkpoints", ""), (f"{base}/exceptions", "")]
        )
        if got is not None and isinstance(got.body, Mapping):
            self._know_job(job, got)
        if checkpoints is not None:
            self._keep(checkpoints)
        if exceptions is not None:
            self._keep(exceptions)
        if slow or not job.deployed:
            wanted = [(f"{base}/checkpoints/config", ""), (f"{base}/config", "")]
            for answer in await self._watch.ask_all(wanted):
                if answer is not None:
                    self._keep(answer)
        known = got is not None and isinstance(got.body, Mapping)
        deployed = _deployment(got.body) if got is not None and known else job.deployed
        if slow or deployed != job.deployed:
            await self._placement(job)
            job.deployed = deployed
        if checkpoints is not None and isinstance(checkpoints.body, Mapping):
            await self._details(job, checkpoints.body)

    def _know_job(self, job: _Job, answer: Answer) -> None:
        body = dict(answer.body)
        now = as_moment(body.get("now"))
        if now is not None:
            self._skew_ms = now - answer.time_ms
        known = {vertex.id: vertex for vertex in job.vertices}
        job.vertices = []
        subtasks = 0
        for item in objects_at(body, "vertices"):
            vertex_id, name = as_string(item.get("id")), as_string(item.get("name"))
            parallelism = min(as_count(item.get("parallelism")) or 0, MAX_PARALLELISM)
            subtasks += max(1, parallelism)
            if subtasks > MAX_KNOWN:
                break
            if vertex_id is None or not re.fullmatch(r"[0-9a-zA-Z]{8,64}", vertex_id):
                continue
            vertex = known.get(vertex_id) or _Vertex(vertex_id, name or vertex_id, parallelism)
            if vertex.parallelism != parallelism:  # rescaled
                vertex.parallelism, vertex.managers, vertex.ids = parallelism, [], ()
            job.vertices.append(vertex)
        body.pop("stream-graph", None)
        if job.plan_stored:
            body.pop("plan", None)
        job.plan_stored = True
        self._watch.keep(answer.path, redacted(body), answer.time_ms, compare=False)

    async def _placement(self, job: _Job) -> None:
        """Where the subtasks run, by what they did so far; and which metrics they have."""
        base = f"/jobs/{job.id}/vertices"
        answers = await self._watch.ask_all((f"{base}/{vertex.id}", "") for vertex in job.vertices)
        for vertex, answer in zip(job.vertices, answers, strict=True):
            if answer is None or not isinstance(answer.body, Mapping):
                continue
            self._keep(answer, compare=False)
            managers: list[str | None] = [None] * vertex.parallelism
            for item in objects_at(answer.body, "subtasks"):
                index = as_count(item.get("subtask"))
                if index is not None and index < len(managers):
                    managers[index] = _manager_of(item, self._managers)
            vertex.managers = managers if any(managers) else []
        unknown = {m for v in job.vertices for m in v.managers if m} - self._managers.keys()
        if unknown and (answer := await self._watch.ask("/taskmanagers")) is not None:
            self._know_managers(answer)

    async def _details(self, job: _Job, body: Mapping[str, Any]) -> None:
        """Per-subtask acknowledgements of what ended since, and of what takes long."""
        pending, ended = [], []
        for item in objects_at(body, "history"):
            number = as_integer(item.get("id"))
            if number is None or number in job.detailed:
                continue
            if item.get("status") == "IN_PROGRESS":
                begun = as_moment(item.get("trigger_timestamp"))
                if begun is not None and now_ms() + self._skew_ms - begun > PENDING_MS:
                    pending.append((begun, number))
            else:
                ended.append((item.get("status") != "FAILED", -number, number))
        chosen = [number for *_, number in sorted(ended)][:CHECKPOINTS_PER_TICK]
        if pending and len(chosen) < CHECKPOINTS_PER_TICK:
            chosen.append(min(pending)[1])
        finished = {number for *_, number in ended}
        for number in chosen:
            base = f"/jobs/{job.id}/checkpoints/details/{number}/subtasks"
            answers = await self._watch.ask_all((f"{base}/{v.id}", "") for v in job.vertices)
            for answer in answers:
                if answer is not None:
                    self._keep(answer)
            self._suspect_by_acknowledgements(job, answers)
            if number in finished:
                job.detailed.add(number)

    def _suspect_by_acknowledgements(self, job: _Job, answers: Sequence[Answer | None]) -> None:
        """The few subtasks of the most upstream vertex that have not acknowledged."""
        for vertex, answer in zip(job.vertices, answers, strict=True):
            body = answer.body if answer is not None and isinstance(answer.body, Mapping) else {}
            late = [
                as_count(item.get("index"))
                for item in objects_at(body, "subtasks")
                if item.get("status") == "pending_or_failed"
            ]
            if late:
                if len(late) * 4 <= vertex.parallelism:
                    self._suspects += _places(vertex, (i for i in late if i is not None))
                return

    # -- metrics ---------------------------------------------------------------------------

    async def _metrics(self, job: _Job) -> None:
        await self._list_ids(job)
        base = f"/jobs/{job.id}/vertices"
        many = sum(vertex.parallelism for vertex in job.vertices) > MAX_SUBTASKS
        knows_time = self._version >= (1, 13)
        refreshed = await self._refreshed(job) if knows_time and job.vertices else None
        if refreshed is not None and refreshed == job.refreshed_ms:
            return  # the same refresh as in the last tick is the same sample
        job.refreshed_ms = refreshed
        pressures: list[Answer | None] = []
        if (many and knows_time) or (self._options.sample_back_pressure and not knows_time):
            pressures = await self._watch.ask_all(
                (f"{base}/{vertex.id}/backpressure", "") for vertex in job.vertices
            )
            for answer in pressures:
                if answer is not None:
                    self._keep(answer)
        wanted: list[tuple[_Vertex, str]] = []
        for vertex, subtasks in self._chosen(job, pressures if many else None):
            names = (f"{subtask}.{name}" for subtask in subtasks for name in vertex.ids)
            wanted += [(vertex, query) for query in batches_of(names)]
        answers = await self._watch.ask_all((f"{base}/{v.id}/metrics", q) for v, q in wanted)
        of_job = await self._watch.ask(f"/jobs/{job.id}/metrics", next(batches_of(JOB_METRICS)))
        self._store_metrics(job, wanted, answers, refreshed)
        if of_job is not None:
            at_ms = refreshed or of_job.time_ms + self._skew_ms
            path = of_job.path.partition("?")[0]
            self._watch.keep(path, of_job.body, of_job.time_ms, at_ms=at_ms)

    def _store_metrics(
        self,
        job: _Job,
        wanted: Sequence[tuple[_Vertex, str]],
        answers: Sequence[Answer | None],
        refreshed: int | None,
    ) -> None:
        values: Values = {}
        for vertex in job.vertices:
            items: list[Any] = []
            time_ms = None
            for (of, _), answer in zip(wanted, answers, strict=True):
                if of is vertex and answer is not None and isinstance(answer.body, list):
                    items += answer.body
                    time_ms = answer.time_ms
            if time_ms is None or not items:
                continue
            path = f"/jobs/{job.id}/vertices/{vertex.id}/metrics"
            at_ms = refreshed or time_ms + self._skew_ms
            # Up to 1.12 nobody says when; but the same numbers are the same refresh.
            compare = False if refreshed else sorted(items, key=str)
            self._watch.keep(path, items, time_ms, at_ms=at_ms, compare=compare)
            _note_values(vertex, items, values)
        self._suspect_by_load(job, values)

    async def _refreshed(self, job: _Job) -> int | None:
        """When the metrics were fetched that are there now; from 1.13 on any back pressure says so.

        Asking starts a refresh where the last one is old enough: then it waits until the new values are
        in. Where one is all but due, it waits for it, or a tick of ten seconds would miss every other one.
        """
        stamp = await self._stamp(job)
        if stamp is not None and stamp == job.refreshed_ms:
            due_ms = self._refresh_ms - (now_ms() + self._skew_ms - stamp)
            if 0 < due_ms <= 2000:
                await asyncio.sleep((due_ms + 50) / 1000)
                stamp = await self._stamp(job)
        if stamp is not None and stamp != job.refreshed_ms:
            age_s = (now_ms() + self._skew_ms - stamp) / 1000
            await asyncio.sleep(
                min(self._options.settle_s, max(0.0, self._options.settle_s - age_s))
            )
        return stamp

    async def _stamp(self, job: _Job) -> int | None:
        first = job.vertices[0].id
        answer = await self._watch.ask(f"/jobs/{job.id}/vertices/{first}/backpressure")
        body = answer.body if answer is not None and isinstance(answer.body, Mapping) else {}
        return as_moment(body.get("end-timestamp"))

    async def _list_ids(self, job: _Job) -> None:
        """Which metrics there are: what subtask 0 has, its siblings have as well."""
        for attempt in range(WARM_UP):
            without = [vertex for vertex in job.vertices if not vertex.ids]
            if not without:
                return
            base = f"/jobs/{job.id}/vertices"
            answers = await self._watch.ask_all(
                (f"{base}/{vertex.id}/subtasks/0/metrics", "") for vertex in without
            )
            for vertex, answer in zip(without, answers, strict=True):
                vertex.ids = _wanted_ids(answer.body if answer is not None else None)
            # The first one to ask finds the JobManager without any metrics.
            if self._number > 1 or all(vertex.ids for vertex in without):
                return
            if attempt + 1 < WARM_UP:
                await asyncio.sleep(self._options.settle_s)

    def _chosen(
        self, job: _Job, pressures: Sequence[Answer | None] | None
    ) -> Iterator[tuple[_Vertex, list[int]]]:
        """Subtasks to ask for: all of them; of too many, the suspects and some of the others in turn."""
        everything = [(v, i) for v in job.vertices for i in range(v.parallelism)]
        if len(everything) > MAX_SUBTASKS:
            loads = {
                (vertex.id, index): load
                for vertex, answer in zip(job.vertices, pressures or (), strict=False)
                if answer is not None
                for index, load in _loads(answer.body)
            }
            ranked = sorted(everything, key=lambda one: -loads.get((one[0].id, one[1]), 0.0))
            first = int(MAX_SUBTASKS * SUSPECTS_SHARE) if loads else 0
            rest = ranked[first:]
            count = MAX_SUBTASKS - first
            at = job.turn % len(rest)
            job.turn = (at + count) % len(rest)
            # Turns go by place in the job, since the ranking changes from tick to tick.
            rest.sort(key=lambda one: (job.vertices.index(one[0]), one[1]))
            everything = ranked[:first] + (rest + rest)[at : at + count]
        chosen: dict[str, list[int]] = {}
        for vertex, index in everything:
            chosen.setdefault(vertex.id, []).append(index)
        for vertex in job.vertices:
            if vertex.ids and vertex.id in chosen:
                yield vertex, sorted(chosen[vertex.id])

    async def _processes(self) -> None:
        """Memory, garbage collection and processor time of TaskManagers and JobManager."""
        managers = sorted(self._managers)
        if len(managers) > MAX_MANAGERS:
            suspects = [one for one in dict.fromkeys(self._suspects) if one in self._managers]
            rest = [one for one in managers if one not in suspects]
            at = self._manager_turn % len(rest)
            count = max(1, MAX_MANAGERS - len(suspects))
            self._manager_turn = at + count
            managers = [*suspects, *(rest + rest)[at : at + count]][:MAX_MANAGERS]
        paths = {
            "/jobmanager/metrics": "jobmanager",
            **{
                f"/taskmanagers/{quote(manager, safe='')}/metrics": "taskmanager"
                for manager in managers
            },
        }
        for path, kind in paths.items():
            if not self._process_ids.get(kind):
                listed = await self._watch.ask(path)
                self._process_ids[kind] = _process_ids(listed.body if listed else None)
        wanted = [
            (path, next(batches_of(self._process_ids[kind])))
            for path, kind in paths.items()
            if self._process_ids[kind]
        ]
        for answer in await self._watch.ask_all(wanted):
            if answer is not None and answer.body:
                path = answer.path.partition("?")[0]
                at_ms = answer.time_ms + self._skew_ms
                self._watch.keep(path, answer.body, answer.time_ms, at_ms=at_ms)

    # -- suspects --------------------------------------------------------------------------

    def _suspect_by_load(self, job: _Job, values: Values) -> None:
        """Busy subtasks, while others wait for somebody."""
        names = {vertex.id: vertex for vertex in job.vertices}
        waits = any(_pressed(value) for value in values.values())
        busy = sorted(
            ((-_busy(value), key) for key, value in values.items() if _busy(value) >= 0.9),
        )
        if waits:
            for _, (vertex_id, index) in busy[:3]:
                self._suspects += _places(names[vertex_id], [index])

    async def _dump(self) -> None:
        """A thread dump of the first suspect that had none lately, from 1.11 on."""
        suspects, self._suspects = list(dict.fromkeys(self._suspects)), []
        if self._version < (1, 11) or not self._options.thread_dumps:
            return
        if len(self._dumps) and max(self._dumps.values()) + DUMP_TICKS > self._number:
            return
        for manager in suspects:
            if manager in self._dumps or len(self._dumps) >= DUMPS:
                continue
            self._dumps[manager] = self._number
            path = f"/taskmanagers/{quote(manager, safe='')}/thread-dump"
            answer = await self._watch.ask(path)
            if answer is not None:
                self._keep(answer)
            return

    def _keep(self, answer: Answer, compare: Any = None) -> None:
        self._watch.keep(answer.path, redacted(answer.body), answer.time_ms, compare=compare)


def _deployment(body: Mapping[str, Any]) -> object:
    """What differs after something was deployed anew."""
    return (
        object_at(body, "timestamps").get("RUNNING"),
        tuple(
            (item.get("id"), item.get("parallelism"), item.get("start-time"), item.get("status"))
            for item in objects_at(body, "vertices")
        ),
    )


def _interval_ms(value: object) -> int | None:
    """Milliseconds, as older configurations have it, or with a unit: `5 s`.

    >>> _interval_ms("5000"), _interval_ms("5 s"), _interval_ms("soon")
    (5000, 5000, None)
    """
    found = duration_ms(str(value), units=_INTERVAL_UNITS, iso=False, whole=True)
    return None if found is None else int(found)


_INTERVAL_UNITS: Final = {
    unit: TIME_UNITS[unit] for unit in ("ms", "s", "sec", "second", "seconds", "min", "m")
}


def _manager_of(item: Mapping[str, Any], managers: Mapping[str, str]) -> str | None:
    """The resource id; up to 1.9 there is none, but perhaps only one TaskManager on that host."""
    manager = as_string(item.get("taskmanager-id"))
    if manager is not None:
        return None if manager.startswith("(") else manager
    host = (as_string(item.get("host")) or "").partition(":")[0]
    found = [
        one for one, there in managers.items() if host and there.split(".")[0] == host.split(".")[0]
    ]
    return found[0] if len(found) == 1 else None


def _wanted_ids(body: object) -> tuple[str, ...]:
    listed = _ids(body)
    known = set(listed)
    chosen: list[str] = [name for name in TASK_METRICS if name in known]
    chosen += [name for name in listed if _GATE.fullmatch(name) or _OPERATOR.fullmatch(name)]
    return tuple(dict.fromkeys(chosen))[:MAX_IDS]


def _process_ids(body: object) -> tuple[str, ...]:
    return tuple(name for name in _ids(body) if PROCESS_METRICS.fullmatch(name))[:MAX_IDS]


def _ids(body: object) -> list[str]:
    items = body if isinstance(body, list) else []
    found = (item.get("id") for item in items if isinstance(item, Mapping))
    return sorted(name for name in found if isinstance(name, str) and len(name) < 300)


def _note_values(vertex: _Vertex, items: Iterable[Any], values: Values) -> None:
    for item in items:
        if not isinstance(item, Mapping) or not isinstance(item.get("id"), str):
            continue
        index, _, name = item["id"].partition(".")
        text = str(item.get("value")).lower()
        value = {"true": 1.0, "false": 0.0}.get(text, as_number(item.get("value")))
        if value is not None and index.isdecimal():
            values.setdefault((vertex.id, int(index)), {})[name] = value


def _busy(value: Mapping[str, float]) -> float:
    """Share of the time; up to 1.12 what is neither idle nor back-pressured."""
    if "busyTimeMsPerSecond" in value:
        return value["busyTimeMsPerSecond"] / 1000
    if "idleTimeMsPerSecond" in value and not value.get("isBackPressured"):
        return 1 - value["idleTimeMsPerSecond"] / 1000
    return 0.0


def _pressed(value: Mapping[str, float]) -> bool:
    return (
        value.get("backPressuredTimeMsPerSecond", 0.0) >= 500 or value.get("isBackPressured") == 1
    )


def _places(vertex: _Vertex, indices: Iterable[int]) -> list[str]:
    known = (vertex.managers[i] for i in indices if i < len(vertex.managers))
    return [manager for manager in known if manager]


def _loads(body: object) -> Iterator[tuple[int, float]]:
    """How conspicuous the subtasks of a vertex are: the share of the time that they are not idle."""
    for item in objects_at(body, "subtasks") if isinstance(body, Mapping) else ():
        index = as_count(item.get("subtask"))
        shares = [as_number(item.get(name)) or 0.0 for name in ("busyRatio", "ratio")]
        if index is not None:
            yield index, max(shares)
