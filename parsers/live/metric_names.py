"""Metrics that the collectors request."""

from __future__ import annotations

import re
from typing import Final

# Names as in formats/metrics.toml. Metrics that an older version lacks are not listed and not requested.
TASK_METRICS: Final = (
    "isBackPressured",
    "busyTimeMsPerSecond",
    "idleTimeMsPerSecond",
    "backPressuredTimeMsPerSecond",
    "hardBackPressuredTimeMsPerSecond",
    "accumulateBusyTimeMs",
    "accumulateIdleTimeMs",
    "accumulateBackPressuredTimeMs",
    "numRecordsIn",
    "numRecordsOut",
    "numBytesIn",
    "numBytesOut",
    "currentInputWatermark",
    "checkpointAlignmentTime",
    "checkpointStartDelayNanos",
    "estimatedTimeToConsumeBuffersMs",
    "debloatedBufferSize",
    "mailboxQueueSize",
    "Shuffle.Netty.Input.Buffers.inputQueueLength",
    "Shuffle.Netty.Input.Buffers.inputQueueSize",
    "Shuffle.Netty.Input.Buffers.inPoolUsage",
    "Shuffle.Netty.Input.Buffers.inputFloatingBuffersUsage",
    "Shuffle.Netty.Input.Buffers.inputExclusiveBuffersUsage",
    "Shuffle.Netty.Output.Buffers.outputQueueLength",
    "Shuffle.Netty.Output.Buffers.outPoolUsage",
    "Shuffle.Netty.Input.numBytesInLocal",
    "Shuffle.Netty.Input.numBytesInRemote",
)
GATE_METRICS: Final = re.compile(
    r"Shuffle\.Netty\.(?:Input|Output)\.\d{1,4}\."
    r"(?:debloatedBufferSize|estimatedTimeToConsumeBuffersMs|(?:total|min|max|avg)QueueLen)"
)
_OF_SPLIT: Final = (
    r"(?:currentWatermark|idleTimeMsPerSecond|accumulatedIdleTimeMs|pausedTimeMsPerSecond)"
)
SPLIT_METRICS: Final = re.compile(rf".+\.split\..+\.watermark\.{_OF_SPLIT}")
_OF_OPERATOR: Final = (
    r"pendingRecords|pendingBytes|watermarkLag|watermarkAlignmentDrift|currentFetchEventTimeLag"
    r"|currentEmitEventTimeLag|sourceIdleTime|currentOutputWatermark|numLateRecordsDropped"
)
OPERATOR_METRICS: Final = re.compile(
    rf".+\.(?:{_OF_OPERATOR}|currentInput\d+Watermark|numRecordsIn|numRecordsOut|currentSendTime"
    r"|numRecordsOutErrors|numRecordsSendErrors"
    r"|KafkaSourceReader\.commits(?:Succeeded|Failed)"
    r"|KafkaConsumer\.(?:records-lag-max|records-consumed-rate|fetch-(?:latency|throttle-time)-avg|connection-count)"
    r"|KafkaProducer\.(?:record-send-rate|record-error-total|record-queue-time-avg|request-latency-avg"
    r"|produce-throttle-time-avg|buffer-(?:total|available)-bytes|waiting-threads|connection-count))"
    rf"|{SPLIT_METRICS.pattern}"
)
PROCESS_METRICS: Final = re.compile(
    r"Status\.(?:JVM\.(?:CPU\.Load|Memory\.Heap\.(?:Used|Max)|Memory\.Direct\.MemoryUsed"
    r"|Memory\.Metaspace\.Used|Threads\.Count|GarbageCollector\.[^.]+\.(?:Count|Time))"
    r"|Flink\.Memory\.Managed\.(?:Used|Total)"
    r"|Shuffle\.Netty\.(?:TotalMemorySegments|AvailableMemorySegments|RequestedMemoryUsage))"
)
JOB_METRICS: Final = (
    "numRestarts",
    "fullRestarts",
    "numRescales",
    "uptime",
    "downtime",
    "numberOfInProgressCheckpoints",
    "numberOfCompletedCheckpoints",
    "numberOfFailedCheckpoints",
    "lastCheckpointDuration",
    "lastCheckpointSize",
    "lastCheckpointFullSize",
)
HISTORY_METRICS: Final = re.compile(
    rf"{_OF_OPERATOR}|currentInput\d+Watermark|numRecordsIn|numRecordsOut|split\.\*\.watermark\.{_OF_SPLIT}"
    r"|Shuffle\.Netty\.(?:Input|Output)\.\d+\..+"
)
"""Metrics of operators and input gates that are read from a Prometheus server."""
