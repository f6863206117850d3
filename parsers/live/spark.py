"""Collects the data for `flowdiag rate` from a running Spark application: `flowdiag collect spark`.

The driver keeps the last thousand batches, the receivers and the statistics of DStreams only in memory. Each
tick requests them (`/api/v1/applications/:id/streaming/…`, Spark 2.2 to 4.3) and stores the new batches, because a
finished batch never changes. For failed batches, it requests the output operations, which contain the error.
Structured Streaming has no such paths, so the numbers of its triggers come from the page of each query in the Web UI
(`parsers.live.query_page`). Thread dumps of the driver, and of executors with running tasks, show why batches are
slow.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final
from urllib.parse import quote

from flowdiag.parsers.errors import FlowdiagError
from flowdiag.parsers.json_values import as_integer, as_string, objects_at
from flowdiag.parsers.live.client import Answer, Client, RequestFailed
from flowdiag.parsers.live.folder import Folder
from flowdiag.parsers.live.query_page import (
    QUERIES,
    ended_on,
    progress_of,
    runs_on,
    statistics_path,
)
from flowdiag.parsers.live.thread_dumps import PAUSE_S, Stacks, ThreadDumps
from flowdiag.parsers.live.watching import (
    START_PAUSE_S,
    Outcome,
    ShowProgress,
    Watch,
    hint_for,
    redact,
    wait_while_starting,
)

API: Final = "/api/v1"
DRIVER: Final = "driver"  # ID of the driver in the list of executors
SLOW_TICKS: Final = 20
YOUNG_MS: Final = 120_000  # a script may start its first query this long after its session
MAX_APPLICATIONS: Final = 10
MAX_QUERIES: Final = 20
PAGE_BYTES: Final = 16 * 1024 * 1024
OPERATIONS_PER_TICK: Final = 5  # maximum failed batches whose operations are requested
STAGES_PER_TICK: Final = 3  # maximum stages whose running tasks are requested, oldest first
TASKS_PER_STAGE: Final = 20
"""Maximum running tasks per stage. These limits apply per application and tick."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkOptions:
    """Settings of a Spark collection.

    Attributes:
        application: application ID; None for all applications of this driver.
        every_s, for_s, most_ticks: see `Watch`.
        stacks: when to take thread dumps.
        dump_pause_s: pause between two dumps of a series.
        start_s: maximum wait for the REST API of a driver that is starting.
        start_pause_s: pause between two requests while the driver is starting.
    """

    application: str | None = None
    every_s: float = 15.0
    for_s: float = 300.0
    most_ticks: int | None = None
    stacks: Stacks = Stacks.AUTO
    dump_pause_s: float = PAUSE_S
    start_s: float = 0.0
    start_pause_s: float = START_PAUSE_S


@dataclass(slots=True)
class _Application:
    id: str
    path: str  # including the attempt, on a History Server
    name: str = ""
    batches: dict[int, str] = field(default_factory=dict)  # batches as last stored
    failed: set[int] = field(default_factory=set)  # failed batches whose operations were stored
    streaming: bool | None = None
    # Whether the Web UI lists a query, which may not have ended a trigger yet.
    has_queries: bool = False
    is_young: bool = False
    # Start of the last stored trigger, by run.
    triggers: dict[str, str] = field(default_factory=dict)
    # Running tasks per executor, busiest first.
    executors: dict[str, int] = field(default_factory=dict)


