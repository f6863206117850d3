"""Log fragments as people have them: some lines of a recording's logs, in the formats in which
people paste them.

A window is drawn from its number, so the same number always gives the same window. `complaints`
returns the false claims of a report on it: invented checkpoints, culprits that contradict the
truth, faults of a healthy job, and health without evidence.
"""

from __future__ import annotations

import html
import json
import math
import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from flowdiag.analyses.contract.report import CheckpointJob, Culprit, Report, Summary
from flowdiag.parsers.sources.codecs import codec_of, decode

from . import relay
from .archives import unpacked
from .recordings import REPORTS

ROOT: Final = Path(__file__).parents[1] / "fixtures" / "recordings"
MOST_LINES: Final = 400
ENGINES: Final = {"flink": "flink", "queues": "flink", "startup": "flink", "spark": "spark"}
SCRIPTS: Final = {"spark-live": "spark"}
"""Recordings of scripts as users start them, which only some tests read."""

PACKED: Final = (".zstd", ".lz4", ".lzf", ".snappy", ".gz")

Lines = list[str]


def _each(of: Callable[[str], str]) -> Callable[[Lines], str]:
    return lambda lines: "".join(f"{of(line)}\n" for line in lines)


# Changes to lines of any kind; `relay` prints Flink's records in other layouts.
PASTES: Final[dict[str, Callable[[Lines], str]]] = {
    "as it is": _each(str),
    "quoted": _each(lambda line: f"> {line}"),
    "comment": _each(lambda line: f" * {line}"),
    "blank lines between": lambda lines: "\n\n".join(lines) + "\n",
    "fence": lambda lines: "Here is our log:\n\n```\n" + "\n".join(lines) + "\n```\nAny ideas?\n",
    "unindented": _each(str.strip),
    "html": _each(lambda line: html.escape(line)),
    "kubectl": _each(lambda line: f"[pod/orders-5d8f7c-x2x9p/main] {line}"),
    "compose": _each(lambda line: f"worker-1  | {line}"),
    "docker": _each(lambda line: json.dumps({"log": line + "\n", "stream": "stdout"})),
    "array of strings": lambda lines: json.dumps(lines, indent=1),
    "CRLF": lambda lines: "\r\n".join(lines) + "\r\n",
    "cut in the first and the last line": lambda lines: "\n".join(lines)[37:-23],
}
LAYOUTS: Final = {layout.name: layout for layout in relay.LAYOUTS}


@dataclass(frozen=True)
class Run:
    """A recording.

    Args:
        name: family, version and scenario, such as `flink/1.20.5/hot-key`.
        truth: the notes of the job itself.
    """

    name: str
    truth: dict[str, Any] = field(compare=False)

    @property
    def engine(self) -> str:
        """`flink` or `spark`."""
        return "spark" if self.name.startswith("spark") else "flink"

    @property
    def jobs(self) -> list[dict[str, Any]]:
        """The truth per job."""
        return list(self.truth.get("jobs", [self.truth]))

    @property
    def healthy(self) -> bool:
        """Whether no culprit is expected."""
        return all(job["expected"]["verdict"] == "healthy" for job in self.jobs)

    @property
    def logs(self) -> list[Path]:
        return _logs(self.name)


@cache
def runs(kinds: tuple[str, ...] = tuple(ENGINES)) -> tuple[Run, ...]:
    """Return the recordings with logs and a truth with a verdict, by name."""
    found = []
    for path in sorted(ROOT.glob("*/*/*/truth.json")):
        name = str(path.parent.relative_to(ROOT))
        truth = json.loads(path.read_text())
        if name.partition("/")[0] in kinds and all(
            "verdict" in job.get("expected", ()) for job in truth.get("jobs", [truth])
        ):
            found.append(Run(name, truth))
    return tuple(found)


def files_of(name: str) -> Path:
    """Return the folder with all files of a recording."""
    return unpacked(ROOT / name)


@cache
def _logs(name: str) -> list[Path]:
    folder = files_of(name)
    parts = ("logs", "driver", "listener", "eventlog")
    return [
        path
        for part in parts
        for path in sorted((folder / part).rglob("*"))
        if path.is_file() and path.stat().st_size
    ]


@cache
def lines_of(path: Path) -> list[str]:
    """Return the decompressed lines of a file."""
    with path.open("rb") as raw:
        codec = codec_of(raw.read(16))
        raw.seek(0)
        if codec == "none":
            data = raw.read()
        else:
            stream, pieces = decode(raw, codec), []
            while piece := stream.read(1 << 20):
                pieces.append(piece)
            data = b"".join(pieces)
    return data.decode("utf-8", "replace").splitlines()


