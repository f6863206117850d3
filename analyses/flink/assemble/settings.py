"""Collects option values that are printed or inferred from checkpoints."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from flowdiag.analyses.flink.assemble.jobs import Jobs
from flowdiag.analyses.flink.assemble.rows import Row, ref_of
from flowdiag.analyses.flink.job import Checkpoint, Setting, Status
from flowdiag.analyses.flink.settings import trigger_gaps_ms
from flowdiag.analyses.model.keys import JobKey
from flowdiag.parsers.rows import Event

# REST keys of /checkpoints/config and their options.
_CONFIG_KEYS: Final = {
    "interval": "execution.checkpointing.interval",
    "timeout": "execution.checkpointing.timeout",
    "min_pause": "execution.checkpointing.min-pause",
    "max_concurrent": "execution.checkpointing.max-concurrent-checkpoints",
    "mode": "execution.checkpointing.mode",
    "unaligned_checkpoints": "execution.checkpointing.unaligned",
    "tolerable_failed_checkpoints": "execution.checkpointing.tolerable-failed-checkpoints",
    "aligned_checkpoint_timeout": "execution.checkpointing.aligned-checkpoint-timeout",
    "state_backend": "state.backend",
    "checkpoint_storage": "state.checkpoint-storage",
}


def settings_of(
    records: Iterable[Row],
    checkpoints: Mapping[tuple[JobKey, int, int], Checkpoint],
    jobs: Jobs,
) -> list[Setting]:
    """Return the options of jobs and clusters, each once per log, then the options inferred from checkpoints."""
    found: list[Setting] = []
    printed: set[tuple[str, str]] = set()
    for row in records:
        fields = row["fields"] or {}
        if row["event"] == Event.CHECKPOINT_CONFIG:
            job = jobs.named(row)
            for name, key in _CONFIG_KEYS.items():
                if fields.get(name) not in (None, ""):
                    found.append(
                        Setting(
                            job=job, key=key, value=fields[name], source="rest", ref=ref_of(row)
                        )
                    )
        elif row["event"] == Event.CONFIGURATION and fields.get("key"):
            # Every process prints its configuration, so thousands of processes may print the same values.
            value = fields["key"], fields.get("value", "")
            if value in printed:
                continue
            printed.add(value)
            found.append(
                Setting(
                    job=None,
                    key=fields["key"],
                    value=fields.get("value", ""),
                    source="log",
                    ref=ref_of(row),
                )
            )
    by_job: dict[JobKey, list[Checkpoint]] = defaultdict(list)
    for checkpoint in checkpoints.values():
        by_job[checkpoint.job].append(checkpoint)
    for job, members in sorted(by_job.items()):
        found.extend(observed_settings(job, members))
    return found


def observed_settings(job: JobKey, checkpoints: Sequence[Checkpoint]) -> list[Setting]:
    """Infer the checkpoint interval and timeout in milliseconds.

    The interval is the lower quartile of the gaps between triggers, because waiting only widens gaps.
    The timeout is the median duration of expired checkpoints.
    """
    found = []
    gaps = trigger_gaps_ms(checkpoints)
    if len(gaps) >= 2:
        quartile = int(statistics.quantiles(gaps, n=4, method="inclusive")[0])
        found.append(
            Setting(job=job, key="observed.interval_ms", value=str(quartile), source="observed")
        )
    lives = [
        c.duration_ms
        for c in checkpoints
        if c.status is Status.EXPIRED and c.duration_ms and c.reason_kind == "expired"
    ]
    if lives:
        found.append(
            Setting(
                job=job,
                key="observed.timeout_ms",
                value=str(int(statistics.median_low(lives))),
                source="observed",
            )
        )
    return found
