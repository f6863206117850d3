"""Live servers as inputs of a diagnosis: who answers, what is kept of it, and for how long.

`Servers.collect` asks all of them at once, as `flowdiag collect` does and within its limits, and writes the answers
below one folder: `SERVER/TIME/`. That folder is private and temporary, or the user's own (`--keep`). What
one server refuses does not take the others with it.
"""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from flowdiag.parsers.cleanup import remove_folder
from flowdiag.parsers.errors import FlowdiagError
from flowdiag.parsers.live.client import Client
from flowdiag.parsers.live.detect import FLINK, PROMETHEUS, NoServer, Server, detect
from flowdiag.parsers.live.folder import Folder
from flowdiag.parsers.remarks import Kind, Remark
from flowdiag.parsers.sources.collected import MANIFEST

if TYPE_CHECKING:
    from flowdiag.analyses.model.span import Selection
    from flowdiag.parsers.live.client import Access
    from flowdiag.parsers.live.watching import Outcome

Say = Callable[[str], None]

TICK_S: Final = 10.0
"""As often as a JobManager has new metrics."""
GRACE_S: Final = 60.0
"""So much longer than it was asked to last a collection may take; a slow server is cut short then."""
HISTORY_S: Final = 3600.0
"""What a Prometheus is asked for, unless `--since` says otherwise."""
HISTORY_GRACE_S: Final = 600.0
KEPT_BYTES: Final = 1024 * 1024 * 1024
"""Rounds that are diagnosed together have no more on the disk."""
_TOLD: Final = 3  # warnings of one server