@cache
def lines_without_reports(path: Path) -> list[str]:
    """Return a log's lines without metric reports, which dominate a log and are irrelevant in a
    window.
    """
    text = "\n".join(lines_of(path)) + "\n"
    return REPORTS.sub(b"", text.encode()).decode().splitlines()


@dataclass(frozen=True)
class Part:
    """Some lines of one file, counted from 0.

    Args:
        start, count: the first line, and the number of lines.
        reports: whether metric reports count as lines.
        later: number of days to add to every time in them.
    """

    path: Path
    start: int
    count: int
    reports: bool = True
    later: int = 0

    @property
    def lines(self) -> list[str]:
        among = lines_of(self.path) if self.reports else lines_without_reports(self.path)
        lines = among[self.start : self.start + self.count]
        return [moved(line, self.later) for line in lines] if self.later else lines

    def __str__(self) -> str:
        name = f"{self.path.name} {self.start + 1}+{self.count}"
        name += "" if self.reports else " of what is said"
        return name + (f" {self.later} days later" if self.later else "")


_DATE = re.compile(
    r"\b(?P<year>(?:20)?26)(?P<by>[-/])(?P<month>11)(?P=by)(?P<day>[12][0-9])(?=[T ])"
)
_EPOCH_MS = re.compile(r"(?<![0-9a-f-])179[0-9]{10}(?![0-9a-f])")


def moved(line: str, days: int) -> str:
    """Return a line with its times moved by some days."""
    line = _DATE.sub(
        lambda m: f"{m['year']}{m['by']}{m['month']}{m['by']}{int(m['day']) + days:02}", line
    )
    return _EPOCH_MS.sub(lambda m: str(int(m[0]) + days * 86_400_000), line)


@dataclass(frozen=True)
class Window:
    """A simulated paste.

    Args:
        parts: the selected lines.
        wrapping: a name from `PASTES` or `relay`.
        named: whether the files keep their recorded names.
        span: the first and the last second, if the window is complete in between.
    """

    run: Run
    parts: tuple[Part, ...]
    wrapping: str = "as it is"
    named: bool = True
    span: tuple[datetime, datetime] | None = None

    def __str__(self) -> str:
        parts = ", ".join(
            f"{p.path.name} {p.start + 1}+{p.count}{'' if p.reports else ' of what is said'}"
            for p in self.parts
        )
        return f"{self.run.name}: {parts}; {self.wrapping}{'' if self.named else ', renamed'}"

    @property
    def plain(self) -> bool:
        """Whether the times are those of the recording."""
        return self.wrapping in PASTES

    def write(self, folder: Path) -> list[str]:
        """Lay out the files, and return their paths."""
        lines: dict[Path, Lines] = {}
        for part in self.parts:
            lines.setdefault(part.path, []).extend(part.lines)
        paths = []
        for number, (source, values) in enumerate(lines.items()):
            name = source.name if self.named else f"paste{number}.txt"
            path = folder / re.sub(r"\.(?:zstd|lz4|lzf|snappy|gz)$", "", name)
            path.write_bytes(self._bytes(values))
            paths.append(str(path))
        return paths

    def _bytes(self, lines: Lines) -> bytes:
        if self.wrapping in PASTES:
            return PASTES[self.wrapping](lines).encode()
        return LAYOUTS[self.wrapping].render(relay.read("\n".join(lines)))


def draw(run: Run, number: int) -> Window:
    """Return the window of a recording with a number, from 0."""
    dice = random.Random(f"{run.name} {number}")
    files = run.logs
    chosen = dice.sample(files, min(len(files), 1 if dice.random() < 0.7 else 2))
    parts = []
    reports = dice.random() < 0.3
    for path in chosen:
        length = len(lines_of(path) if reports else lines_without_reports(path))
        longest = int(MOST_LINES ** dice.random()) if dice.random() < 0.5 else MOST_LINES
        count = min(length, dice.randint(1, longest))
        parts.append(Part(path, dice.randint(0, length - count), count, reports))
    wrapping = (
        dice.choice(["as it is", *PASTES]) if dice.random() < 0.6 else dice.choice([*LAYOUTS])
    )
    readable = [len(relay.read("\n".join(part.lines))) for part in parts]
    if wrapping in LAYOUTS and (run.engine == "spark" or not all(readable)):
        wrapping = dice.choice([*PASTES])
    return Window(run, tuple(parts), wrapping, dice.random() < 0.5)


