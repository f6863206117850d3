"""How what a report holds is said to people, line by line; shared by every renderer for them."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from typing import Final

from flowdiag.analyses import say
from flowdiag.analyses.option_types import unit_of
from flowdiag.analyses.report.redact import printable
from flowdiag.analyses.report.wire import (
    Action,
    Change,
    CheckpointJob,
    Culprit,
    Evidence,
    Finding,
    Measurement,
    RateApplication,
    Report,
    Rule,
    Subject,
    iso,
)

_ZONE = re.compile(r"UTC([+-])(\d\d):(\d\d)")


@dataclass(frozen=True, slots=True)
class Clock:
    """The wall clock on which people are shown instants: the one of the JobManager's log."""

    name: str
    zone: timezone

    def show(self, instant: str | None, *, date: bool = True) -> str:
        """An ISO instant of the report as a person reads it in the log.

        >>> Clock("UTC", timezone.utc).show("2018-11-29T10:43:44.622Z")
        '2018-11-29 10:43:44'
        """
        if instant is None:
            return "-"
        try:
            moment = datetime.fromisoformat(instant).astimezone(self.zone)
        except (ValueError, OverflowError):
            return printable(instant)
        return moment.strftime("%Y-%m-%d %H:%M:%S" if date else "%H:%M:%S")


def clock_of(report: Report) -> Clock:
    """The clock of the first JobManager's log, else of the first input that has one, else UTC."""
    dated = [item for item in report.inputs if item.zone]
    managers = [item for item in dated if item.role in ("jobmanager", "mixed")]
    for item in managers + dated:
        hit = _ZONE.fullmatch(item.zone or "")
        if hit:
            sign, hours, minutes = hit.groups()
            offset = timedelta(hours=int(hours), minutes=int(minutes))
            if offset < timedelta(days=1):
                return Clock(item.zone or "", timezone(-offset if sign == "-" else offset))
        if item.zone == "UTC":
            break
    return Clock("UTC", UTC)


def quantity(value: float | str | None, unit: str | None) -> str:
    """A value with its unit.

    >>> quantity(1200, "ms"), quantity(0.125, "share"), quantity(3.04, "ratio")
    ('1.2 s', '12.5 %', '3×')
    >>> quantity(4, "checkpoints"), quantity("rocksdb", None), quantity(None, "ms")
    ('4 checkpoints', 'rocksdb', 'unknown')
    """
    if value is None:
        return "unknown"
    if isinstance(value, str):
        return value
    match unit:
        case "ms":
            return say.duration(value)
        case "bytes":
            return say.size(value)
        case "share":
            return say.share(value)
        case "ratio":
            return f"{say.number(value) if abs(value) >= 10 else f'{value:.2g}'}×"
        case None | "":
            return say.number(value)
    return f"{say.number(value)} {singular(unit) if value == 1 else unit}"


def singular(unit: str) -> str:
    """The unit of one thing.

    >>> singular("checkpoints"), singular("retries"), singular("records/s")
    ('checkpoint', 'retry', 'records/s')
    """
    if unit.endswith("ies"):
        return f"{unit[:-3]}y"
    return unit[:-1] if unit.endswith("s") and not unit.endswith(("ss", "/s")) else unit


def measurement(item: Measurement) -> str:
    """What was measured, against what. A unit that the name says already is not repeated.

    >>> measurement(Measurement(name="late-ratio", value=3.0, unit="ratio", threshold=2,
    ...                         population="12 subtasks"))
    'late ratio: 3× (threshold 2×; 12 subtasks)'
    >>> measurement(Measurement(name="expired-checkpoints", value=7, unit="checkpoints",
    ...                         threshold=None, population=None))
    'expired checkpoints: 7'
    """
    counted = item.unit not in ("ms", "bytes", "share", "ratio")
    said = item.unit in (*item.name.split("-"), f"{item.name}s")
    unit = None if counted and said else item.unit
    threshold = quantity(item.threshold, None if counted else unit)
    limit = [] if item.threshold is None else [f"threshold {threshold}"]
    details = [*limit, *([item.population] if item.population else [])]
    suffix = f" ({'; '.join(details)})" if details else ""
    return f"{item.name.replace('-', ' ')}: {quantity(item.value, unit)}{suffix}"


