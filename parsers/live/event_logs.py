"""Fetches event logs of finished applications from a Spark History Server.

A History Server serves the same paths as a driver, except those about DStreams. It also serves the event log as a
zip archive, which contains more than all these paths together.
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
from flowdiag.parsers.live.watching import Outcome, ShowProgress, hint_for

MAX_LOGS: Final = 3
"""Maximum number of application attempts whose logs are fetched, latest first."""
MAX_BYTES: Final = 1024 * 1024 * 1024
"""Maximum total size of the logs."""

EMPTY_BYTES: Final = 22
"""Size of a zip archive without files. A driver returns such an archive, because it serves no logs."""

IsSelected = Callable[[str | None, str | None], bool]


async def collect_event_logs(
    client: Client, folder: Path, is_selected: IsSelected, *, progress: ShowProgress
) -> Outcome | None:
    """Fetch the event logs of the latest applications.

    Args:
        client: client for the server.
        folder: existing folder for the archives.
        is_selected: returns whether to fetch an application, given its ID and name.
        progress: shows progress.

    Returns:
        The outcome; None if the server is a driver and serves no logs.

    Raises:
        FlowdiagError: no request succeeded, or no selected application has a log.
    """
    try:
        listed = (await client.get(f"{API}/applications")).body
    except RequestFailed as failed:
        raise FlowdiagError(f"{client.base}: {failed.why}", hint=hint_for(failed)) from None
    attempts = _attempts(listed, is_selected)
    warnings: list[str] = []
    left, count = MAX_BYTES, 0
    for number, (application, attempt) in enumerate(attempts[:MAX_LOGS], 1):
        progress(f"fetching event log {number} of {min(len(attempts), MAX_LOGS)}")
        path = f"{API}/applications/{application}" + (f"/{quote(attempt)}" if attempt else "")
        name = f"{application}-{attempt}" if attempt else application
        hidden = folder / f".{name}.zip"
        try:
            size = await client.download(f"{path}/logs", hidden, left)
            if number == 1 and size <= EMPTY_BYTES:
                return None
            left -= size
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
            f"only the latest {MAX_LOGS} of {len(attempts)} applications; use --job to select others"
        )
    return Outcome(
        ticks=count,
        requests=client.requests,
        bytes=client.bytes,
        why="all logs are fetched",
        warnings=tuple(warnings),
    )


def _attempts(listed: Any, is_selected: IsSelected) -> list[tuple[str, str | None]]:
    """Return pairs of application ID and attempt ID, latest first."""
    found = []
    for item in listed if isinstance(listed, list) else ():
        if not isinstance(item, Mapping):
            continue
        application, name = as_string(item.get("id")), as_string(item.get("name"))
        if application is None or not re.fullmatch(r"[\w.-]{1,200}", application):
            continue
        if not is_selected(application, name):
            continue
        for attempt in objects_at(item, "attempts") or [{}]:
            number = as_string(attempt.get("attemptId"))
            if number is None or re.fullmatch(r"[\w.-]{1,20}", number):
                when = as_moment(attempt.get("startTimeEpoch")) or 0
                found.append((when, application, number))
    found.sort(key=lambda each: (-each[0], each[1], each[2] or ""))
    return [(application, number) for _, application, number in found]
