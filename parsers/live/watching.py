"""The tick loop of all collectors, which handles timing, failures and repeated responses."""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from flowdiag.parsers.errors import FlowdiagError
from flowdiag.parsers.live.client import Answer, Client, RequestFailed
from flowdiag.parsers.live.folder import Folder, now_ms
from flowdiag.parsers.secrets import MASK, is_secret_key, mask_credentials, mask_secrets
from flowdiag.parsers.sources.collected import SCHEMA

ShowProgress = Callable[[str], None]
Got = TypeVar("Got")

SILENCE_S: Final = 120.0
"""Seconds without a response after which a server counts as gone."""
TICK_S: Final = 120.0
"""Maximum seconds for a tick; a longer tick is cut off and stored as incomplete."""
TICK_DECODED_BYTES: Final = 512 * 1024 * 1024
"""Approximate memory limit for the responses of one tick, which are in memory together."""
STORED_BYTES: Final = 2 * 1024 * 1024 * 1024
"""Maximum disk space of one run, in bytes."""
MAX_CONSECUTIVE_FAILURES: Final = 8
"""After this many requests without a response, the rest of the tick is skipped."""
FAILURES_KEPT: Final = 20  # maximum failures per tick in the manifest
START_S: Final = 30.0  # maximum wait for a Spark driver that is starting
START_PAUSE_S: Final = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a collection ended.

    Attributes:
        ticks: number of files written in this run.
        requests, bytes: numbers of requests sent and bytes received in this run.
        why: one clause: the requested time has elapsed, the job ended, the server stopped responding …
        warnings: one line per kind of data that was not available.
        broken: whether the collection ended early for a reason other than the end of the job.
        silent: why the last tick got no response at all; None if it got any.
        resumable: whether the same command can continue the collection.
    """

    ticks: int
    requests: int
    bytes: int
    why: str
    warnings: tuple[str, ...] = ()
    broken: bool = False
    silent: str | None = None
    resumable: bool = True


@dataclass(slots=True)
class Tick:
    """The state of the current tick."""

    began_ms: int
    answers: list[dict[str, Any]] = field(default_factory=list)
    failed: list[RequestFailed] = field(default_factory=list)
    answered: int = 0
    consecutive_failures: int = 0
    requests_before: int = 0
    bytes_before: int = 0
    decoded_before: int = 0
    manifest_fields: dict[str, Any] = field(default_factory=dict)  # more fields for the manifest


async def wait_while_starting(
    ask: Callable[[], Awaitable[Got]],
    why_starting: Callable[[Exception], str | None],
    progress: ShowProgress,
    *,
    most_s: float = START_S,
    pause_s: float = START_PAUSE_S,
) -> Got:
    """Repeat a request while it fails because a Spark driver is starting.

    Args:
        ask: the request.
        why_starting: returns the failure in words if a start may explain it.
        progress: shows progress.
        most_s: maximum wait.
        pause_s: pause between two requests.
    """
    until = time.monotonic() + most_s
    while True:
        try:
            return await ask()
        except (RequestFailed, FlowdiagError) as failed:
            left_s = until - time.monotonic()
            why = why_starting(failed)
            if left_s <= 0 or why is None:
                raise
            progress(f"{why}: waiting up to {left_s:.0f} s, in case the driver is starting")
        await asyncio.sleep(pause_s)


class Watch:
    """Runs ticks until the requested time has elapsed, the job or server is gone, or the user interrupts."""

    def __init__(
        self,
        client: Client,
        folder: Folder,
        *,
        every_s: float,
        for_s: float,
        tool: str,
        progress: ShowProgress,
        most_ticks: int | None = None,
    ) -> None:
        """Store the settings.

        Args:
            client: client for the server.
            folder: where to write the tick files.
            every_s: seconds between the starts of two ticks.
            for_s: seconds from the first tick to the last; 0 for a single tick.
            tool: flowdiag's version, for the manifest.
            progress: shows progress.
            most_ticks: maximum number of ticks, however long they take.
        """
        self._most_ticks = most_ticks
        self.client, self.folder, self.progress = client, folder, progress
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
            work: does the work of one tick, putting responses into `self.tick`. Returns why the tick is the last,
                otherwise None.
            context: returns names and placement, for the tick file.
            header: more fields for the manifest's line about this run.

        Raises:
            FlowdiagError: no data could be collected, or the folder is not writable.
            asyncio.CancelledError: the user interrupted; the collected data is stored.
        """
        begun = self._answered_at = time.monotonic()
        self._note_start(header)
        while True:
            tick_begun = time.monotonic()
            self.tick = Tick(
                now_ms(),
                requests_before=self.client.requests,
                bytes_before=self.client.bytes,
                decoded_before=self.client.decoded_bytes,
            )
            ended, stored = await self._run_tick(work, context)
            self._ticks += stored
            gone = self._stop_reason()
            why, broken = gone or ended, gone is not None
            if why is not None:
                break
            due = tick_begun + self._every_s
            # Ticks start late by the wake-up latency.
            late = due - begun > self._for_s + 0.1 * self._every_s
            if late or self._ticks == self._most_ticks:
                why, broken = "the requested time has elapsed", False
                break
            try:
                await asyncio.sleep(max(0.0, due - time.monotonic()))
            except asyncio.CancelledError:
                self.folder.note(what="end", time_ms=now_ms(), why="interrupted")
                raise
        self.folder.note(what="end", time_ms=now_ms(), why=why)
        return self._outcome(self._ticks, why, broken=broken)

    def _stop_reason(self) -> str | None:
        """Return why the collection cannot continue, or None if it may continue.

        Raises:
            FlowdiagError: no request has ever succeeded.
        """
        if self.tick.answered:
            self._answered_at = time.monotonic()
        elif self.tick.failed:
            fatal = next((failed for failed in self.tick.failed if failed.fatal), None)
            reason = fatal or self.tick.failed[0]
            if not self._ticks:
                self.folder.note(what="end", time_ms=now_ms(), why=reason.why)
                raise FlowdiagError(f"{self.folder.url}: {reason.why}", hint=hint_for(reason))
            if fatal or time.monotonic() - self._answered_at > SILENCE_S:
                return reason.why
            self.progress(f"no response ({reason.why}); will retry")
        if self._written > STORED_BYTES:
            return f"the limit of {STORED_BYTES >> 30} GiB is reached"
        return None

    async def _run_tick(
        self, work: Callable[[], Awaitable[str | None]], context: Callable[[], dict[str, Any]]
    ) -> tuple[str | None, int]:
        """Run one tick. Return the number of files written, and the reason if it was the last tick (otherwise None)."""
        ended, complete = None, True
        try:
            async with asyncio.timeout(TICK_S):
                ended = await work()
        except TimeoutError:
            complete = False
            self._warned.setdefault(
                "slow", f"a snapshot took more than {TICK_S:g} s and was cut off"
            )
        except asyncio.CancelledError:
            self._store(context(), complete=False)
            self.folder.note(what="end", time_ms=now_ms(), why="interrupted")
            raise
        except Exception:  # store the responses whatever the error
            self._store(context(), complete=False)
            raise
        return ended, self._store(context(), complete=complete)

    def _note_start(self, header: dict[str, Any]) -> None:
        """Write the line about this run to the manifest."""
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
        """Write the tick file and its line in the manifest. Return the number of files written."""
        tick = self.tick
        failed = [{"path": each.path, "why": each.why} for each in tick.failed]
        spent = {
            "requests": self.client.requests - tick.requests_before,
            "received_bytes": self.client.bytes - tick.bytes_before,
        }
        if not tick.answers:
            if failed or not complete or tick.manifest_fields:
                self.folder.note(
                    what="tick",
                    file=None,
                    time_ms=tick.began_ms,
                    **spent,
                    failed=failed[:FAILURES_KEPT],
                    **tick.manifest_fields,
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
            **tick.manifest_fields,
        )
        return 1

    async def request(self, path: str, query: str = "") -> Answer | None:
        """Send one request. If it fails, record the failure and return None.

        The request is skipped if the server has stopped responding or the tick's memory is used up.
        """
        try:
            if self.tick.consecutive_failures >= MAX_CONSECUTIVE_FAILURES:
                raise RequestFailed(path, "skipped: earlier requests got no response")
            if self.client.decoded_bytes - self.tick.decoded_before > TICK_DECODED_BYTES:
                raise RequestFailed(path, "skipped: earlier responses reached the memory limit")
            answer = await self.client.get(path, query)
        except RequestFailed as failed:
            self.tick.failed.append(failed)
            gone = failed.status is None or failed.transient
            self.tick.consecutive_failures = self.tick.consecutive_failures + 1 if gone else 0
            # A 404 is normal: other versions lack some paths, and ended jobs disappear.
            if failed.status != 404:
                self._warned.setdefault(failed.path, failed.why)
            return None
        self.tick.answered += 1
        self.tick.consecutive_failures = 0
        return answer

    async def request_all(self, requests: Iterable[tuple[str, str]]) -> list[Answer | None]:
        """Send several requests concurrently; the client limits how many run at once."""
        return list(await asyncio.gather(*(self.request(path, query) for path, query in requests)))

    def keep(
        self, path: str, body: Any, time_ms: int, *, at_ms: int | None = None, compare: Any = None
    ) -> bool:
        """Store a response unless it equals the previous response for the same path. Return whether it was stored.

        Args:
            path: path of the request.
            body: the decoded response.
            time_ms: when it arrived, in epoch milliseconds.
            at_ms: when its values were measured, if known.
            compare: value to compare with the previous value; by default the body. `False` always stores.
        """
        if compare is not False:
            text = json.dumps(body if compare is None else compare, sort_keys=True).encode()
            digest = hashlib.blake2b(text, digest_size=16).digest()
            if self._stored.get(path) == digest:
                return False
            self._stored[path] = digest
        answer: dict[str, Any] = {"path": path, "time_ms": time_ms}
        if at_ms is not None:
            answer["at_ms"] = at_ms
        self.tick.answers.append(answer | {"body": body})
        return True


