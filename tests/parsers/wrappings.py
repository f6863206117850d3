"""All known formats around log records, for the test that combines them with messages.

A wrapping is one entry of `WRAPPINGS`: it turns records into the bytes of a file. Add new formats here.
"""

from __future__ import annotations

import csv
import html
import io
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

_FIRST: Final = datetime(2026, 11, 21, 6, 0, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Message:
    """A message and its logger; each record is 40 ms later than the previous one."""

    number: int
    logger: str
    package: str
    level: str
    message: str

    @property
    def at(self) -> datetime:
        return _FIRST + timedelta(milliseconds=40 * self.number)

    @property
    def full(self) -> str:
        return f"{self.package}.{self.logger}"

    @property
    def last_two(self) -> str:
        """The name of the logger in the pattern `%c{2}`."""
        return f"{self.package.rpartition('.')[2]}.{self.logger}"

    @property
    def short(self) -> str:
        """The name of the logger in log4j's pattern `%c{1.}` and logback's `%logger{36}`."""
        return ".".join([*(part[0] for part in self.package.split(".")), self.logger])

    @property
    def comma(self) -> str:
        return f"{self.at:%Y-%m-%d %H:%M:%S},{self.ms}"

    @property
    def ms(self) -> str:
        return f"{self.at.microsecond // 1000:03}"

    @property
    def iso(self) -> str:
        return f"{self.at:%Y-%m-%dT%H:%M:%S}.{self.ms}Z"

    @property
    def epoch_ms(self) -> int:
        return int(self.at.timestamp() * 1000)

    @property
    def flink_default(self) -> str:
        """The record in the layout of Flink's default `log4j.properties`."""
        return f"{self.comma} {self.level:5} {self.full:60} [] - {self.message}"


Wrapping = Callable[[Sequence[Message]], bytes]


def _lines(of: Callable[[Message], str]) -> Wrapping:
    return lambda messages: "".join(of(record) + "\n" for record in messages).encode()


def _json_lines(of: Callable[[Message], Any]) -> Wrapping:
    return _lines(lambda record: json.dumps(of(record)))


def _document(of: Callable[[Sequence[Message]], Any]) -> Wrapping:
    return lambda messages: json.dumps(of(messages)).encode()


def _table(
    names: Iterable[str], of: Callable[[Message], Iterable[object]], by: str = ","
) -> Wrapping:
    def wrap(messages: Sequence[Message]) -> bytes:
        sink = io.StringIO()
        writer = csv.writer(sink, delimiter=by)
        writer.writerow(names)
        writer.writerows(of(record) for record in messages)
        return sink.getvalue().encode()

    return wrap


def _between(front: str, wrapping: Wrapping, end: str = "") -> Wrapping:
    return lambda messages: front.encode() + wrapping(messages) + end.encode()


_RESOLUTION: Final = (
    ":: loading settings :: url = jar:file:/opt/spark/jars/ivy-2.5.1.jar!/ivysettings.xml\n"
    "Ivy Default Cache set to: /home/spark/.ivy2/cache\n"
    + "".join(f"\tfound org.example#lib-{n};1.{n} in central\n" for n in range(150))
    + "\t|                  |            modules            ||   artifacts   |\n" * 40
    + "".join(f"+---+-----+\n| {n:>3}|  b{n}|\n" for n in range(80))
)
_BAR: Final = "[Stage {0}:=====>                        (0 + 2) / 2]"

WRAPPINGS: Final[dict[str, Wrapping]] = {
    # -- layouts ---------------------------------------------------------------------------------
    "log4j": _lines(lambda record: record.flink_default),
    "logback": _lines(
        lambda record: (
            f"{record.at:%H:%M:%S}.{record.ms} [main] {record.level:5} {record.short} - {record.message}"
        )
    ),
    "%c{1} and a colon": _lines(
        lambda record: (
            f"{record.at:%y/%m/%d %H:%M:%S} {record.level} {record.logger}: {record.message}"
        )
    ),
    "%c{2} and a colon": _lines(
        lambda record: (
            f"{record.at:%y/%m/%d %H:%M:%S} {record.level} {record.last_two}: {record.message}"
        )
    ),
    "%c{2} and a dash": _lines(
        lambda record: (
            f"{record.comma} {record.level:5} [main] {record.last_two} - {record.message}"
        )
    ),
    "class and line": _lines(
        lambda record: f"{record.comma} {record.level} {record.logger}:88 - {record.message}"
    ),
    "%c{2} and line": _lines(
        lambda record: f"{record.comma} {record.level} {record.last_two}:88 - {record.message}"
    ),
    "file and line": _lines(
        lambda record: (
            f"{record.comma} {record.level} [main] ({record.logger}.java:88) - {record.message}"
        )
    ),
    "class, file and line": _lines(
        lambda record: (
            f"{record.comma} {record.level:5} [main] {record.last_two} ({record.logger}.scala:logInfo(54))"
            f" - {record.message}"
        )
    ),
    "thread first": _lines(
        lambda record: f"[main] {record.comma} {record.level} {record.full} - {record.message}"
    ),
    "bare thread": _lines(
        lambda record: f"{record.comma} main {record.level} {record.full} - {record.message}"
    ),
    "message first": _lines(
        lambda record: f"{record.comma} {record.level:5} {record.message} [{record.logger} main]"
    ),
    "message first, full class": _lines(
        lambda record: f"{record.comma} [{record.level}] {record.message} [{record.full}]"
    ),
    "spring boot": _lines(
        lambda record: (
            f"{record.comma.replace(',', '.')} {record.level:>5} 1 --- [main] {record.short:40} : {record.message}"
        )
    ),
    "bars": _lines(
        lambda record: (
            f"{record.comma} | {record.level:5} | main | {record.full} | {record.message}"
        )
    ),
    "brackets": _lines(
        lambda record: (
            f"[{record.comma}] [{record.level}] [main] [{record.logger}:88] {record.message}"
        )
    ),
    "Kubernetes operator": _lines(
        lambda record: (
            f"{record.comma} {record.short:30} [{record.level:5}][default/orders] {record.message}"
        )
    ),
    "tabs": _lines(
        lambda record: f"{record.comma}\t{record.level}\tmain\t{record.full}\t{record.message}"
    ),
    "no time": _lines(lambda record: f"{record.level:5} {record.full} [] - {record.message}"),
    "no time, %c{1}": _lines(lambda record: f"{record.level} {record.logger}: {record.message}"),
    "level in front of the time": _lines(
        lambda record: f"{record.level} {record.comma} {record.full} - {record.message}"
    ),
    "colours": _lines(
        lambda record: (
            f"\x1b[36m{record.comma}\x1b[0m \x1b[32m{record.level}\x1b[m {record.full} [] - {record.message}"
        )
    ),
    # -- terminals, pastes and carriers ------------------------------------------------------------
    "progress bar": _lines(
        lambda record: (
            _BAR.format(record.number)
            + f"{record.at:%y/%m/%d %H:%M:%S} {record.level} {record.logger}: {record.message}"
        )
    ),
    "progress bar, carriage return": _lines(
        lambda record: (
            f"\r{_BAR.format(record.number)}\r{' ' * 60}\r"
            f"{record.at:%y/%m/%d %H:%M:%S} {record.level} {record.last_two}: {record.message}"
        )
    ),
    "two progress bars": _lines(
        lambda record: (
            _BAR.format(record.number)
            + _BAR.format(record.number + 1)
            + f" {record.comma} {record.level} {record.full} - {record.message}"
        )
    ),
    "behind dependency resolution": _between(
        _RESOLUTION, _lines(lambda record: record.flink_default)
    ),
    "Markdown fence": _between(
        "What I see:\n```\n", _lines(lambda record: record.flink_default), "```\n"
    ),
    "quoted mail": _lines(lambda record: "> " + record.flink_default),
    "source comment": _lines(lambda record: " * " + record.flink_default),
    "HTML": _lines(lambda record: html.escape(record.flink_default)),
    "docker compose": _lines(lambda record: f"jobmanager-1  | {record.flink_default}"),
    "kubectl --prefix --timestamps": _lines(
        lambda record: f"[pod/jm-0/flink-main-container] {record.iso} {record.flink_default}"
    ),
    "CRI": _lines(lambda record: f"{record.iso} stdout F {record.flink_default}"),
    "journalctl": _lines(
        lambda record: f"{record.at:%b %d %H:%M:%S} worker-3 flink[4711]: {record.flink_default}"
    ),
    "aws logs tail": _lines(lambda record: f"{record.iso} app/jm-1 {record.flink_default}"),
    # -- JSON ------------------------------------------------------------------------------------
    "docker json-file": _json_lines(
        lambda record: {"log": record.flink_default + "\n", "stream": "stdout", "time": record.iso}
    ),
    "log4j JsonLayout": _json_lines(
        lambda record: {
            "instant": {
                "epochSecond": record.epoch_ms // 1000,
                "nanoOfSecond": int(record.ms) * 10**6,
            },
            "thread": "main",
            "level": record.level,
            "loggerName": record.full,
            "message": record.message,
        }
    ),
    "Elastic Common Schema": _json_lines(
        lambda record: {
            "@timestamp": record.iso,
            "log.level": record.level,
            "message": record.message,
            "process.thread.name": "main",
            "log.logger": record.full,
        }
    ),
    "AWS Managed Flink": _json_lines(
        lambda record: {
            "applicationARN": "arn:aws:kinesisanalytics:eu-west-1:1:application/a",
            "locationInformation": f"{record.full}.a({record.logger}.java:1)",
            "logger": record.full,
            "message": record.message,
            "messageSchemaVersion": "1",
            "messageType": record.level,
            "threadName": "main",
        }
    ),
    "Spark structured logging": _json_lines(
        lambda record: {
            "ts": record.iso,
            "level": record.level,
            "msg": record.message,
            "context": {},
            "logger": record.logger,
        }
    ),
    # -- log stores ------------------------------------------------------------------------------
    "Kibana CSV": _table(
        ("@timestamp", "message", "kubernetes.pod.name"),
        lambda record: (
            f"{record.at:%b %d, %Y @ %H:%M:%S}.{record.ms}",
            record.flink_default,
            "jm-0",
        ),
    ),
    "Kibana CSV, message alone": _table(
        ("@timestamp", "log.level", "log.logger", "message"),
        lambda record: (record.iso, record.level, record.full, record.message),
    ),
    "Elasticsearch": _document(
        lambda messages: {
            "hits": {
                "hits": [
                    {
                        "_index": "a",
                        "_source": {"@timestamp": record.iso, "message": record.flink_default},
                    }
                    for record in messages
                ]
            }
        }
    ),
    "Loki": _document(
        lambda messages: {
            "status": "success",
            "data": {
                "resultType": "streams",
                "result": [
                    {
                        "stream": {"pod": "jm-0"},
                        "values": [
                            [str(record.epoch_ms * 10**6), record.flink_default]
                            for record in messages[::-1]
                        ],
                    }
                ],
            },
        }
    ),
    "CloudWatch Insights CSV": _table(
        ("@timestamp", "@message", "@logStream"),
        lambda record: (f"{record.at:%Y-%m-%d %H:%M:%S}.{record.ms}", record.flink_default, "jm"),
    ),
    "CloudWatch Insights JSON": _document(
        lambda messages: {
            "results": [
                [
                    {"field": "@timestamp", "value": f"{record.at:%Y-%m-%d %H:%M:%S}.{record.ms}"},
                    {"field": "@message", "value": record.flink_default},
                ]
                for record in messages
            ]
        }
    ),
    "Datadog CSV": _table(
        ("Date", "Host", "Service", "Message"),
        lambda record: (record.iso, "node-1", "flink", record.flink_default),
    ),
    "Datadog JSON": _document(
        lambda messages: {
            "data": [
                {
                    "id": str(record.number),
                    "type": "log",
                    "attributes": {
                        "timestamp": record.iso,
                        "host": "node-1",
                        "service": "flink",
                        "message": record.flink_default,
                    },
                }
                for record in messages
            ]
        }
    ),
    "Splunk CSV": _table(
        ("_raw", "_time", "host", "index", "source"),
        lambda record: (record.flink_default, record.iso, "node-1", "main", "/var/log/flink.log"),
    ),
    "Splunk JSON": _json_lines(
        lambda record: {
            "preview": False,
            "result": {"_raw": record.flink_default, "_time": record.iso, "host": "node-1"},
        }
    ),
    "TSV": _table(
        ("time", "pod", "message"),
        lambda record: (record.iso, "jm-0", record.flink_default),
        by="\t",
    ),
    "CSV of unknown columns": _table(
        ("#", "when", "what it messages", "cluster"),
        lambda record: (record.number, record.iso, record.flink_default, "prod"),
    ),
    "TSV of unknown columns": _table(
        ("when", "where", "what"),
        lambda record: (record.iso, "jm-0", record.flink_default),
        by="\t",
    ),
    "CSV of semicolons": _table(
        ("Zeit", "Rechner", "Meldung"),
        lambda record: (record.iso, "node-1", record.flink_default),
        by=";",
    ),
    "CSV without header": lambda messages: _table(
        (messages[0].iso, "jm-0", messages[0].flink_default),
        lambda record: (record.iso, "jm-0", record.flink_default),
    )(messages[1:]),
    "JSON of unknown keys": _document(
        lambda messages: [
            {"n": record.number, "when": record.iso, "what": record.flink_default}
            for record in messages
        ]
    ),
    "JSON lines of unknown keys": _json_lines(
        lambda record: {
            "n": record.number,
            "when": record.iso,
            "what": {"messages": record.flink_default},
        }
    ),
    "JSON array of lines": _document(
        lambda messages: [record.flink_default for record in messages]
    ),
}
