"""Fetches event logs from a Spark History Server: what a driver that runs no more said of itself.

A History Server answers the paths of a driver, but knows nothing of DStreams; it hands out the event log itself,
as a zip archive, which says more than any of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from flowdiag.parsers.errors import FlowdiagError
from flowdiag.parsers.json_values import as_moment, as_string, objects_at
from flowdiag.parsers.live.client import Client, RequestFailed
from flowdiag.parsers.live.spark import API
from flowdiag.parsers.live.watching import Outcome, Say, hint_for

MAX_LOGS: Final = 3
"""Attempts whose logs are fetched, the latest first."""
MAX_BYTES: Final = 1024 * 1024 * 1024
"""Of all of them."""

Wanted = Callable[[str | None, str | None], bool]


async def collect_event_logs(
    client: Client, folder: Path, wanted: Wanted, *, say: Say
) -> Outcome | None:
    """Fetch the event logs of the latest applications.

    Args:
        client: of the server.
        folder: to write archives to; it is there.
        wanted: told id and name of an application, says whether somebody asked for it.
        say: shows progress.

    Returns:
        How it ended; None: it hands out no logs, since it is a driver.

    Raises:
        FlowdiagError: nothing can be asked, or nothing of what was asked for is there.
    """
    try:
        listed = (await client.get(f"{API}/applications")).body
    except RequestFailed as failed:
        raise FlowdiagError(f"{client.base}: {failed.why}", hint=hint_for(failed)) from None
    attempts = _attempts(listed, wanted)
    warnings: list[str] = []
    left, count = MAX_BYTES, 0
    for number, (application, attempt) in enumerate(attempts[:MAX_LOGS], 1):
        say(f"fetching event log {number} of {min(len(attempts), MAX_LOGS)}")
        path = f"{API}/applications/{application}" + (f"/{quote(attempt)}" if attempt else "")
        name = f"{application}-{attempt}" if attempt else application
        hidden = folder / f".{name}.zip"
        try:
            left -= await client.download(f"{path}/logs", hidden, left)
            hidden.replace(folder / f"{name}.zip")
            count += 1
        except RequestFailed as failed:
            if number == 1 and failed.status is not None:
                return None
            warnings.append(f"{failed.path}: {failed.why}")
        finally:
            with suppress(OSError):
                hidden.unlink()
    if len(attempts) > MAX_LOGS:
        warnings.append(
            f"only the latest {MAX_LOGS} of {len(attempts)} applications; --job names others"
        )
    return Outcome(
        ticks=count,
        requests=client.requests,
        bytes=client.bytes,
        why="all logs are there",
        warnings=tuple(warnings),
    )


def _attempts(listed: Any, wanted: Wanted) -> list[tuple[str, str | None]]:
    """Ids of applications and of their attempts, the latest first."""
    found = []
    for item in listed if isinstance(listed, list) else ():
        if not isinstance(item, Mapping):
            continue
        application, name = as_string(item.get("id")), as_string(item.get("name"))
        if application is None or not re.fullmatch(r"[\w.-]{1,200}", application):
            continue
        if not wanted(application, name):
            continue
        for attempt in objects_at(item, "attempts") or [{}]:
            number = as_string(attempt.get("attemptId"))
            if number is None or re.fullmatch(r"[\w.-]{1,20}", number):
                when = as_moment(attempt.get("startTimeEpoch")) or 0
                found.append((when, application, number))
    return [(application, number) for _, application, number in sorted(found, key=_latest)]


def _latest(attempt: tuple[int, str, str | None]) -> tuple[int, str, str]:
    when, application, number = attempt
    return -when, application, number or ""
