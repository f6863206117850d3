"""Lays out a real Flink log again, as other loggers, runtimes and stores print the same records.

Deliberately independent of `flowdiag.parsers.lines.prefix`: these functions render the output of
programs and do not invert our patterns. `read` splits a log in Flink's default layout into records,
and each of `LAYOUTS` renders them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone

START = re.compile(
    r"(?P<time>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}) (?P<level>[A-Z]+) +(?P<logger>\S+) +"
    r"(?:\[\] )?- ?(?P<message>.*)"
)

# Layouts that print an instant read the log's clock in this time zone.
ZONE = timezone(timedelta(hours=2))

THREADS = (
    "main",
    "flink-akka.actor.default-dispatcher-3",
    "Checkpoint Timer",
    "jobmanager-io-thread-1",
    "Source: words, more -> Map: a=b (1/2)#0",
)


@dataclass(frozen=True)
class Record:
    """A log record: a line and its continuation lines."""

    time: datetime  # wall clock, no zone
    level: str
    logger: str
    thread: str
    lines: tuple[str, ...]

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    @property
    def instant(self) -> datetime:
        return self.time.replace(tzinfo=ZONE)

    @property
    def millis(self) -> int:
        return int(self.instant.timestamp() * 1000 + 0.5)

    @property
    def simple(self) -> str:
        return self.logger.rpartition(".")[2]

    @property
    def abbreviated(self) -> str:
        *packages, name = self.logger.split(".")
        return ".".join([*(package[0] for package in packages), name])

    @property
    def comma(self) -> str:
        return self.time.strftime("%Y-%m-%d %H:%M:%S,") + f"{self.time.microsecond // 1000:03}"

    @property
    def dot(self) -> str:
        return self.comma.replace(",", ".")

    @property
    def utc(self) -> str:
        stamp = self.instant.astimezone(UTC)
        return stamp.strftime("%Y-%m-%dT%H:%M:%S.") + f"{stamp.microsecond // 1000:03}Z"

    @property
    def utc_nanos(self) -> str:
        """The timestamp of a container runtime: slightly later than the application's."""
        stamp = self.instant.astimezone(UTC) + timedelta(microseconds=137)
        return stamp.strftime("%Y-%m-%dT%H:%M:%S.") + f"{stamp.microsecond:06}913Z"

    @property
    def default(self) -> list[str]:
        """The lines in Flink's default layout."""
        first = f"{self.comma} {self.level:<5} {self.logger:<60} [] - {self.lines[0]}"
        return [first, *self.lines[1:]]


def read(text: str) -> list[Record]:
    """Split a log in Flink's default layout (log4j 1 or 2) into records."""
    records: list[Record] = []
    for line in text.splitlines():
        found = START.fullmatch(line)
        if found is None:
            if records:
                last = records[-1]
                records[-1] = Record(
                    last.time, last.level, last.logger, last.thread, (*last.lines, line)
                )
            continue
        time = datetime.strptime(found["time"] + "000", "%Y-%m-%d %H:%M:%S,%f")
        thread = THREADS[len(records) % len(THREADS)]
        records.append(Record(time, found["level"], found["logger"], thread, (found["message"],)))
    return records


@dataclass(frozen=True)
class Layout:
    """A way to print records.

    Args:
        name: the program that prints them.
        render: renders the whole file.
        time: the part of the time that survives: `local` (wall clock), `instant`, `both`, `seconds` (wall clock without fraction), `time-of-day`, `elapsed`.
        thread: whether the thread survives.
        process: the label that every row must carry.
        logger: whether the logger survives.
        reports: whether metric reports survive.
    """

    name: str
    render: Callable[[list[Record]], bytes]
    time: str = "local"
    thread: bool = False
    process: str | None = None
    logger: bool = True
    reports: bool = True


def _lines(lines: list[str], end: str = "\n") -> bytes:
    return "".join(line + end for line in lines).encode()


def _header(template: Callable[[Record], str]) -> Callable[[list[Record]], bytes]:
    """Make a text layout: a header in front of the first line of each record."""

    def render(records: list[Record]) -> bytes:
        return _lines([line for r in records for line in (template(r) + r.lines[0], *r.lines[1:])])

    return render


