"""How what a report holds is said to people, line by line; shared by every renderer for them."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import Final

from flowdiag.analyses.knowledge.option_types import unit_of
from flowdiag.analyses.model import fmt
from flowdiag.analyses.report.muting import muted
from flowdiag.analyses.report.redact import printable
from flowdiag.analyses.report.wire import (
    Action,
    BaselineEntry,
    Change,
    CheckpointJob,
    Culprit,
    Evidence,
    Finding,
    Measurement,
    RateApplication,
    Report,
    Rule,
    Story,
    Subject,
    iso,
)
from flowdiag.cli.render.page import PROSE, Page
from flowdiag.cli.text.zones import shown_zone

_NEWS: Final = 5  # of a baseline, of each kind
_ZONE = re.compile(r"UTC([+-])(\d\d):(\d\d)")


@dataclass(frozen=True, slots=True)
class Clock:
    """The wall clock on which people are shown instants."""

    name: str
    zone: tzinfo | None  # None is that of this machine

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


def clock_of(report: Report, zone: str | None = None) -> Clock:
    """The clock of the first JobManager's log, else of the first input that has one, else UTC.

    Args:
        report: whose inputs have zones.
        zone: the one that was asked for, which comes before them.

    Raises:
        FlowdiagError: there is no such zone.
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


