"""The line of code that makes batches slow.

What it reports
---------------
The activity of the threads of a slow DStream application or query: of the thread that runs its batches on the driver,
or of its tasks. The cause names the activity, for example a slow external call, a lock or a sleep. The topmost frame
of user code is the line to change.

Why it matters
--------------
Durations show that batches are slow. The line of code shows why.

How it decides
--------------
It only judges batches or triggers that are short of time, or that have been running for `hanging`. Short of time means
that batches queue, take at least `use` of the interval, or are kept small by back pressure. Each thread dump is one sample per thread. If the thread of the batches is outside of Spark's
jobs in at least `driver` of its samples, its samples count. Otherwise those of the tasks do, unless several
queries are slow, because a dump does not show the query of a task. Threads that wait for input, for tasks or for
shuffle blocks are left out, and they may be 70% at most. If at least 40% of the others do the same, that is the
cause (34% for a lock or a pool).

The JVM does not show the code of Python workers. Then the finding names the Python functions of the query's plan, or
the line that `py-spy dump` shows for a worker or for the driver.

With at least `agreeing` the confidence is medium, with fewer it is low. Locks name their owner, so their confidence is
high.

What to do
----------
Change the line that the finding names. Its advice fits the activity. Take three dumps, two seconds apart, if there
are fewer.

False alarms
------------
A single dump may show a rare moment.
"""

from __future__ import annotations

from typing import Final

from flowdiag.analyses.rate import helpers as h
from flowdiag.analyses.stacks import (
    CODE_CAUSES,
    WAITING,
    CodeReading,
    Stack,
    confidence_of,
    names_in_advice,
    read_samples,
)

CAUSES: Final = {
    **{kind: cause for kind, cause in CODE_CAUSES.items() if kind != "async-queue"},
    "state": "slow-state-access",
    "python": "slow-python-code",
    "python-driver": "driver-gaps",
}


class Limits(h.Limits):
    driver: float = h.limit(
        0.5, "share", "of the samples of a batch's thread; below it, tasks take most of the time"
    )
    agreeing: float = h.limit(
        3, "dumps", "number of dumps for medium confidence; fewer may show a rare moment"
    )
    hanging: float = h.limit(
        20_000, "ms", "garbage collection and slow storage delay a batch for seconds"
    )
    use: float = h.limit(
        h.defaults.NARROW, "share", "share of the interval; below it, there is time to spare"
    )


def judge(assessed: h.AssessedApplication, limits: Limits) -> h.Iterator[h.Finding]:
    """Yield one finding per query or application whose threads agree."""
    app = assessed.app
    slow = [flow for flow in h.flows_of(assessed) if _is_slow(flow, limits)] if app.threads else []
    for flow in slow:
        code = _read(flow, limits, alone=len(slow) == 1)
        if code is not None and _is_known(code):
            yield _finding(flow, code, limits)


def _is_slow(flow: h.Flow, limits: Limits) -> bool:
    """Return whether a flow is short of time, or its last batch does not end."""
    if h.has_no_pause(flow, use=limits.use):
        return True
    if flow.query is not None:
        last = flow.query.unfinished
        return last is not None and last.lasted_ms >= limits.hanging
    begun = [
        b.start_ms for b in flow.assessed.app.batches if b.state == "processing" and b.start_ms
    ]
    return any((flow.assessed.app.last_us or 0) // 1000 - ms >= limits.hanging for ms in begun)


def _read(flow: h.Flow, limits: Limits, *, alone: bool) -> CodeReading | None:
    """Return what the threads of a flow do: its own on the driver, or those of its tasks."""
    threads, query = flow.assessed.app.threads, flow.query
    own = [
        thread.stack
        for thread in threads
        if (thread.role == "query" and query is not None and thread.run in (None, *query.runs))
        or (thread.role == "batch" and query is None)
    ]
    outside = [stack for stack in own if stack.kind not in WAITING]
    if outside and len(outside) >= limits.driver * len(own):
        return _with_python(read_samples(own, CAUSES), _stacks(threads, "python-driver"))
    if not alone:
        return None
    tasks = read_samples(_stacks(threads, "task"), CAUSES)
    return _with_python(tasks, _stacks(threads, "python-task"))


def _stacks(threads: h.Sequence[h.SparkThread], role: str) -> list[Stack]:
    return [thread.stack for thread in threads if thread.role == role]


def _with_python(code: CodeReading | None, python: h.Sequence[Stack]) -> CodeReading | None:
    """Replace what the JVM shows of Python code by what `py-spy` shows, if the input has both or only that."""
    if code is not None and not code.stack.kind.startswith("python"):
        return code
    return read_samples(python, CAUSES) or code


def _is_known(code: CodeReading) -> bool:
    """Return whether user code, Python or a client library is involved: Spark itself reads files and waits."""
    stack = code.stack
    return stack.kind.startswith("python") or bool(stack.frame or stack.component)


def _finding(flow: h.Flow, code: CodeReading, limits: Limits) -> h.Finding:
    app, place = flow.assessed.app, code.place
    on_driver = code.cause == "driver-gaps" or code.stack.thread.startswith(_DRIVER)
    functions = flow.query.plan.functions if flow.query is not None else ()
    if code.cause == "slow-python-code" and code.stack.frame is None and functions:
        place += f": {h.fmt.listed(functions)}"
    who = f"The driver{flow.of_query}" if on_driver else f"A task{flow.of_query}"
    times = [stack.time_us for stack in code.agreeing if stack.time_us is not None]
    return h.flow_finding(
        flow,
        [],
        title=f"{who} {place}",
        why=f"{who[:1].lower()}{who[1:]} {code.clause}, {code.evidence_text}",
        severity=h.Severity.CRITICAL if code.cause == "deadlock" else h.Severity.WARNING,
        cause=code.cause,
        confidence=confidence_of(code, limits.agreeing),
        rank=h.Rank.EXPLANATION,
        first_us=min(times, default=None),
        count=code.count,
        measurements=(
            h.measurement("stack-samples", code.count, "samples", over=_THREADS),
            h.measurement("stack-share", round(code.share, 4), "share", over=_WORKING),
            h.measurement("thread-dumps", code.dumps, "dumps", limits.agreeing),
        ),
        evidence=h.cite((ref, None) for ref in code.refs),
        stacks=code.paths,
        actions=h.remedies(code.cause, app, **names_in_advice(code, "the operation")),
    )


_DRIVER = ("stream execution thread", "streaming-job-executor")
_THREADS = "of its threads show this activity"
_WORKING = "of the samples that wait neither for input nor for tasks"

RULE = h.Rule("RT315", judge, Limits, causes=(*CAUSES.values(), "deadlock"))
