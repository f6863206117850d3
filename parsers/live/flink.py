"""Collects the data that the rules need from a Flink cluster: `flowdiag collect flink`.

In every tick, it requests the states of the jobs, their checkpoints with details per subtask, their exceptions, and
the metrics of every subtask from the JobManager's REST API (1.9 to 2.3). Metric IDs are batched to keep URLs short.
Placement and configuration hardly change, so they are requested at the start, after a deployment, and every
`SLOW_TICKS` ticks. Unchanged responses are not stored again.

The JobManager fetches metrics from the TaskManagers only on request, at most every ten seconds, and responds with
the values it has. So a tick requests the job first, waits briefly, and then requests metrics. From Flink 1.13 on, the
back pressure response contains the time of the last fetch. Each refresh is then stored only once, with its time.

Two endpoints are avoided. The aggregated metrics endpoint logs a warning for each non-numeric metric. Up to
Flink 1.12, the back pressure endpoint makes TaskManagers sample their tasks, so it is used only if the user requests
it.

docs/collect.md lists the number of requests.
"""

from __future__ import annotations

import asyncio
import fnmatch
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from flowdiag.parsers.errors import FlowdiagError
from flowdiag.parsers.json_values import (
    as_count,
    as_integer,
    as_moment,
    as_string,
    object_at,
    objects_at,
)
from flowdiag.parsers.live.client import Answer, Client, RequestFailed
from flowdiag.parsers.live.flink_values import (
    MEANS_OF_A_MINUTE,
    Values,
    add_values,
    busy_share,
    ended_rescales,
    interval_ms,
    options_of,
    process_ids,
    recent_loads,
    source_ids,
    subtask_loads,
    task_ids,
)
from flowdiag.parsers.live.folder import Folder, now_ms
from flowdiag.parsers.live.thread_dumps import JOBMANAGER, LITE, PAUSE_S, Stacks, ThreadDumps
from flowdiag.parsers.live.watching import Outcome, ShowProgress, Watch, hint_for, redact

SLOW_TICKS: Final = 20
QUERY_CHARACTERS: Final = 1800
"""Maximum length of a query. With its path, it is well below 2 KB, which every proxy accepts (Netty accepts 4 KB)."""
MAX_SUBTASKS: Final = 500
"""Maximum subtasks whose metrics are requested in one tick. In larger jobs, suspects come first."""
SUSPECTS_SHARE: Final = 0.8  # share of MAX_SUBTASKS for suspects; the other subtasks take turns
MAX_PARALLELISM: Final = 32_768  # Flink's own limit
MAX_KNOWN: Final = 100_000  # maximum subtasks of a job that are tracked
# Maximum parallelism of a source whose metric IDs are listed for each subtask.
MAX_SOURCE_SUBTASKS: Final = 100
LISTED_TICKS: Final = 4  # ticks after a deployment in which operators may still register metrics
MAX_MANAGERS: Final = 20  # maximum TaskManagers whose metrics are requested in one tick
MAX_JOBS: Final = 20
MAX_RESCALES: Final = 20  # maximum rescales of a job that are requested in one tick, latest first
CHECKPOINTS_PER_TICK: Final = 2  # maximum checkpoints whose subtasks are requested
PENDING_MS: Final = 10_000  # minimum age of a pending checkpoint whose subtasks are requested
ALWAYS_BUSY: Final = 0.98  # minimum busy share of a subtask that has no reserve left
SETTLE_S: Final = 1.0  # seconds for the JobManager to fetch metrics
WARM_UP: Final = 4  # maximum attempts until the JobManager has its first metrics

TERMINAL: Final = frozenset(("CANCELED", "FAILED", "FINISHED", "SUSPENDED"))


