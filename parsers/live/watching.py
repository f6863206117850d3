"""What all collectors share: the clock of the ticks, failures that are noted, answers that repeat."""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from flowdiag.parsers.errors import FlowdiagError
from flowdiag.parsers.live.client import Answer, Client, RequestFailed
from flowdiag.parsers.live.folder import Folder, now_ms
from flowdiag.parsers.secrets import MASK, is_secret_key, mask_credentials, mask_secrets
from flowdiag.parsers.sources.collected import SCHEMA

Say = Callable[[str], None]

SILENCE_S: Final = 120.0
"""A server that answers nothing for so long is taken to be gone."""
TICK_S: Final = 120.0
"""A tick that takes longer is stored as far as it came."""
TICK_WEIGHT: Final = 512 * 1024 * 1024
"""Memory of the answers of one tick, about: all of them are there at once."""
STORED_BYTES: Final = 2 * 1024 * 1024 * 1024
"""One run leaves no more on the disk."""
IN_VAIN: Final = 8
"""So many requests in a row that nobody answers: the others of the tick are not sent."""
FAILURES_KEPT: Final = 20  # per tick, in the manifest


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a collection ended.

    Attributes:
        ticks: files written in this run.
        requests, bytes: sent and received in this run.
        why: one clause: time is up, the job ended, the server is silent …
        warnings: one line each about what could not be had.
        broken: it ended before its time for a reason that is not the job's end.
        silent: why nobody answers any more, where the last tick got no answer at all.
    """

    ticks: int
    requests: int
    bytes: int
    why: str
    warnings: tuple[str, ...] = ()
    broken: bool = False
    silent: str | None = None


@dataclass(slots=True)
class Tick:
    """What one tick has so far."""

    began_ms: int
    answers: list[dict[str, Any]] = field(default_factory=list)
    failed: list[RequestFailed] = field(default_factory=list)
    answered: int = 0
    in_vain: int = 0  # in a row
    requests_before: int = 0
    bytes_before: int = 0
    weight_before: int = 0
    more: dict[str, Any] = field(default_factory=dict)  # for the manifest


class Watch:
    """Runs ticks until the time is up, the subject is gone, or somebody interrupts."""

    def __init__(
        self,
        client: Client,
        folder: Folder,
        *,
        every_s: float,
        for_s: float,
        tool: str,
        say: Say,
        most_ticks: int | None = None,
    ) -> None:
        """Prepare.

        Args:
            client: of the server.
            folder: to write to.
            every_s: seconds from the begin of a tick to the begin of the next.
            for_s: seconds from the first tick to the last; 0 for a single one.
            tool: version of flowdiag, for the manifest.
            say: shows progress.
            most_ticks: end after so many, however long they took.
        """
        self._most_ticks = most_ticks
        self.client, self.folder, self.say = client, folder, say
        self._every_s, self._for_s, self._tool = every_s, for_s, tool
        self.tick = Tick(now_ms())
        self._stored: dict[str, bytes] = {}
        self._written = self._ticks = 0
        self._answered_at = 0.0
        self._warned: dict[str, str] = {}

    async def run(
        self,
        work: Callable[[], Awaitable[str | None]],
        context: Callable[[], dict[str, Any]],
        **header: Any,
    ) -> Outcome:
        """Run ticks.

        Args:
            work: does one tick, putting answers into `self.tick`; returns why there is to be no other, or None.
            context: names and places, for the file of the tick.
            header: more for the manifest's line about this run.

        Raises:
            FlowdiagError: nothing could be collected, or the folder cannot be written.
            asyncio.CancelledError: somebody interrupted; what was collected is stored.
        """
        begun = self._answered_at = time.monotonic()
        self._note_begin(header)
        while True:
            tick_begun = time.monotonic()
            self.tick = Tick(
                now_ms(),
                requests_before=self.client.requests,
                bytes_before=self.client.bytes,
                weight_before=self.client.weight,
            )
            ended, stored = await self._one(work, context)
            self._ticks += stored
            gone = self._gone()
            why, broken = gone or ended, gone is not None
            if why is not None:
                break
            due = tick_begun + self._every_s
            # The clock of the ticks drifts by what it takes to wake up.
            late = due - begun > self._for_s + 0.1 * self._every_s
            if late or self._ticks == self._most_ticks:
                why, broken = "the time is up", False
                break
            try:
                await asyncio.sleep(max(0.0, due - time.monotonic()))
            except asyncio.CancelledError:
                self.folder.note(what="end", time_ms=now_ms(), why="interrupted")
                raise
        self.folder.note(what="end", time_ms=now_ms(), why=why)
        return self._outcome(self._ticks, why, broken=broken)

    def _gone(self) -> str | None:
        """Why it is in vain to go on; None: it is not, or perhaps not.

        Raises:
            FlowdiagError: nothing was ever answered.
        """
        if self.tick.answered:
            self._answered_at = time.monotonic()
        elif self.tick.failed:
            fatal = next((one for one in self.tick.failed if one.fatal), None)
            reason = fatal or self.tick.failed[0]
            if not self._ticks:
                self.folder.note(what="end", time_ms=now_ms(), why=reason.why)
                raise FlowdiagError(f"{self.folder.url}: {reason.why}", hint=hint_for(reason))
            if fatal or time.monotonic() - self._answered_at > SILENCE_S:
                return reason.why
            self.say(f"no answer ({reason.why}); trying on")
        if self._written > STORED_BYTES:
            return f"{STORED_BYTES >> 30} GiB are stored"
        return None

    async def _one(
        self, work: Callable[[], Awaitable[str | None]], context: Callable[[], dict[str, Any]]
    ) -> tuple[str | None, int]:
        """One tick: why there is to be no other, or None; and how many files it left."""
        ended, complete = None, True
        try:
            async with asyncio.timeout(TICK_S):
                ended = await work()
        except TimeoutError:
            complete = False
            self._warned.setdefault(
                "slow", f"a snapshot took more than {TICK_S:g} s; it is cut short"
            )
        except asyncio.CancelledError:
            self._store(context(), complete=False)
            self.folder.note(what="end", time_ms=now_ms(), why="interrupted")
            raise
        except Exception:  # whatever it is, what was answered stays
            self._store(context(), complete=False)
            raise
        return ended, self._store(context(), complete=complete)

    def _note_begin(self, header: dict[str, Any]) -> None:
        """Write the manifest's line about this run."""
        self.folder.note(
            what="run",
            schema=SCHEMA,
            kind=self.folder.kind,
            url=self.folder.url,
            time_ms=now_ms(),
            flowdiag=self._tool,
            every_ms=round(1000 * self._every_s),
            for_ms=round(1000 * self._for_s),
            **header,
        )

    def _outcome(self, ticks: int, why: str, *, broken: bool) -> Outcome:
        return Outcome(
            ticks=ticks,
            requests=self.client.requests,
            bytes=self.client.bytes,
            why=why,
            warnings=tuple(f"{path}: {text}" for path, text in sorted(self._warned.items())),
            broken=broken,
            silent=self.tick.failed[0].why if self.tick.failed and not self.tick.answered else None,
        )

    def _store(self, context: dict[str, Any], *, complete: bool) -> int:
        """Write the tick's file and the manifest's line; return how many files that is."""
        tick = self.tick
        failed = [{"path": one.path, "why": one.why} for one in tick.failed]
        spent = {
            "requests": self.client.requests - tick.requests_before,
            "received_bytes": self.client.bytes - tick.bytes_before,
        }
        if not tick.answers:
            if failed or not complete or tick.more:
                self.folder.note(
                    what="tick",
                    file=None,
                    time_ms=tick.began_ms,
                    **spent,
                    failed=failed[:FAILURES_KEPT],
                    **tick.more,
                )
            return 0
        name, size = self.folder.write(
            tick.answers, time_ms=tick.began_ms, context=context, complete=complete
        )
        self._written += size
        self.folder.note(
            what="tick",
            file=name,
            time_ms=tick.began_ms,
            **spent,
            stored_bytes=size,
            answers=len(tick.answers),
            complete=complete,
            failed=failed[:FAILURES_KEPT],
            **tick.more,
        )
        return 1

    async def ask(self, path: str, query: str = "") -> Answer | None:
        """One answer; None, and a note of the failure, where there is none."""
        try:
            self._check_bounds(path)
            answer = await self.client.get(path, query)
        except RequestFailed as failed:
            self.tick.failed.append(failed)
            gone = failed.status is None or failed.passing
            self.tick.in_vain = self.tick.in_vain + 1 if gone else 0
            # 404 is how another version, or a cluster that has moved on, says that it has no such thing.
            if failed.status != 404:
                self._warned.setdefault(failed.path, failed.why)
            return None
        self.tick.answered += 1
        self.tick.in_vain = 0
        return answer

    def _check_bounds(self, path: str) -> None:
        """Refuse to ask a server that has stopped to answer, or says too much."""
        if self.tick.in_vain >= IN_VAIN:
            raise RequestFailed(path, "not asked: the requests before it got no answer")
        if self.client.weight - self.tick.weight_before > TICK_WEIGHT:
            raise RequestFailed(path, "not asked: the answers before it fill the memory")

    async def ask_all(self, wanted: Iterable[tuple[str, str]]) -> list[Answer | None]:
        """Several at once; the client keeps within its bounds."""
        return list(await asyncio.gather(*(self.ask(path, query) for path, query in wanted)))

    def keep(
        self, path: str, body: Any, time_ms: int, *, at_ms: int | None = None, compare: Any = None
    ) -> bool:
        """Store an answer, unless the same was stored before.

        Args:
            path: it answers.
            body: what is stored.
            time_ms: when it came.
            at_ms: when its values were true, where that is known.
            compare: what must differ from the last time; by default the body. `False` stores always.
        """
        if compare is not False:
            text = json.dumps(body if compare is None else compare, sort_keys=True).encode()
            print_ = hashlib.blake2b(text, digest_size=16).digest()
            if self._stored.get(path) == print_:
                return False
            self._stored[path] = print_
        answer: dict[str, Any] = {"path": path, "time_ms": time_ms}
        if at_ms is not None:
            answer["at_ms"] = at_ms
        self.tick.answers.append(answer | {"body": body})
        return True


