"""Receivers that restart."""

from __future__ import annotations

from collections import defaultdict

from flowdiag.analyses.rate import helpers as h


def restarts(records: list[h.Record]) -> list[h.Record]:
    """Return the restarts of one stream, counting a restart in both listener and log once.

    A log at WARN contains no starts. There, each stop that announces a restart counts.
    """
    by_origin: dict[str, list[h.Record]] = defaultdict(list)
    for record in records:
        if record.what == "started":
            by_origin[record.fields.get("origin", "log")].append(record)
    starts = max(by_origin.values(), key=len, default=[])
    if not starts:
        return list(filter(_announces_start, records))
    stopped_before = any(
        record.what == "stopped"
        and (record.time_us or 0) < (starts[0].time_us or 0)
        and "Stopped by driver" not in (record.cause or "")
        for record in records
    )
    return starts if stopped_before else starts[1:]


def is_stopped_again(assessed: h.AssessedApplication, records: list[h.Record]) -> bool:
    """Return whether the last record is a stop that announces a restart."""
    logged = [record for record in records if record.fields.get("origin", "log") == "log"]
    last = next((record for record in reversed(logged) if record.what != "error"), None)
    return last is not None and assessed.app.ended_us is None and _announces_start(last)


def _announces_start(record: h.Record) -> bool:
    return record.what == "stopped" and "Restarting receiver" in (record.cause or "")
