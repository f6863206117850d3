"""Collects Flink metrics from a Prometheus server: `flowdiag collect prometheus`.

It lists Flink's metric names in the time span, then requests the samples of each metric that a rule uses, with one
`query_range` per metric and hour. A file contains the responses for one hour, or for less if they are large. Thanos,
Mimir and VictoriaMetrics have the same API.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final
from urllib.parse import urlencode

from flowdiag.parsers.errors import FlowdiagError
from flowdiag.parsers.flink.prometheus import named_metric
from flowdiag.parsers.json_values import object_at, objects_at
from flowdiag.parsers.live.client import Answer, Client, RequestFailed
from flowdiag.parsers.live.folder import Folder
from flowdiag.parsers.live.metric_names import (
    HISTORY_METRICS,
    PROCESS_METRICS,
    TASK_METRICS,
)
from flowdiag.parsers.live.watching import Outcome, ShowProgress, Watch, hint_for

API: Final = "/api/v1"
WINDOW_S: Final = 3600
MAX_POINTS: Final = 10_000  # Prometheus limits a series to 11,000
FILE_BYTES: Final = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryOptions:
    """Span and selection of a Prometheus query.

    Attributes:
        from_s, to_s: the time span, in seconds since 1970.
        step_s: seconds between two samples.
        job: pattern for the label `job_name`, with `*` and `?`; None for all jobs.
        selector: additional label matchers, such as `namespace="prod"`.
    """

    from_s: int
    to_s: int
    step_s: int = 15
    job: str | None = None
    selector: str | None = None


def windows(options: HistoryOptions) -> list[tuple[int, int]]:
    """Split the time span into windows for one query each; both ends of a window are on a step.

    >>> windows(HistoryOptions(from_s=0, to_s=7200, step_s=60))
    [(0, 3540), (3600, 7140), (7200, 7200)]
    """
    step = options.step_s
    length = max(step, min(WINDOW_S, MAX_POINTS * step) // step * step)
    first = -(-options.from_s // step) * step
    return [
        (start, min(start + length - step, options.to_s // step * step))
        for start in range(first, options.to_s + 1, length)
        if start <= options.to_s // step * step
    ]


async def collect_prometheus(
    client: Client, folder: Folder, options: HistoryOptions, *, tool: str, progress: ShowProgress
) -> Outcome:
    """Collect the time span, except for windows that an earlier run stored.

    Raises:
        FlowdiagError: the server is not Prometheus, has no Flink metrics, or denies access.
        asyncio.CancelledError: the user interrupted; the collected data is stored.
    """
    if options.to_s <= options.from_s:
        raise FlowdiagError("--from is not before --to")
    names = await _names(client, folder.url, options)
    watch = Watch(client, folder, every_s=0.001, for_s=1e9, tool=tool, progress=progress)
    history = _History(client, folder, options, watch, names, progress)
    return await watch.run(
        history.tick,
        dict,
        from_ms=options.from_s * 1000,
        to_ms=options.to_s * 1000,
        step_ms=options.step_s * 1000,
        metrics=len(names),
    )


async def _names(client: Client, url: str, options: HistoryOptions) -> list[str]:
    query = urlencode(
        {
            "match[]": f'{{__name__=~"flink_.+"{_matchers(replace(options, job=None))}}}',
            "start": options.from_s,
            "end": options.to_s,
        }
    )
    try:
        answer = await client.get(f"{API}/label/__name__/values", query)
    except RequestFailed as failed:
        raise FlowdiagError(f"{url}: {failed.why}", hint=hint_for(failed)) from None
    data = answer.body.get("data") if isinstance(answer.body, Mapping) else None
    if not isinstance(data, list):
        raise FlowdiagError(
            f"{url}: not the Prometheus query API",
            hint="pass the part of the address before /api/v1",
        )
    names = sorted(name for name in data if isinstance(name, str) and _is_used(name))
    if not names:
        subject = "metrics for that selector" if options.selector else "Flink metrics"
        raise FlowdiagError(
            f"{url}: no {subject} in this time span",
            hint="check the time span, and that this server scrapes Flink's PrometheusReporter",
        )
    return names


def _is_used(name: str) -> bool:
    named = named_metric(name)
    if named is None:
        return False
    if named.scope == "operator":
        return HISTORY_METRICS.fullmatch(named.name) is not None
    return (
        named.name in TASK_METRICS
        or (named.scope == "task" and named.name.startswith("buffers."))
        or HISTORY_METRICS.fullmatch(named.name) is not None
        or PROCESS_METRICS.fullmatch(named.name) is not None
    )


def _matchers(options: HistoryOptions) -> str:
    found = ""
    if options.job is not None:
        pattern = "".join(
            {"*": ".*", "?": "."}.get(c, re.escape(c).replace("\\", "\\\\")) for c in options.job
        ).replace('"', '\\"')
        found += f',job_name=~"{pattern}"'
    if options.selector:
        found += f",{options.selector.strip().strip('{},')}"
    return found


class _History:
    """Requests one window after another. Each tick writes one file."""

    def __init__(
        self,
        client: Client,
        folder: Folder,
        options: HistoryOptions,
        watch: Watch,
        names: list[str],
        progress: ShowProgress,
    ) -> None:
        self._client, self._watch, self._progress = client, watch, progress
        self._options = options
        done = {
            (entry.get("query"), entry.get("start"), entry.get("end"))
            for line in folder.entries
            for entry in (line.get("asked") or ())
            if isinstance(entry, dict)
        }
        self._todo = [
            (name, start, end)
            for start, end in windows(options)
            for name in names
            if (_expression(name, options), start, end) not in done
        ]
        self._count = len(self._todo)

    async def tick(self) -> str | None:
        """Request until a file is full or an hour is complete."""
        if not self._todo:
            return (
                "everything is already stored" if not self._count else "the time span is complete"
            )
        size, begun = 0, self._todo[0][1]
        requested: list[dict[str, Any]] = []
        self._watch.tick.manifest_fields = {"asked": requested}  # stored even if interrupted
        while self._todo and self._todo[0][1] == begun and size < FILE_BYTES:
            batch = [window for window in self._todo[:4] if window[1] == begun]
            before = len(self._watch.tick.failed)
            answers = await self._watch.request_all(
                (f"{API}/query_range", self._query(*window)) for window in batch
            )
            failed = self._watch.tick.failed[before:]
            if not (any(answers) or any(map(_is_permanent, failed))):
                # The server may be down for a moment: the next tick requests the same windows.
                await asyncio.sleep(1.0)
                return None
            for window, answer in zip(batch, answers, strict=True):
                self._todo.remove(window)
                if answer is None:
                    continue
                name, start, end = window
                requested.append(
                    {"query": _expression(name, self._options), "start": start, "end": end}
                )
                size += self._keep(answer)
            done = self._count - len(self._todo)
            self._progress(f"{done} of {self._count} queries, {self._client.bytes // 1000} kB")
        return None if self._todo else "the time span is complete"

    def _query(self, name: str, start: int, end: int) -> str:
        return urlencode(
            {
                "query": _expression(name, self._options),
                "start": start,
                "end": end,
                "step": self._options.step_s,
            }
        )

    def _keep(self, answer: Answer) -> int:
        """Keep a response that has samples. Return its size."""
        body = answer.body if isinstance(answer.body, Mapping) else {}
        if not objects_at(object_at(body, "data"), "result"):
            return 0
        self._watch.keep(f"{API}/query_range", body, answer.time_ms, compare=False)
        return answer.bytes


def _is_permanent(failed: RequestFailed) -> bool:
    """Return whether the same query would fail again."""
    return failed.status is not None and 400 <= failed.status < 500 and not failed.fatal


def _expression(name: str, options: HistoryOptions) -> str:
    named = named_metric(name)
    # Metrics of a process have no job.
    of_job = named is not None and named.scope in ("task", "operator", "jm-job")
    matchers = _matchers(options if of_job else replace(options, job=None)).lstrip(",")
    return f"{name}{{{matchers}}}" if matchers else name