def hint_for(failed: RequestFailed) -> str:
    """What may help against a failure that ends everything."""
    if failed.hint is not None:
        return failed.hint
    if "speaks https" in failed.why:
        return "write https:// before the address"
    if failed.status == 401 or "login page" in failed.why or failed.status == 403:
        return "give a token by --token-file or FLOWDIAG_COLLECT_TOKEN, or user:password by --password-file"
    return "is the URL right, and can this machine reach it? `curl` with the same URL tells more"


_FREE_TEXT: Final = frozenset(
    {
        *("stacktrace", "exception", "root-exception", "failure_message", "description"),
        *("lastErrorMessage", "lastError", "failureReason", "firstFailureReason"),
        *("errorMessage", "stackTrace"),
    }
)


_OPTIONS: Final = frozenset({"user-config"})
"""Objects of options: the arguments that a program was started with, by whatever names."""


def redacted(value: Any, key: str = "", depth: int = 40) -> Any:
    """An answer without secrets: of options by their names, of texts by what they look like.

    >>> redacted([{"key": "s3.secret-key", "value": "abc"}, {"key": "rest.port", "value": "8081"}])
    [{'key': 's3.secret-key', 'value': '***'}, {'key': 'rest.port', 'value': '8081'}]
    >>> redacted({"sparkProperties": [["spark.ssl.keyPassword", "abc"]], "user-config": {"api.key": "x"}})
    {'sparkProperties': [['spark.ssl.keyPassword', '***']], 'user-config': {'api.key': '***'}}
    """
    if depth == 0:
        return MASK
    if isinstance(value, dict):
        if isinstance(option := value.get("key"), str) and "value" in value:
            return value | {"value": _option(option, value["value"])}
        return {
            name: _option(name, item)
            if isinstance(item, str) and (key in _OPTIONS or is_secret_key(name))
            else redacted(item, name, depth - 1)
            for name, item in value.items()
        }
    if isinstance(value, list):
        if len(value) == 2 and all(isinstance(item, str) for item in value):
            return [value[0], _option(value[0], value[1])]
        return [redacted(item, key, depth - 1) for item in value]
    if isinstance(value, str) and len(value) > 8:
        return mask_secrets(value) if key in _FREE_TEXT else mask_credentials(value)
    return value


def _option(key: str, value: Any) -> Any:
    if not isinstance(value, str) or not value:
        return value
    return MASK if is_secret_key(key) else mask_secrets(value)
