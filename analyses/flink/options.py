"""Maps options to their keys in each Flink version, for the actions of rules.

Keys were renamed over the years, and some were removed. Up to Flink 1.10,
checkpoint settings are only API calls. An action never names a key that the job's version
does not read. The version ranges were checked against the option classes in the released jars of 1.9, 1.10,
1.12, 1.14, 1.16, 1.17, 1.18, 1.20 and 2.3.
"""

from __future__ import annotations

from typing import Final

from flowdiag.parsers.units import version_of

Version = tuple[int, int]

# name: (first version, last version or None, key or API call)
_KEYS: Final[dict[str, tuple[tuple[Version, Version | None, str], ...]]] = {
    "interval": (
        ((1, 0), (1, 10), "StreamExecutionEnvironment.enableCheckpointing(…)"),
        ((1, 11), None, "execution.checkpointing.interval"),
    ),
    "timeout": (
        ((1, 0), (1, 10), "CheckpointConfig.setCheckpointTimeout(…)"),
        ((1, 11), None, "execution.checkpointing.timeout"),
    ),
    "min-pause": (
        ((1, 0), (1, 10), "CheckpointConfig.setMinPauseBetweenCheckpoints(…)"),
        ((1, 11), None, "execution.checkpointing.min-pause"),
    ),
    "max-concurrent": (
        ((1, 0), (1, 10), "CheckpointConfig.setMaxConcurrentCheckpoints(…)"),
        ((1, 11), None, "execution.checkpointing.max-concurrent-checkpoints"),
    ),
    "tolerable": (
        ((1, 0), (1, 8), "CheckpointConfig.setFailOnCheckpointingErrors(…)"),
        ((1, 9), (1, 10), "CheckpointConfig.setTolerableCheckpointFailureNumber(…)"),
        ((1, 11), None, "execution.checkpointing.tolerable-failed-checkpoints"),
    ),
    "unaligned": (
        ((1, 11), (1, 16), "execution.checkpointing.unaligned"),
        ((1, 17), None, "execution.checkpointing.unaligned.enabled"),
    ),
    "aligned-timeout": (
        ((1, 12), (1, 13), "execution.checkpointing.alignment-timeout"),
        ((1, 14), None, "execution.checkpointing.aligned-checkpoint-timeout"),
    ),
    "after-finish": (
        ((1, 14), None, "execution.checkpointing.checkpoints-after-tasks-finish.enabled"),
    ),
    "debloat": (((1, 14), None, "taskmanager.network.memory.buffer-debloat.enabled"),),
    "flame-graph": (((1, 13), None, "rest.flamegraph.enabled"),),
    "incremental": (
        ((1, 0), (1, 19), "state.backend.incremental"),
        ((1, 20), None, "execution.checkpointing.incremental"),
    ),
    "inline-threshold": (
        ((1, 0), (1, 12), "state.backend.fs.memory-threshold"),
        ((1, 13), (1, 19), "state.storage.fs.memory-threshold"),
        ((1, 20), None, "execution.checkpointing.data-inline-threshold"),
    ),
    "restart-strategy": (
        ((1, 0), (1, 16), "restart-strategy"),
        ((1, 17), None, "restart-strategy.type"),
    ),
    "rescale-cooldown": (
        ((1, 19), (1, 20), "jobmanager.adaptive-scheduler.scaling-interval.min"),
        ((2, 0), None, "jobmanager.adaptive-scheduler.executing.cooldown-after-rescaling"),
    ),
    "rescale-stabilization": (
        ((1, 13), (1, 20), "jobmanager.adaptive-scheduler.resource-stabilization-timeout"),
        ((2, 0), None, "jobmanager.adaptive-scheduler.executing.resource-stabilization-timeout"),
    ),
    # The autoscaler of the Kubernetes Operator supports Flink 1.17 and later.
    "manual-compaction": (((1, 20), None, "state.backend.rocksdb.manual-compaction.min-interval"),),
    "autoscaler-boundary": (((1, 17), None, "job.autoscaler.target.utilization.boundary"),),
    "autoscaler-max-parallelism": (((1, 17), None, "job.autoscaler.vertex.max-parallelism"),),
    "autoscaler-detection": (
        ((1, 17), None, "job.autoscaler.scaling.effectiveness.detection.enabled"),
    ),
    "autoscaler-cpu-quota": (((1, 17), None, "job.autoscaler.quota.cpu"),),
    "autoscaler-memory-quota": (((1, 17), None, "job.autoscaler.quota.memory"),),
    "autoscaler-scaling": (((1, 17), None, "job.autoscaler.scaling.enabled"),),
    "heartbeat-timeout": (((1, 0), None, "heartbeat.timeout"),),
    "managed-fraction": (
        ((1, 0), (1, 9), "taskmanager.memory.fraction"),
        ((1, 10), None, "taskmanager.memory.managed.fraction"),
    ),
    "network-max": (
        ((1, 4), (1, 9), "taskmanager.network.memory.max"),
        ((1, 10), None, "taskmanager.memory.network.max"),
    ),
    "network-fraction": (
        ((1, 4), (1, 9), "taskmanager.network.memory.fraction"),
        ((1, 10), None, "taskmanager.memory.network.fraction"),
    ),
    "task-heap": (
        ((1, 0), (1, 9), "taskmanager.heap.size"),
        ((1, 10), None, "taskmanager.memory.task.heap.size"),
    ),
    "process-size": (
        ((1, 0), (1, 9), "taskmanager.heap.size"),
        ((1, 10), None, "taskmanager.memory.process.size"),
    ),
    "overhead": (
        ((1, 0), (1, 9), "containerized.heap-cutoff-ratio"),
        ((1, 10), None, "taskmanager.memory.jvm-overhead.fraction"),
    ),
    "metaspace": (((1, 10), None, "taskmanager.memory.jvm-metaspace.size"),),
    "direct": (((1, 10), None, "taskmanager.memory.task.off-heap.size"),),
    "rest-content": (((1, 5), None, "rest.server.max-content-length"),),
    "frame-size": (((1, 0), (1, 17), "akka.framesize"), ((1, 18), None, "pekko.framesize")),
    "slots": (((1, 0), None, "taskmanager.numberOfTaskSlots"),),
    "jobmanager-memory": (
        ((1, 0), (1, 10), "jobmanager.heap.size"),
        ((1, 11), None, "jobmanager.memory.process.size"),
    ),
    "jobmanager-heap": (
        ((1, 0), (1, 10), "jobmanager.heap.size"),
        ((1, 11), None, "jobmanager.memory.heap.size"),
    ),
    "jobmanager-metaspace": (((1, 11), None, "jobmanager.memory.jvm-metaspace.size"),),
    "jobmanager-direct": (((1, 11), None, "jobmanager.memory.off-heap.size"),),
    "client-options": (
        ((1, 0), (1, 10), "env.java.opts"),
        ((1, 11), None, "env.java.opts.client"),
    ),
    "local-recovery": (((1, 0), None, "state.backend.local-recovery"),),
    "state-backend": (
        ((1, 0), (1, 17), "state.backend"),
        ((1, 18), None, "state.backend.type"),
    ),
    "savepoint-path": (((1, 0), None, "execution.savepoint.path"),),
    "savepoint-ignore-unclaimed": (((1, 0), None, "execution.savepoint.ignore-unclaimed-state"),),
    "cancellation-timeout": (((1, 4), None, "task.cancellation.timeout"),),
}