async def collect_spark(
    client: Client, folder: Folder, options: SparkOptions, *, tool: str, progress: ShowProgress
) -> Outcome:
    """Collect until the requested time has elapsed or the driver is gone.

    Raises:
        FlowdiagError: the server is not Spark or has no such application, or no request succeeded.
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
        options: SparkOptions,
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
        self._applications: dict[str, _Application] = {}
        self._number = 0
        self._version = ""
        self._dumps = ThreadDumps(
            self._watch,
            lambda answer: self._keep(answer, compare=False),
            options.stacks,
            options.dump_pause_s,
            path=lambda executor: f"{executor}/threads",
        )

    async def begin(self) -> None:
        """Verify that the server is Spark, and read its version."""
        url = self._watch.folder.url
        self._progress("requesting the version")
        try:
            answer = await self._first_answer()
        except RequestFailed as failed:
            raise FlowdiagError(f"{url}: {failed.why}", hint=hint_for(failed)) from None
        version = answer.body.get("spark") if isinstance(answer.body, Mapping) else None
        if not isinstance(version, str):
            raise FlowdiagError(
                f"{url}: not the REST API of a Spark driver",
                hint="pass the address of its Web UI, usually port 4040",
            )
        self._version = version

    async def _first_answer(self) -> Answer:
        """Request the version.

        The Web UI of a starting driver responds before its REST API does: with 404, or with a page.
        """
        return await wait_while_starting(
            lambda: self._client.get(f"{API}/version"),
            _why_starting,
            self._progress,
            most_s=self._options.start_s,
            pause_s=self._options.start_pause_s,
        )

    async def run(self) -> Outcome:
        return await self._watch.run(
            self._tick,
            self._context,
            spark_version=self._version,
            application=self._options.application,
        )

    def _context(self) -> dict[str, Any]:
        return {
            "spark_version": self._version,
            "applications": {each.id: {"name": each.name} for each in self._applications.values()},
        }

    async def _tick(self) -> str | None:
        slow = self._number % SLOW_TICKS == 0
        self._number += 1
        listed = await self._watch.request(f"{API}/applications")
        if listed is None:
            return None
        self._keep(listed, compare=[item.get("id") for item in _objects(listed.body)])
        found = [
            each
            for item in _objects(listed.body)
            if (each := self._application_of(item)) is not None
        ]
        if not found:
            name = self._options.application
            raise FlowdiagError(
                f"no application is named '{name}'" if name else "the server lists no applications"
            )
        for application in found[:MAX_APPLICATIONS]:
            await self._collect_application(application, slow)
        if len(found) == 1:  # a History Server lists many
            await self._queries(found[0])
            await self._running(found[0])
            await self._dump_threads(found[0])
        return self._progress_of(found)

    def _progress_of(self, found: list[_Application]) -> str | None:
        """Show the progress. Return the reason to stop if no application has batches."""
        streaming = [each for each in found if each.streaming or each.has_queries]
        batches = sum(len(each.batches) for each in streaming)
        self._progress(f"{batches} batches of {len(streaming)} applications")
        others = (each.streaming is False and not each.has_queries for each in found)
        if all(others) and not any(each.is_young for each in found):
            return (
                "no application has batches of DStreams or queries: for a finished application, use the event log and the"
                " driver's log"
            )
        return None

    def _application_of(self, item: Mapping[str, Any]) -> _Application | None:
        application_id = as_string(item.get("id"))
        selected = self._options.application
        if application_id is None or not re.fullmatch(r"[\w.-]{1,200}", application_id):
            return None
        if selected is not None and selected not in (application_id, item.get("name")):
            return None
        attempts = objects_at(item, "attempts")
        attempt = as_string(attempts[0].get("attemptId")) if attempts else None
        path = f"{API}/applications/{application_id}"
        if attempt is not None:
            path += f"/{quote(attempt, safe='')}"
        new = _Application(application_id, path)
        application = self._applications.setdefault(application_id, new)
        application.name = str(item.get("name") or "")
        begun = as_integer(attempts[0].get("startTimeEpoch")) if attempts else None
        ends = bool(attempts and attempts[0].get("completed"))
        age_ms = inf if begun is None or ends else time.time_ns() // 1_000_000 - begun
        application.is_young = age_ms < YOUNG_MS
        return application

    async def _collect_application(self, application: _Application, slow: bool) -> None:
        base = application.path
        paths = [
            f"{base}/streaming/statistics",
            f"{base}/streaming/batches",
            f"{base}/streaming/receivers",
            f"{base}/executors",
        ]
        if slow:
            paths.append(f"{base}/environment")
        if application.streaming is False:
            paths = paths[3:]
        before = len(self._watch.tick.failed)
        answers = await self._watch.request_all((path, "") for path in paths)
        if application.streaming is None and answers[0] is None:
            missing = self._watch.tick.failed[before:]
            if any(failed.status == 404 for failed in missing):
                application.streaming = False
        for answer in answers:
            if answer is None:
                continue
            if answer.path.endswith("/streaming/statistics"):
                application.streaming = True
            if answer.path.endswith("/executors"):
                application.executors = _busiest_first(answer.body)
            if answer.path.endswith("/streaming/batches"):
                await self._batches(application, answer)
            else:
                self._keep(answer)

    async def _batches(self, application: _Application, answer: Answer) -> None:
        new = []
        for item in _objects(answer.body):
            number = as_integer(item.get("batchId"))
            text = repr(sorted(item.items(), key=str))
            if number is not None and application.batches.get(number) != text:
                application.batches[number] = text
                new.append(item)
        if new:
            self._watch.keep(answer.path, redact(new), answer.time_ms, compare=False)
        failed = [
            number
            for item in _objects(answer.body)
            if (number := as_integer(item.get("batchId"))) is not None
            and (as_integer(item.get("numFailedOutputOps")) or 0) > 0
            and number not in application.failed
        ][:OPERATIONS_PER_TICK]
        path = f"{application.path}/streaming/batches"
        for operations in await self._watch.request_all(
            (f"{path}/{number}/operations", "") for number in failed
        ):
            if operations is not None:
                self._keep(operations)
        application.failed.update(failed)

    async def _queries(self, application: _Application) -> None:
        """Store the new triggers of each query of a driver, and the exceptions of ended queries."""
        page = await self._page(QUERIES)
        for ended in ended_on(page)[:MAX_QUERIES]:
            path = f"{API}/applications/{application.id}{QUERIES}{ended['runId']}/ended"
            self._watch.keep(path, redact([ended]), time.time_ns() // 1_000_000)
        application.has_queries = application.has_queries or bool(runs_on(page))
        for run in runs_on(page)[:MAX_QUERIES]:
            progress = progress_of(await self._page(statistics_path(run)))
            last = application.triggers.get(run, "")
            new = [one for one in progress if (one["timestamp"] or "") > last]
            if new:
                application.triggers[run] = new[-1]["timestamp"] or last
                path = f"{API}/applications/{application.id}{QUERIES}{run}"
                self._watch.keep(path, redact(new), time.time_ns() // 1_000_000, compare=False)

    async def _running(self, application: _Application) -> None:
        """Store the running jobs and the running tasks of their stages.

        An empty list is stored as well, because it shows that earlier jobs have ended.
        """
        if not (application.streaming or application.has_queries):
            return
        base = application.path
        jobs, stages = await self._watch.request_all(
            [(f"{base}/jobs", "status=running"), (f"{base}/stages", "status=active")]
        )
        if jobs is None or stages is None:
            return
        self._keep(jobs, compare=False)
        running = [
            (str(item.get("submissionTime") or ""), stage, as_integer(item.get("attemptId")) or 0)
            for item in _objects(stages.body)
            if (stage := as_integer(item.get("stageId"))) is not None and item.get("numActiveTasks")
        ]
        query = f"status=running&length={TASKS_PER_STAGE}"
        lists = await self._watch.request_all(
            (f"{base}/stages/{stage}/{attempt}/taskList", query)
            for _, stage, attempt in sorted(running)[:STAGES_PER_TICK]
        )
        for tasks in lists:
            if tasks is not None:
                self._keep(tasks, compare=False)

    async def _dump_threads(self, application: _Application) -> None:
        """Dump the threads of the driver and of executors with running tasks.

        The driver runs the code of batches, and in local mode also the tasks.
        """
        if application.streaming or application.has_queries:
            paths = {
                f"{application.path}/executors/{quote(name, safe='')}": tasks
                for name, tasks in application.executors.items()
            }
            driver = f"{application.path}/executors/{DRIVER}"
            working = [path for path, tasks in paths.items() if tasks]
            await self._dumps.take(self._number, [driver, *working], paths)

    async def _page(self, path: str) -> str:
        """Return a page of the Web UI, or an empty string if it does not exist."""
        with TemporaryDirectory() as folder:
            target = Path(folder) / "page.html"
            try:
                await self._client.download(path, target, PAGE_BYTES)
            except RequestFailed:
                return ""
            return target.read_text(encoding="utf-8", errors="replace")

    def _keep(self, answer: Answer, compare: Any = None) -> None:
        self._watch.keep(answer.path, redact(answer.body), answer.time_ms, compare=compare)


def _why_starting(failed: Exception) -> str | None:
    if not isinstance(failed, RequestFailed):
        return None
    may_start = failed.transient or failed.status == 404 or "HTML page" in failed.why
    return failed.why if may_start else None


def _busiest_first(body: object) -> dict[str, int]:
    """Return the number of running tasks of each live executor, the busiest first."""
    tasks = {
        name: as_integer(item.get("activeTasks")) or 0
        for item in _objects(body)
        if (name := as_string(item.get("id"))) is not None and item.get("isActive", True)
    }
    return dict(sorted(tasks.items(), key=lambda pair: -pair[1]))


def _objects(body: object) -> list[Mapping[str, Any]]:
    return [item for item in body if isinstance(item, Mapping)] if isinstance(body, list) else []