def batches_of(ids: Iterable[str], most: int = QUERY_CHARACTERS) -> Iterator[str]:
    """Join metric IDs into queries of limited length.

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
    """Settings of a Flink collection.

    Attributes:
        job: ID or name of the job, with the wildcards `*` and `?`; None for all running jobs.
        every_s, for_s, most_ticks: see `Watch`.
        sample_back_pressure: whether to request back pressure samples from Flink up to 1.12.
        stacks: when to take thread dumps.
        dump_pause_s: pause between two dumps of a series.
        settle_s: pause between requesting jobs and requesting their metrics.
    """

    job: str | None = None
    every_s: float = 15.0
    for_s: float = 300.0
    most_ticks: int | None = None
    sample_back_pressure: bool = False
    stacks: Stacks = Stacks.AUTO
    dump_pause_s: float = PAUSE_S
    settle_s: float = SETTLE_S


@dataclass(slots=True)
class _Vertex:
    id: str
    name: str
    parallelism: int
    ids: tuple[str, ...] = ()  # metric IDs without the subtask
    # Additional metric IDs of single subtasks.
    own_ids: dict[int, tuple[str, ...]] = field(default_factory=dict)
    is_source: bool = False
    managers: list[str | None] = field(default_factory=list)
    hosts: dict[str, str] = field(default_factory=dict)

    def ids_of(self, subtasks: Iterable[int]) -> Iterator[str]:
        """Yield the metric IDs of these subtasks."""
        for subtask in subtasks:
            for name in (*self.ids, *self.own_ids.get(subtask, ())):
                yield f"{subtask}.{name}"


@dataclass(slots=True)
class _Job:
    id: str
    name: str = ""
    state: str = ""
    vertices: list[_Vertex] = field(default_factory=list)
    deployed: object = None  # changes with every deployment
    detailed: set[int] = field(default_factory=set)
    rescales: set[str] = field(default_factory=set)
    plan_stored: bool = False
    refreshed_ms: int | None = None
    lists: int = LISTED_TICKS  # remaining ticks that list metric IDs
    turn: int = 0  # position in the rotation through the subtasks that are not suspects
    loads: Values = field(default_factory=dict)  # of the last tick
    loads_ms: int = 0  # time of these loads


class _ListedJob(NamedTuple):
    jid: str
    name: str
    state: str


async def collect_flink(
    client: Client, folder: Folder, options: FlinkOptions, *, tool: str, progress: ShowProgress
) -> Outcome:
    """Collect until the requested time has elapsed or the jobs have ended.

    Raises:
        FlowdiagError: the server is not Flink, is too old, or has no such job, or no request succeeded.
        asyncio.CancelledError: the user interrupted; the collected data is stored.
    """
    collector = _Collector(client, folder, options, tool, progress)
    await collector.begin()
    return await collector.run()


class _Collector:
    def __init__(
        self,
        client: Client,
        folder: Folder,
        options: FlinkOptions,
        tool: str,
        progress: ShowProgress,
    ) -> None:
        self._watch = Watch(
            client,
            folder,
            every_s=options.every_s,
            for_s=options.for_s,
            tool=tool,
            progress=progress,
            most_ticks=options.most_ticks,
        )
        self._client, self._options, self._progress = client, options, progress
        self._version: tuple[int, int] = (1, 9)
        self._version_text = ""
        self._jobs: dict[str, _Job] = {}
        self._managers: dict[str, str] = {}  # ID -> host
        self._process_ids: dict[str, tuple[str, ...]] = {}
        self._tick_number = 0
        self._manager_turn = 0
        self._cluster: Mapping[str, str] = {}  # the cluster's options
        self._skew_ms = 0  # the JobManager's clock minus this host's
        self._dumps = ThreadDumps(
            self._watch,
            lambda answer: self._keep(answer, compare=False),
            options.stacks,
            options.dump_pause_s,
            query=LITE,
        )
        self._ended: set[str] = set()
        self._suspects: list[str] = []
        self._config: Answer | None = None

    # -- first contact ---------------------------------------------------------------------

    async def begin(self) -> None:
        """Verify that the server is Flink, and read its version.

        Raises:
            FlowdiagError: the server is not a JobManager, is older than 1.9, or does not respond.
        """
        self._progress("requesting the version")
        url = self._watch.folder.url
        try:
            self._config = await self._client.get("/config")
        except RequestFailed as failed:
            raise FlowdiagError(f"{url}: {failed.why}", hint=hint_for(failed)) from None
        body = self._config.body
        version = body.get("flink-version") if isinstance(body, Mapping) else None
        if not isinstance(version, str):
            raise FlowdiagError(
                f"{url}: not the REST API of a Flink JobManager",
                hint="pass the address of its Web UI, usually port 8081",
            )
        self._version_text = version
        if found := re.match(r"\s*v?(\d{1,3})\.(\d{1,4})", version):
            self._version = (int(found[1]), int(found[2]))
        if self._version < (1, 9):
            raise FlowdiagError(
                f"{url}: Flink {version} is too old", hint="collecting requires Flink 1.9 or later"
            )

    async def run(self) -> Outcome:
        return await self._watch.run(
            self._tick, self._context, flink_version=self._version_text, job=self._options.job
        )

    def _context(self) -> dict[str, Any]:
        """Return the names and placement that responses with metrics lack."""
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
        slow = self._tick_number % SLOW_TICKS == 0
        self._tick_number += 1
        if self._config is not None:
            self._keep(self._config)
            self._watch.tick.answered += 1
            self._config = None
        jobs = await self._find_jobs()
        if jobs is None:
            return None
        if not jobs:
            return "the cluster has no jobs"
        if slow:
            await self._collect_cluster()
        began = asyncio.get_running_loop().time()
        await asyncio.gather(*(self._collect_job(job, slow) for job in jobs))
        live = [job for job in jobs if job.state not in TERMINAL]
        if live:
            spent = asyncio.get_running_loop().time() - began
            await asyncio.sleep(max(0.0, self._options.settle_s - spent))
            for job in live:
                await self._collect_metrics(job)
            await self._collect_processes()
            await self._dump_threads()
        self._show_progress(live)
        self._ended.update(job.id for job in jobs if job.state in TERMINAL)
        if not live:
            return "the job has ended" if len(jobs) == 1 else "the jobs have ended"
        return None

    def _show_progress(self, live: Sequence[_Job]) -> None:
        subtasks = sum(vertex.parallelism for job in live for vertex in job.vertices)
        requests = self._client.requests - self._watch.tick.requests_before
        self._progress(
            f"{self._watch.folder.tick + 1} snapshots of {len(live)} job{'s' * (len(live) != 1)} with"
            f" {subtasks} subtasks, {requests} requests in the last one"
        )

    async def _find_jobs(self) -> list[_Job] | None:
        """Return the jobs to watch in this tick, or None if there is no response."""
        answer = await self._watch.request("/jobs/overview")
        if answer is None:
            return None
        listed = [
            _ListedJob(*(str(item.get(key) or "") for key in _ListedJob._fields))
            for item in objects_at(_object(answer), "jobs")
        ]
        self._keep(answer, compare=sorted((job.jid, job.state) for job in listed))
        selected = self._select_jobs(listed)
        live = [job for job in selected if job.state not in TERMINAL]
        # Read a job that ended since the last tick once more. If no job is running, read ended jobs.
        ended = [
            job
            for job in selected
            if job.state in TERMINAL
            and job.jid not in self._ended
            and (job.jid in self._jobs or not live)
        ]
        found = []
        for listed_job in [*live, *ended][:MAX_JOBS]:
            if re.fullmatch(r"[0-9a-fA-F]{32}", listed_job.jid):
                job = self._jobs.setdefault(listed_job.jid, _Job(listed_job.jid))
                job.name, job.state = listed_job.name, listed_job.state
                found.append(job)
        return found

    def _select_jobs(self, listed: list[_ListedJob]) -> list[_ListedJob]:
        pattern = self._options.job
        if pattern is None:
            return listed
        selected = [
            job
            for job in listed
            if fnmatch.fnmatchcase(job.jid, pattern.lower())
            or fnmatch.fnmatchcase(job.name, pattern)
        ]
        if not selected and not self._jobs:
            names = ", ".join(sorted({job.name for job in listed})[:5])
            raise FlowdiagError(
                f"no job is named '{pattern}'", hint=f"available jobs: {names}" if names else None
            )
        return selected

    async def _collect_cluster(self) -> None:
        """Collect the configuration and the list of TaskManagers, which hardly change."""
        paths = ["/overview", "/jobmanager/config", "/taskmanagers"]
        for answer in await self._watch.request_all((path, "") for path in paths):
            if answer is None:
                continue
            if answer.path == "/taskmanagers":
                self._update_managers(answer)
                continue
            self._keep(answer)
            if answer.path == "/jobmanager/config":
                self._cluster = options_of(answer.body)

    def _update_managers(self, answer: Answer) -> None:
        items = objects_at(_object(answer), "taskmanagers")
        hosts = {}
        for item in items:
            manager = as_string(item.get("id"))
            if manager is not None:
                host = re.search(r"@(\[[^\]]*\]|[^:/@\s]+)", as_string(item.get("path")) or "")
                hosts[manager] = host[1] if host else ""
        self._managers = hosts
        volatile = ("timeSinceLastHeartbeat", "hardware", "freeResource")
        self._keep(
            answer,
            compare=[{k: v for k, v in item.items() if k not in volatile} for item in items],
        )

    @property
    def _is_adaptive(self) -> bool:
        """Whether the scheduler reports resource requirements (1.18 and later); others respond with an error."""
        modes = (self._cluster.get(key, "") for key in ("jobmanager.scheduler", "scheduler-mode"))
        adaptive = {"adaptive", "reactive"} & {mode.lower() for mode in modes}
        return bool(adaptive) and self._version >= (1, 18)

    async def _collect_job(self, job: _Job, slow: bool) -> None:
        base = f"/jobs/{job.id}"
        paths = [base, f"{base}/checkpoints", f"{base}/exceptions"]
        if self._is_adaptive:
            paths.append(f"{base}/resource-requirements")
        details, checkpoints, *more = await self._watch.request_all((path, "") for path in paths)
        deployed = job.deployed
        if details is not None and isinstance(details.body, Mapping):
            self._update_job(job, details)
            # This value changes with every deployment.
            keys = ("id", "parallelism", "start-time", "status")
            vertices = objects_at(details.body, "vertices")
            deployed = (
                object_at(details.body, "timestamps").get("RUNNING"),
                tuple(tuple(item.get(key) for key in keys) for item in vertices),
            )
        self._keep_responses([checkpoints, *more])
        if slow or not job.deployed:
            config = [(f"{base}/checkpoints/config", ""), (f"{base}/config", "")]
            self._keep_responses(await self._watch.request_all(config))
        if slow or deployed != job.deployed:
            await self._collect_placement(job)
            await self._collect_rescales(job)
            if deployed != job.deployed:
                job.lists = LISTED_TICKS
            job.deployed = deployed
        await self._collect_checkpoints(job, _object(checkpoints))

    def _update_job(self, job: _Job, answer: Answer) -> None:
        body = dict(answer.body)
        now = as_moment(body.get("now"))
        if now is not None:
            self._skew_ms = now - answer.time_ms
        previous = {vertex.id: vertex for vertex in job.vertices}
        job.vertices = []
        subtasks = 0
        nodes = objects_at(object_at(body, "plan"), "nodes")
        sources = {as_string(node.get("id")) for node in nodes if not node.get("inputs")}
        for item in objects_at(body, "vertices"):
            vertex_id, name = as_string(item.get("id")), as_string(item.get("name"))
            parallelism = min(as_count(item.get("parallelism")) or 0, MAX_PARALLELISM)
            subtasks += max(1, parallelism)
            if subtasks > MAX_KNOWN:
                break
            if vertex_id is None or not re.fullmatch(r"[0-9a-zA-Z]{8,64}", vertex_id):
                continue
            vertex = previous.get(vertex_id) or _Vertex(vertex_id, name or vertex_id, parallelism)
            if vertex.parallelism != parallelism:  # rescaled
                vertex.parallelism, vertex.managers, vertex.ids = parallelism, [], ()
                vertex.own_ids = {}
            vertex.is_source = vertex.is_source or vertex_id in sources
            job.vertices.append(vertex)
        body.pop("stream-graph", None)
        if job.plan_stored:
            body.pop("plan", None)
        job.plan_stored = True
        self._watch.keep(answer.path, redact(body), answer.time_ms, compare=False)

    async def _collect_rescales(self, job: _Job) -> None:
        """Collect the details of new rescales (2.3 and later), because the history does not contain the parallelism."""
        size = as_count(self._cluster.get("web.adaptive-scheduler.rescale-history.size"))
        if not self._is_adaptive or not size:
            return
        base = f"/jobs/{job.id}/rescales"
        history = await self._watch.request(f"{base}/history")
        ended = ended_rescales(history.body if history is not None else None)
        new = [name for name in ended if name not in job.rescales][:MAX_RESCALES]
        details = await self._watch.request_all((f"{base}/details/{name}", "") for name in new)
        job.rescales.update(name for name, answer in zip(new, details, strict=True) if answer)
        self._keep_responses(details)

    async def _collect_placement(self, job: _Job) -> None:
        """Collect the subtasks of the vertices, with their TaskManagers and counters."""
        base = f"/jobs/{job.id}/vertices"
        answers = await self._watch.request_all(
            (f"{base}/{vertex.id}", "") for vertex in job.vertices
        )
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
        if unknown and (answer := await self._watch.request("/taskmanagers")) is not None:
            self._update_managers(answer)

    async def _collect_checkpoints(self, job: _Job, body: Mapping[str, Any]) -> None:
        """Collect the acknowledgements per subtask of checkpoints that just ended or have been running for long."""
        chosen, ended = self._checkpoints_to_inspect(job, body)
        for number in chosen:
            base = f"/jobs/{job.id}/checkpoints/details/{number}/subtasks"
            answers = await self._watch.request_all((f"{base}/{v.id}", "") for v in job.vertices)
            self._keep_responses(answers)
            if number not in ended and self._waits_for_jobmanager(answers):
                self._suspects += [JOBMANAGER, *_managers_at(job.vertices[0], [0])]
            else:
                self._suspect_by_acknowledgements(job, answers)
            if number in ended:
                job.detailed.add(number)

    def _checkpoints_to_inspect(
        self, job: _Job, body: Mapping[str, Any]
    ) -> tuple[list[int], set[int]]:
        """Return the checkpoints whose details to request, and all checkpoints that ended since the last tick."""
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
        return chosen, {number for *_, number in ended}

    def _waits_for_jobmanager(self, answers: Sequence[Answer | None]) -> bool:
        """Return whether all subtasks are in the same state although a checkpoint has been running for long.

        If none acknowledged, the JobManager may not have sent the barriers. If all did, it may not be able to write the
        metadata.
        """
        states = {
            item.get("status")
            for answer in answers
            for item in objects_at(_object(answer), "subtasks")
        }
        return len(states) == 1 and self._version >= (1, 15)

    def _suspect_by_acknowledgements(self, job: _Job, answers: Sequence[Answer | None]) -> None:
        """Mark the TaskManagers of late subtasks in the most upstream late task as suspects, unless there are many."""
        for vertex, answer in zip(job.vertices, answers, strict=True):
            late = [
                as_count(item.get("index"))
                for item in objects_at(_object(answer), "subtasks")
                if item.get("status") == "pending_or_failed"
            ]
            if late:
                if len(late) * 4 <= vertex.parallelism:
                    self._suspects += _managers_at(vertex, (i for i in late if i is not None))
                return

    # -- metrics ---------------------------------------------------------------------------

    async def _collect_metrics(self, job: _Job) -> None:
        await self._list_ids(job)
        base = f"/jobs/{job.id}/vertices"
        is_large = sum(vertex.parallelism for vertex in job.vertices) > MAX_SUBTASKS
        has_fetch_time = self._version >= (1, 13)
        refreshed = await self._refresh_time(job) if has_fetch_time and job.vertices else None
        if refreshed is not None and refreshed == job.refreshed_ms:
            return  # without a refresh, the samples are the same as in the last tick
        job.refreshed_ms = refreshed
        pressures: list[Answer | None] = []
        if is_large if has_fetch_time else self._options.sample_back_pressure:
            pressures = await self._watch.request_all(
                (f"{base}/{vertex.id}/backpressure", "") for vertex in job.vertices
            )
            self._keep_responses(pressures)
        if is_large:
            await self._collect_watermarks(job)
        queries: list[tuple[_Vertex, str]] = []
        for vertex, subtasks in self._chosen_subtasks(job, pressures if is_large else None):
            queries += [(vertex, query) for query in batches_of(vertex.ids_of(subtasks))]
        answers = await self._watch.request_all((f"{base}/{v.id}/metrics", q) for v, q in queries)
        self._store_metrics(job, queries, answers)

    async def _collect_watermarks(self, job: _Job) -> None:
        """Collect the input watermarks of all subtasks of a large job. Its other metrics are read in rotation."""
        base = f"/jobs/{job.id}/vertices"
        for answer in await self._watch.request_all(
            (f"{base}/{vertex.id}/watermarks", "") for vertex in job.vertices
        ):
            if answer is not None:
                at_ms = job.refreshed_ms or answer.time_ms + self._skew_ms
                self._watch.keep(
                    answer.path, answer.body, answer.time_ms, at_ms=at_ms, compare=False
                )

    def _store_metrics(
        self,
        job: _Job,
        queries: Sequence[tuple[_Vertex, str]],
        answers: Sequence[Answer | None],
    ) -> None:
        refreshed = job.refreshed_ms
        values: Values = {}
        for vertex in job.vertices:
            items: list[Any] = []
            time_ms = None
            for (queried, _), answer in zip(queries, answers, strict=True):
                if queried is vertex and answer is not None and isinstance(answer.body, list):
                    items += answer.body
                    time_ms = answer.time_ms
            if time_ms is None or not items:
                continue
            path = f"/jobs/{job.id}/vertices/{vertex.id}/metrics"
            at_ms = refreshed or time_ms + self._skew_ms
            # Up to Flink 1.12, the time of the fetch is unknown, but equal numbers indicate the same refresh.
            compare = False if refreshed else sorted(items, key=str)
            self._watch.keep(path, items, time_ms, at_ms=at_ms, compare=compare)
            add_values(vertex.id, items, values)
        self._suspect_by_load(job, values)

    async def _refresh_time(self, job: _Job) -> int | None:
        """Return when the JobManager last fetched metrics, from the back pressure response (1.13 and later).

        The request starts a refresh if the last refresh is old enough; then wait for the new values. If the next
        refresh is almost due, wait for it as well, because ticks of ten seconds would otherwise miss every second
        refresh.
        """
        stamp = await self._fetch_time(job)
        if stamp is not None and stamp == job.refreshed_ms:
            refresh_ms = interval_ms(self._cluster.get("metrics.fetcher.update-interval")) or 10_000
            due_ms = refresh_ms - (now_ms() + self._skew_ms - stamp)
            if 0 < due_ms <= 2000:
                await asyncio.sleep((due_ms + 50) / 1000)
                stamp = await self._fetch_time(job)
        if stamp is not None and stamp != job.refreshed_ms:
            age_s = (now_ms() + self._skew_ms - stamp) / 1000
            await asyncio.sleep(
                min(self._options.settle_s, max(0.0, self._options.settle_s - age_s))
            )
        return stamp

    async def _fetch_time(self, job: _Job) -> int | None:
        first = job.vertices[0].id
        answer = await self._watch.request(f"/jobs/{job.id}/vertices/{first}/backpressure")
        return as_moment(_object(answer).get("end-timestamp"))

    async def _list_ids(self, job: _Job) -> None:
        """List the metric IDs of each vertex. All its subtasks have the metrics of subtask 0.

        Operators register metrics while they start, and sources with their first watermark. So the metrics are listed
        in each of the first ticks after a deployment, and then every `SLOW_TICKS` ticks.
        """
        known = [vertex for vertex in job.vertices if vertex.ids]
        lists_again = job.lists > 0 or self._tick_number % SLOW_TICKS == 0
        job.lists = max(0, job.lists - 1)
        await self._list_first_ids(job, known if lists_again else [])
        if lists_again:
            await self._list_source_ids(job)

    async def _list_first_ids(self, job: _Job, known: Sequence[_Vertex]) -> None:
        for attempt in range(WARM_UP):
            without = [vertex for vertex in job.vertices if not vertex.ids]
            requested = [*without, *(known if attempt == 0 else ())]
            if not requested:
                return
            base = f"/jobs/{job.id}/vertices"
            answers = await self._watch.request_all(
                (f"{base}/{vertex.id}/subtasks/0/metrics", "") for vertex in requested
            )
            for vertex, answer in zip(requested, answers, strict=True):
                vertex.ids = task_ids(answer.body if answer is not None else None) or vertex.ids
            # When the first request arrives, the JobManager has no metrics yet.
            if self._tick_number > 1 or all(vertex.ids for vertex in without):
                return
            if attempt + 1 < WARM_UP:
                await asyncio.sleep(self._options.settle_s)

    async def _list_source_ids(self, job: _Job) -> None:
        """List the metric IDs of every source subtask, because their splits differ."""
        sources = [v for v in job.vertices if v.is_source and v.parallelism <= MAX_SOURCE_SUBTASKS]
        base = f"/jobs/{job.id}/vertices"
        answers = await self._watch.request_all((f"{base}/{v.id}/metrics", "") for v in sources)
        for vertex, answer in zip(sources, answers, strict=True):
            if answer is not None:
                vertex.own_ids = source_ids(answer.body, vertex.ids)

    def _chosen_subtasks(
        self, job: _Job, pressures: Sequence[Answer | None] | None
    ) -> Iterator[tuple[_Vertex, list[int]]]:
        """Choose the subtasks to query: all or, in a large job, the suspects and a few others in rotation."""
        everything = [(v, i) for v in job.vertices for i in range(v.parallelism)]
        if len(everything) > MAX_SUBTASKS:
            loads = {
                (vertex.id, index): load
                for vertex, answer in zip(job.vertices, pressures or (), strict=False)
                if answer is not None
                for index, load in subtask_loads(answer.body)
            }
            ranked = sorted(everything, key=lambda each: -loads.get((each[0].id, each[1]), 0.0))
            first = int(MAX_SUBTASKS * SUSPECTS_SHARE) if loads else 0
            rest = ranked[first:]
            count = MAX_SUBTASKS - first
            at = job.turn % len(rest)
            job.turn = (at + count) % len(rest)
            # Rotate by the position in the job, because the ranking changes with every tick.
            rest.sort(key=lambda each: (job.vertices.index(each[0]), each[1]))
            everything = ranked[:first] + (rest + rest)[at : at + count]
        chosen: dict[str, list[int]] = {}
        for vertex, index in everything:
            chosen.setdefault(vertex.id, []).append(index)
        for vertex in job.vertices:
            if vertex.ids and vertex.id in chosen:
                yield vertex, sorted(chosen[vertex.id])

    async def _collect_processes(self) -> None:
        """Collect memory, garbage collection and CPU metrics of the TaskManagers and the JobManager."""
        managers = sorted(self._managers)
        if len(managers) > MAX_MANAGERS:
            suspects = [each for each in dict.fromkeys(self._suspects) if each in self._managers]
            rest = [manager for manager in managers if manager not in suspects]
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
                listed = await self._watch.request(path)
                self._process_ids[kind] = process_ids(listed.body if listed else None)
        queries = [
            (path, next(batches_of(self._process_ids[kind])))
            for path, kind in paths.items()
            if self._process_ids[kind]
        ]
        for answer in await self._watch.request_all(queries):
            if answer is not None and answer.body:
                path = answer.path.partition("?")[0]
                at_ms = answer.time_ms + self._skew_ms
                self._watch.keep(path, answer.body, answer.time_ms, at_ms=at_ms)
                self._dumps.count_threads(path, answer.body)

    # -- suspects --------------------------------------------------------------------------

    def _suspect_by_load(self, job: _Job, values: Values) -> None:
        """Mark the TaskManagers of the busiest subtasks as suspects, if any subtask is back-pressured or always busy."""
        vertices = {vertex.id: vertex for vertex in job.vertices}
        values = self._recent_loads(job, values)
        if not any(
            value.get("backPressuredTimeMsPerSecond", 0.0) >= 500
            or value.get("isBackPressured") == 1
            or busy_share(value) >= ALWAYS_BUSY
            for value in values.values()
        ):
            return
        busy = sorted(
            (-busy_share(value), key) for key, value in values.items() if busy_share(value) >= 0.9
        )
        for _, (vertex_id, index) in busy[:3]:
            self._suspects += _managers_at(vertices[vertex_id], [index])

    def _recent_loads(self, job: _Job, values: Values) -> Values:
        """Return the loads since the last tick, as far as means over a minute show them."""
        before, before_ms = job.loads, job.loads_ms
        job.loads, job.loads_ms = values, job.refreshed_ms or now_ms() + self._skew_ms
        elapsed_ms = job.loads_ms - before_ms
        if self._version < MEANS_OF_A_MINUTE or not before or elapsed_ms <= 0:
            return values
        return recent_loads(values, before, elapsed_ms)

    async def _dump_threads(self) -> None:
        """Take thread dumps of the TaskManagers that run suspects (1.11 and later)."""
        suspects, self._suspects = self._suspects, []
        if self._version >= (1, 11):
            await self._dumps.take(self._tick_number, suspects, self._managers)

    def _keep_responses(self, answers: Iterable[Answer | None]) -> None:
        for answer in answers:
            if answer is not None:
                self._keep(answer)

    def _keep(self, answer: Answer, compare: Any = None) -> None:
        self._watch.keep(answer.path, redact(answer.body), answer.time_ms, compare=compare)


def _object(answer: Answer | None) -> Mapping[str, Any]:
    return answer.body if answer is not None and isinstance(answer.body, Mapping) else {}


def _manager_of(item: Mapping[str, Any], managers: Mapping[str, str]) -> str | None:
    """Return the TaskManager's resource ID. Up to Flink 1.9, it is known only if the host runs a single TaskManager."""
    manager = as_string(item.get("taskmanager-id"))
    if manager is not None:
        return None if manager.startswith("(") else manager
    host = (as_string(item.get("host")) or "").partition(":")[0]
    found = [
        manager_id
        for manager_id, other in managers.items()
        if host and other.split(".")[0] == host.split(".")[0]
    ]
    return found[0] if len(found) == 1 else None


def _managers_at(vertex: _Vertex, indices: Iterable[int]) -> list[str]:
    managers = (vertex.managers[i] for i in indices if i < len(vertex.managers))
    return [manager for manager in managers if manager]