def quantity(value: float | str | None, unit: str | None) -> str:
    """A value with its unit.

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
            return f"{fmt.number(value) if abs(value) >= 10 else f'{value:.2g}'}×"
        case None | "":
            return fmt.number(value)
    unit = _UNITS.get(unit, unit)
    return f"{fmt.number(value)} {singular(unit) if value == 1 else unit}"


_UNITS: Final = {"taskmanagers": "TaskManagers", "percent": "%"}  # by their names in thresholds


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
    counted = item.unit not in ("ms", "bytes", "share", "ratio", "%")
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
    task = fmt.abbreviate(subject.task or subject.operator or subject.vertex_id or "", most)
    known = subject.taskmanager or subject.host
    place = fmt.place(subject.taskmanager, subject.host) if known else ""
    match subject.kind:
        case "subtask" if subject.subtask_index is not None:
            part = f"subtask {fmt.subtask(subject.subtask_index, subject.parallelism)}"
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
            part = fmt.subtask(subject.subtask_index, subject.parallelism)
            what = (
                f"task {part} of stage {subject.stage}"
                if part
                else f"a task of stage {subject.stage}"
            )
            what += f" of query {subject.query}" if subject.query else ""
        case "job":
            return f"job {fmt.abbreviate(subject.job_name or subject.job_id or 'without a name', most)}"
        case _:
            names = (task, subject.application, subject.query, subject.receiver, subject.executor)
            what = " ".join((subject.kind, next((name for name in names if name), ""))).strip()
    return f"{what} on {place}" if place else what


def convicted(culprit: Culprit) -> str:
    """A culprit in one line: who, and the number that convicts; the name once."""
    subject, why = culprit.subject, culprit.why
    name = who(subject)
    if name in why or name == subject.kind:  # which says nothing of who it is
        return why
    if why.startswith(_beginning(subject)):
        known = subject.taskmanager or subject.host
        if known is None or known in why or ": " not in why:
            return why
        what, _, rest = why.partition(": ")  # who, but not where
        return f"{what} on {fmt.place(subject.taskmanager, subject.host)}: {rest}"
    if subject.option and subject.kind == "option" and why.startswith(subject.option):
        return f"option {why}"
    known = subject.taskmanager or subject.host
    if known and subject.kind in ("taskmanager", "host") and why.startswith(known):
        return f"{'TaskManager' if subject.kind == 'taskmanager' else 'host'} {why}"
    if known and subject.kind in ("taskmanager", "host") and known in why:
        return why
    return f"{name}: {why}"


def ranked(report: Report) -> list[tuple[Culprit, list[str]]]:
    """The culprits in their order, each with the jobs of which the same is said."""
    found: dict[tuple[str, str], tuple[Culprit, list[str]]] = {}
    for culprit in report.summary.culprits:
        _, jobs = found.setdefault((culprit.code, convicted(culprit)), (culprit, []))
        name = culprit.subject.job_name
        if name and culprit.subject.kind != "job":
            jobs.append(name)
    return list(found.values())


def in_jobs(names: Sequence[str], most: int = 5) -> str:
    """Which jobs something is about.

    >>> in_jobs(["orders"]), in_jobs(["a", "b", "c"], 2)
    ('job orders', '3 jobs: a, b, …')
    """
    if len(names) == 1:
        return f"job {printable(names[0])}"
    shown = [fmt.abbreviate(printable(name), NAME_CHARACTERS) for name in names[:most]]
    shown += ["…"] if len(names) > most else []
    return f"{fmt.plural(len(names), 'job')}: {', '.join(shown)}"


def _beginning(subject: Subject) -> tuple[str, ...]:
    """With what rules begin to say why, where they say who it is."""
    if subject.task is None:
        return ()
    index, parallelism = subject.subtask_index, subject.parallelism
    name = fmt.subtask_of(subject.task, index, parallelism)
    return (f"{name} ", f"{name}: ")


def cut(text: str, most: int) -> str:
    """The beginning of a sentence, as far as a whole part or word.

    >>> cut("its heartbeat timed out", 15), cut("short", 15)
    ('its heartbeat …', 'short')
    """
    if len(text) <= most:
        return text
    part = max(text.rfind(mark, 0, most - 2) for mark in (", ", "; "))
    end = part + 1 if part > most * 2 // 3 else text.rfind(" ", 0, most - 1)
    return f"{text[:end]} …" if end > most // 2 else fmt.shorten(text, most)


_PACKAGES: Final = re.compile(r"\b(?:[a-z_]\w*\.){2,}(?=[A-Z])")
_ID: Final = re.compile(r"(?<![0-9a-zA-Z])([0-9a-f]{8})[0-9a-f]{24}(?![0-9a-zA-Z])")


def brief(text: str) -> str:
    """The same with classes of Java by their own names, and ids by their beginning: they fill lines.

    >>> brief("it failed: org.apache.flink.util.FlinkException: no slots")
    'it failed: FlinkException: no slots'
    >>> brief("TaskManager c89e4749f345cc86a5934b52b016abe9 @ worker-1 was lost")
    'TaskManager c89e4749… @ worker-1 was lost'
    """
    return _ID.sub(r"\1…", _PACKAGES.sub("", text))


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


def place(item: Evidence, paths: Paths | None = None) -> str:
    """`file:line`, as editors open it; bytes where the line is not known."""
    name = item.source if paths is None else paths.show(item.source)
    return f"{name}:{item.line}" if item.line else f"{name} at byte {item.offset}"


@dataclass(frozen=True, slots=True)
class Paths:
    """How inputs are called where they are read: relative, and no longer than there is room.

    Args:
        here: the folder in which they are read, with the last slash.
        folder: what all of them begin with, said once where it is left out of each.
        linked: whether the terminal opens files that are clicked.
    """

    here: str
    folder: str
    linked: bool = False

    def show(self, source: str) -> str:
        """A name.

        >>> Paths("/home/me/", "logs/2026/").show("/home/me/logs/2026/jm.log")
        'jm.log'
        """
        name = source.removeprefix(self.here) if self.here else source
        return printable(name.removeprefix(self.folder) or name)


_BESIDE_A_PATH: Final = 18  # columns: how far evidence is moved in, and the number of a line


def paths_of(report: Report, page: Page) -> Paths:
    """Names as a user gave them where they fit into a line, else without the folder they share."""
    read = [item.source for item in report.inputs if item.kind != "not-read"]
    names = [name.removeprefix(page.folder) if page.folder else name for name in read]
    longest = max(map(len, names), default=0)
    fits = longest + _BESIDE_A_PATH <= min(page.width, PROSE)
    return Paths(page.folder, "" if fits else common_folder(names), page.hyperlinks)


_UNWELL: Final = ("failing", "degraded", "inconclusive")


def sick_first(verdict: str) -> int:
    """Orders verdicts.

    >>> sorted(["healthy", "inconclusive", "failing"], key=sick_first)
    ['failing', 'inconclusive', 'healthy']
    """
    return _UNWELL.index(verdict) if verdict in _UNWELL else len(_UNWELL)


def action(item: Action) -> tuple[str, list[str]]:
    """What to do, and below it everything that a careful person asks before doing it."""
    change = setting(item)
    if item.restart_needed is not None:
        effort = "needs a restart" if item.restart_needed else "no restart needed"
        if change and change.endswith(")"):
            change = f"{change[:-1]}; {effort})"
        else:
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
    text = first.action.text.partition(". ")[0].rstrip(
        "."
    )  # what a model says of it stands at the finding
    changes: list[Action | Change] = [first.action, *first.action.together]
    typed = [
        f"{each.option} to {each.proposed}" + (f" (now {each.current})" if each.current else "")
        for each in changes
        if each.option and each.proposed
    ]
    lines = [f"first: {text}", *([f"set {' and '.join(typed)}"] if typed else [])]
    return [*lines, f"then run: {first.run}"]


def seen(finding: Finding | Story, clock: Clock, *, date: bool = True) -> str:
    """When an episode was seen.

    The end of an ongoing episode is the end of the input, so only its beginning is worth saying.

    Args:
        finding: the episode, or the story.
        clock: on which it is told.
        date: whether the day is told, too.
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


