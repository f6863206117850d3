"""What a report is about: its jobs, by name, and what it did not look at."""

from __future__ import annotations

from collections.abc import Iterator

from flowdiag.analyses.model import finding as f
from flowdiag.analyses.report.wire import Report, TopicStatus
from flowdiag.analyses.topics import topic_named


def jobs_of(report: Report) -> tuple[str, ...]:
    """The names of the jobs and applications, each once, in order of their names.

    Ids are not among them: they change with every deployment.
    """
    return tuple(sorted(set(_names(report))))


def _names(report: Report) -> Iterator[str]:
    data = report.data
    for tables in (data.vertices, data.attempts, data.scheduling):
        for row in tables or ():
            if row.job_name:
                yield row.job_name
    for job in data.jobs or ():
        if job.name:
            yield job.name
    for app in data.applications or ():
        if app.name:
            yield app.name
    for finding in report.findings:
        if finding.subject.job_name:
            yield finding.subject.job_name


def engines_of(report: Report) -> frozenset[str]:
    """Whose tables a report has: `flink`, `spark`, both or none."""
    data = report.data
    flink = data.jobs, data.vertices, data.attempts, data.processes, data.scheduling
    found = {"flink": any(flink), "spark": bool(data.applications)}
    return frozenset(name for name, there in found.items() if there)


def unassessed(
    report: Report, code: str, job: str | None, severity: f.Severity | None = None
) -> str | None:
    """Why a report that does not name a sickness does not say that it is absent; None: it is.

    Args:
        report: without such a finding.
        code: of the rule.
        job: whose sickness it is, by name, where that is known.
        severity: that it had elsewhere.
    """
    rule = next((rule for rule in report.rules if rule.code == code), None)
    if rule is None:
        return f"flowdiag {report.tool.version} has no rule {code} for this command"
    if rule.status is not f.Status.FOUND and rule.status is not f.Status.CLEAR:
        return rule.reason or rule.status.value
    # Found for one job, and open for another one.
    if rule.reason:
        return rule.reason
    # What its topic's first question found no answer to, its other rules did not see either.
    topic = next((each for each in report.topics if each.topic == topic_named(code)), None)
    if topic is not None and topic.status is not TopicStatus.ASSESSED:
        return topic.reason or topic.status.value
    if job is not None and (known := jobs_of(report)) and job not in known:
        return f"the job '{job}' is not in it"
    hidden = report.summary.below_min_severity
    if severity is not None and any(hidden.values()):
        return "it leaves out what is below its --min-severity"
    return None