def _carrier(before: Callable[[Record], str]) -> Callable[[list[Record]], bytes]:
    """Make a layout that puts a prefix on every line of Flink's default layout."""

    def render(records: list[Record]) -> bytes:
        return _lines([before(r) + line for r in records for line in r.default])

    return render


def _json(value: Callable[[Record], dict[str, object]]) -> Callable[[list[Record]], bytes]:
    """Make a layout with a JSON object per record."""

    def render(records: list[Record]) -> bytes:
        return _lines([json.dumps(value(r), ensure_ascii=False) for r in records])

    return render


def _json_lines(value: Callable[[Record, str], object]) -> Callable[[list[Record]], bytes]:
    """Make a layout with a JSON object per line of Flink's default layout, as container runtimes
    do.
    """

    def render(records: list[Record]) -> bytes:
        return _lines([json.dumps(value(r, line)) for r in records for line in r.default])

    return render


def _split_trace(record: Record) -> tuple[str, str | None]:
    """Return the message, and the stack trace that JSON layouts print under a separate key."""
    for number, line in enumerate(record.lines[1:], 1):
        if re.match(r"(?:[\w$]+\.)+[\w$]+(?:Exception|Error|Throwable)\b", line):
            return "\n".join(record.lines[:number]), "\n".join(record.lines[number:])
    return record.text, None


def _log4j_json(record: Record) -> dict[str, object]:
    message, trace = _split_trace(record)
    value: dict[str, object] = {
        "instant": {
            "epochSecond": record.millis // 1000,
            "nanoOfSecond": record.millis % 1000 * 1_000_000,
        },
        "thread": record.thread,
        "level": record.level,
        "loggerName": record.logger,
        "message": message,
        "endOfBatch": False,
        "loggerFqcn": "org.apache.logging.slf4j.Log4jLogger",
        "threadId": 47,
        "threadPriority": 5,
    }
    if trace:
        name, _, message = trace.split("\n")[0].partition(": ")
        value["thrown"] = {
            "commonElementCount": 0,
            "name": name,
            "message": message,
            "extendedStackTrace": trace,
        }
    return value


def _ecs(record: Record) -> dict[str, object]:
    message, trace = _split_trace(record)
    value: dict[str, object] = {
        "@timestamp": record.utc,
        "ecs.version": "1.2.0",
        "log.level": record.level,
        "message": message,
        "process.thread.name": record.thread,
        "log.logger": record.logger,
    }
    if trace:
        name, _, message = trace.split("\n")[0].partition(": ")
        value |= {"error.type": name, "error.message": message, "error.stack_trace": trace}
    return value


def _gelf(record: Record) -> dict[str, object]:
    message, trace = _split_trace(record)
    value: dict[str, object] = {
        "version": "1.1",
        "host": "worker-3",
        "short_message": message,
        "timestamp": record.millis / 1000,
        "level": {"ERROR": 3, "WARN": 4, "INFO": 6}.get(record.level, 7),
        "_logger": record.logger,
        "_thread": record.thread,
    }
    if trace:
        value["full_message"] = trace
    return value


def _logstash(record: Record) -> dict[str, object]:
    message, trace = _split_trace(record)
    value: dict[str, object] = {
        "@timestamp": record.instant.isoformat(timespec="milliseconds"),
        "@version": "1",
        "message": message,
        "logger_name": record.logger,
        "thread_name": record.thread,
        "level": record.level,
        "level_value": 20000,
    }
    if trace:
        value["stack_trace"] = trace
    return value


def _managed_flink(record: Record) -> dict[str, object]:
    message, trace = _split_trace(record)
    value: dict[str, object] = {
        "applicationARN": "arn:aws:kinesisanalytics:eu-west-1:123456789012:application/words",
        "applicationVersionId": "4",
        "locationInformation": f"{record.logger}.run({record.simple}.java:123)",
        "logger": record.logger,
        "message": message,
        "messageSchemaVersion": "1",
        "messageType": record.level,
        "threadName": record.thread,
    }
    if trace:
        value["throwableInformation"] = trace
    return value


def _docker(record: Record, line: str) -> dict[str, str]:
    return {"log": line + "\n", "stream": "stdout", "time": record.utc_nanos}


def _logcli(record: Record, line: str) -> dict[str, object]:
    return {
        "labels": {
            "app": "flink",
            "pod": "words-jobmanager-0",
            "container": "flink-main-container",
        },
        "line": line,
        "timestamp": record.utc_nanos,
    }