def one_day(report: Report, clock: Clock) -> bool:
    """Whether all findings are of the day on which the inputs begin, which is said once."""
    times = [item.first for item in report.inputs if item.first]
    start = clock.show(min(times))[:10] if times else ""
    seen = [t for one in report.findings for t in (one.first_seen, one.last_seen) if t]
    return bool(start) and all(clock.show(t)[:10] == start for t in seen)


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
    """The folders or the archive that all names begin with, with what parts them; empty for one name.

    >>> common_folder(["logs/a/jm.log", "logs/tm.log"]), common_folder(["jm.log", "tm.log"])
    ('logs/', '')
    >>> common_folder(["x/a.tar!jm.log", "x/a.tar!tm.log"])
    'x/a.tar!'
    """
    if len(names) < 2:
        return ""
    shared = os.path.commonprefix(list(names))  # noqa: RUF071 - cut at the mark below
    return shared[: max(shared.rfind("/"), shared.rfind("!")) + 1]


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
        f"{fmt.thousands(job.counts[status])} {word}"
        for status, word in STATUS_WORDS.items()
        if job.counts.get(status)
    ]
    parts += [
        f"{fmt.thousands(n)} {status}"
        for status, n in job.counts.items()
        if status not in STATUS_WORDS
    ]
    return f"{fmt.thousands(job.total.checkpoints)}: {', '.join(parts)}"


# Names are cut there in tables; the JSON has all of them.
NAME_CHARACTERS: Final = 60


def job_title(job: CheckpointJob) -> str:
    """A job in one line."""
    name = fmt.abbreviate(job.name or "without a name", NAME_CHARACTERS)
    parts = [name, job.job_id, job.cluster]
    version = f"Flink {job.flink_version}" if job.flink_version else ""
    runs = fmt.plural(job.runs, "run") if job.runs > 1 else ""
    return " · ".join(filter(None, [*parts, version, runs]))


def application_title(app: RateApplication) -> str:
    """An application of Spark in one line."""
    interval = (
        f"batches every {fmt.duration(app.batch_interval_ms)}" if app.batch_interval_ms else ""
    )
    version = f"Spark {app.spark_version}" if app.spark_version else ""
    name = fmt.abbreviate(app.name or "without a name", NAME_CHARACTERS)
    names = [name, app.application or ""]
    return " · ".join(filter(None, [*names, version, interval]))


def batch_counts(app: RateApplication) -> str:
    """How the batches of an application ended."""
    done = sum(batch.status == "completed" for batch in app.batches)
    failed = sum(batch.failed_outputs > 0 for batch in app.batches)
    waiting = len(app.batches) - done
    parts = [f"{fmt.thousands(done)} completed"]
    parts += [f"{failed} of them failed"] if failed else []
    parts += [f"{waiting} not"] if waiting else []
    return f"{fmt.thousands(app.total.batches)}: {', '.join(parts)}"


