"""Write the streaming events of a Spark application to a file, one JSON object per line.

Spark keeps the numbers of its batches (records, delays, receivers, failures) in memory only. This
listener writes them to a file while the application runs, so that `flowdiag rate` can read them later.
It requires Python 3.8 and PySpark 3.0 or later, and no other package. One line attaches it:

    import flowdiag_listener

    flowdiag_listener.attach(ssc, "/var/log/my-app/")            # a StreamingContext, before start()
    flowdiag_listener.attach(spark.streams, "/var/log/my-app/")  # Structured Streaming, PySpark 3.4+

The path is on the driver's host. It is a file, or a folder (an existing folder, or a name ending with a slash); in
a folder, the file is named after the application. `file:/...` URLs work, too. The file is rotated by size.
The listener never fails or slows down the application: events that cannot be written in time are dropped and
counted in the file.

docs/listener.md of flowdiag describes the lines.
"""

from __future__ import annotations

import atexit
import json
import os
import queue
import re
import sys
import threading
import time
from urllib.parse import unquote, urlsplit

TYPE_CHECKING = False  # typing is not needed when the application runs
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import IO, Any

__all__ = ["Listener", "attach"]

SCHEMA = 1
QUEUE_EVENTS = 10_000
LONGEST_FAILURE = 4_000
LONGEST_CALL_SITE = 200  # the frames nearest to Spark; in every event of a batch
LONGEST_DESCRIPTION = 20_000  # Kafka: one line per topic and partition
RETRY_SECONDS = 10.0  # after a failed write
CLOSE_SECONDS = 5.0

CONFIGURATION = (
    "spark.cores.max",
    "spark.default.parallelism",
    "spark.driver.memory",
    "spark.dynamicAllocation.enabled",
    "spark.dynamicAllocation.maxExecutors",
    "spark.dynamicAllocation.minExecutors",
    "spark.executor.cores",
    "spark.executor.instances",
    "spark.executor.memory",
    "spark.locality.wait",
    "spark.master",
    "spark.scheduler.mode",
    "spark.speculation",
    "spark.sql.adaptive.enabled",
    "spark.sql.shuffle.partitions",
    "spark.sql.streaming.asyncLogPurge.enabled",
    "spark.sql.streaming.fileSink.log.compactInterval",
    "spark.sql.streaming.fileSource.log.compactInterval",
    "spark.sql.streaming.maxBatchesToRetainInMemory",
    "spark.sql.streaming.metricsEnabled",
    "spark.sql.streaming.minBatchesToRetain",
    "spark.sql.streaming.multipleWatermarkPolicy",
    "spark.sql.streaming.noDataMicroBatches.enabled",
    "spark.sql.streaming.noDataProgressEventInterval",
    "spark.sql.streaming.numRecentProgressUpdates",
    "spark.sql.streaming.pollingDelay",
    "spark.sql.streaming.realTimeMode.minBatchDuration",
    "spark.sql.streaming.stateStore.maintenanceInterval",
    "spark.sql.streaming.stateStore.minDeltasForSnapshot",
    "spark.sql.streaming.stateStore.providerClass",
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled",
    "spark.sql.streaming.stateStore.rocksdb.compactOnCommit",
    "spark.streaming.backpressure.enabled",
    "spark.streaming.backpressure.initialRate",
    "spark.streaming.backpressure.pid.derived",
    "spark.streaming.backpressure.pid.integral",
    "spark.streaming.backpressure.pid.minRate",
    "spark.streaming.backpressure.pid.proportional",
    "spark.streaming.backpressure.rateEstimator",
    "spark.streaming.blockInterval",
    "spark.streaming.blockQueueSize",
    "spark.streaming.clock",
    "spark.streaming.concurrentJobs",
    "spark.streaming.driver.writeAheadLog.allowBatching",
    "spark.streaming.driver.writeAheadLog.batchingTimeout",
    "spark.streaming.dynamicAllocation.enabled",
    "spark.streaming.dynamicAllocation.maxExecutors",
    "spark.streaming.dynamicAllocation.minExecutors",
    "spark.streaming.dynamicAllocation.scalingDownRatio",
    "spark.streaming.dynamicAllocation.scalingInterval",
    "spark.streaming.dynamicAllocation.scalingUpRatio",
    "spark.streaming.gracefulStopTimeout",
    "spark.streaming.kafka.consumer.poll.ms",
    "spark.streaming.kafka.maxRatePerPartition",
    "spark.streaming.kafka.minRatePerPartition",
    "spark.streaming.receiver.maxRate",
    "spark.streaming.receiver.writeAheadLog.enable",
    "spark.streaming.receiverRestartDelay",
    "spark.streaming.stopGracefullyOnShutdown",
    "spark.streaming.ui.retainedBatches",
    "spark.streaming.unpersist",
    "spark.submit.deployMode",
    "spark.task.cpus",
    "spark.task.maxFailures",
)
"""Prefixes of the options in the header. Other options are left out, because they may be secrets."""