# How a collection ends where nothing is wrong.
_ORDINARY: Final = frozenset(
    {"the time is up", "the span is complete", "all of it was there already", "all logs are there"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """What is wanted of all servers.

    Attributes:
        access: credentials and certificates.
        for_s: how long Flink and Spark are watched.
        selection: what is judged: which time a Prometheus is asked for, which logs a History Server.
        tool: version of flowdiag.
    """

    access: Access
    for_s: float
    selection: Selection
    tool: str


@dataclass(slots=True, kw_only=True)
class Collected:
    """What there is to be diagnosed, of this round and of those before.

    Attributes:
        files: paths in the order of their times, with the names by which people are told of them.
        warnings: what is to be said of servers and their answers.
        errors: of servers that gave nothing at all.
        fresh: whether this round collected anything.
        paths: URLs at which nobody answers as a server would: perhaps files.
    """

    files: dict[str, str] = field(default_factory=dict)
    warnings: list[Remark] = field(default_factory=list)
    errors: list[FlowdiagError] = field(default_factory=list)
    fresh: bool = False
    paths: list[str] = field(default_factory=list)

    def name_of(self, name: str) -> str:
        """What people are told of a source that was found: an answer, a member of an archive, or none of ours."""
        end = len(name)
        while end > 0 and name[:end] not in self.files:
            end = name.rfind("!", 0, end)
        return self.files[name[:end]] + name[end:] if end > 0 else name


@dataclass(slots=True, kw_only=True)
class _Round:
    begun: float
    folders: list[tuple[Server, Path]] = field(default_factory=list)


class Servers:
    """Servers that are asked once, or again and again."""

    def __init__(
        self,
        urls: Sequence[str],
        wishes: Wishes,
        root: Path,
        *,
        kept: bool,
        span_s: float = 0,
    ) -> None:
        """Prepare; nothing is asked yet.

        Args:
            urls: as given.
            wishes: of the user.
            root: where folders are made.
            kept: whether the user knows of them.
            span_s: rounds that began earlier than that before the last one are forgotten.
        """
        self._urls, self._wishes, self._root = urls, wishes, root
        self._kept, self._span_s = kept, span_s
        self._known: dict[str, Server] = {}
        self._doubtful: frozenset[str] = frozenset()
        self._rounds: deque[_Round] = deque()

    def collect(self, say: Say, doubtful: Sequence[str] = ()) -> Collected:
        """Ask all of them, as long as is wanted, and say what there is to be read then.

        Args:
            say: shows progress.
            doubtful: which of the URLs may name files.
        """
        self._doubtful = frozenset(doubtful)
        found = Collected()
        this = _Round(begun=now())
        self._rounds.append(this)
        asyncio.run(self._ask_all(this, found, say))
        self._forget(found)
        for each in self._rounds:
            for server, folder in each.folders:
                for path in _files(folder):
                    found.files[str(path)] = self._named(server, path)
        return found

    def _named(self, server: Server, path: Path) -> str:
        if self._kept:
            return str(path)
        several = len(self._rounds) > 1
        return f"{server.shown}!{path.parent.name + '/' if several else ''}{path.name}"

    async def _ask_all(self, this: _Round, found: Collected, say: Say) -> None:
        unknown = [url for url in self._urls if url not in self._known]
        answers = await asyncio.gather(*(self._detect(url, found, say) for url in unknown))
        self._known |= {url: one for url, one in zip(unknown, answers, strict=True) if one}
        servers = [self._known[url] for url in self._urls if url in self._known]
        live = [server for server in servers if server.kind != PROMETHEUS]
        await asyncio.gather(*(self._ask(server, this, found, say) for server in live))
        # Afterwards: what Prometheus kept is to reach as far as what the others say.
        history = [server for server in servers if server.kind == PROMETHEUS]
        await asyncio.gather(*(self._ask(server, this, found, say) for server in history))

    async def _detect(self, url: str, found: Collected, say: Say) -> Server | None:
        say("asking who answers")
        try:
            return await detect(url, self._wishes.access)
        except FlowdiagError as trouble:
            if url in self._doubtful and isinstance(trouble, NoServer):
                found.paths.append(url)
            else:
                found.errors.append(trouble)
            return None

    async def _ask(self, server: Server, this: _Round, found: Collected, say: Say) -> None:
        """Collect from one server; nothing that goes wrong with it is raised."""
        path = self._new_folder(server)
        grace = HISTORY_GRACE_S if server.kind == PROMETHEUS else self._wishes.for_s + GRACE_S
        try:
            async with asyncio.timeout(grace):
                outcome = await self._outcome(server, path, say)
        except TimeoutError:
            told = f"too slow: it was cut short {grace - self._wishes.for_s:g} s after its time"
            found.warnings.append(Remark(Kind.NOT_READ, told, server.shown))
        except FlowdiagError as trouble:
            found.errors.append(trouble)
        else:
            found.warnings += _told(server, outcome)
        if any(_files(path)):
            found.fresh = True
            this.folders.append((server, path))
        else:
            remove_folder(path)

    async def _outcome(self, server: Server, path: Path, say: Say) -> Outcome:
        async with Client(server.url, self._wishes.access) as client:
            if server.kind not in (FLINK, PROMETHEUS):
                from flowdiag.parsers.live.event_logs import collect_event_logs

                logs = await collect_event_logs(client, path, self._wishes.selection.wants, say=say)
                if logs is not None:
                    return logs
            folder = Folder(path, server.kind, server.shown)
            try:
                return await self._watched(server, client, folder, say)
            finally:
                folder.close()

    async def _watched(self, server: Server, client: Client, folder: Folder, say: Say) -> Outcome:
        wishes, tool = self._wishes, self._wishes.tool
        if server.kind == PROMETHEUS:
            from flowdiag.parsers.live.prometheus import HistoryOptions, collect_prometheus

            from_s, to_s = span_of(wishes.selection, time.time())
            history = HistoryOptions(from_s=from_s, to_s=to_s)
            return await collect_prometheus(client, folder, history, tool=tool, say=say)
        if server.kind == FLINK:
            from flowdiag.parsers.live.flink import FlinkOptions, collect_flink

            flink = FlinkOptions(every_s=TICK_S, for_s=wishes.for_s)
            return await collect_flink(client, folder, flink, tool=tool, say=say)
        from flowdiag.parsers.live.spark import SparkOptions, collect_spark

        spark = SparkOptions(every_s=TICK_S, for_s=wishes.for_s)
        return await collect_spark(client, folder, spark, tool=tool, say=say)

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
                hint="does the folder above exist, and is there room on the disk?",
            ) from None
        return path

    def _forget(self, found: Collected) -> None:
        """Remove rounds that are too long ago, and those for which there is no room."""
        last = self._rounds[-1].begun
        while len(self._rounds) > 1 and self._rounds[0].begun < last - self._span_s - 1:
            self._remove_first()
        sizes = [sum(map(_size, each.folders)) for each in self._rounds]
        while len(self._rounds) > 1 and sum(sizes) > KEPT_BYTES:
            sizes.pop(0)
            self._remove_first()
            told = (
                f"earlier rounds are left out: together they have more than {KEPT_BYTES >> 30} GiB"
            )
            found.warnings.append(Remark(Kind.NOT_READ, told))

    def _remove_first(self) -> None:
        for _, folder in self._rounds.popleft().folders:
            remove_folder(folder)


def now() -> float:
    """Seconds of a clock that nobody sets."""
    return time.monotonic()


def span_of(selection: Selection, now_s: float) -> tuple[int, int]:
    """The time that a Prometheus is asked for, in seconds since 1970: as judged, or the last hour.

    Args:
        selection: times without a zone are taken for UTC.
        now_s: the end, where nothing else is asked for.
    """
    end = _seconds(selection.until, now_s) if selection.until else now_s
    begin = _seconds(selection.since, end) if selection.since else end - HISTORY_S
    return int(begin), max(int(begin) + 1, int(end))


def _seconds(moment: object, end_s: float) -> float:
    back, utc, local = (getattr(moment, name) for name in ("before_end_us", "utc_us", "local_us"))
    known = next((us for us in (utc, local) if us is not None), None)
    return known / 1e6 if known is not None else end_s - (back or 0) / 1e6


def _files(folder: Path) -> list[Path]:
    """What was answered, in the order of its times."""
    return sorted(
        path for path in folder.iterdir() if path.name != MANIFEST and not path.name.startswith(".")
    )


def _size(kept: tuple[Server, Path]) -> int:
    with os.scandir(kept[1]) as entries:
        return sum(entry.stat().st_size for entry in entries)


def refused(trouble: FlowdiagError) -> Remark:
    """What is to be said of a server that gave nothing, where others did."""
    source, _, text = trouble.message.partition(": ")
    return Remark(Kind.UNREADABLE, text or source, source if text else None)


def _told(server: Server, outcome: Outcome) -> Iterator[Remark]:
    """What is to be said about how a collection ended."""
    if outcome.silent is not None:
        told = f"no answer any more ({outcome.silent}); judged is what it said until then"
        yield Remark(Kind.GAP, told, server.shown)
        return
    if outcome.broken or outcome.why not in _ORDINARY:
        yield Remark(Kind.OTHER, outcome.why, server.shown)
    for warning in outcome.warnings[:_TOLD]:
        yield Remark(Kind.NOT_READ, warning, server.shown)
    if len(outcome.warnings) > _TOLD:
        told = f"{len(outcome.warnings) - _TOLD} more requests failed"
        yield Remark(Kind.NOT_READ, told, server.shown)