def option(name: str, version: str | None) -> str | None:
    """Return the key of an option in a version, or the newest key if the version is unknown.

    >>> option("unaligned", "1.14.4"), option("unaligned", "1.20.5"), option("unaligned", "1.9.3")
    ('execution.checkpointing.unaligned', 'execution.checkpointing.unaligned.enabled', None)
    >>> option("timeout", "1.9.3")
    'CheckpointConfig.setCheckpointTimeout(…)'
    """
    spans = _KEYS[name]
    seen = version_of(version)
    if seen is None:
        return spans[-1][2]
    for first, last, key in spans:
        if first <= seen and (last is None or seen <= last):
            return key
    return None


# Options whose value is inferred from checkpoints if no input contains it.
_OBSERVED: Final = {"interval": "observed.interval_ms", "timeout": "observed.timeout_ms"}


def names_of(name: str) -> tuple[str, ...]:
    """Return the keys of an option in all versions.

    >>> names_of("incremental")
    ('state.backend.incremental', 'execution.checkpointing.incremental')
    """
    keys = tuple(key for _, _, key in _KEYS[name])
    return (*keys, _OBSERVED[name]) if name in _OBSERVED else keys


def is_at_least(version: str | None, major: int, minor: int) -> bool | None:
    """Return whether a version is at least `major.minor`, or None if the version is unknown."""
    seen = version_of(version)
    return None if seen is None else seen >= (major, minor)
