"""Collects an application from YARN into a folder: `flowdiag collect yarn`.

    application.json, attempts.json        responses of the ResourceManager
    attempt-000001.containers.json         the containers of each attempt that the ResourceManager still knows
    timeline.….json                        the same from the timeline server, including ended containers
    nodes.json, queue.json                 the nodes of the containers, and the queue of the application
    CONTAINER/jobmanager.log, …            logs, from NodeManagers, the timeline server or the JobHistory server
    rest/                                  one response per REST path of the JobManager or driver
    manifest.jsonl                         what was collected, truncated or denied

Credentials are sent only to servers that the user specified, not to NodeManagers, whose addresses come from YARN.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlsplit

from flowdiag.parsers.errors import FlowdiagError
from flowdiag.parsers.json_values import as_integer, as_string, object_at, objects_at
from flowdiag.parsers.live.client import Access, Client, RequestFailed, base_of
from flowdiag.parsers.live.folder import Folder, now_ms
from flowdiag.parsers.live.snapshots.folder import (
    COMPLETE,
    PARTIAL,
    Failures,
    SnapshotFolder,
    unwritable,
)
from flowdiag.parsers.live.snapshots.masking import masked_lines, masked_values
from flowdiag.parsers.live.watching import Outcome, ShowProgress, hint_for
from flowdiag.parsers.sources.collected import SCHEMA

LOG_BYTES: Final = 32 * 1024 * 1024
ALL_LOG_BYTES: Final = 1024 * 1024 * 1024
MAX_CONTAINERS: Final = 100
"""Maximum containers whose logs are read; application masters and failed containers come first."""
MAX_NODES: Final = 200
TOTAL_S: Final = 600.0
APPLICATION: Final = re.compile(r"application_[0-9]{1,19}_[0-9]{1,9}")
# Responses are not trusted, because names in them become file names and parts of URLs.
_CONTAINER: Final = re.compile(
    r"container_(?:e[0-9]{1,9}_)?[0-9]{1,19}_[0-9]{1,9}_[0-9]{1,9}_[0-9]{1,12}"
)
_IN_LOGS: Final = re.compile(_CONTAINER.pattern.encode())
_ATTEMPT: Final = re.compile(r"appattempt_[0-9]{1,19}_[0-9]{1,9}_([0-9]{1,9})")
_SCANNED_BYTES: Final = 4 * 1024 * 1024
_SKIPPED_FILES: Final = re.compile(
    r"launch_container\.sh|directory\.info|container_tokens|.*\.(?:hprof|jfr|jar)"
)

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class YarnOptions:
    """Settings of a collection.

    Attributes:
        application: application ID.
        manager: URL of the ResourceManager.
        timeline: URL of the timeline server (application history); None to try the default port.
        history: URL of the JobHistory server; None to skip it.
        access: credentials and TLS settings.
        log_bytes: maximum size of each log.
        rest: whether to read the REST API of the JobManager or driver.
    """

    application: str
    manager: str
    timeline: str | None = None
    history: str | None = None
    access: Access
    log_bytes: int = LOG_BYTES
    rest: bool = True


@dataclass(slots=True)
class _Container:
    node: str | None = None
    master: bool = False
    status: int | None = None

    @property
    def rank(self) -> int:
        """Sort key: application masters first, then failed containers."""
        return 0 if self.master else 1 if self.status else 2


async def collect_yarn(
    path: Path, options: YarnOptions, *, tool: str, progress: ShowProgress
) -> Outcome:
    """Collect an application into a folder.

    Args:
        path: a new or empty folder.
        options: what to collect.
        tool: flowdiag's version, for the manifest.
        progress: shows progress.

    Raises:
        FlowdiagError: there is no connection or no such application, or the folder contains files.
    """
    if not APPLICATION.fullmatch(options.application):
        raise FlowdiagError(
            f"'{options.application}' is not an application ID",
            hint="use an ID such as application_1700000000000_0001; `yarn application -list -appStates ALL` lists them",
        )
    async with AsyncExitStack() as stack:
        collector = _Collector(options, progress, stack)
        application = await collector.find()
        folder = SnapshotFolder(path)
        folder.note(
            what="run",
            schema=SCHEMA,
            kind="yarn",
            url=options.manager,
            time_ms=now_ms(),
            flowdiag=tool,
            application=options.application,
        )
        return await collector.run(application, folder, tool)


class _Collector:
    def __init__(self, options: YarnOptions, progress: ShowProgress, stack: AsyncExitStack) -> None:
        self._options, self._progress, self._stack = options, progress, stack
        self._clients: dict[str, Client] = {}
        self._failures = Failures()
        self._containers: dict[str, _Container] = {}
        self._attempts: list[str] = []
        self._left = ALL_LOG_BYTES
        self._files: SnapshotFolder
        self._nodes: list[str] = []
        self._silent: set[str] = set()
        # Knox adds the first part of the path.
        knox = options.manager.rstrip("/").endswith("/resourcemanager")
        self._cluster = "/v1/cluster" if knox else "/ws/v1/cluster"

    async def find(self) -> Json:
        """Return the application from the ResourceManager or, failing that, from the timeline server.

        Raises:
            FlowdiagError: no server responds, or none knows the application.
        """
        options = self._options
        self._progress("finding the application")
        try:
            client = await self._client(options.manager)
            answer = await client.get(f"{self._cluster}/apps/{options.application}")
            return object_at(answer.body, "app") if isinstance(answer.body, Mapping) else {}
        except RequestFailed as failed:
            # For an unknown application, the ResourceManager's response is JSON.
            if failed.status != 404 or "HTML page" in failed.why:
                raise FlowdiagError(
                    f"{options.manager}: {failed.why}", hint=hint_for(failed)
                ) from None
        known = await self._timeline(f"/apps/{options.application}")
        if known is None:
            raise FlowdiagError(
                f"{options.manager}: the ResourceManager does not know {options.application}",
                hint="check the ID; for an older application, pass the timeline server with --timeline",
            )
        return known

    async def run(self, application: Json, folder: SnapshotFolder, tool: str) -> Outcome:
        """Collect everything; a failure of one kind of data does not affect the others."""
        self._files = folder
        why, broken = COMPLETE, False
        try:
            async with asyncio.timeout(TOTAL_S):
                self._write("application", application)
                for work in (
                    self._read_attempts,
                    self._read_timeline,
                    self._read_nodes,
                    lambda: self._read_queue(application),
                    self._read_logs,
                ):
                    await self._attempt(work)
                if self._options.rest and application.get("state") == "RUNNING":
                    await self._read_rest(application, tool)
        except TimeoutError:
            why, broken = f"the time limit of {TOTAL_S / 60:g} minutes is reached", True
        except asyncio.CancelledError:
            folder.note(what="end", time_ms=now_ms(), why="interrupted")
            raise
        if not any(folder.path.glob("container_*")):
            self._failures.add(
                "no log was readable: pass the folder of the aggregated logs to `flowdiag diagnose` as well"
            )
        warnings = tuple(self._failures.texts())
        why = PARTIAL if warnings and not broken else why
        for warning in warnings:
            folder.note(what="warning", text=warning)
        folder.note(what="end", time_ms=now_ms(), why=why)
        clients = self._clients.values()
        return Outcome(
            ticks=len(folder.names),
            requests=sum(client.requests for client in clients),
            bytes=sum(client.bytes for client in clients),
            why=why,
            warnings=warnings,
            broken=broken,
            resumable=False,
        )

    # --- Answers --------------------------------------------------------------------------------

    async def _client(self, url: str) -> Client:
        """Return the client for a server. Only servers that the user specified get credentials."""
        if url not in self._clients:
            named = {self._options.manager, self._options.timeline, self._options.history}
            access = self._options.access
            if url not in named:
                access = replace(
                    access, token=None, user=None, password=None, client_cert=None, client_key=None
                )
            self._clients[url] = await self._stack.enter_async_context(Client(url, access))
        return self._clients[url]

    async def _get(self, url: str, path: str) -> Json | None:
        """Return a response, or None if the server does not know the object."""
        try:
            answer = await (await self._client(url)).get(path)
        except RequestFailed as failed:
            if failed.status != 404:
                self._failures.add(failed.why, urlsplit(url).netloc)
            return None
        return answer.body if isinstance(answer.body, Mapping) else None

    async def _timeline(self, path: str) -> Json | None:
        url = self._options.timeline or _default_timeline(self._options.manager)
        if url in self._silent:
            return None
        try:
            answer = await (await self._client(url)).get(f"/ws/v1/applicationhistory{path}")
        except RequestFailed as failed:
            if failed.status is None:
                self._silent.add(url)
            # Without --timeline, the default port is only a guess, so do not report a failure.
            if failed.status != 404 and self._options.timeline is not None:
                self._failures.add(failed.why, urlsplit(url).netloc)
            return None
        return answer.body if isinstance(answer.body, Mapping) else None

    async def _attempt(self, work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
        except RequestFailed as failed:
            self._failures.add(failed.why, failed.path)

    def _write(self, name: str, value: Any) -> None:
        self._files.write_object(name, masked_values(value))

    async def _read_attempts(self) -> None:
        app = f"{self._cluster}/apps/{self._options.application}/appattempts"
        answer = await self._get(self._options.manager, app)
        if answer is None:
            return
        self._write("attempts", answer)
        for attempt in objects_at(object_at(answer, "appAttempts"), "appAttempt"):
            self._container_named(
                attempt.get("containerId"), attempt.get("nodeHttpAddress"), master=True
            )
            if (name := _ATTEMPT.fullmatch(str(attempt.get("appAttemptId")))) is not None:
                found = await self._get(self._options.manager, f"{app}/{name[0]}/containers")
                self._write_containers(f"attempt-{name[1]}.containers", found)

    async def _read_timeline(self) -> None:
        app = f"/apps/{self._options.application}"
        attempts = await self._timeline(f"{app}/appattempts")
        if attempts is None:
            return
        application = await self._timeline(app)
        self._write("timeline.application", application)
        self._write("timeline.attempts", attempts)
        for attempt in objects_at(attempts, "appAttempt"):
            self._container_named(attempt.get("amContainerId"), None, master=True)
            if (name := _ATTEMPT.fullmatch(str(attempt.get("appAttemptId")))) is not None:
                found = await self._timeline(f"{app}/appattempts/{name[0]}/containers")
                self._write_containers(f"timeline.attempt-{name[1]}.containers", found)

    def _write_containers(self, name: str, answer: Json | None) -> None:
        """Write the containers of an attempt, and remember where to read their logs."""
        listed = [] if answer is None else _containers(answer)
        for each in listed:
            known = self._container_named(each.get("containerId"), each.get("nodeHttpAddress"))
            if known is not None and each.get("containerState") == "COMPLETE":
                known.status = as_integer(each.get("containerExitStatus"))
        if listed:
            self._write(name, answer)

    def _container_named(
        self, name: object, node: object, *, master: bool = False
    ) -> _Container | None:
        """Return the container with this name, adding it if new. Return None if the name is invalid."""
        if not isinstance(name, str) or not _CONTAINER.fullmatch(name):
            return None
        known = self._containers.setdefault(name, _Container())
        known.master = known.master or master
        known.node = self._node_url(node) or known.node
        return known

    def _node_url(self, address: object) -> str | None:
        """Return the URL of a NodeManager. In some versions, its address has no scheme."""
        if not isinstance(address, str):
            return None
        scheme = urlsplit(self._options.manager).scheme
        try:
            return base_of(address if "://" in address else f"{scheme}://{address}")[0]
        except FlowdiagError:
            return None

    async def _read_nodes(self) -> None:
        answer = await self._get(self._options.manager, f"{self._cluster}/nodes")
        if answer is None:
            return
        used = {known.node for known in self._containers.values()}
        listed = [
            (node, url)
            for node in objects_at(object_at(answer, "nodes"), "node")
            if (url := self._node_url(node.get("nodeHTTPAddress"))) is not None
        ]
        self._write("nodes", {"nodes": {"node": [node for node, url in listed if url in used]}})
        running = [url for node, url in listed if node.get("state") == "RUNNING"]
        self._nodes = running[:MAX_NODES]

    async def _read_queue(self, application: Json) -> None:
        answer = await self._get(self._options.manager, f"{self._cluster}/scheduler")
        queue = answer and _queue_named(answer, str(application.get("queue")))
        if queue:
            self._write("queue", {"queue": queue})

    # --- Logs -----------------------------------------------------------------------------------

    async def _read_logs(self) -> None:
        """Read the logs of the application masters, then of all containers found in responses or in those logs."""
        await self._read_logs_of(name for name, known in self._containers.items() if known.master)
        for path in sorted(self._files.path.glob("container_*/*")):
            with path.open("rb") as file:
                for found in _IN_LOGS.findall(file.read(_SCANNED_BYTES)):
                    if _application_of(found.decode()) == self._options.application:
                        self._container_named(found.decode(), None)
        rest = [name for name, known in self._containers.items() if not known.master]
        rest.sort(key=lambda name: (self._containers[name].rank, name))
        most = MAX_CONTAINERS
        if len(rest) > most:
            self._failures.add(f"{len(rest)} containers: only the logs of {most} are read")
        await self._read_logs_of(rest[:most])

    async def _read_logs_of(self, names: Iterable[str]) -> None:
        names = list(names)
        limit = asyncio.Semaphore(4)

        async def read(name: str) -> None:
            async with limit:
                await self._read_container(name)

        self._progress(f"reading the logs of {len(names)} containers")
        await asyncio.gather(*map(read, names))

    async def _read_container(self, name: str) -> None:
        known = self._containers[name]
        for url, prefix in self._log_servers(known):
            if url in self._silent:
                continue
            try:
                client = await self._client(url)
                answer = await client.get(f"{prefix}/containers/{quote(name)}/logs")
            except RequestFailed as failed:
                if failed.status is None:
                    self._silent.add(url)
                continue
            files = dict.fromkeys(_log_files(answer.body))
            if files:
                for file in files:
                    await self._read_log(client, prefix, name, file)
                return
        self._failures.add("no server has its logs", name)

    def _log_servers(self, known: _Container) -> Iterator[tuple[str, str]]:
        """Yield the servers that may serve a container's logs, each with the prefix of its paths."""
        if known.node is not None:
            yield known.node, "/ws/v1/node"
        timeline = self._options.timeline or _default_timeline(self._options.manager)
        yield timeline, "/ws/v1/applicationhistory"
        if self._options.history is not None:
            yield self._options.history, "/ws/v1/history"
        if known.node is None:
            for node in self._nodes:
                yield node, "/ws/v1/node"

    async def _read_log(self, client: Client, prefix: str, container: str, file: str) -> None:
        if self._left <= 0:
            self._failures.add(
                f"not read: all logs together exceed {ALL_LOG_BYTES >> 30} GiB", container
            )
            return
        name = re.sub(r"[^\w.-]", "_", file).lstrip(".") or "log"
        most = self._options.log_bytes
        hidden = self._files.path / f".{container}.{name}"
        path = f"{prefix}/containers/{quote(container)}/logs/{quote(file, safe='')}"
        try:
            # A negative size requests the end of the file, in addition to the section headers.
            size = await client.download(path, hidden, most + 65536, f"size=-{most}")
            self._left -= size
            with hidden.open("rb") as stored:
                if stored.read(512).lstrip()[:15].lower().startswith((b"<!doctype html", b"<html")):
                    self._failures.add("an HTML page instead of the log: a login page", client.base)
                    return
                stored.seek(0)
                pieces = masked_lines(iter(lambda: stored.read(1 << 20), b""))
                # In a thread, because the search for secrets can take longer than the timeout of other responses.
                await asyncio.to_thread(self._files.write, f"{container}/{name}", pieces)
            if size >= most:
                self._failures.add(
                    f"larger than {most >> 20} MiB: only its end is kept", f"{container}/{name}"
                )
        except RequestFailed as failed:
            self._failures.add(failed.why, f"{container}/{name}")
        except OSError as error:
            raise unwritable(self._files.path, error) from None
        finally:
            hidden.unlink(missing_ok=True)

    # --- REST API -------------------------------------------------------------------------------

    async def _read_rest(self, application: Json, tool: str) -> None:
        """Read the REST API of the running JobManager or driver through the proxy of the ResourceManager."""
        kind = str(application.get("applicationType")).lower()
        engine = "flink" if "flink" in kind else "spark" if "spark" in kind else None
        if engine is None:
            return
        base = self._options.manager.rstrip("/")
        url = f"{base}/proxy/{self._options.application}"
        self._progress("reading the REST API")
        try:
            async with Client(url, self._options.access) as client:
                folder = Folder(self._files.path / "rest", engine, url)
                try:
                    await _collect_once(engine, client, folder, tool, self._progress)
                finally:
                    folder.close()
        except FlowdiagError as error:
            self._failures.add(error.message.rpartition(": ")[2], "REST API")


