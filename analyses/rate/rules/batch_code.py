"""The line of code that makes batches slow.

What it reports
---------------
The activity of the threads of a slow DStream application or query. These are the driver thread that runs its
batches, or the threads of its tasks. The cause names the activity, for example a slow external call, a lock or a
sleep. The topmost frame of user code is the line to change.

Why it matters
--------------
Durations show that batches are slow. The line of code shows why.

How it decides
--------------
The rule only evaluates jobs that are at their limit, and batches or triggers that have been running for `running-time`.
A job is at its limit if its batches queue, take at least `use` of the interval, or are kept small by back
pressure. A thread dump provides one sample per thread. If the driver thread works outside of Spark jobs in at
least `driver-share` of its samples, the rule evaluates the driver thread. Otherwise it evaluates the task threads,
unless several queries are slow, because a dump does not show which query a task belongs to. The rule ignores
samples in which the threads wait for input, tasks or shuffle blocks. The other samples decide as for BP107, with the
limits `working`, `same-activity`, `contended` and `agreeing-dumps`.

If the threads wait in the client of a database that Spark itself calls, as in `DataFrameWriter.jdbc`, the database
is the culprit.

A dump of the JVM does not show the code of Python workers. In that case, the finding names the Python functions in
the query's plan, or the line that `py-spy dump` shows for a worker or for the driver.

What to do
----------
Change the line that the finding names, as advised there. If there are fewer than three dumps, take three, two
seconds apart.

False alarms
------------
A single dump may show an untypical moment.
"""

from dataclasses import replace

from flowdiag.analyses.rate import helpers as h
from flowdiag.analyses.rate.detect.code import (
    CAUSES,
    ON_DRIVER,
    is_slow,
    read_code,
    remedies_for_line,
)
from flowdiag.analyses.stacks import (
    CodeLimits,
    CodeReading,
    agreement_of,
    code_fields,
)
from flowdiag.parsers.components import components

_DRIVER = ("stream execution thread", "streaming-job-executor")
_WAITS = ("slow-external-call", "connection-pool-exhausted")


class Limits(CodeLimits):
    driver_share: float = h.limit(
        ON_DRIVER, "share", "minimum share of samples outside Spark jobs; below it, tasks dominate"
    )
    running_time: float = h.running_time_limit()
    use: float = h.use_limit()


def judge(assessed: h.AssessedApplication, limits: Limits) -> h.Results:
    """Yield one finding per query or application whose threads show the same activity."""
    flows = h.flows_of(assessed) if assessed.app.threads else ()
    slow = [flow for flow in flows if is_slow(flow, use=limits.use, hanging=limits.running_time)]
    for flow in slow:
        alone = len(slow) == 1
        code = read_code(flow, agreement_of(limits), driver=limits.driver_share, alone=alone)
        if code is not None:
            yield _database_finding(flow, code, limits) or _finding(flow, code, limits)


def _database_finding(flow: h.Flow, code: CodeReading, limits: Limits) -> h.Finding | None:
    """Return a finding about the database that threads outside of user code wait for."""
    component = components().get(code.stack.component or "")
    if component is None or not component.database or code.stack.frame is not None:
        return None
    if code.cause not in _WAITS:
        return None
    name = flow.assessed.neighbours.named(component.server or component.what)
    waits = flow.query.label if flow.query else "the application"
    found = _finding(flow, code, limits)
    return replace(
        found,
        subject=h.service_subject(flow.assessed.app, name, flow.query),
        title=f"{name} is slow: {waits} waits for it",
        why=f"{waits} waits for it: {code.evidence_text}",
        cause="slow-database",
        explain=h.explanation("slow-database"),
        actions=h.remedies("slow-database", flow.assessed.app, "statements", task=waits),
    )


def _finding(flow: h.Flow, code: CodeReading, limits: Limits) -> h.Finding:
    app, place = flow.assessed.app, code.place
    on_driver = code.cause == "driver-gaps" or code.stack.thread.startswith(_DRIVER)
    functions = flow.query.plan.functions if flow.query is not None else ()
    if code.cause == "slow-python-code" and code.stack.frame is None and functions:
        place += f": {h.fmt.listed(functions)}"
    who = f"The driver{flow.of_query}" if on_driver else f"A task{flow.of_query}"
    fields: h.SubjectFields = {
        **code_fields(code, limits.agreeing_dumps, waits_for="tasks"),
        "subject": flow.subject,
        "title": f"{who} {place}",
        "why": f"{who[:1].lower()}{who[1:]} {code.clause}, {code.evidence_text}",
        "severity": h.Severity.CRITICAL if code.cause == "deadlock" else h.Severity.WARNING,
        "rank": h.Rank.EXPLANATION,
        "last_us": app.last_us,
        "actions": remedies_for_line(flow, code.cause, code if code.stack.frame else None),
    }
    return h.flow_finding(flow, [], **fields)


RULE = h.Rule(
    "RT315",
    judge,
    Limits,
    causes=(*CAUSES.values(), "deadlock", "slow-database"),
    needs="work",
    severity=h.Severity.CRITICAL,
)