# What a command looks for, and what to give it, by the command's name.
_WANTED: Final = {
    "diagnose": (
        "anything that a rule judges",
        "give it logs of Flink or Spark, metrics, event logs, or what `flowdiag collect` saved",
    ),
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
    if (report.summary.reason or "").startswith("the requested time range"):
        return "the requested time range contains none of the input", "check --since and --until"
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


def ignored(rules: Sequence[Rule]) -> str | None:
    """How many rules nobody wanted to hear, and why; None: all were heard.

    >>> one = Rule(code="CP101", name="n", title="t", status="ignored", reason="--ignore CP1")
    >>> two = Rule(code="CP307", name="n", title="t", status="ignored", reason="--ignore slow")
    >>> ignored([one, two])
    '2 of 2 rules not heard: --ignore CP1,slow'
    """
    why = [rule.reason or "" for rule in rules if rule.status == "ignored"]
    words: dict[str, list[str]] = {}
    for text in dict.fromkeys(why):
        option, _, word = text.partition(" ")
        words.setdefault(option, []).append(word)
    told = "; ".join(f"{option} {','.join(those)}" for option, those in words.items())
    return f"{len(why)} of {fmt.plural(len(rules), 'rule')} not heard: {told}" if why else None


def left_out(report: Report) -> str | None:
    """The findings that `--min-severity` hides, by number; None: there are none."""
    counts = report.summary.below_min_severity
    if not counts:
        return None
    told = []
    for severity, count in reversed(counts.items()):
        one = "remark" if severity == "info" else str(severity)
        told.append(f"{count} {one}" if one == "critical" else fmt.plural(count, one))
    return f"{' and '.join(told)} left out by --min-severity"


def known(report: Report) -> list[str]:
    """What a baseline says: what is muted first, then what counts again or is gone, a line each."""
    baseline = report.summary.baseline
    if baseline is None:
        return []
    told: dict[str, list[BaselineEntry]] = {}
    for one in baseline.entries:
        told.setdefault(one.status, []).append(one)
    lines = []
    quiet = told.pop("muted", [])
    if quiet:
        days = listed_days([one.until for one in quiet])
        count = fmt.plural(sum(one.findings for one in quiet), "finding")
        codes = fmt.listed(dict.fromkeys(one.code or one.fingerprint for one in quiet))
        lines.append(
            f"{count} muted by {baseline.source} until {days}, not counted for the exit code: {codes}"
        )
    # One file may serve all commands: what is no business of this one is not worth a word.
    own = {rule.code for rule in report.rules}
    unseen = [one for one in told.pop("not-assessed", []) if one.code in own]
    for some in told.values():
        for one in some[:_NEWS]:
            named = " ".join(filter(None, (one.code, one.fingerprint)))
            lines.append(f"{named} in {baseline.source}: {one.text} ({one.reason})")
        if some[_NEWS:]:
            lines.append(f"and {len(some) - _NEWS} more in {baseline.source}: {some[0].status}")
    if unseen:
        codes = fmt.listed(dict.fromkeys(one.code or "" for one in unseen))
        lines.append(
            f"not known whether it is still there, of {baseline.source}: {codes}:"
            f" {unseen[0].text.partition(': ')[2]}"
        )
    return lines


def listed_days(days: Sequence[str]) -> str:
    """The first of some days, and the last.

    >>> listed_days(["2027-01-31"]), listed_days(["2027-01-31", "2026-12-01"])
    ('2027-01-31', '2026-12-01 to 2027-01-31')
    """
    first, last = min(days), max(days)
    return first if first == last else f"{first} to {last}"


def muting(report: Report, finding: Finding) -> str | None:
    """That a finding is muted, until when and why; None: it is not."""
    if report.summary.baseline is None or finding.fingerprint not in muted(report):
        return None
    known = report.summary.baseline.entries
    one = next(each for each in known if each.fingerprint == finding.fingerprint)
    return f"{one.text}: {one.reason}"


def _number(report: Report, severity: str) -> int:
    """How many findings there are, shown or not."""
    hidden = sum(n for each, n in report.summary.below_min_severity.items() if each == severity)
    return hidden + sum(finding.severity == severity for finding in report.findings)


def verdict_sentence(report: Report) -> str:
    """What the report comes to, in a few words."""
    summary = report.summary
    if not summary.assessed:
        return "nothing to diagnose"
    remarks = sum(_number(report, severity) for severity in ("critical", "warning", "info"))
    told = f", {fmt.plural(remarks, 'remark')}" if remarks else ""
    if summary.verdict == "inconclusive":
        return f"inconclusive: {fmt.shorten(summary.reason or 'the input does not tell', 120)}"
    if summary.verdict == "calculated":
        return f"calculated, nothing that runs was looked at{told}"
    if summary.verdict == "healthy":
        return f"healthy{told}"
    critical, warnings = (_number(report, severity) for severity in ("critical", "warning"))
    tally = [f"{critical} critical"] if critical else []
    tally += [fmt.plural(warnings, "warning")] if warnings else []
    return f"{summary.verdict}: {', '.join(tally)}"


def several_jobs(report: Report) -> bool:
    """Whether it must be said which job something is about."""
    data = report.data
    ids = [job.job_id for job in data.jobs or ()] + [one.job_id for one in data.attempts or ()]
    ids += [vertex.job_id for vertex in data.vertices or ()]
    return len(set(ids)) > 1 or len(data.applications or ()) > 1
