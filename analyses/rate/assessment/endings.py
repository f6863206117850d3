"""Finds the stop of an application, and removes the failures that the stop causes.

A stop cancels running jobs, closes channels and interrupts threads. Each of them fails with its own exception, but none
of these exceptions is a cause.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from flowdiag.analyses.model.keys import Ref
from flowdiag.analyses.rate.facts import ApplicationFacts, Batch, Output, QueryFacts, Record

_STOPS: Final = (
    "stop-receivers",
    "receiver-stopped-by-driver",
    "stop-generator",
    "stop-log-writer",
    "stop-context",
    "stop-executors",
    "stop-by-hook",
    "stop-of-jvm",
    "context-stopped",
    "python-process-gone",
)
_AFTER_US: Final = 10_000_000  # batches may still begin this long after a stop
_BEFORE_US: Final = 10_000_000  # the Python process ends before the JVM notices
_HOOKS_US: Final = 2_000_000  # the hooks of a JVM end its executors before it tries to replace them
# Messages that the stop of the application causes.
_OF_A_SHUTDOWN: Final = (
    "sparkcontext was shut down",
    "sparkcontext is shutting down",
    "cancelled because sparkcontext",
    "sparkcontext was stopped",
)
# Messages that a stop causes, perhaps only the stop of a query.
_OF_A_STOP: Final = (
    *_OF_A_SHUTDOWN,
    "as part of cancellation",
    "cancelled part of cancelled job group",
    "part of cancelled job group",
    "[spark_job_cancelled]",
    "continuous execution finished",
)
# Another attempt of the task has succeeded, or something else cancelled the task.
_OF_A_COPY: Final = (
    "driver denied task commit",
    "taskkilledexception",
    "taskkilled (another attempt succeeded)",
)
# A stop clears the fields of the context, which causes these null pointers.
_OF_A_CLEARED_CONTEXT: Final = (
    'sparkcontext.dagscheduler()" is null',
    'sparkplan.session()" is null',
)
# Only a stop causes these, so they are never a cause, not even in a fragment without any other line.
_ONLY_OF_AN_END: Final = (
    "received empty command",
    # Ctrl-C: PySpark's signal handler uses a channel that waits for an answer.
    "reentrant call inside <_io.bufferedreader",
    *_OF_A_CLEARED_CONTEXT,
)
# Messages about a lost peer or a cancelled thread. Right before a stop, the stop caused them.
_OF_AN_END: Final = (
    *_ONLY_OF_AN_END,
    "obtaining a new communication channel",
    "obtain a new communication channel",
    "error while sending a command",
    "answer from java side is empty",
    "stopped sparkcontext",
    "stopped streamingcontext",
    "interruptedexception",
    "closedbyinterruptexception",
    "keyboardinterrupt",
    "rpcenvstoppedexception",
    "rpcenv already stopped",
    'sparkenv.get()" is null',
    "dagscheduler.cleanupqueryjobs",
    # States that thread pools print when they reject a task.
    "[shutting down, pool size",
    "[terminated, pool size",
)

# Py4J repeats the exception of the JVM after these words, unless the JVM is gone.
_LOST_JVM: Final = re.compile(
    r"Py4JError: An error occurred while calling \w{1,40}\.\w{1,200}\s*$", re.MULTILINE
)


def harmless_failure(reason: str | None) -> bool:
    """Return whether a failure is harmless: a stop canceled the job, or another copy of the task succeeded."""
    text = (reason or "").lower()
    return any(message in text for message in (*_OF_A_STOP, *_OF_A_COPY))


def stop_us(app: ApplicationFacts) -> int | None:
    """Return when the application began to stop, or None if unknown. From then on, executors stop and their tasks
    fail.

    A process may stop a context and start another context, so a stop that is followed by new batches does not count.
    """
    stops = [record.time_us for record in app.incidents if record.template in _STOPS]
    stops += [r.time_us for r in app.receivers if (r.cause or "").startswith("Stopped by driver")]
    removed = [e.removed_us for e in app.executors if e.removed_us and _is_of_hooks(e.reason)]
    stops += [removed_us - _HOOKS_US for removed_us in removed]
    stops.append(app.ended_us)
    return min((us for us in stops if us is not None and us >= _earliest_us(app)), default=None)


def _is_of_hooks(reason: str | None) -> bool:
    """Return whether an executor did not start because the JVM of a local cluster is shutting down."""
    return "Shutdown hooks cannot be modified during shutdown" in (reason or "")


_REMOVED: Final = "Master removed our application"
"""The master of a local cluster gives up after ten executors that could not start."""


def _earliest_us(app: ApplicationFacts) -> int:
    """Return the earliest time at which a stop may have ended the application: that of its last batch or trigger."""
    begun = [batch.time_ms * 1000 for batch in app.batches]
    begun += [trigger.time_us for query in app.queries for trigger in query.triggers]
    return max(begun, default=0) - _AFTER_US


def _inferred_stop(app: ApplicationFacts) -> tuple[str | None, int | None, Ref | None]:
    """Return the first failure caused by a stop without a record, as (message, time, record), each maybe None."""
    found = [
        (line.strip(), time_us, ref)
        for reason, time_us, ref in _reasons(app)
        for line in (reason or "").splitlines()
        if any(message in line.lower() for message in (*_OF_A_SHUTDOWN, *_OF_A_CLEARED_CONTEXT))
    ]
    earliest = _earliest_us(app)
    times = [time_us for _, time_us, _ in found if time_us is not None and time_us >= earliest]
    stop = min(times, default=None)
    places = [ref for _, time_us, ref in found if ref is not None and time_us == stop]
    return (found[0][0] if found else None), stop, min(places, default=None)


def _reasons(app: ApplicationFacts) -> Iterator[tuple[str | None, int | None, Ref | None]]:
    """Yield the reason, time and record of each failure."""
    events = (event for query in app.queries for event in query.events)
    for record in (*app.incidents, *app.failures, *events):
        yield record.cause, record.time_us, record.ref
    yield from ((output.failure, output.time_us, output.ref) for output in app.outputs)
    yield from ((batch.reason, None, None) for batch in app.batches)


def _is_of_an_end(text: str, *, is_known: bool) -> bool:
    """Return whether a text is about a lost peer or a cancelled thread.

    Args:
        text: the failure.
        is_known: whether the input shows the stop. If not, a JVM that is gone has another reason.
    """
    is_cut_off = is_known and _LOST_JVM.search(text) is not None
    return is_cut_off or any(message in text.lower() for message in _OF_AN_END)


@dataclass(frozen=True, slots=True)
class _Ending:
    """The stop of an application or, if no record shows one, the end of its log. A log at WARN ends with the stop."""

    stop_us: int | None
    end_us: int | None
    stops: tuple[Ref, ...] = ()  # the records of the stop
    by_hooks: bool = False  # whether the hooks of the JVM ended the executors of a local cluster

    def has_caused(self, time_us: int | None, text: str | None, ref: Ref | None = None) -> bool:
        """Return whether the stop caused a failure with this text."""
        if not text or harmless_failure(text):
            return bool(text)
        if self._always_causes(text):
            return True
        if self.end_us is None or (time_us is not None and time_us < self.end_us - _BEFORE_US):
            return False
        after = self.stop_us is not None and time_us is not None and time_us >= self.stop_us
        # The Python process ends before the JVM notices, so its lost channel is logged before the stop.
        after = after and not (time_us == self.stop_us and self._is_before(ref))
        return after or _is_of_an_end(text, is_known=self.stop_us is not None)

    def _always_causes(self, text: str) -> bool:
        """Return whether the stop caused a failure with this text at any time, because the text shows the stop."""
        if self.by_hooks and _REMOVED in text:
            return True
        return self.end_us is None and any(m in text.lower() for m in _ONLY_OF_AN_END)

    def caused_record(self, record: Record) -> bool:
        return self.has_caused(record.time_us, record.cause, record.ref)

    def _is_before(self, ref: Ref | None) -> bool:
        """Return whether a line precedes the stop in the log, because Spark's times have only whole seconds."""
        above = [
            stop.offset for stop in self.stops if ref is not None and stop.source == ref.source
        ]
        return bool(above) and ref is not None and ref.offset < min(above)

    def settle_record(self, record: Record) -> Record:
        if not self.has_caused(record.time_us, record.cause, record.ref):
            return record
        return replace(record, cause=None)

    def settle_query(self, query: QueryFacts) -> QueryFacts:
        last = query.unfinished
        if last is not None and self.stop_us is not None:
            last = replace(last, until_us=min(last.until_us, self.stop_us))
        events = tuple(map(self.settle_record, query.events))
        failed = [
            (before.cause, after.cause)
            for before, after in zip(query.events, events, strict=True)
            if before.template == "query-failed"
        ]
        if any(cause for cause, _ in failed) and not any(left for _, left in failed):
            # Python prints the exception of the query again, with a part of its text.
            events = tuple(e for e in events if not _repeats_query_failure(e))
        return replace(query, events=events, unfinished=last)

    def settle_batch(self, batch: Batch, failed: Output | None) -> Batch:
        """Return a batch as unfinished if the stop ended or rejected its jobs.

        In an event log, the stop also ends the job of a running batch. If many batches wait, the stop makes all of them fail
        within a second.
        """
        failed_us, ref = (failed.time_us, failed.ref) if failed is not None else (None, None)
        end, stop = batch.end_ms, self.stop_us
        if batch.approximate and end is not None and stop is not None and end * 1000 >= stop:
            return replace(
                batch, state="processing", end_ms=None, processing_ms=None, failed_outputs=0
            )
        if failed_us is None and batch.end_ms is not None:
            failed_us = batch.end_ms * 1000
        if not batch.failed_outputs or not self.has_caused(failed_us, batch.reason, ref):
            return batch
        if batch.state != "completed" or (
            batch.processing_ms is not None and not batch.approximate
        ):
            return replace(batch, failed_outputs=0)
        return replace(batch, state="queued", end_ms=None, processing_ms=None, failed_outputs=0)