def with_gap(run: Run, number: int) -> Window:
    """Return a log without the days in the middle: the lines up to one place and from a later
    place."""
    dice = random.Random(f"torn {run.name} {number}")
    path = dice.choice([path for path in run.logs if not path.name.endswith(PACKED)])
    length = len(lines_without_reports(path))
    before, after = sorted(dice.sample(range(1, length), 2))
    return Window(
        run,
        (
            Part(path, 0, before, reports=False),
            Part(path, after, length - after, reports=False, later=dice.randint(1, 5)),
        ),
        named=dice.random() < 0.5,
    )


def at_its_end(run: Run, count: int = 40) -> Window:
    """Return the last lines of every log."""
    parts = []
    for path in run.logs:
        length = len(lines_without_reports(path))
        parts.append(Part(path, max(0, length - count), min(count, length), reports=False))
    return Window(run, tuple(parts))


# Patterns at which a person stops who searches for the trouble.
_TROUBLE: Final = re.compile(
    r"expired before completing|Decline checkpoint|declined by task| to FAILED|failed with an exception"
    r"|\sERROR\s|Current batch is falling behind|was lost|no longer reachable"
)
_TIME: Final = re.compile(r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d|\d\d/\d\d/\d\d \d\d:\d\d:\d\d)")
_SICK_S: Final = (10, 60)  # seconds before the first trouble, and after it


def first_trouble(run: Run) -> tuple[Path, int] | None:
    """Return the log and the line (from 0) of the first trouble; the JobManager's log comes
    first.
    """
    for _, path in _read_first(run):
        for number, line in enumerate(lines_without_reports(path)):
            if _TROUBLE.search(line):
                return path, number
    return None