_JAVA_FRAME = re.compile(r"\s+(at |\.\.\. \d+ (more|common))")
_PYSPARK_FRAME = re.compile(r"\s+File \"[^\"]*/(pyspark|py4j)[^\"]*\", line \d")


def attach(target: Any, path: Any, max_bytes: int = 64_000_000, keep: int = 4) -> Listener:
    """Write the events of an application from now on.

    Args:
        target: a `StreamingContext`, the `streams` of a `SparkSession`, or a `SparkSession`.
        path: a file or a folder; `file:/...` URLs work, too.
        max_bytes: size at which the file is moved to `<path>.1` and a new file is started.
        keep: number of moved files to keep.

    Returns:
        The listener. Its `close` writes the remaining events; it is called when Python exits. This
        function never raises: if it cannot attach, it prints an error to standard error, and the
        listener's `attached` is False.
    """
    listener = Listener()
    try:
        listener._attach(target, path, max_bytes, keep)
    except Exception as error:  # noqa: BLE001 - see above
        _complain(f"not attached: {type(error).__name__}: {error}")
    return listener


class Listener:
    """A listener, as returned by `attach`."""

    def __init__(self) -> None:
        """Create a listener, not attached yet."""
        self.attached = False
        self.path: str | None = None
        self._writer: _Writer | None = None

    def close(self, timeout: float = CLOSE_SECONDS) -> None:
        """Write the remaining events for at most `timeout` seconds; later events are not written."""
        if self._writer is not None:
            self._writer.close(timeout)

    def _attach(self, target: Any, path: Any, max_bytes: int, keep: int) -> None:
        dstream = hasattr(target, "_jssc")
        if not dstream and hasattr(target, "streams") and hasattr(target, "sql"):
            target = target.streams
        if not dstream and not hasattr(target, "awaitAnyTermination"):
            raise TypeError("neither a StreamingContext nor the streams of a SparkSession")
        if not dstream and not hasattr(target, "addListener"):
            raise TypeError(
                "this PySpark does not support Python listeners for Structured Streaming (3.4 and later"
                " do); use FlowdiagListener.jar with spark.extraListeners"
            )
        application = _application(target if dstream else None)
        writer = _writer(
            _file_of(path, application["application_id"]), application, max_bytes, keep
        )
        self._writer, self.path = writer, writer.path
        if dstream:
            interval = application["batch_interval_ms"]
            target.addStreamingListener(_streaming_listener(writer, interval))
        else:
            target.addListener(_query_listener(writer))
        self.attached = True


# Contents of the events. Everything here runs in the writer's thread: reading an event from the JVM
# takes dozens of calls, and the JVM delivers no other event until a callback returns.


def _time(value: int) -> int | None:
    return None if value < 0 else value  # PySpark returns -1 for Scala's None


def _cut(text: Any, longest: int) -> str | None:
    whole = None if text is None else str(text)
    return whole if whole is None or len(whole) <= longest else whole[: longest - 1] + "…"