async def _collect_once(
    engine: str, client: Client, folder: Folder, tool: str, progress: ShowProgress
) -> None:
    if engine == "flink":
        from flowdiag.parsers.live.flink import FlinkOptions, collect_flink

        await collect_flink(client, folder, FlinkOptions(for_s=0), tool=tool, progress=progress)
    else:
        from flowdiag.parsers.live.spark import SparkOptions, collect_spark

        await collect_spark(client, folder, SparkOptions(for_s=0), tool=tool, progress=progress)


def _default_timeline(manager: str) -> str:
    """Return the URL of a timeline server on the ResourceManager's host, with Hadoop's default port.

    >>> _default_timeline("http://rm-1:8088/x"), _default_timeline("https://[::1]:8090")
    ('http://rm-1:8188', 'https://[::1]:8190')
    """
    parts = urlsplit(manager)
    host = f"[{parts.hostname}]" if ":" in str(parts.hostname) else parts.hostname
    return f"{parts.scheme}://{host}:{8190 if parts.scheme == 'https' else 8188}"


def _containers(answer: Json) -> list[Json]:
    """Return the containers of an attempt. The ResourceManager returns a single container without a list.

    >>> _containers({"container": {"containerId": "c"}}), _containers({"containers": {"container": [{"containerId": "c"}]}})
    ([{'containerId': 'c'}], [{'containerId': 'c'}])
    """
    holder = answer if "container" in answer else object_at(answer, "containers")
    single = object_at(holder, "container")
    return [single] if single else objects_at(holder, "container")


