"""Live servers as inputs of a diagnosis: detect, collect, and keep recent rounds.

`Servers.collect` queries all servers at once, within the limits of `flowdiag collect`, and writes the responses
below one folder: `SERVER/TIME/`. The folder is temporary and private, or the user's own (`--keep`). A failing server
does not affect the others.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from flowdiag.cli.options.routing import KUBERNETES, YARN
from flowdiag.parsers.cleanup import remove_folder
from flowdiag.parsers.errors import FlowdiagError
from flowdiag.parsers.live.client import Client
from flowdiag.parsers.live.detect import FLINK, PROMETHEUS, NoServer, Server, detect_started
from flowdiag.parsers.live.folder import Folder
from flowdiag.parsers.live.thread_dumps import Stacks
from flowdiag.parsers.notes import InputNote, Kind
from flowdiag.parsers.sources.collected import MANIFEST

if TYPE_CHECKING:
    from flowdiag.analyses.selection.span import Selection
    from flowdiag.parsers.live.client import Access
    from flowdiag.parsers.live.watching import Outcome

ShowProgress = Callable[[str], None]

TICK_S: Final = 10.0
"""Seconds between two refreshes of a JobManager's metrics."""
GRACE_S: Final = 60.0
"""Extra time for a collection; a slower server is cut off."""
HISTORY_S: Final = 3600.0
"""History requested from Prometheus unless `--since` is given."""
HISTORY_GRACE_S: Final = 600.0
KEPT_BYTES: Final = 1024 * 1024 * 1024
"""Disk limit for all rounds that are diagnosed together."""
_MAX_WARNINGS: Final = 3  # maximum number per server

_KUBERNETES: Final = "kubernetes"
_YARN: Final = "yarn"

