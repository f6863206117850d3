"""A failure that flowdiag does not recognize.

What it reports
---------------
An exception, an error or an exit status that no other rule explains. The finding shows the deepest exception with
its message, the software that threw it, and the first frame of the application's own code. It also shows how often
the exception occurs, and whether it ended a batch, a query or the application. If the exception has a known cause,
the finding names that cause.

Why it matters
--------------
No list of known failures is complete. Even an unknown exception shows where to look first.

How it decides
--------------
A text without batches, triggers or failed queries is a fragment. The rule reports every failure in a fragment. A
failure is critical if the text shows that it ended the application, a query or a batch, and a warning otherwise.

In the log of an application with batches or triggers, errors are often handled, and RT103 reports failed batches
and queries. The rule then reports a failure only if the text shows that it ended the application, and no batch or
trigger follows.

A failure that was logged once or twice, below ERROR, is only a note if ordinary log lines follow it. So is a logged
error if batches or triggers ran, none failed, and the log continues for ten seconds or longer.

"Job 41 cancelled because SparkContext was shut down" is an effect of a stop. If the input does not contain the stop
itself, the rule is inconclusive. A failure in a shutdown hook is only a note, because the process was already ending.

What to do
----------
Start with the first frame of the application's own code, then check the component that threw the exception.

False alarms
------------
In a fragment of a log, a handled error looks like a failure. The finding then has low confidence.
"""

from flowdiag.analyses.knowledge.exceptions import CAUSE_OF_CLASS
from flowdiag.analyses.knowledge.unknown_failures import (
    GROUPS,
    UNRECOGNIZED,
    FailureGroup,
    failure_groups,
)
from flowdiag.analyses.rate import helpers as h
from flowdiag.analyses.rate.assessment.endings import harmless_failure
from flowdiag.analyses.rate.detect.unexplained import (
    handled_until,
    is_end,
    is_last,
    is_slow_start_heartbeat,
    occurrence_of,
    reported_texts,
)
from flowdiag.analyses.rate.failures import exceptions
from flowdiag.parsers.exceptions import Classified
from flowdiag.parsers.lines.failure_lines import KNOWN_RECORD, is_routine


def judge(assessed: h.AssessedApplication, limits: h.Limits) -> h.Results:
    """Yield one finding per kind of failure."""
    app = assessed.app
    if app.unseen_stop is not None:
        message = h.fmt.shorten(h.without_package(app.unseen_stop), 120)
        yield h.Inconclusive(
            reason=f"the application was stopped, and the input does not show why: {message}",
            checks=("driver-log",),
            job=assessed.key,
        )
    groups = _groups(app)
    for group in groups[:GROUPS]:
        yield _finding(assessed, group)
    yield from _open_end(assessed, groups)


def _groups(app: h.ApplicationFacts) -> h.Sequence[FailureGroup]:
    """Return the failures that no other rule reports. With batches or triggers, only those that ended the application."""
    quotas = {one.ref for one in app.incidents_of("pods-over-quota")}  # RT313 reports them
    until_us = handled_until(app)
    found = [
        occurrence_of(one, until_us)
        for one in app.failures
        if one.ref not in quotas
        and not harmless_failure(one.cause or "")
        and not is_slow_start_heartbeat(app, one)
    ]
    groups = failure_groups(found, [*reported_texts(app)])
    if app.batches or any(query.triggers for query in app.queries):
        return [group for group in groups if is_end(group) and is_last(app, group)]
    return groups


def _open_end(
    assessed: h.AssessedApplication, groups: h.Sequence[FailureGroup]
) -> h.Iterator[h.Inconclusive]:
    """Yield an inconclusive result if only shutdown hooks failed, or if the process continued after all failures."""
    if groups and all(group.is_survived for group in groups):
        yield h.Inconclusive(
            reason="the input does not show whether the logged failure affected the application",
            checks=("driver-log",),
            job=assessed.key,
        )
    if groups and all(group.is_in_shutdown for group in groups):
        yield h.Inconclusive(
            reason="a shutdown hook failed, and the input does not show why the process was ending",
            checks=("process-log",),
            job=assessed.key,
        )


def judge_rest(assessed: h.AssessedApplication, limits: h.Limits) -> h.Iterator[h.Finding]:
    """Yield one finding per kind of failure, including failures that other rules would report with more input."""
    app = assessed.app
    if app.batches or _has_numbered_triggers(app):
        return
    named = [
        one
        for one in _records(app)
        if one.cause and not is_routine((one.cause,)) and not harmless_failure(one.cause)
    ]
    own = [one for one in named if one.template != KNOWN_RECORD]
    failures = [
        one for one in own or named or app.failures if not is_slow_start_heartbeat(app, one)
    ]
    until_us = handled_until(app)
    for group in failure_groups(occurrence_of(one, until_us) for one in failures)[:GROUPS]:
        yield _finding(assessed, group)


def _records(app: h.ApplicationFacts) -> h.Iterator[h.Record]:
    """Yield all records that may be failures."""
    yield from (r for r in app.receivers if r.what in ("stopped", "error"))
    yield from app.incidents
    yield from (event for q in app.queries for event in q.events if event.what == "terminated")
    yield from app.failures


def _has_numbered_triggers(app: h.ApplicationFacts) -> bool:
    """Return whether the input shows triggers, not only single lines about late triggers, which have no batch."""
    return any(t.batch is not None for query in app.queries for t in query.triggers)


def _finding(assessed: h.AssessedApplication, group: FailureGroup) -> h.Finding:
    text = group.first.text
    if group.is_in_shutdown:
        fields = group.finding_fields(())
        fields["severity"], fields["rank"] = h.Severity.INFO, h.Rank.SYMPTOM
        return h.application_finding(assessed, **fields)
    if group.cause == UNRECOGNIZED or "class" not in text:
        return h.application_finding(assessed, **group.finding_fields(()))
    found = Classified(text["class"], "", 0, dict(text), tuple(text.get("options", "").split()))
    cause, names = exceptions.cause_of_exception(found)
    advice = exceptions.exception_actions(assessed, cause, names, found)
    return h.application_finding(assessed, **group.finding_fields(advice))


RULE = h.Rule(
    "RT108",
    judge,
    core=True,
    causes=(UNRECOGNIZED, *dict.fromkeys(word for word, _ in CAUSE_OF_CLASS.values())),
    last_resort=judge_rest,
    severity=h.Severity.INFO,
)
