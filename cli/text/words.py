"""Formats the subjects, times, counts and verdicts of a report for readers."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import Final

from flowdiag.analyses.contract import report as w
from flowdiag.analyses.contract.redact import printable
from flowdiag.analyses.model import fmt
from flowdiag.analyses.model.option_types import unit_of
from flowdiag.analyses.report.muting import muted_fingerprints
from flowdiag.analyses.selection.zones import shown_zone
from flowdiag.cli.text.page import PROSE, Page

_BASELINE_ENTRIES: Final = 5  # maximum number of entries shown per status
_RUN: Final = "run: "
_ZONE = re.compile(r"UTC([+-])(\d\d):(\d\d)")


_NO_DATE: Final = "1970-01-01"  # the date of times that print none


# --- times ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Clock:
    """The time zone of a report. `zone` is None for the zone of the local host."""

    name: str
    zone: tzinfo | None

    def show(self, instant: str | None, *, date: bool = True) -> str:
        """Convert an ISO timestamp to the format of log lines.

        >>> Clock("UTC", timezone.utc).show("2018-11-29T10:43:44.622Z")
        '2018-11-29 10:43:44'
        >>> Clock("UTC", timezone.utc).show("1970-01-01T08:57:28Z")
        '08:57:28'
        """
        if instant is None:
            return "-"
        try:
            moment = datetime.fromisoformat(instant).astimezone(self.zone)
        except (ValueError, OverflowError):
            return printable(instant)
        dated = date and instant[:10] != _NO_DATE
        return moment.strftime("%Y-%m-%d %H:%M:%S" if dated else "%H:%M:%S")


def clock_of(report: w.Report, zone: str | None = None) -> Clock:
    """Return the clock of `zone`. By default, it is that of the first JobManager log or the first dated input, and
    UTC without either.

    Raises:
        FlowdiagError: `zone` is not a time zone.
    """
    if zone is not None:
        return Clock(*shown_zone(zone))
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


def period(finding: w.Finding | w.Story, clock: Clock, *, date: bool = True) -> str:
    """Return when a finding or story began and ended.

    An ongoing episode ends with the input, so only its start is informative.
    """
    first = clock.show(finding.first_seen, date=date)
    last = clock.show(finding.last_seen, date=date)
    if finding.state == "ongoing":
        return "" if finding.first_seen is None else f"since {first}"
    if finding.first_seen is None:
        return "" if finding.last_seen is None else f"until {last}"
    if finding.last_seen is None or first == last:
        return f"at {first}"
    return f"{first} to {last[11:] if date and first[:10] == last[:10] else last}"


def is_one_day(report: w.Report, clock: Clock) -> bool:
    """Return whether all findings fall on the first day of the inputs, which the inputs line shows."""
    times = [item.first for item in report.inputs if item.first]
    start = clock.show(min(times))[:10] if times else ""
    seen = [time for each in report.findings for time in (each.first_seen, each.last_seen) if time]
    return bool(start) and all(clock.show(time)[:10] == start for time in seen)


def time_span(report: w.Report, clock: Clock) -> str:
    """Return the time of the first and the last record of all inputs.

    Saved REST responses contain no time of their own, so the times of their checkpoints, batches and triggers count.
    """
    spans = [(item.first, item.last) for item in report.inputs]
    if not any(first for first, _ in spans):
        spans += _data_spans(report.data)
    firsts = [first for first, _ in spans if first]
    lasts = [last for _, last in spans if last]
    if not firsts or not lasts:
        return "no dated record recognized"
    start, end = clock.show(min(firsts)), clock.show(max(lasts))
    return f"{start} to {end[11:] if start[:10] == end[:10] else end} {clock.name}"


def _data_spans(data: w.Data) -> Iterator[tuple[str | None, str | None]]:
    """Yield the start and end of every checkpoint, batch and trigger."""
    for job in data.jobs or ():
        yield from ((item.triggered_at, item.ended_at) for item in job.checkpoints)
    for app in data.applications or ():
        times = [w.iso(batch.batch_time_ms * 1000) for batch in app.batches]
        times += [trigger.started_at for query in app.queries for trigger in query.triggers]
        yield from zip(times, times, strict=True)


def _day_range(days: Sequence[str]) -> str:
    """Return the first and the last day.

    >>> _day_range(["2027-01-31"]), _day_range(["2027-01-31", "2026-12-01"])
    ('2027-01-31', '2026-12-01 to 2027-01-31')
    """
    first, last = min(days), max(days)
    return first if first == last else f"{first} to {last}"


# --- numbers --------------------------------------------------------------------------------------


def quantity(value: float | str | None, unit: str | None, *, exact: bool = False) -> str:
    """Return a value with its unit. A ratio is rounded unless it is `exact`, as thresholds are.

    >>> quantity(1200, "ms"), quantity(0.125, "share"), quantity(3.04, "ratio")
    ('1.2 s', '12.5%', '3×')
    >>> quantity(4, "checkpoints"), quantity("rocksdb", None), quantity(None, "ms")
    ('4 checkpoints', 'rocksdb', 'unknown')
    """
    if value is None:
        return "unknown"
    if isinstance(value, str):
        return value
    match unit:
        case "ms":
            return fmt.duration(value)
        case "bytes":
            return fmt.size(value)
        case "share":
            return fmt.share(value)
        case "ratio":
            return f"{fmt.number(value) if exact or abs(value) >= 10 else f'{value:.2g}'}×"
        case "bytes/s":
            return f"{fmt.size(value)}/s"
        case "%" | "percent":
            return f"{fmt.number(value)}%"
        case None | "" | "correlation" | "gain" | "probability":
            return fmt.number(value)
    unit = _UNITS.get(unit, unit)
    return f"{fmt.number(value)} {_singular(unit) if value == 1 and unit != 's' else unit}"


_UNITS: Final = {"taskmanagers": "TaskManagers"}  # by their names in thresholds


def _singular(unit: str) -> str:
    """Return the singular of a unit.

    >>> _singular("batches"), _singular("retries"), _singular("records/s")
    ('batch', 'retry', 'records/s')
    """
    if unit.endswith("ies"):
        return f"{unit[:-3]}y"
    if unit.endswith("ches"):
        return unit.removesuffix("es")
    return unit[:-1] if unit.endswith("s") and not unit.endswith(("ss", "/s")) else unit


def measurement(item: w.Measurement) -> str:
    """Return a measurement with its threshold, without a unit that repeats its name.

    >>> measurement(w.Measurement(name="late-ratio", value=3.0, unit="ratio", threshold=2,
    ...                           population="12 subtasks"))
    'late ratio: 3× (threshold 2×; 12 subtasks)'
    >>> measurement(w.Measurement(name="expired-checkpoints", value=7, unit="checkpoints",
    ...                           threshold=None, population=None))
    'expired checkpoints: 7'
    """
    counted = item.unit not in ("ms", "bytes", "share", "ratio", "%")
    repeated = item.unit in (*item.name.split("-"), f"{item.name}s")
    unit = None if counted and repeated else item.unit
    threshold = quantity(item.threshold, None if counted else unit, exact=True)
    limit = [] if item.threshold is None else [f"threshold {threshold}"]
    details = [*limit, *([item.population] if item.population else [])]
    suffix = f" ({'; '.join(details)})" if details else ""
    return f"{item.name.replace('-', ' ')}: {quantity(item.value, unit)}{suffix}"


# --- subjects and culprits ------------------------------------------------------------------------


def _stage_task(subject: w.Subject) -> str:
    if subject.stage is None:
        return ""
    part = fmt.subtask(subject.subtask_index, subject.parallelism)
    return (
        f"{f'task {part}' if part else 'a task'} of stage {subject.stage}{_query_phrase(subject)}"
    )


def _query_phrase(subject: w.Subject) -> str:
    return f" of query {subject.query}" if subject.query else ""


def _subtask(subject: w.Subject, task: str) -> str:
    if subject.subtask_index is None:
        return ""
    part = f"subtask {fmt.subtask(subject.subtask_index, subject.parallelism)}"
    return f"{part} of {task}" if task else part


def _stream(subject: w.Subject) -> str:
    name = subject.receiver or subject.stream_id
    return "" if subject.stream_id is None else f"{subject.kind} {name}"


# Names by kind, from the subject, its task and its place; empty where the subject lacks the field.
_NAMES: Final[Mapping[str, Callable[[w.Subject, str, str], str]]] = {
    "subtask": lambda s, task, place: _subtask(s, task),
    "taskmanager": lambda s, task, place: f"TaskManager {place}" if place else "",
    "host": lambda s, task, place: f"host {s.host}" if s.host else "",
    "option": lambda s, task, place: f"option {s.option}" if s.option else "",
    "application": lambda s, task, place: (
        f"application {s.job_name or s.application or 'without a name'}"
    ),
    "query": lambda s, task, place: f"query {s.query}" if s.query else "",
    "executor": lambda s, task, place: f"executor {s.executor}" if s.executor else "",
    "receiver": lambda s, task, place: _stream(s),
    "stream": lambda s, task, place: _stream(s),
    "output": lambda s, task, place: (
        ""
        if s.output_operation is None
        else f"output operation {s.output_operation}" + (f" ({task})" if task else "")
    ),
    "partition": lambda s, task, place: (
        f"partition {s.partition}{_query_phrase(s)}" if s.partition else ""
    ),
    "service": lambda s, task, place: s.service or "",
    "task": lambda s, task, place: _stage_task(s),
}
_WITHOUT_PLACE: Final = ("service", "taskmanager", "host", "option", "application", "query")


def _place(subject: w.Subject) -> str:
    known = subject.taskmanager or subject.host
    return fmt.place(subject.taskmanager, subject.host) if known else ""


def subject_name(subject: w.Subject, *, most: int = 60) -> str:
    """Return the name of a subject and where it runs. `most` is the maximum length of its task's name.

    >>> subject_name(w.Subject(kind="subtask", task="Map", subtask_index=2, parallelism=6,
    ...                        taskmanager="tm-3"))
    'subtask 3/6 of Map on tm-3'
    """
    if subject.kind == "job":
        return f"job {fmt.abbreviate(subject.job_name or subject.job_id or 'without a name', most)}"
    task = fmt.abbreviate(subject.task or subject.operator or subject.vertex_id or "", most)
    place = _place(subject)
    name = _NAMES[subject.kind](subject, task, place) if subject.kind in _NAMES else ""
    if name and subject.kind in _WITHOUT_PLACE:
        return name
    if not name:
        names = (task, subject.application, subject.query, subject.receiver, subject.executor)
        name = f"{subject.kind} {next(filter(None, names), '')}".strip()
    return f"{name} on {place}" if place else name


def culprit_line(culprit: w.Culprit) -> str:
    """Return the culprit and the evidence against it, naming the culprit once.

    Some rules begin `why` with the name of the culprit: then only the kind or the place is added.
    """
    subject, why = culprit.subject, culprit.why
    name = subject_name(subject)
    if name in why or name == subject.kind:  # the kind alone identifies nothing
        return why
    known = subject.taskmanager or subject.host
    if subject.task is not None:
        task = fmt.subtask_of(subject.task, subject.subtask_index, subject.parallelism)
        if why.startswith((f"{task} ", f"{task}: ")):
            end = why.find(": ", len(task))  # a task may be named `Source: orders`
            missing = known is not None and known not in why and end >= 0
            return f"{why[:end]} on {_place(subject)}{why[end:]}" if missing else why
    kinds = {
        "option": (subject.option, "option"),
        "taskmanager": (known, "TaskManager"),
        "host": (known, "host"),
    }
    identifier, kind = kinds.get(subject.kind, (None, ""))
    if identifier and why.startswith(identifier):
        return f"{kind} {why}"
    if identifier and subject.kind != "option" and identifier in why:
        return why
    return f"{name}: {why}"


def ranked_culprits(report: w.Report) -> list[tuple[w.Culprit, list[str]]]:
    """Return the culprits in order, each with all jobs that have this culprit on the same evidence."""
    found: dict[tuple[str, str], tuple[w.Culprit, list[str]]] = {}
    label = job_labels(report)
    for culprit in report.summary.culprits:
        _, jobs = found.setdefault((culprit.code, culprit_line(culprit)), (culprit, []))
        if culprit.subject.job_name and culprit.subject.kind != "job":
            jobs.append(label(culprit.subject))
    return list(found.values())


def has_several_jobs(report: w.Report) -> bool:
    """Return whether the report covers several jobs, so that texts must name theirs."""
    data = report.data
    ids = [job.job_id for job in data.jobs or ()]
    ids += [each.job_id for rows in (data.attempts, data.vertices) for each in rows or ()]
    return len(set(ids)) + len(data.applications or ()) > 1


def job_list(names: Sequence[str], most: int = 3) -> str:
    """Name one job, or count several and name the first.

    >>> job_list(["orders"]), job_list(["a", "b", "c"], 2)
    ('job orders', '3 jobs: a, b, …')
    """
    if len(names) == 1:
        return f"job {printable(names[0])}"
    shown = [fmt.abbreviate(printable(name), NAME_CHARACTERS) for name in names[:most]]
    shown += ["…"] if len(names) > most else []
    return f"{fmt.plural(len(names), 'job')}: {', '.join(shown)}"


def job_labels(report: w.Report) -> Callable[[w.Subject], str]:
    """Return a function that names the job of a subject. Jobs with the same name also get their ID and engine."""
    owners: dict[str | None, set[str]] = {}
    for finding in report.findings:
        about = finding.subject
        if identity := about.job_id or about.application:
            owners.setdefault(about.job_name, set()).add(identity)

    def label(subject: w.Subject) -> str:
        name = job_name(subject)
        identity = subject.job_id or subject.application
        if subject.job_name is None or identity is None or len(owners.get(name, ())) < 2:
            return name
        return f"{name} ({'Flink' if subject.job_id else 'Spark'} {identity})"

    return label


def job_name(subject: w.Subject) -> str:
    """Return the job or application of a subject, or an empty string. JUnit shows it as the class."""
    return subject.job_name or subject.job_id or subject.application or ""


def job_names(report: w.Report) -> list[str]:
    """Return all jobs and applications, including those that only a finding names."""
    data = report.data
    named = [job.name or job.job_id for job in data.jobs or ()]
    named += [app.name or app.application or "" for app in data.applications or ()]
    named += [job_name(finding.subject) for finding in report.findings]
    return [name for name in dict.fromkeys(named) if name]


# --- shorter texts --------------------------------------------------------------------------------


def truncate(text: str, most: int) -> str:
    """Cut a sentence after a clause or a word.

    >>> truncate("its heartbeat timed out", 15), truncate("short", 15)
    ('its heartbeat …', 'short')
    """
    if len(text) <= most:
        return text
    part = max(text.rfind(mark, 0, most - 2) for mark in (", ", "; "))
    end = part + 1 if part > most * 2 // 3 else text.rfind(" ", 0, most - 1)
    return f"{text[:end]} …" if end > most // 2 else fmt.shorten(text, most)


# Of exceptions and stack frames; other class names in messages stay whole.
_PACKAGES: Final = re.compile(
    r"\b(?:[a-z_]\w*\.){2,}(?=[A-Z][\w$]*(?:(?:Exception|Error|Throwable|Failure)\b|\.[\w$<>]+\())"
)
_ID: Final = re.compile(r"(?<![0-9a-zA-Z])([0-9a-f]{8})[0-9a-f]{24}(?![0-9a-zA-Z])")


def compact(text: str) -> str:
    """Remove the packages of Java classes and shorten 32-digit IDs.

    >>> compact("it failed: org.apache.flink.util.FlinkException: no slots")
    'it failed: FlinkException: no slots'
    >>> compact("TaskManager c89e4749f345cc86a5934b52b016abe9 @ worker-1 was lost")
    'TaskManager c89e4749… @ worker-1 was lost'
    """
    return _ID.sub(r"\1…", _PACKAGES.sub("", text))


# --- places in files ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Paths:
    """How a report names its inputs.

    Args:
        here: the working directory with a trailing slash; names below it are relative.
        folder: the folder that all inputs share, if names are shown without it.
        linked: whether the terminal opens file links.
    """

    here: str
    folder: str
    linked: bool = False

    def show(self, source: str) -> str:
        """Return the name of an input.

        >>> Paths("/home/me/", "logs/2026/").show("/home/me/logs/2026/jm.log")
        'jm.log'
        """
        name = source.removeprefix(self.here) if self.here else source
        return printable(name.removeprefix(self.folder) or name)


_PATH_MARGIN: Final = 18  # columns: the indent of evidence, and a line number


def paths_of(report: w.Report, page: Page) -> Paths:
    """Return how to name the inputs: as given if the names fit into a line, otherwise without their common folder."""
    read = [item.source for item in report.inputs if item.kind != "not-read"]
    names = [name.removeprefix(page.folder) if page.folder else name for name in read]
    longest = max(map(len, names), default=0)
    fits = longest + _PATH_MARGIN <= min(page.width, PROSE)
    return Paths(page.folder, "" if fits else _common_folder(names), page.hyperlinks)


def _common_folder(names: Sequence[str]) -> str:
    """Return the folder or archive that all names share, with its separator. Empty for a single name.

    >>> _common_folder(["logs/a/jm.log", "logs/tm.log"]), _common_folder(["jm.log", "tm.log"])
    ('logs/', '')
    >>> _common_folder(["x/a.tar!jm.log", "x/a.tar!tm.log"])
    'x/a.tar!'
    """
    if len(names) < 2:
        return ""
    shared = os.path.commonprefix(list(names))  # noqa: RUF071 - the next line cuts at a separator
    return shared[: max(shared.rfind("/"), shared.rfind("!")) + 1]


def location(item: w.Evidence, paths: Paths | None = None) -> str:
    """Return `file:line`, which editors can open, or the byte offset if the line is unknown."""
    name = item.source if paths is None else paths.show(item.source)
    return f"{name}:{item.line}" if item.line else f"{name} at byte {item.offset}"


# --- actions --------------------------------------------------------------------------------------


def action_lines(item: w.Action) -> tuple[str, list[str]]:
    """Return the advice, and details: the option, restart, prerequisite, risk and check."""
    change = _setting(item)
    if item.restart_needed is not None:
        effort = "needs a restart" if item.restart_needed else "no restart needed"
        if change and change.endswith(")"):
            change = f"{change[:-1]}; {effort})"
        else:
            change = f"{change} ({effort})" if change else effort
    details = [
        change,
        *(f"together with {_setting(each)}" for each in item.together),
        f"measure first: {item.measure}" if item.measure else None,
        f"risk: {item.risk}" if item.risk else None,
        f"check: {item.verify}" if item.verify else None,
    ]
    return item.text, [detail for detail in details if detail]


def _setting(item: w.Action | w.Change) -> str | None:
    """Return an option with its current and proposed value, or None for an action without an option."""
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
    if isinstance(item, w.Action) and item.unset:
        values.append("remove it")
    return f"{item.option}: {', '.join(values)}" if values else item.option


def first_steps(report: w.Report) -> list[str]:
    """Return the first action with the options to set, then the next evidence to collect, with its command."""
    return [*_first_action(report), *next_steps(report)]


def _first_action(report: w.Report) -> list[str]:
    first = report.summary.first_action
    if first is None:
        return []
    text = first.action.text.partition(". ")[0].rstrip(".")  # the finding shows the rest
    changes: list[w.Action | w.Change] = [first.action, *first.action.together]
    typed = [
        f"{each.option} to {each.proposed}" + (f" (now {each.current})" if each.current else "")
        for each in changes
        if each.option and each.proposed
    ]
    return [f"first: {text}", *([f"set {' and '.join(typed)}"] if typed else [])]


def next_evidence(report: w.Report) -> w.Suggestion | None:
    """Return the evidence that separates the possible causes of the first incident, or None if its cause is certain."""
    stories, suggestions = report.summary.stories, report.summary.suggestions
    one = suggestions[0] if suggestions else None
    if one is None or not stories or one.finding in (None, stories[0].findings[0]):
        return one
    return None


def next_steps(report: w.Report) -> list[str]:
    """Return the evidence to collect next, with the command that collects it."""
    one = next_evidence(report)
    if one is None:
        return []
    if one.check is None:
        return [f"{one.text}: run {one.command}" if one.command else f"to learn more: {one.wants}"]
    return [f"next: {one.text}", *([f"{_RUN}{one.command}"] if one.command else [])]


def compact_step(step: str) -> str:
    """Shorten a step to one line. Commands keep their length, because people copy them.

    >>> compact_step("run: jstack c89e4749f345cc86a5934b52b016abe9")
    'run: jstack c89e4749f345cc86a5934b52b016abe9'
    """
    return step if step.startswith(_RUN) else compact(step)


# --- jobs and applications ------------------------------------------------------------------------

NAME_CHARACTERS: Final = 60
"""Maximum length of names in tables. JSON contains the full names."""

STATUS_WORDS: Final = {
    "completed": "completed",
    "expired": "expired",
    "declined": "declined",
    "failed": "failed",
    "aborted": "aborted",
    "in_flight": "in flight",
}


def checkpoint_counts(job: w.CheckpointJob) -> str:
    """Return the number of checkpoints by status, after the total."""
    if not job.total.checkpoints:
        return "none seen"
    order = [*STATUS_WORDS, *(status for status in job.counts if status not in STATUS_WORDS)]
    parts = [
        f"{fmt.thousands(job.counts[status])} {STATUS_WORDS.get(status, status)}"
        for status in order
        if job.counts.get(status)
    ]
    return f"{fmt.thousands(job.total.checkpoints)}: {', '.join(parts)}"


def job_title(job: w.CheckpointJob) -> str:
    """Return the name, ID, cluster, version and runs of a job."""
    name = fmt.abbreviate(job.name or "without a name", NAME_CHARACTERS)
    parts = [name, job.job_id, job.cluster]
    version = f"Flink {job.flink_version}" if job.flink_version else ""
    runs = fmt.plural(job.runs, "run") if job.runs > 1 else ""
    return " · ".join(filter(None, [*parts, version, runs]))


def application_title(app: w.RateApplication) -> str:
    """Return the name, ID, version and batch interval of a Spark application."""
    interval = (
        f"batches every {fmt.duration(app.batch_interval_ms)}" if app.batch_interval_ms else ""
    )
    version = f"Spark {app.spark_version}" if app.spark_version else ""
    name = fmt.abbreviate(app.name or "without a name", NAME_CHARACTERS)
    names = [name, app.application or ""]
    return " · ".join(filter(None, [*names, version, interval]))


def batch_counts(app: w.RateApplication) -> str:
    """Return the number of batches that completed, failed or did not end."""
    done = sum(batch.status == "completed" for batch in app.batches)
    failed = sum(batch.failed_outputs > 0 for batch in app.batches)
    waiting = len(app.batches) - done
    parts = [f"{fmt.thousands(done)} completed"]
    parts += [f"{failed} with failures"] if failed else []
    parts += [f"{waiting} unfinished"] if waiting else []
    return f"{fmt.thousands(app.total.batches)}: {', '.join(parts)}"


# --- verdict and empty states ---------------------------------------------------------------------

_UNHEALTHY: Final = ("failing", "degraded", "inconclusive")


def verdict_sort_key(verdict: str) -> int:
    """Order verdicts, the worst first.

    >>> sorted(["healthy", "inconclusive", "failing"], key=verdict_sort_key)
    ['failing', 'inconclusive', 'healthy']
    """
    return _UNHEALTHY.index(verdict) if verdict in _UNHEALTHY else len(_UNHEALTHY)


def verdict_sentence(report: w.Report) -> str:
    """Return the verdict with the number of findings, shown or hidden."""
    summary = report.summary
    if not summary.assessed:
        return "nothing to diagnose"
    if summary.verdict == "inconclusive":
        return f"inconclusive: {fmt.shorten(summary.reason or 'the inputs do not contain enough data', 120)}"
    critical, warnings, infos = (
        sum(n for each, n in summary.below_min_severity.items() if each == severity)
        + sum(finding.severity == severity for finding in report.findings)
        for severity in ("critical", "warning", "info")
    )
    count = critical + warnings + infos
    notes = f", {fmt.plural(count, 'note')}" if count else ""
    if summary.verdict == "calculated":
        return f"calculated, without data from a running job{notes}"
    if summary.verdict == "healthy":
        return f"healthy{notes}"
    tally = [f"{critical} critical"] if critical else []
    tally += [fmt.plural(warnings, "warning")] if warnings else []
    return f"{summary.verdict}: {', '.join(tally)}"


# By command: the data that it needs, and the inputs that contain this data.
_NEEDS: Final = {
    "diagnose": (
        "data that a rule checks",
        "pass Flink or Spark logs, metrics, event logs, or a folder of `flowdiag collect`",
    ),
    "rate": (
        "a batch or a trigger",
        "pass an event log, the output of `flowdiag listener`, or the driver's log",
    ),
    "startup": (
        "the start of a cluster or a job",
        "pass the JobManager's log from its beginning",
    ),
    "queues": (
        "task metrics",
        "pass logs with metric reports, Prometheus files, or a folder of `flowdiag collect`",
    ),
    "memory": (
        "a memory option or size",
        "pass a configuration file, logs from their beginning, or the response of /taskmanagers",
    ),
}
_CHECKPOINT_NEEDS: Final = (
    "a checkpoint event",
    "pass the JobManager's log, an archive, or saved responses of /jobs/:id/checkpoints",
)


def nothing_to_diagnose(report: w.Report) -> tuple[str, str]:
    """Return which kind of data the inputs lack, and a hint about inputs that contain it."""
    what, remedy = _NEEDS.get(report.tool.command, _CHECKPOINT_NEEDS)
    if (report.summary.reason or "").startswith("the requested time range"):
        return "the requested time range contains none of the input", "check --since and --until"
    return f"none contains {what}", remedy


def missing_input(report: w.Report) -> str:
    """Return the reason why nothing was diagnosed, as a sentence."""
    what, _ = _NEEDS.get(report.tool.command, _CHECKPOINT_NEEDS)
    reason = report.summary.reason
    if reason is None or reason.startswith("no input contains"):
        return f"No input contains {what}."
    if ": " in reason:  # begins with the name of an input
        return f"{reason}."
    return f"{reason[:1].upper()}{reason[1:]}."


# --- rules and baseline ---------------------------------------------------------------------------


def rule_tally(rules: Sequence[w.Rule]) -> str:
    """Return how many rules passed, and how many had no data to check."""
    clear = sum(rule.status == "clear" for rule in rules)
    void = sum(rule.status == "not-assessed" for rule in rules)
    return f"{clear} of {len(rules)} rules are clear" + (f" · {void} without data" if void else "")


def inconclusive_rules(rules: Sequence[w.Rule]) -> list[w.Rule]:
    """Return the rules that lack data to decide, except rules that had no subject to judge."""
    return [rule for rule in rules if rule.status == "inconclusive"]


def ignored_rules(rules: Sequence[w.Rule]) -> str | None:
    """Return how many rules were ignored, and the options that ignore them.

    >>> one = w.Rule(code="CP101", name="n", title="t", status="ignored", reason="--ignore CP1")
    >>> two = w.Rule(code="CP307", name="n", title="t", status="ignored", reason="--ignore slow")
    >>> ignored_rules([one, two])
    '2 of 2 rules ignored: --ignore CP1,slow'
    """
    reasons = [rule.reason or "" for rule in rules if rule.status == "ignored"]
    if not reasons:
        return None
    values: dict[str, list[str]] = {}
    for reason in dict.fromkeys(reasons):
        option, _, value = reason.partition(" ")
        values.setdefault(option, []).append(value)
    options = "; ".join(f"{option} {','.join(given)}" for option, given in values.items())
    return f"{len(reasons)} of {fmt.plural(len(rules), 'rule')} ignored: {options}"


def hidden_findings(report: w.Report) -> str | None:
    """Return how many findings `--min-severity` hides."""
    counts = report.summary.below_min_severity
    if not counts:
        return None
    parts = []
    for severity, count in reversed(counts.items()):
        word = "note" if severity == "info" else str(severity)
        parts.append(f"{count} {word}" if word == "critical" else fmt.plural(count, word))
    return f"{' and '.join(parts)} hidden by --min-severity"


def baseline_lines(report: w.Report) -> list[str]:
    """Return lines about muted findings, expired entries, and entries that no longer match a finding."""
    baseline = report.summary.baseline
    if baseline is None:
        return []
    by_status: dict[str, list[w.BaselineEntry]] = {}
    for entry in baseline.entries:
        by_status.setdefault(entry.status, []).append(entry)
    lines = []
    if muted_entries := by_status.pop("muted", []):
        lines.append(_muted_line(baseline.source, muted_entries))
    # One baseline may serve all commands: entries for rules of other commands are not news.
    own = {rule.code for rule in report.rules}
    unseen = [entry for entry in by_status.pop("not-assessed", []) if entry.code in own]
    for status, entries in by_status.items():
        for entry in entries[:_BASELINE_ENTRIES]:
            named = " ".join(filter(None, (entry.code, entry.fingerprint)))
            lines.append(f"{named} in {baseline.source}: {entry.text} ({entry.reason})")
        if len(entries) > _BASELINE_ENTRIES:
            hidden = len(entries) - _BASELINE_ENTRIES
            lines.append(f"and {hidden} more in {baseline.source}: {status}")
    if unseen:
        codes = fmt.listed(dict.fromkeys(entry.code or "" for entry in unseen))
        lines.append(
            f"{codes} in {baseline.source} cannot be checked: {unseen[0].text.partition(': ')[2]}"
        )
    return lines


def _muted_line(source: str, entries: Sequence[w.BaselineEntry]) -> str:
    days = _day_range([entry.until for entry in entries])
    count = fmt.plural(sum(entry.findings for entry in entries), "finding")
    codes = fmt.listed(dict.fromkeys(entry.code or entry.fingerprint for entry in entries))
    return f"{count} muted by {source} until {days} (no effect on the exit code): {codes}"


def mute_note(report: w.Report, finding: w.Finding) -> str | None:
    """Return the expiry date and reason of the baseline entry that mutes a finding, or None."""
    if report.summary.baseline is None or finding.fingerprint not in muted_fingerprints(report):
        return None
    known = report.summary.baseline.entries
    entry = next(each for each in known if each.fingerprint == finding.fingerprint)
    return f"{entry.text}: {entry.reason}"