def who(subject: Subject, *, most: int = 60) -> str:
    """A subject in one line: what, and where it runs.

    >>> who(Subject(kind="subtask", task="Map", subtask_index=2, parallelism=6, taskmanager="tm-3"))
    'subtask 3/6 of Map on tm-3'
    """
    task = say.abbreviate(subject.task or subject.operator or subject.vertex_id or "", most)
    known = subject.taskmanager or subject.host
    place = say.place(subject.taskmanager, subject.host) if known else ""
    match subject.kind:
        case "subtask" if subject.subtask_index is not None:
            part = f"subtask {say.subtask(subject.subtask_index, subject.parallelism)}"
            what = f"{part} of {task}" if task else part
        case "taskmanager" if place:
            return f"TaskManager {place}"
        case "host" if subject.host:
            return f"host {subject.host}"
        case "option" if subject.option:
            return f"option {subject.option}"
        case "application":
            return f"application {subject.job_name or subject.application or 'without a name'}"
        case "query" if subject.query:
            return f"query {subject.query}"
        case "executor" if subject.executor:
            what = f"executor {subject.executor}"
        case "receiver" | "stream" if subject.stream_id is not None:
            what = f"{subject.kind} {subject.receiver or subject.stream_id}"
        case "output" if subject.output_operation is not None:
            what = f"output operation {subject.output_operation}" + (f" ({task})" if task else "")
        case "partition" if subject.partition:
            what = f"partition {subject.partition}"
            what += f" of query {subject.query}" if subject.query else ""
        case "task" if subject.stage is not None:
            part = say.subtask(subject.subtask_index, subject.parallelism)
            what = (
                f"task {part} of stage {subject.stage}"
                if part
                else f"a task of stage {subject.stage}"
            )
            what += f" of query {subject.query}" if subject.query else ""
        case "job":
            return f"job {say.abbreviate(subject.job_name or subject.job_id or 'without a name', most)}"
        case _:
            names = (task, subject.application, subject.query, subject.receiver, subject.executor)
            what = " ".join((subject.kind, next((name for name in names if name), ""))).strip()
    return f"{what} on {place}" if place else what


def convicted(culprit: Culprit) -> str:
    """A culprit in one line: who, and the number that convicts."""
    name = who(culprit.subject)
    return culprit.why if name in culprit.why else f"{name}: {culprit.why}"


def job_of(subject: Subject) -> str:
    """The job or application of a subject, as a class of test cases is called; empty: of none."""
    return subject.job_name or subject.job_id or subject.application or ""


def jobs(report: Report) -> list[str]:
    """The jobs or applications of a report, as `job_of` names them; some may be named by findings only."""
    data = report.data
    named = [job.name or job.job_id for job in data.jobs or ()]
    named += [app.name or app.application or "" for app in data.applications or ()]
    named += [job_of(finding.subject) for finding in report.findings]
    return [name for name in dict.fromkeys(named) if name]


def place(item: Evidence) -> str:
    """`file:line`, as editors open it; bytes where the line is not known."""
    return f"{item.source}:{item.line}" if item.line else f"{item.source} at byte {item.offset}"


def action(item: Action) -> tuple[str, list[str]]:
    """What to do, and below it everything that a careful person asks before doing it."""
    change = setting(item)
    if item.restart_needed is not None:
        effort = "needs a restart" if item.restart_needed else "no restart needed"
        change = f"{change} ({effort})" if change else effort
    details = [
        change,
        *(f"together with {setting(each)}" for each in item.together),
        f"measure first: {item.measure}" if item.measure else None,
        f"risk: {item.risk}" if item.risk else None,
        f"check: {item.verify}" if item.verify else None,
    ]
    return item.text, [detail for detail in details if detail]