def _cloudwatch(records: list[Record]) -> bytes:
    events = [
        {
            "logStreamName": "words/jobmanager",
            "timestamp": record.millis,
            "message": "\n".join(record.default),
            "ingestionTime": record.millis + 1500,
            "eventId": str(number),
        }
        for number, record in enumerate(records)
    ]
    return json.dumps({"events": events, "searchedLogStreams": []}, indent=2).encode()


def _loki_query(records: list[Record]) -> bytes:
    values = [
        [str(record.millis * 1_000_000 + number), line]
        for record in records
        for number, line in enumerate(record.default)
    ]
    stream = {"stream": {"pod": "words-jobmanager-0"}, "values": values[::-1]}
    return json.dumps(
        {"status": "success", "data": {"resultType": "streams", "result": [stream]}}
    ).encode()


def _strings(records: list[Record]) -> bytes:
    return json.dumps([line for r in records for line in r.default], indent=1).encode()


def _two_lines(records: list[Record]) -> bytes:
    """Render as the SimpleFormatter of java.util.logging does."""
    level = {"WARN": "WARNING", "ERROR": "SEVERE", "DEBUG": "FINE", "TRACE": "FINER"}
    lines = []
    for r in records:
        hour = r.time.hour % 12 or 12
        stamp = r.time.strftime(f"%b %d, %Y {hour}:%M:%S ") + ("AM" if r.time.hour < 12 else "PM")
        lines += [f"{stamp} {r.logger} log", f"{level.get(r.level, r.level)}: {r.lines[0]}"]
        lines += r.lines[1:]
    return _lines(lines)


def _stamped_everywhere(records: list[Record]) -> bytes:
    """Render with a header on every line of a stack trace."""
    return _lines(
        [
            f"{r.comma} [{r.thread}] {r.level:<5} {r.logger} - {line}"
            for r in records
            for line in r.lines
        ]
    )


def _scheduler(records: list[Record]) -> bytes:
    lines = []
    for r in records:
        first, *rest = r.default
        lines.append(f"[INFO] {r.dot} - [taskAppId=TASK-9-12-31]:[129] -  -> {first}")
        lines += ["\t" + line for line in rest]
    return _lines(lines)


def _aggregated(records: list[Record]) -> bytes:
    """Render as `yarn logs`: three files of one container."""
    body = "\n".join(line for r in records for line in r.default)
    container = "container_e05_1543488224622_0001_01_000001"
    title = f"Container: {container} on worker-3.example_45454"
    parts = []
    for name, content in (
        ("jobmanager.err", ""),
        ("jobmanager.log", body),
        ("launch_container.sh", "#!/bin/bash\nset -o pipefail -e\nexport PRELAUNCH_OUT=x"),
    ):
        parts += [
            title,
            "LogAggregationType: AGGREGATED",
            "=" * len(title),
            f"LogType:{name}",
            "LogLastModifiedTime:Thu Nov 29 18:43:04 +0800 2018",
            f"LogLength:{len(content)}",
            "LogContents:",
            content,
            "",
            f"End of LogType:{name}",
            "*" * 60,
            "",
        ]
    return _lines(parts)


def _interleaved(records: list[Record]) -> bytes:
    """Render two services of Docker Compose, where one writes between any two lines of the other."""
    lines = []
    for r in records:
        for line in r.default:
            lines.append(f"master_1         | {line}")
            if len(lines) % 3 == 0:
                lines.append(f"worker_1         | {r.comma} INFO  org.example.Other [] - at work")
    return _lines(lines)


def _partials(records: list[Record]) -> bytes:
    """Render as CRI does, splitting long lines (here after 700 bytes, in reality after 16 KiB)."""
    lines = []
    for r in records:
        for line in r.default:
            pieces = [line[i : i + 700] for i in range(0, len(line), 700)] or [""]
            lines += [f"{r.utc_nanos} stdout P {piece}" for piece in pieces[:-1]]
            lines.append(f"{r.utc_nanos} stdout F {pieces[-1]}")
    return _lines(lines)