def hint_for(failed: RequestFailed) -> str:
    """Return a hint for a failure that ended the collection."""
    if failed.hint is not None:
        return failed.hint
    if "uses HTTPS" in failed.why:
        return "start the address with https://"
    if failed.status == 401 or "login page" in failed.why or failed.status == 403:
        return "pass a token with --token-file or FLOWDIAG_COLLECT_TOKEN, or user:password with --password-file"
    return "check the URL and that this host can reach it; `curl` with the same URL shows more"


_FREE_TEXT: Final = frozenset(
    {
        *("stacktrace", "exception", "root-exception", "failure_message", "description"),
        *("lastErrorMessage", "lastError", "failureReason", "firstFailureReason"),
        *("errorMessage", "stackTrace"),
    }
)


_OPTIONS: Final = frozenset({"user-config"})
"""Keys of objects that contain program arguments under any name."""


def redact(value: Any, key: str = "", depth: int = 40) -> Any:
    """Mask the secrets in a response: options by their names, free text by patterns.

    >>> redact([{"key": "s3.secret-key", "value": "abc"}, {"key": "rest.port", "value": "8081"}])
    [{'key': 's3.secret-key', 'value': '***'}, {'key': 'rest.port', 'value': '8081'}]
    >>> redact({"sparkProperties": [["spark.ssl.keyPassword", "abc"]], "user-config": {"api.key": "x"}})
    {'sparkProperties': [['spark.ssl.keyPassword', '***']], 'user-config': {'api.key': '***'}}
    """
    if depth == 0:
        return MASK
    if isinstance(value, dict):
        return _redact_object(value, key, depth)
    if isinstance(value, list):
        if len(value) == 2 and all(isinstance(item, str) for item in value):
            return [value[0], _redact_option(value[0], value[1])]
        return [redact(item, key, depth - 1) for item in value]
    if isinstance(value, str) and len(value) > 8:
        return mask_secrets(value) if key in _FREE_TEXT else mask_credentials(value)
    return value


def _redact_object(value: dict[str, Any], key: str, depth: int) -> dict[str, Any]:
    if isinstance(option := value.get("key"), str) and "value" in value:
        return value | {"value": _redact_option(option, value["value"])}
    return {
        name: _redact_option(name, item)
        if isinstance(item, str) and (key in _OPTIONS or is_secret_key(name))
        else redact(item, name, depth - 1)
        for name, item in value.items()
    }


def _redact_option(key: str, value: Any) -> Any:
    if not isinstance(value, str) or not value:
        return value
    return MASK if is_secret_key(key) else mask_secrets(value)