def setting(item: Action | Change) -> str | None:
    """An option, its value now and the value to try; None where an action is about none."""
    if item.option is None:
        return None
    values = []
    if item.current:
        values.append(
            f"now {item.current}" + (f" ({item.current_from})" if item.current_from else "")
        )
    if item.proposed:
        unit = unit_of(item.option, item.proposed)
        values.append(f"try {item.proposed}" + (f" ({unit})" if unit else ""))
    if isinstance(item, Action) and item.unset:
        values.append("take it out")
    return f"{item.option}: {', '.join(values)}" if values else item.option


def first_steps(report: Report) -> list[str]:
    """What to do first, how, and the command that checks it; nothing where there is nothing to do."""
    first = report.summary.first_action
    if first is None:
        return []
    text = first.action.text.partition(". ")[0]  # what a model says of it stands at the finding
    changes: list[Action | Change] = [first.action, *first.action.together]
    typed = [
        f"{each.option} to {each.proposed}" + (f" (now {each.current})" if each.current else "")
        for each in changes
        if each.option and each.proposed
    ]
    lines = [f"first: {text}", *([f"set {' and '.join(typed)}"] if typed else [])]
    return [*lines, f"then run: {first.run}"]


def seen(finding: Finding, clock: Clock) -> str:
    """When an episode was seen.

    The end of an ongoing episode is the end of the input, so only its beginning is worth saying.
    """
    first, last = clock.show(finding.first_seen), clock.show(finding.last_seen)
    if finding.first_seen is None:
        return "" if finding.last_seen is None else f"until {last}"
    if finding.state == "ongoing":
        return f"since {first}"
    if finding.last_seen is None or first == last:
        return f"at {first}"
    return f"{first} to {last[11:] if first[:10] == last[:10] else last}"


def span(report: Report, clock: Clock) -> str:
    """From the first to the last record of all inputs; saved answers are dated by their content."""
    firsts = [item.first for item in report.inputs if item.first]
    lasts = [item.last for item in report.inputs if item.last]
    if not firsts:
        for job in report.data.jobs or ():
            firsts += [item.triggered_at for item in job.checkpoints if item.triggered_at]
            lasts += [item.ended_at for item in job.checkpoints if item.ended_at]
        for app in report.data.applications or ():
            times = [iso(batch.batch_time_ms * 1000) for batch in app.batches]
            times += [trigger.started_at for query in app.queries for trigger in query.triggers]
            firsts += [time for time in times if time]
            lasts += [time for time in times if time]
    if not firsts or not lasts:
        return "no dated records"
    start, end = clock.show(min(firsts)), clock.show(max(lasts))
    return f"{start} to {end[11:] if start[:10] == end[:10] else end} {clock.name}"


def common_folder(names: Sequence[str]) -> str:
    """The folders that all names begin with, with the last slash; empty for a single name.

    >>> common_folder(["logs/a/jm.log", "logs/tm.log"]), common_folder(["jm.log", "tm.log"])
    ('logs/', '')
    """
    if len(names) < 2:
        return ""
    shared = os.path.commonprefix(list(names))  # noqa: RUF071 - cut at the slash below
    return shared[: shared.rfind("/") + 1]


STATUS_WORDS: Final = {
    "completed": "completed",
    "expired": "expired",
    "declined": "declined",
    "failed": "failed",
    "aborted": "aborted",
    "in_flight": "in flight",
}


def counts(job: CheckpointJob) -> str:
    """How the checkpoints of a job ended.

    The whole is said first, so that a single number cannot be mistaken for it.
    """
    if not job.total.checkpoints:
        return "none seen"
    parts = [
        f"{say.thousands(job.counts[status])} {word}"
        for status, word in STATUS_WORDS.items()
        if job.counts.get(status)
    ]
    parts += [
        f"{say.thousands(n)} {status}"
        for status, n in job.counts.items()
        if status not in STATUS_WORDS
    ]
    return f"{say.thousands(job.total.checkpoints)}: {', '.join(parts)}"


# Names are cut there in tables; the JSON has all of them.
NAME_CHARACTERS: Final = 60