def _coloured(r: Record) -> str:
    colour = {"WARN": 33, "ERROR": 31}.get(r.level, 32)
    return (
        f"\x1b[2m{r.dot}\x1b[0;39m \x1b[{colour}m{r.level:>5}\x1b[0;39m \x1b[35m4711\x1b[0;39m "
        f"\x1b[2m---\x1b[0;39m \x1b[2m[{r.thread}]\x1b[0;39m \x1b[36m{r.abbreviated:<40}"
        f"\x1b[0;39m \x1b[2m:\x1b[0;39m "
    )


def _message_first(records: list[Record]) -> bytes:
    return _lines(
        [
            line
            for r in records
            for line in (
                f"{r.comma} {r.level:<5} {r.lines[0]} [{r.simple} {r.thread}]",
                *r.lines[1:],
            )
        ]
    )


def _uptime(records: list[Record]) -> Callable[[Record], int]:
    first = records[0].millis
    return lambda r: r.millis - first + 473


def _elapsed(records: list[Record]) -> bytes:
    uptime = _uptime(records)
    return _header(lambda r: f"{uptime(r)} [{r.thread}] {r.level:<5} {r.logger} [] - ")(records)


def _compose_json(record: Record) -> str:
    return f"flink-jobmanager-1  | {json.dumps(_ecs(record))}"


def _shuffled_padding(records: list[Record]) -> bytes:
    """Render as copied from a web page: runs of spaces are collapsed, and trailing spaces lost."""
    return _lines([re.sub(r" {2,}", " ", line).rstrip() for r in records for line in r.default])