def _log_files(body: object, depth: int = 6) -> Iterator[str]:
    """Yield the names of log files in a response, whose format differs between versions."""
    if depth and isinstance(body, list):
        for each in body:
            yield from _log_files(each, depth - 1)
    elif depth and isinstance(body, Mapping):
        name = as_string(body.get("fileName"))
        if (
            name is not None
            and not _SKIPPED_FILES.fullmatch(name)
            and str(body.get("fileSize")) != "0"
        ):
            yield name
        for key, each in body.items():
            if key != "fileName":
                yield from _log_files(each, depth - 1)


def _queue_named(body: object, name: str, depth: int = 12) -> Json | None:
    """Return the limits of a queue, without its child queues, from the response of the scheduler."""
    if depth == 0:
        return None
    if isinstance(body, list):
        found = (_queue_named(each, name, depth - 1) for each in body)
        return next((each for each in found if each), None)
    if not isinstance(body, Mapping):
        return None
    if name in (body.get("queueName"), body.get("queuePath")):
        return {key: value for key, value in body.items() if key not in ("queues", "users")}
    return _queue_named(list(body.values()), name, depth - 1)


def _application_of(container: str) -> str:
    """Return the application ID in a container ID.

    >>> _application_of("container_e17_1700000000000_0007_01_000002")
    'application_1700000000000_0007'
    """
    epoch, number = container.split("_")[-4:-2]
    return f"application_{epoch}_{number}"