def around_trouble(run: Run, count: int = 40) -> Window:
    """Return the lines around the first trouble in its log; without trouble, the middle lines."""
    path, number = first_trouble(run) or _middle(run)
    start = max(0, number - count // 2)
    return Window(run, (Part(path, start, count, reports=False),))


def _middle(run: Run) -> tuple[Path, int]:
    """Return the middle line of the first log."""
    _, path = _read_first(run)[0]
    return path, len(lines_without_reports(path)) // 2


def _read_first(run: Run) -> list[tuple[bool, Path]]:
    """Return the plain-text logs, the JobManager's first."""
    logs = [path for path in run.logs if path.suffix == ".log"]
    return sorted(("standalonesession" not in path.name, path) for path in logs)


def around_trouble_by_time(run: Run) -> Window:
    """Return the lines of all logs, including metrics, around the first trouble; without
    trouble, around the middle.
    """
    path, number = first_trouble(run) or _middle(run)
    at = next(filter(None, map(_time, lines_without_reports(path)[number:])), None)
    if at is None:  # each line is JSON
        return around_trouble(run, MOST_LINES)
    low, high = (at + timedelta(seconds=s) for s in (-_SICK_S[0], _SICK_S[1]))
    return _between(run, run.logs, low, high)


def part_of_the_time(run: Run, first: float, last: float) -> Window:
    """Return the lines of all logs, including metrics, between two fractions (0 to 1) of the
    recording's duration.
    """
    return _part_of_the_time(run, run.logs, first, last)


def part_of_some_logs(run: Run, number: int) -> Window:
    """Return some of the logs for a half or a third of the time, selected by the number."""
    dice = random.Random(f"part {run.name} {number}")
    logs = dice.sample(run.logs, dice.randint(1, max(1, len(run.logs) - 1)))
    parts = dice.choice((2, 3))
    place = dice.randrange(parts)
    return _part_of_the_time(run, sorted(logs), place / parts, (place + 1) / parts)


def _part_of_the_time(run: Run, logs: list[Path], first: float, last: float) -> Window:
    begin, end = _span(run.name)
    low, high = (begin + (end - begin) * share for share in (first, last))
    return _between(run, logs, low, high)


@cache
def _span(name: str) -> tuple[datetime, datetime]:
    """Return the first and the last time in a recording's logs."""
    moments = [when for path in _logs(name) for _, when in _dated(path)]
    return min(moments), max(moments)


def _dated(path: Path) -> list[tuple[int, datetime]]:
    """Return the lines that have a time (from 0), and the times. JSON lines take the latest time so far."""
    lines = lines_of(path)
    if not lines[0].startswith("{"):
        return [(n, when) for n, line in enumerate(lines) if (when := _time(line))]
    epochs = (
        (n, max(map(int, found)))
        for n, line in enumerate(lines)
        if (found := _EPOCH_MS.findall(line))
    )
    latest, dated = 0, []
    for n, epoch in epochs:
        latest = max(latest, epoch)
        dated.append((n, datetime.fromtimestamp(latest / 1000, UTC).replace(tzinfo=None)))
    return dated


def _time(line: str) -> datetime | None:
    """Return the time at the start of a log line; the recordings were made in UTC."""
    found = _TIME.match(line)
    if found is None:
        return None
    at = found[0].replace("/", "-")
    return datetime.fromisoformat(at if at[4] == "-" else f"20{at}")


def _between(run: Run, logs: list[Path], low: datetime, high: datetime) -> Window:
    """Return the lines of some logs between two times, to the second, up to the end of the last
    record.
    """
    low, high = low.replace(microsecond=0), high.replace(microsecond=999_999)
    parts = []
    for path in logs:
        dated = _dated(path)
        inside = [place for place, (_, when) in enumerate(dated) if low <= when <= high]
        if inside:
            begin, after = dated[inside[0]][0], inside[-1] + 1
            end = dated[after][0] if after < len(dated) else len(lines_of(path))
            parts.append(Part(path, begin, end - begin))
    return Window(run, tuple(parts), span=(low, high))


# --- false claims -------------------------------------------------------------------------------------


def complaints(window: Window, report: Report) -> list[str]:
    """Return the claims of a report on a window that contradict the recording."""
    found = [*_invented(window, report), *_accused(window, report)]
    if window.run.healthy:
        found += [
            f"false alarm: {finding.code} {finding.title}"
            for finding in report.findings
            if finding.severity != "info"
        ]
    found += _healthy_unseen(report)
    return found


def _invented(window: Window, report: Report) -> Iterator[str]:
    """Yield checkpoints that are not in the recording, or that ended differently."""
    truths = {job["job"]["job_id"]: job for job in window.run.jobs if "checkpoints" in job}
    if not truths:
        return
    for job in report.data.jobs or ():
        known = truths.get(job.job_id)
        if known is None and job.job_id:
            yield f"invented job {job.job_id}"
            continue
        among = [known] if known else list(truths.values())
        for status in ("completed", "expired", "declined"):
            allowed = {n for each in among for n in each["checkpoints"][status]}
            values = {c.id for c in job.checkpoints if c.status == status}
            if not values <= allowed:
                yield f"checkpoints {sorted(values - allowed)} {status}"


def _accused(window: Window, report: Report) -> Iterator[str]:
    """Yield culprits at medium or high confidence that contradict the truth."""
    if window.run.engine == "spark":
        yield from _other_culprits(window.run.truth["expected"], report.summary.culprits)
        return
    truths = {job["job"]["job_id"]: job for job in window.run.jobs}
    for job in report.data.jobs or ():
        known = truths.get(job.job_id)
        among = [known] if known else list(truths.values())
        values = [
            list(_other_culprits(expected, job.culprits))
            for each in among
            for expected in _at_some_time(each)
        ]
        if all(values):
            yield from min(values, key=len)


def _other_culprits(
    expected: dict[str, Any], culprits: list[Culprit], *, sure: bool = True
) -> Iterator[str]:
    """Return the culprits that contradict the truth; `sure` skips low confidence."""
    if not culprits or expected["verdict"] == "healthy":
        return
    first = culprits[0]
    truth = expected["culprit"] or {}
    for name in _NAMES:
        values, known = getattr(first.subject, name), truth.get(name)
        if (
            values is None
            or known is None
            or values == known
            or str(known).startswith(f"{values}.")
        ):
            continue
        if first.confidence != "low" or not sure:
            yield f"wrong ({first.confidence}): {first.code} {first.why}"
            return


def outcome(run: Run, report: Report, span: tuple[datetime, datetime] | None = None) -> str:
    """Grade a report by its worst job, with a word from `ORDER`.

    Args:
        report: the report on one topic, for the whole recording or a part of it.
        span: the first and the last second of the input; None for the whole recording.
    """
    if report.tool.command == "rate":
        return min((_outcome(each, report) for each in _in_a_part(run, span)), key=ORDER.index)
    if report.tool.command != "checkpoints":
        expected = run.jobs[0]["expected"]
        return _outcome(expected, report)
    jobs = {job.job_id: job for job in report.data.jobs or ()}
    values = []
    for truth in run.jobs:
        # A fragment without job IDs: the findings of the nameless job count.
        job = jobs.get(truth["job"]["job_id"]) or jobs.get("")
        if job is None:
            values.append("inconclusive" if report.summary.assessed else "silent")
        else:
            values.append(
                min((_outcome(each, report, job) for each in _at_some_time(truth)), key=ORDER.index)
            )
    return max(values, key=ORDER.index)


def _at_some_time(truth: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Return the truth of a job, and that of each of its periods, because a part may show only one
    of several culprits."""
    yield truth["expected"]
    for period in truth.get("periods", ()):
        yield {**truth["expected"], "cause": period["cause"], "culprit": period}


def _in_a_part(run: Run, span: tuple[datetime, datetime] | None) -> Iterator[dict[str, Any]]:
    """Return the truth of a Spark stream or, for a time range, the truth of the batches in it."""
    expected = run.truth["expected"]
    if span is None or expected["verdict"] == "healthy":
        yield expected
        return
    interval = run.truth["batch_interval_ms"]
    low, high = (moment.replace(tzinfo=UTC).timestamp() * 1000 for moment in span)
    over = [took > interval for at, took in _batches(run.truth) if low <= at <= high]
    failed = any(low <= at <= high for at in run.truth.get("failed_batches", ()))
    keeps_up = not failed and not any(over)
    if not keeps_up or expected["cause"] not in _OF_LOAD:
        yield expected
    if failed:
        yield _sick("failing", "failing-batches")
    if any(a and b for a, b in pairwise(over)):
        yield _sick("overloaded", "overloaded")
    if keeps_up:
        yield {"verdict": "healthy", "stability": "stable", "cause": None, "culprit": {}}


# A part whose batches all keep up does not show this.
_OF_LOAD: Final = ("overloaded", "fixed-cost", "rate-floor", "slow-output")


def _sick(stability: str, cause: str) -> dict[str, Any]:
    return {"verdict": "degraded", "stability": stability, "cause": cause, "culprit": {}}


def _batches(truth: dict[str, Any]) -> Iterator[tuple[float, float]]:
    """Return start (ms since 1970) and duration (ms) of each batch or trigger, including unfinished
    ones."""
    for batch in truth["batches"]:
        if "batch_time" in batch:
            took = batch["execution_s"]
            yield batch["batch_time"], math.inf if took is None else 1000 * took
        else:
            began = datetime.fromisoformat(batch["timestamp"]).timestamp()
            yield 1000 * began, batch["trigger_execution"] or 0


ORDER: Final = (
    "right",
    "inconclusive",
    "silent",
    "called healthy",
    "wrong (low)",
    "wrong (medium)",
    "wrong (high)",
)


def _outcome(expected: dict[str, Any], report: Report, job: CheckpointJob | None = None) -> str:
    """Return the grade for the job, or for the whole report if the job is None."""
    values = report.summary if job is None else job
    culprits, cause = values.culprits, values.cause
    alarms = [
        finding
        for finding in report.findings
        if finding.severity != "info"
        and (job is None or finding.subject.job_id in (None, job.job_id))
    ]
    if expected["verdict"] == "healthy":
        if alarms:
            return f"wrong ({max(alarms, key=lambda f: f.confidence.weight).confidence})"
        return "right" if values.verdict == "healthy" else _unsaid(report, values)
    if cause is not None and cause in expected.get("also", ()):
        return "right"
    if any(_other_culprits(expected, culprits, sure=False)):
        return f"wrong ({culprits[0].confidence})"
    if _names(expected, culprits) or (cause is not None and cause == expected["cause"]):
        return "right"
    # The symptom of a stream and its deeper cause are both acceptable.
    if report.tool.command == "rate" and cause not in (None, expected["stability"]):
        first = next(finding for finding in report.findings if finding.cause == cause)
        return f"wrong ({first.confidence})"
    return _unsaid(report, values)


def _unsaid(report: Report, values: Summary | CheckpointJob) -> str:
    if values.verdict == "healthy":
        return "called healthy"
    return "inconclusive" if report.summary.assessed else "silent"


_NAMES: Final = (
    "task",
    "subtask_index",
    "taskmanager",
    "host",
    "stream_id",
    "output_operation",
    "option",
)


def _names(expected: dict[str, Any], culprits: list[Culprit]) -> bool:
    """Return whether the truth and the first culprit share a field that both set."""
    truth = expected["culprit"] or {}
    return bool(culprits) and any(
        truth.get(name) is not None and getattr(culprits[0].subject, name, None) is not None
        for name in _NAMES
    )


def _healthy_unseen(report: Report) -> Iterator[str]:
    """Yield unjustified healthy verdicts: without a completed checkpoint, or after a failed one."""
    if report.summary.verdict != "healthy" or not report.data.jobs:
        return
    for job in report.data.jobs:
        if job.checkpoints and not _proves_health(job):
            yield f"healthy, though {job.counts}"
    if not any(job.checkpoints for job in report.data.jobs):
        yield "healthy without a checkpoint"


def _proves_health(job: CheckpointJob) -> bool:
    decided = [c for c in job.checkpoints if c.status not in ("in_flight", "aborted")]
    return bool(decided) and decided[-1].status == "completed"
