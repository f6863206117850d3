"""The metrics that the collectors request."""

from __future__ import annotations

import re
from typing import Final

# Names as in formats/metrics.toml. A version that lacks a metric does not list it, so it is not requested.
TASK_METRICS: Final = (
    "isBackPressured",
    "busyTimeMsPerSecond",
    "idleTimeMsPerSecond",
    "backPressuredTimeMsPerSecond",
    "numRecordsIn",
    "numRecordsOut",
    "numBytesIn",
    "currentInputWatermark",
    "checkpointAlignmentTime",
    "checkpointStartDelayNanos",
    "Shuffle.Netty.Input.Buffers.inputQueueLength",
    "Shuffle.Netty.Input.Buffers.inPoolUsage",
    "Shuffle.Netty.Input.Buffers.inputFloatingBuffersUsage",
    "Shuffle.Netty.Input.Buffers.inputExclusiveBuffersUsage",
    "Shuffle.Netty.Output.Buffers.outPoolUsage",
)
GATE_METRICS: Final = re.compile(r"Shuffle\.Netty\.Input\.\d{1,4}\.(?:total|min|max|avg)QueueLen")
_OF_SPLIT: Final = r"(?:currentWatermark|idleTimeMsPerSecond)"
SPLIT_METRICS: Final = re.compile(rf".+\.split\..+\.watermark\.{_OF_SPLIT}")
_OF_OPERATOR: Final = (
    r"pendingRecords|current(?:Fetch|Emit)EventTimeLag|sourceIdleTime|currentOutputWatermark"
    r"|watermarkAlignmentDrift|numLateRecordsDropped|numRecordsIn|numRecordsOut"
    r"|asyncStateProcessing\.numInFlightRecords"
)
_OF_STORE: Final = (
    r"rocksdb[._](?:actual-delayed-write-rate|background-errors|block-cache-(?:capacity|pinned-usage|usage)"
    r"|cur-size-all-mem-tables|estimate-(?:num-keys|live-data-size)|estimate-pending-compaction-bytes|is-write-stopped"
    r"|(?:live|total)-sst-files-size|num-files-at-level[0-6]|num-immutable-mem-table|num-running-flushes"
    r"|block_cache_(?:hit|miss)|stall_micros)"
)
OPERATOR_METRICS: Final = re.compile(
    rf".+\.(?:{_OF_OPERATOR}|{_OF_STORE}"
    r"|KafkaSourceReader\.commits(?:Succeeded|Failed)"
    r"|KafkaConsumer\.(?:records-lag-max|records-consumed-rate|fetch-(?:latency|throttle-time|size)-avg"
    r"|records-per-request-avg|last-poll-seconds-ago|connection-count)"
    r"|KafkaProducer\.(?:record-send-rate|record-error-total|record-queue-time-avg|request-latency-avg"
    r"|produce-throttle-time-avg|buffer-(?:total|available)-bytes|waiting-threads|connection-count))"
    rf"|{SPLIT_METRICS.pattern}"
)
PROCESS_METRICS: Final = re.compile(
    r"Status\.(?:JVM\.(?:CPU\.Load|Memory\.Heap\.(?:Used|Max)|Threads\.Count"
    r"|GarbageCollector\.[^.]+\.Time)"
    r"|Shuffle\.Netty\.(?:TotalMemorySegments|AvailableMemorySegments|RequestedMemoryUsage))"
)
HISTORY_METRICS: Final = re.compile(
    rf"{_OF_OPERATOR}|(?:.+\.)?{_OF_STORE}|split\.\*\.watermark\.{_OF_SPLIT}|Shuffle\.Netty\.Input\.\d+\.(?:total|min|max|avg)QueueLen"
)
"""Metrics of operators and input gates to read from a Prometheus server."""