def _failure(text: Any) -> str | None:
    """Return a failure without the stack frames of Java and PySpark.

    A long text is cut in the middle, because the cause may be its first or its last line.
    """
    if not text:
        return None
    lines = []
    inside = False  # within the source lines of a removed frame
    for line in str(text).splitlines():
        if inside and line.startswith("    "):
            continue
        inside = _PYSPARK_FRAME.match(line) is not None
        if not inside and not _JAVA_FRAME.match(line):
            lines.append(line)
    whole = "\n".join(lines)
    if len(whole) <= LONGEST_FAILURE:
        return whole
    return whole[: LONGEST_FAILURE // 2] + "\n…\n" + whole[3 - LONGEST_FAILURE // 2 :]


def _operation(info: Any) -> dict[str, Any]:
    return {
        "id": info.id(),
        "name": info.name(),
        "description": _cut(info.description(), LONGEST_CALL_SITE),
        "start_time": _time(info.startTime()),
        "end_time": _time(info.endTime()),
        "failure_reason": _failure(info.failureReason()),
    }


def _batch(event: Any) -> dict[str, Any]:
    info = event.batchInfo()
    inputs = info.streamIdToInputInfo()
    streams = []
    for key in sorted(inputs):
        one = inputs[key]
        description = _cut(one.metadataDescription(), LONGEST_DESCRIPTION)
        streams.append(
            {"stream_id": key, "num_records": one.numRecords(), "description": description}
        )
    operations = info.outputOperationInfos()
    return {
        "batch_time": info.batchTime().milliseconds(),
        "submission_time": info.submissionTime(),
        "processing_start_time": _time(info.processingStartTime()),
        "processing_end_time": _time(info.processingEndTime()),
        "scheduling_delay": _time(info.schedulingDelay()),
        "processing_delay": _time(info.processingDelay()),
        "total_delay": _time(info.totalDelay()),
        "num_records": info.numRecords(),
        "streams": streams,
        "output_operations": [_operation(operations[key]) for key in sorted(operations)],
    }


def _output_operation(event: Any) -> dict[str, Any]:
    info = event.outputOperationInfo()
    return {"batch_time": info.batchTime().milliseconds(), **_operation(info)}


def _receiver(event: Any) -> dict[str, Any]:
    info = event.receiverInfo()
    return {
        "stream_id": info.streamId(),
        "name": info.name(),
        "active": info.active(),
        "location": info.location(),
        "executor_id": info.executorId(),
        "last_error_message": _failure(info.lastErrorMessage()),
        "last_error": _failure(info.lastError()),
        "last_error_time": _time(info.lastErrorTime()),
    }


def _query(event: Any) -> dict[str, Any]:
    name, timestamp = getattr(event, "name", None), getattr(event, "timestamp", None)
    return {"id": str(event.id), "run_id": str(event.runId), "name": name, "timestamp": timestamp}


def _idle(event: Any) -> dict[str, Any]:
    return {"id": str(event.id), "run_id": str(event.runId), "timestamp": event.timestamp}


def _terminated(event: Any) -> dict[str, Any]:
    return {
        "id": str(event.id),
        "run_id": str(event.runId),
        "exception": _failure(event.exception),
        "error_class": getattr(event, "errorClassOnException", None),
    }


def _progress(event: Any) -> dict[str, Any]:
    return {"progress": json.loads(event.progress.json)}


def _streaming_listener(writer: _Writer, interval: int | None) -> Any:
    from pyspark.streaming import StreamingListener

    def started(event: Any) -> dict[str, Any]:
        return {"start_time": event.time(), "batch_interval_ms": interval}

    kinds: dict[str, tuple[str, Callable[[Any], dict[str, Any]]]] = {
        "onStreamingStarted": ("streaming_started", started),
        "onBatchSubmitted": ("batch_submitted", _batch),
        "onBatchStarted": ("batch_started", _batch),
        "onBatchCompleted": ("batch_completed", _batch),
        "onOutputOperationStarted": ("output_operation_started", _output_operation),
        "onOutputOperationCompleted": ("output_operation_completed", _output_operation),
        "onReceiverStarted": ("receiver_started", _receiver),
        "onReceiverError": ("receiver_error", _receiver),
        "onReceiverStopped": ("receiver_stopped", _receiver),
    }
    return _subclass(StreamingListener, writer, kinds)


def _query_listener(writer: _Writer) -> Any:
    from pyspark.sql.streaming.listener import StreamingQueryListener

    return _subclass(
        StreamingQueryListener,
        writer,
        {
            "onQueryStarted": ("query_started", _query),
            "onQueryProgress": ("query_progress", _progress),
            "onQueryIdle": ("query_idle", _idle),
            "onQueryTerminated": ("query_terminated", _terminated),
        },
    )


def _subclass(base: Any, writer: _Writer, kinds: dict[str, Any]) -> Any:
    """Create an instance of a PySpark listener class whose methods only enqueue the event."""

    def method(kind: str, read: Callable[[Any], dict[str, Any]]) -> Callable[[Any, Any], None]:
        return lambda _, event: writer.offer(kind, read, event)

    methods = {name: method(kind, read) for name, (kind, read) in kinds.items()}
    return type("FlowdiagListener", (base,), methods)()


# Contents of the header.


def _application(context: Any) -> dict[str, Any]:
    """Build the header from a `StreamingContext`, or from the active session."""
    interval: int | None = None
    if context is not None:
        spark = context.sparkContext
        try:
            interval = context._jssc.ssc().graph().batchDuration().milliseconds()
        except Exception as error:  # noqa: BLE001 - private to Spark
            _complain(f"cannot read the batch interval: {error}")
        values = dict(spark.getConf().getAll())
        names = spark.applicationId, spark.appName, spark.version, spark.startTime
    else:
        from pyspark.sql import SparkSession

        active = getattr(SparkSession, "active", None) or SparkSession.getActiveSession
        session: Any = active()
        values = {key: session.conf.get(key, None) for key in CONFIGURATION}
        names = _names(session)
    return {
        "application_id": names[0],
        "application_name": names[1],
        "spark_version": names[2],
        "start_time": names[3],
        "batch_interval_ms": interval,
        "configuration": {
            key: str(values[key]) for key in CONFIGURATION if values.get(key) is not None
        },
    }


def _names(session: Any) -> tuple[Any, Any, str, Any]:
    try:
        spark = session.sparkContext
        return spark.applicationId, spark.appName, spark.version, spark.startTime
    except Exception:  # noqa: BLE001 - Spark Connect has no context
        get = session.conf.get
        started = get("spark.app.startTime", None)
        name = get("spark.app.name", None)
        return get("spark.app.id", None), name, session.version, int(started) if started else None


def _file_of(path: Any, application_id: str | None) -> str:
    text = str(os.fspath(path))
    parts = urlsplit(text)
    if parts.scheme == "file":
        text = unquote(parts.path)
    elif len(parts.scheme) > 1:
        raise ValueError(f"{text} is not a local path")
    if text.endswith(("/", os.sep)) or os.path.isdir(text):
        text = os.path.join(text, f"flowdiag-{application_id or 'application'}.jsonl")
    return os.path.abspath(text)


# Writing.

_writers: dict[str, _Writer] = {}
_writers_lock = threading.Lock()


def _writer(path: str, application: dict[str, Any], max_bytes: int, keep: int) -> _Writer:
    """Return the writer of a file. A context and its session share one."""
    with _writers_lock:
        known = _writers.get(path)
        if known is None or known.closed:
            known = _writers[path] = _Writer(path, application, max_bytes, keep)
        return known


class _Writer:
    """A bounded queue of events, and the thread that writes them to the file and rotates it."""

    def __init__(self, path: str, application: dict[str, Any], max_bytes: int, keep: int) -> None:
        self.path = path
        self.closed = False
        self._application = application
        self._max_bytes = max_bytes
        self._keep = keep
        self._events: queue.Queue[tuple[str, Callable[[Any], dict[str, Any]], Any, int] | None] = (
            queue.Queue(QUEUE_EVENTS)
        )
        self._file: IO[str] | None = None
        self._files = 0
        self._written = 0  # bytes of the file
        self._lost_lock = threading.Lock()
        self._lost_now = 0  # since the last "dropped" line
        self._lost = 0
        self._retry_at = 0.0
        self._open()
        self._thread = threading.Thread(target=self._run, name="flowdiag-listener", daemon=True)
        self._thread.start()
        atexit.register(self.close)

    def offer(self, kind: str, read: Callable[[Any], dict[str, Any]], event: Any) -> None:
        """Enqueue an event, or count it as dropped. This never waits and never raises."""
        if self.closed:
            return
        try:
            self._events.put_nowait((kind, read, event, _now()))
        except queue.Full:
            self._count_lost()

    def close(self, timeout: float = CLOSE_SECONDS) -> None:
        """Write the queued events for at most `timeout` seconds."""
        if self.closed:
            return
        self.closed = True
        atexit.unregister(self.close)
        try:
            self._events.put(None, timeout=timeout)
        except queue.Full:
            return
        self._thread.join(timeout)

    def _run(self) -> None:
        while True:
            taken = self._events.get()
            if taken is None:
                break
            kind, read, event, seen = taken
            try:
                fields = read(event)
            except Exception as error:  # noqa: BLE001 - the JVM may be gone
                text = f"{type(error).__name__}: {_cut(error, 300)}"
                kind, fields = "unreadable", {"of": kind, "error": text}
            self._write({"event": kind, "time": seen, **fields})
        self._write({"event": "closed", "time": _now(), "dropped": self._lost})
        if self._file is not None:
            try:
                self._file.close()
            except OSError:
                pass

    def _write(self, event: dict[str, Any]) -> None:
        if time.monotonic() < self._retry_at:
            self._count_lost()
            return
        try:
            if self._file is None or self._written >= self._max_bytes:
                self._open()
            with self._lost_lock:
                lost, self._lost_now = self._lost_now, 0
            if lost:
                try:
                    count = {"event": "dropped", "time": _now(), "count": lost, "total": self._lost}
                    self._line(count)
                except Exception:
                    with self._lost_lock:
                        self._lost_now += lost
                    raise
            self._line(event)
        except Exception as error:  # noqa: BLE001 - the disk is full, or the folder is gone
            self._count_lost()
            if self._retry_at == 0.0:
                _complain(f"cannot write {self.path}: {error}")
            self._retry_at = time.monotonic() + RETRY_SECONDS
            self._file = None

    def _line(self, event: dict[str, Any]) -> None:
        text = json.dumps(event, ensure_ascii=True, separators=(",", ":"), default=str) + "\n"
        if self._file is not None:
            self._file.write(text)
            self._file.flush()
            self._written += len(text)

    def _open(self) -> None:
        """Start a file with a header, after moving the existing file."""
        if self._file is not None:
            self._file.close()
            self._file = None
        folder = os.path.dirname(self.path)
        if not os.path.isdir(folder):
            os.makedirs(folder)
        if os.path.exists(self.path) and os.path.getsize(self.path):
            for number in range(self._keep, 1, -1):
                older = f"{self.path}.{number - 1}"
                if os.path.exists(older):
                    os.replace(older, f"{self.path}.{number}")
            if self._keep > 0:
                os.replace(self.path, self.path + ".1")
        self._file = open(self.path, "w", encoding="utf-8")  # noqa: SIM115 - kept open
        self._written = 0
        self._files += 1
        header = {
            "flowdiag_listener": SCHEMA,
            "event": "header",
            "time": _now(),
            "file": self._files,
            "writer": "python",
            "dropped": self._lost,
        }
        self._line({**header, **self._application})

    def _count_lost(self) -> None:
        with self._lost_lock:
            self._lost += 1
            self._lost_now += 1


def _now() -> int:
    return int(time.time() * 1000)


def _complain(text: str) -> None:
    try:
        sys.stderr.write(f"flowdiag_listener: {text}\n")
    except Exception:  # noqa: BLE001, S110 - standard error is closed
        pass
