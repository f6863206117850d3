"""Determines the scope of a report: its jobs by name, and what it did not assess."""

from __future__ import annotations

from collections.abc import Iterator

from flowdiag.analyses.contract.report import Report, Topic, TopicStatus
from flowdiag.analyses.model import finding as f
from flowdiag.analyses.topics import topic_named


def jobs_of(report: Report) -> tuple[str, ...]:
    """Return the names of the jobs and applications, sorted. IDs are left out because every deployment changes them."""
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
    """Return the engines for which a report has tables: `flink`, `spark`, both or neither."""
    data = report.data
    flink = data.jobs, data.vertices, data.attempts, data.processes, data.scheduling
    found = {"flink": any(flink), "spark": bool(data.applications)}
    return frozenset(name for name, there in found.items() if there)


def reason_not_assessed(
    report: Report, code: str, job: str | None, severity: f.Severity | None = None
) -> str | None:
    """Return why a missing finding does not prove that the problem is gone, or None if it does.

    Args:
        report: a report without the finding.
        code: the rule's code.
        job: the name of the job, if known.
        severity: the severity of the finding in another report.
    """
    rule = {rule.code: rule for rule in report.rules}.get(code)
    if rule is None:
        return f"flowdiag {report.tool.version} has no rule {code} for this command"
    if rule.status not in (f.Status.FOUND, f.Status.CLEAR):
        return rule.reason or rule.status.value
    # The rule may have found something in one job and be undecided about another.
    if rule.reason:
        return rule.reason
    # If the topic was not assessed, its other rules found nothing either.
    topics: dict[str | None, Topic] = {each.topic: each for each in report.topics}
    topic = topics.get(topic_named(code))
    if topic is not None and topic.status is not TopicStatus.ASSESSED:
        return topic.reason or topic.status.value
    if job is not None and (known := jobs_of(report)) and job not in known:
        return f"the report does not contain the job '{job}'"
    hidden = report.summary.below_min_severity
    if severity is not None and any(hidden.values()):
        return "the report leaves out findings below its --min-severity"
    return None