LAYOUTS: tuple[Layout, ...] = (
    Layout("log4j2", _carrier(lambda r: "")),
    Layout("log4j1", _header(lambda r: f"{r.comma} {r.level:<5} {r.logger:<60}  - ")),
    Layout(
        "logback",
        _header(lambda r: f"{r.dot} [{r.thread}] {r.level:<5} {r.abbreviated}  - "),
        thread=True,
    ),
    Layout(
        "thread after level",
        _header(lambda r: f"{r.comma} {r.level:<5} [{r.thread}] {r.logger} - "),
        thread=True,
    ),
    Layout(
        "numeric thread", _header(lambda r: f"{r.comma} {r.level:<5} [74] {r.logger:<60} [] - ")
    ),
    Layout(
        "bare thread",
        _header(lambda r: f"{r.comma} {r.thread} {r.level:<5} {r.logger} [] - "),
        thread=True,
    ),
    Layout("message first", _message_first, thread=True),
    Layout("collapsed padding", _shuffled_padding),
    Layout(
        "compose 2", _carrier(lambda r: "flink-jobmanager-1     | "), process="flink-jobmanager-1"
    ),
    Layout("compose 1", _interleaved, process="master_1"),
    Layout("cri", _carrier(lambda r: f"{r.utc_nanos} stdout F "), time="both"),
    Layout("cri partial", _partials, time="both"),
    Layout(
        "kubectl prefix",
        _carrier(lambda r: "[pod/words-5d8f7c-x2x9p/flink-main-container] "),
        process="words-5d8f7c-x2x9p",
    ),
    Layout(
        "kubectl prefix and timestamps",
        _carrier(lambda r: f"[pod/words-taskmanager-1-2/main] {r.utc_nanos} "),
        time="both",
        process="words-taskmanager-1-2",
    ),
    Layout(
        "stern",
        _carrier(lambda r: "words-5d8f7c-x2x9p flink-main-container "),
        process="words-5d8f7c-x2x9p",
    ),
    Layout("docker timestamps", _carrier(lambda r: f"{r.utc_nanos} "), time="both"),
    Layout("docker json-file", _json_lines(_docker), time="both"),
    Layout("JsonLayout", _json(_log4j_json), time="instant", thread=True),
    Layout("ECS", _json(_ecs), time="instant", thread=True),
    Layout("GELF", _json(_gelf), time="instant", thread=True),
    Layout("Logstash", _json(_logstash), time="instant", thread=True),
    Layout("Managed Flink", _json(_managed_flink), time="none", thread=True),
    Layout("logcli", _json_lines(_logcli), time="both", process="words-jobmanager-0"),
    Layout("Loki query", _loki_query, time="both", process="words-jobmanager-0"),
    Layout("CloudWatch", _cloudwatch, time="both", process="words/jobmanager"),
    Layout("array of strings", _strings),
    Layout(
        "compose around ECS",
        lambda records: _lines([_compose_json(r) for r in records]),
        time="instant",
        thread=True,
        process="flink-jobmanager-1",
    ),
    Layout(
        "docker around ECS",
        lambda records: _lines([json.dumps(_docker(r, json.dumps(_ecs(r)))) for r in records]),
        time="instant",
        thread=True,
    ),
    Layout(
        "epoch millis",
        _header(lambda r: f"{r.millis} {r.level:<5} {r.logger} [] - "),
        time="instant",
    ),
    Layout("elapsed", _elapsed, time="elapsed", thread=True),
    Layout(
        "time only",
        _header(lambda r: f"{r.comma[11:]} {r.level:<5} {r.logger:<60} [] - "),
        time="time-of-day",
    ),
    Layout(
        "two-digit year",
        _header(lambda r: r.time.strftime("%y/%m/%d %H:%M:%S") + f" {r.level} {r.simple}: "),
        time="seconds",
    ),
    Layout(
        "ISO with zone",
        _header(
            lambda r: f"{r.instant.isoformat(timespec='milliseconds')} {r.level} {r.logger} - "
        ),
        time="both",
    ),
    Layout(
        "bracketed",
        _header(lambda r: f"[{r.comma}] [{r.level}] [{r.thread}] [{r.simple}:123] "),
    ),
    Layout(
        "micros and zone name",
        _header(
            lambda r: f"{r.dot}042 CEST [{r.thread}] {r.level} {r.logger}:123 {{}} - "
        ),
        time="both",
        thread=True,
    ),
    Layout("UTF-16", lambda records: _carrier(lambda r: "")(records).decode().encode("utf-16")),
    Layout("byte order mark", lambda records: b"\xef\xbb\xbf" + _carrier(lambda r: "")(records)),
    Layout(
        "CRLF", lambda records: _lines([line for r in records for line in r.default], "\r\n")
    ),
    Layout("Spring Boot in colour", _header(_coloured), thread=True),
    Layout("quoted", _carrier(lambda r: "> ")),
    Layout("quoted twice", _carrier(lambda r: ">> ")),
    Layout("comment", _carrier(lambda r: " * ")),
    Layout("tab", _carrier(lambda r: "\t")),
    Layout("blank", _carrier(lambda r: " ")),
    Layout(
        "tabs for blanks",
        _header(lambda r: f"{r.comma}\t{r.level}\t{r.logger}\t"),
    ),
    Layout(
        "syslog",
        _carrier(
            lambda r: r.time.strftime("%b %d %H:%M:%S") + " worker-3 flink-jobmanager[4711]: "
        ),
        process="worker-3 flink-jobmanager[4711]",
    ),
    Layout("CI", _carrier(lambda r: f"build\tRun tests\t{r.utc_nanos[:-3]}0Z "), time="both"),
    Layout("scheduler", _scheduler),
    Layout("yarn logs", _aggregated),
    Layout("java.util.logging", _two_lines, time="seconds"),
    Layout("stamped everywhere", _stamped_everywhere, thread=True, reports=False),
    Layout(
        "bars", _header(lambda r: f"{r.comma} | {r.level:<5} | {r.thread} | {r.simple} | ")
    , thread=True),
    Layout("grep", _carrier(lambda r: "logs/jobmanager.log:17:"), process="logs/jobmanager.log"),
    Layout(
        "context",
        _header(
            lambda r: f"{r.comma} {r.level:<5} {r.logger} [flink-job-id={'a' * 32}] - "
        ),
    ),
    Layout(
        "day first", _header(lambda r: r.time.strftime("%d.%m.%Y %H:%M:%S") + f" {r.level} {r.logger} - "),
        time="seconds",
    ),
    Layout(
        "month name",
        _header(lambda r: r.time.strftime("%d/%b/%Y:%H:%M:%S +0200") + f" {r.level} [{r.thread}] {r.logger} - "),
        time="seconds",
        thread=True,
    ),
)  # fmt: skip


def sample(records: list[Record], reports: int = 2) -> list[Record]:
    """Return a log of the same shape with few metric reports, which make up most of a log."""
    kept = []
    for record in records:
        if record.simple == "Slf4jReporter" and len(record.lines) > 1:
            if reports == 0:
                continue
            reports -= 1
        kept.append(record)
    return kept