# Normal ends of a collection.
_NORMAL_ENDS: Final = frozenset(
    {
        "the requested time has elapsed",
        "the time span is complete",
        "everything is already stored",
        "all logs are fetched",
        "all data is collected",
        "the warnings show what is missing",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectOptions:
    """Options for the collection from all servers.

    Attributes:
        access: credentials and TLS settings.
        for_s: how long Flink and Spark are watched.
        selection: time span and jobs to diagnose; limits the Prometheus query and the event logs.
        tool: flowdiag version.
        stacks: when to take thread dumps.
    """

    access: Access
    for_s: float
    selection: Selection
    tool: str
    stacks: Stacks = Stacks.AUTO


@dataclass(slots=True, kw_only=True)
class Collected:
    """Inputs from this round and the earlier rounds still kept.

    Attributes:
        files: paths in order of time, with the names shown to users.
        warnings: about servers and their responses.
        errors: one per server that returned nothing.
        fresh: whether this round collected anything.
        paths: URLs that do not respond like a known server and may be files.
    """

    files: dict[str, str] = field(default_factory=dict)
    warnings: list[InputNote] = field(default_factory=list)
    errors: list[FlowdiagError] = field(default_factory=list)
    fresh: bool = False
    paths: list[str] = field(default_factory=list)

    def display_name(self, name: str) -> str:
        """Return the name shown to users for a source: a response, an archive member, or any other
        input.
        """
        end = len(name)
        while end > 0 and name[:end] not in self.files:
            end = name.rfind("!", 0, end)
        return self.files[name[:end]] + name[end:] if end > 0 else name


@dataclass(slots=True, kw_only=True)
class _Round:
    begun: float
    folders: list[tuple[Server, Path]] = field(default_factory=list)


class Servers:
    """A set of servers to query, once or repeatedly."""

    def __init__(
        self,
        urls: Sequence[str],
        options: CollectOptions,
        root: Path,
        *,
        kept: bool,
        span_s: float = 0,
    ) -> None:
        """Store the options; nothing is requested yet.

        Args:
            urls: as the user wrote them.
            options: how to collect.
            root: where folders are created.
            kept: whether the folder belongs to the user (`--keep`).
            span_s: rounds that started more than this before the last round are dropped.
        """
        self._urls, self._options, self._root = urls, options, root
        self._kept, self._span_s = kept, span_s
        self._detected: dict[str, Server] = {}
        self._doubtful: frozenset[str] = frozenset()
        self._rounds: deque[_Round] = deque()

    def collect(self, progress: ShowProgress, doubtful: Sequence[str] = ()) -> Collected:
        """Query all servers, then return the files to read.

        Args:
            progress: shows progress.
            doubtful: URLs that may name files.
        """
        self._doubtful = frozenset(doubtful)
        found = Collected()
        this = _Round(begun=now())
        self._rounds.append(this)
        asyncio.run(self._collect_all(this, found, progress))
        self._drop_old_rounds(found)
        for each in self._rounds:
            for server, folder in each.folders:
                for path in _files(folder):
                    found.files[str(path)] = self._display_name(server, folder, path)
        return found

    def _display_name(self, server: Server, folder: Path, path: Path) -> str:
        if self._kept:
            return str(path)
        several = len(self._rounds) > 1
        return f"{server.shown}!{folder.name + '/' if several else ''}{path.relative_to(folder)}"

    async def _collect_all(self, this: _Round, found: Collected, progress: ShowProgress) -> None:
        unknown = [url for url in self._urls if url not in self._detected]
        answers = await asyncio.gather(*(self._detect(url, found, progress) for url in unknown))
        self._detected |= {
            url: server for url, server in zip(unknown, answers, strict=True) if server
        }
        servers = [self._detected[url] for url in self._urls if url in self._detected]
        live = [server for server in servers if server.kind != PROMETHEUS]
        await asyncio.gather(
            *(self._collect_from(server, this, found, progress) for server in live)
        )
        # Prometheus comes last, so that its history covers the same time as the live data.
        history = [server for server in servers if server.kind == PROMETHEUS]
        await asyncio.gather(
            *(self._collect_from(server, this, found, progress) for server in history)
        )

    async def _detect(self, url: str, found: Collected, progress: ShowProgress) -> Server | None:
        progress("detecting servers")
        if url.startswith(KUBERNETES):
            return Server(kind=_KUBERNETES, url=url, shown=url)
        if url.startswith(YARN):
            return Server(kind=_YARN, url=url, shown=url)
        try:
            return await detect_started(url, self._options.access, progress)
        except FlowdiagError as trouble:
            if url in self._doubtful and isinstance(trouble, NoServer):
                found.paths.append(url)
            else:
                found.errors.append(trouble)
            return None

    async def _collect_from(
        self, server: Server, this: _Round, found: Collected, progress: ShowProgress
    ) -> None:
        """Collect from one server; errors become warnings."""
        path = self._new_folder(server)
        slow = server.kind in (PROMETHEUS, _KUBERNETES, _YARN)
        grace = HISTORY_GRACE_S if slow else self._options.for_s + GRACE_S
        try:
            async with asyncio.timeout(grace):
                outcome = await self._outcome(server, path, progress)
        except TimeoutError:
            text = f"too slow: cut off {grace - self._options.for_s:g} s after the planned end"
            found.warnings.append(InputNote(Kind.NOT_READ, text, server.shown))
        except FlowdiagError as trouble:
            found.errors.append(trouble)
        else:
            found.warnings += _outcome_warnings(server, outcome)
        if any(_files(path)):
            found.fresh = True
            this.folders.append((server, path))
        else:
            remove_folder(path)

    async def _outcome(self, server: Server, path: Path, progress: ShowProgress) -> Outcome:
        if server.kind == _KUBERNETES:
            from flowdiag.cli.live.kubernetes import collect_workload

            return await collect_workload(server.url, path, self._options.tool, progress)
        if server.kind == _YARN:
            from flowdiag.cli.live.yarn import collect_application

            return await collect_application(
                server.url, path, self._options.access, self._options.tool, progress
            )
        async with Client(server.url, self._options.access) as client:
            if server.kind not in (FLINK, PROMETHEUS):
                from flowdiag.parsers.live.event_logs import collect_event_logs

                logs = await collect_event_logs(
                    client, path, self._options.selection.selects, progress=progress
                )
                if logs is not None:
                    return logs
            folder = Folder(path, server.kind, server.shown)
            try:
                return await self._collect_ticks(server, client, folder, progress)
            finally:
                folder.close()

    async def _collect_ticks(
        self, server: Server, client: Client, folder: Folder, progress: ShowProgress
    ) -> Outcome:
        options, tool = self._options, self._options.tool
        if server.kind == PROMETHEUS:
            from flowdiag.parsers.live.prometheus import HistoryOptions, collect_prometheus

            from_s, to_s = span_of(options.selection, time.time())
            history = HistoryOptions(from_s=from_s, to_s=to_s)
            return await collect_prometheus(client, folder, history, tool=tool, progress=progress)
        if server.kind == FLINK:
            from flowdiag.parsers.live.flink import FlinkOptions, collect_flink

            flink = FlinkOptions(every_s=TICK_S, for_s=options.for_s, stacks=options.stacks)
            return await collect_flink(client, folder, flink, tool=tool, progress=progress)
        from flowdiag.parsers.live.spark import SparkOptions, collect_spark

        spark = SparkOptions(every_s=TICK_S, for_s=options.for_s, stacks=options.stacks)
        return await collect_spark(client, folder, spark, tool=tool, progress=progress)

    def _new_folder(self, server: Server) -> Path:
        parts = urlsplit(server.shown)
        place = re.sub(r"[^\w.-]+", "-", f"{server.kind}-{parts.netloc}{parts.path}").strip("-")
        stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
        path = self._root / place[:150] / stamp
        for number in range(2, 100):
            if not path.exists():
                break
            path = self._root / place[:150] / f"{stamp}-{number}"
        try:
            path.mkdir(parents=True)
        except OSError as error:
            raise FlowdiagError(
                f"cannot write to '{self._root}': {error.strerror or error}",
                hint="check that the parent folder exists and that the disk has free space",
            ) from None
        return path

    def _drop_old_rounds(self, found: Collected) -> None:
        """Drop rounds that are too old, then the oldest rounds until the rest fits the disk limit."""
        last = self._rounds[-1].begun
        while len(self._rounds) > 1 and self._rounds[0].begun < last - self._span_s - 1:
            self._remove_first()
        sizes = [sum(map(_size, each.folders)) for each in self._rounds]
        while len(self._rounds) > 1 and sum(sizes) > KEPT_BYTES:
            sizes.pop(0)
            self._remove_first()
            text = f"dropped the oldest rounds: all rounds together exceed {KEPT_BYTES >> 30} GiB"
            found.warnings.append(InputNote(Kind.NOT_READ, text))

    def _remove_first(self) -> None:
        for _, folder in self._rounds.popleft().folders:
            remove_folder(folder)


def now() -> float:
    """Return the seconds of a monotonic clock."""
    return time.monotonic()


def span_of(selection: Selection, now_s: float) -> tuple[int, int]:
    """Return the time span to request from Prometheus, in seconds since 1970: the selection, or the last hour.

    Args:
        selection: times without a zone are taken as UTC.
        now_s: the end, unless the selection has one.
    """
    end = _epoch_seconds(selection.until, now_s) if selection.until else now_s
    begin = _epoch_seconds(selection.since, end) if selection.since else end - HISTORY_S
    return int(begin), max(int(begin) + 1, int(end))


def _epoch_seconds(moment: object, end_s: float) -> float:
    back, utc, local = (getattr(moment, name) for name in ("before_end_us", "utc_us", "local_us"))
    moment_us = next((us for us in (utc, local) if us is not None), None)
    return moment_us / 1e6 if moment_us is not None else end_s - (back or 0) / 1e6


def _files(folder: Path) -> list[Path]:
    """List the collected files in order of time."""
    return sorted(
        path for path in folder.rglob("[!.]*") if path.name != MANIFEST and path.is_file()
    )


def _size(kept: tuple[Server, Path]) -> int:
    return sum(path.stat().st_size for path in kept[1].rglob("*") if path.is_file())


def unavailable_note(trouble: FlowdiagError) -> InputNote:
    """Return the warning about a server that returned nothing while others responded."""
    source, _, text = trouble.message.partition(": ")
    return InputNote(Kind.UNREADABLE, text or source, source if text else None)


def _outcome_warnings(server: Server, outcome: Outcome) -> Iterator[InputNote]:
    """Yield warnings about a collection that ended early or incomplete."""
    if outcome.silent is not None:
        text = f"stopped responding ({outcome.silent}); the diagnosis uses the data up to then"
        yield InputNote(Kind.GAP, text, server.shown)
        return
    if outcome.broken or outcome.why not in _NORMAL_ENDS:
        yield InputNote(Kind.OTHER, outcome.why, server.shown)
    for warning in outcome.warnings[:_MAX_WARNINGS]:
        yield InputNote(Kind.NOT_READ, warning, server.shown)
    if len(outcome.warnings) > _MAX_WARNINGS:
        text = f"{len(outcome.warnings) - _MAX_WARNINGS} more requests failed"
        yield InputNote(Kind.NOT_READ, text, server.shown)