def job_title(job: CheckpointJob) -> str:
    """A job in one line."""
    name = say.abbreviate(job.name or "without a name", NAME_CHARACTERS)
    parts = [name, job.job_id, job.cluster]
    version = f"Flink {job.flink_version}" if job.flink_version else ""
    runs = say.plural(job.runs, "run") if job.runs > 1 else ""
    return " · ".join(filter(None, [*parts, version, runs]))


def application_title(app: RateApplication) -> str:
    """An application of Spark in one line."""
    interval = (
        f"batches every {say.duration(app.batch_interval_ms)}" if app.batch_interval_ms else ""
    )
    version = f"Spark {app.spark_version}" if app.spark_version else ""
    name = say.abbreviate(app.name or "without a name", NAME_CHARACTERS)
    names = [name, app.application or ""]
    return " · ".join(filter(None, [*names, version, interval]))


def batch_counts(app: RateApplication) -> str:
    """How the batches of an application ended."""
    done = sum(batch.status == "completed" for batch in app.batches)
    failed = sum(batch.failed_outputs > 0 for batch in app.batches)
    waiting = len(app.batches) - done
    parts = [f"{say.thousands(done)} completed"]
    parts += [f"{failed} of them failed"] if failed else []
    parts += [f"{waiting} not"] if waiting else []
    return f"{say.thousands(app.total.batches)}: {', '.join(parts)}"


# What a command looks for, and what to give it, by the command's name.
_WANTED: Final = {
    "rate": (
        "a batch or a trigger",
        "give it an event log, the lines of `flowdiag listener`, or the driver's log",
    ),
    "startup": (
        "the start of a cluster or of a job",
        "give it the JobManager's log from its beginning",
    ),
    "queues": (
        "metrics of a job's tasks",
        "give it logs with metric reports, files of Prometheus, or what `flowdiag collect` saved",
    ),
    "memory": (
        "a memory option or size",
        "give it a configuration file, logs from their beginning, or the answer of /taskmanagers",
    ),
}
_CHECKPOINTS_WANTED: Final = (
    "a checkpoint event",
    "give it the JobManager's log, an archive, or saved answers of /jobs/:id/checkpoints",
)


def nothing_to_diagnose(report: Report) -> tuple[str, str]:
    """What no input held, and what to give instead."""
    what, remedy = _WANTED.get(report.tool.command, _CHECKPOINTS_WANTED)
    if (report.summary.reason or "").startswith("nothing of the input lies"):
        return "none of it lies in the time asked for", "look at --since and --until"
    return f"none holds {what}", remedy


def lacking(report: Report) -> str:
    """The same as a sentence."""
    what, _ = _WANTED.get(report.tool.command, _CHECKPOINTS_WANTED)
    reason = report.summary.reason
    if reason is None or reason.startswith("no input holds"):
        return f"No input held {what}."
    if ": " in reason:  # begins with the name of an input
        return f"{reason}."
    return f"{reason[:1].upper()}{reason[1:]}."


def unsettled(rules: Sequence[Rule]) -> list[Rule]:
    """Rules that could not tell; those that had nothing to judge are counted, and not listed."""
    return [rule for rule in rules if rule.status == "inconclusive"]


def verdict_sentence(report: Report) -> str:
    """What the report comes to, in a few words."""
    summary = report.summary
    if not summary.assessed:
        return "nothing to diagnose"
    findings = report.findings
    if summary.verdict == "inconclusive":
        return f"inconclusive: {say.shorten(summary.reason or 'the input does not tell', 120)}"
    if summary.verdict == "calculated":
        return "calculated, nothing that runs was looked at" + (
            f", {say.plural(len(findings), 'remark')}" if findings else ""
        )
    if summary.verdict == "healthy":
        return "healthy" + (f", {say.plural(len(findings), 'remark')}" if findings else "")
    critical = sum(finding.severity == "critical" for finding in findings)
    warnings = sum(finding.severity == "warning" for finding in findings)
    tally = [f"{critical} critical"] if critical else []
    tally += [say.plural(warnings, "warning")] if warnings else []
    return f"{summary.verdict}: {', '.join(tally)}"