def _repeats_query_failure(record: Record) -> bool:
    exception = record.fields.get("exception", record.cause or "")
    return record.template == "bare-exception" and "StreamingQueryException" in exception


def _ending_of(app: ApplicationFacts, stop: int | None, place: Ref | None) -> _Ending:
    stops = [record.ref for record in app.incidents if record.template in _STOPS]
    return _Ending(
        stop,
        stop if stop is not None or app.kind == "other" else app.last_us,
        tuple(ref for ref in (*stops, place) if ref is not None),
        any(_is_of_hooks(executor.reason) for executor in app.executors),
    )


def without_effects_of_stop(app: ApplicationFacts) -> ApplicationFacts:
    """Remove the failures that the application's own stop caused."""
    stop, unseen, place = stop_us(app), None, None
    if stop is None:
        unseen, stop, place = _inferred_stop(app)
    ending = _ending_of(app, stop, place)
    # The log contains no end of a failed batch, but its outputs have the time of the failure.
    failed = {output.batch_ms: output for output in app.outputs if output.time_us}
    return replace(
        app,
        stopped_us=stop,
        unseen_stop=unseen,
        batches=tuple(ending.settle_batch(b, failed.get(b.time_ms)) for b in app.batches),
        outputs=tuple(o for o in app.outputs if not ending.has_caused(o.time_us, o.failure, o.ref)),
        incidents=tuple(
            r for r in app.incidents if r.template in _STOPS or not ending.caused_record(r)
        ),
        queries=tuple(map(ending.settle_query, app.queries)),
        failures=tuple(r for r in app.failures if not ending.caused_record(r)),
    )
