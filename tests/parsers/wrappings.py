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
    return lambda messages: "".join(of(one) + "\n" for one in messages).encode()


def _json_lines(of: Callable[[Message], Any]) -> Wrapping:
    return _lines(lambda one: json.dumps(of(one)))


def _document(of: Callable[[Sequence[Message]], Any]) -> Wrapping:
    return lambda messages: json.dumps(of(messages)).encode()


def _table(
    names: Iterable[str], of: Callable[[Message], Iterable[object]], by: str = ","
) -> Wrapping:
    def wrap(messages: Sequence[Message]) -> bytes:
        sink = io.StringIO()
        writer = csv.writer(sink, delimiter=by)
        writer.writerow(names)
        writer.writerows(of(one) for one in messages)
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
    "log4j": _lines(lambda one: one.flink_default),
    "logback": _lines(
        lambda one: f"{one.at:%H:%M:%S}.{one.ms} [main] {one.level:5} {one.short} - {one.message}"
    ),
    "%c{1} and a colon": _lines(
        lambda one: f"{one.at:%y/%m/%d %H:%M:%S} {one.level} {one.logger}: {one.message}"
    ),
    "%c{2} and a colon": _lines(
        lambda one: f"{one.at:%y/%m/%d %H:%M:%S} {one.level} {one.last_two}: {one.message}"
    ),
    "%c{2} and a dash": _lines(
        lambda one: f"{one.comma} {one.level:5} [main] {one.last_two} - {one.message}"
    ),
    "class and line": _lines(
        lambda one: f"{one.comma} {one.level} {one.logger}:88 - {one.message}"
    ),
    "%c{2} and line": _lines(
        lambda one: f"{one.comma} {one.level} {one.last_two}:88 - {one.message}"
    ),
    "file and line": _lines(
        lambda one: f"{one.comma} {one.level} [main] ({one.logger}.java:88) - {one.message}"
    ),
    "class, file and line": _lines(
        lambda one: (
            f"{one.comma} {one.level:5} [main] {one.last_two} ({one.logger}.scala:logInfo(54))"
            f" - {one.message}"
        )
    ),
    "thread first": _lines(
        lambda one: f"[main] {one.comma} {one.level} {one.full} - {one.message}"
    ),
    "bare thread": _lines(lambda one: f"{one.comma} main {one.level} {one.full} - {one.message}"),
    "message first": _lines(
        lambda one: f"{one.comma} {one.level:5} {one.message} [{one.logger} main]"
    ),
    "message first, full class": _lines(
        lambda one: f"{one.comma} [{one.level}] {one.message} [{one.full}]"
    ),
    "spring boot": _lines(
        lambda one: (
            f"{one.comma.replace(',', '.')} {one.level:>5} 1 --- [main] {one.short:40} : {one.message}"
        )
    ),
    "bars": _lines(lambda one: f"{one.comma} | {one.level:5} | main | {one.full} | {one.message}"),
    "brackets": _lines(
        lambda one: f"[{one.comma}] [{one.level}] [main] [{one.logger}:88] {one.message}"
    ),
    "Kubernetes operator": _lines(
        lambda one: f"{one.comma} {one.short:30} [{one.level:5}][default/orders] {one.message}"
    ),
    "tabs": _lines(lambda one: f"{one.comma}\t{one.level}\tmain\t{one.full}\t{one.message}"),
    "no time": _lines(lambda one: f"{one.level:5} {one.full} [] - {one.message}"),
    "no time, %c{1}": _lines(lambda one: f"{one.level} {one.logger}: {one.message}"),
    "level in front of the time": _lines(
        lambda one: f"{one.level} {one.comma} {one.full} - {one.message}"
    ),
    "colours": _lines(
        lambda one: (
            f"\x1b[36m{one.comma}\x1b[0m \x1b[32m{one.level}\x1b[m {one.full} [] - {one.message}"
        )
    ),
    # -- terminals, pastes and carriers ------------------------------------------------------------
    "progress bar": _lines(
        lambda one: (
            _BAR.format(one.number)
            + f"{one.at:%y/%m/%d %H:%M:%S} {one.level} {one.logger}: {one.message}"
        )
    ),
    "progress bar, carriage return": _lines(
        lambda one: (
            f"\r{_BAR.format(one.number)}\r{' ' * 60}\r"
            f"{one.at:%y/%m/%d %H:%M:%S} {one.level} {one.last_two}: {one.message}"
        )
    ),
    "two progress bars": _lines(
        lambda one: (
            _BAR.format(one.number)
            + _BAR.format(one.number + 1)
            + f" {one.comma} {one.level} {one.full} - {one.message}"
        )
    ),
    "behind dependency resolution": _between(_RESOLUTION, _lines(lambda one: one.flink_default)),
    "Markdown fence": _between(
        "What I see:\n```\n", _lines(lambda one: one.flink_default), "```\n"
    ),
    "quoted mail": _lines(lambda one: "> " + one.flink_default),
    "source comment": _lines(lambda one: " * " + one.flink_default),
    "HTML": _lines(lambda one: html.escape(one.flink_default)),
    "docker compose": _lines(lambda one: f"jobmanager-1  | {one.flink_default}"),
    "kubectl --prefix --timestamps": _lines(
        lambda one: f"[pod/jm-0/flink-main-container] {one.iso} {one.flink_default}"
    ),
    "CRI": _lines(lambda one: f"{one.iso} stdout F {one.flink_default}"),
    "journalctl": _lines(
        lambda one: f"{one.at:%b %d %H:%M:%S} worker-3 flink[4711]: {one.flink_default}"
    ),
    "aws logs tail": _lines(lambda one: f"{one.iso} app/jm-1 {one.flink_default}"),
    # -- JSON ------------------------------------------------------------------------------------
    "docker json-file": _json_lines(
        lambda one: {"log": one.flink_default + "\n", "stream": "stdout", "time": one.iso}
    ),
    "log4j JsonLayout": _json_lines(
        lambda one: {
            "instant": {"epochSecond": one.epoch_ms // 1000, "nanoOfSecond": int(one.ms) * 10**6},
            "thread": "main",
            "level": one.level,
            "loggerName": one.full,
            "message": one.message,
        }
    ),
    "Elastic Common Schema": _json_lines(
        lambda one: {
            "@timestamp": one.iso,
            "log.level": one.level,
            "message": one.message,
            "process.thread.name": "main",
            "log.logger": one.full,
        }
    ),
    "AWS Managed Flink": _json_lines(
        lambda one: {
            "applicationARN": "arn:aws:kinesisanalytics:eu-west-1:1:application/a",
            "locationInformation": f"{one.full}.a({one.logger}.java:1)",
            "logger": one.full,
            "message": one.message,
            "messageSchemaVersion": "1",
            "messageType": one.level,
            "threadName": "main",
        }
    ),
    "Spark structured logging": _json_lines(
        lambda one: {
            "ts": one.iso,
            "level": one.level,
            "msg": one.message,
            "context": {},
            "logger": one.logger,
        }
    ),
    # -- log stores ------------------------------------------------------------------------------
    "Kibana CSV": _table(
        ("@timestamp", "message", "kubernetes.pod.name"),
        lambda one: (f"{one.at:%b %d, %Y @ %H:%M:%S}.{one.ms}", one.flink_default, "jm-0"),
    ),
    "Kibana CSV, message alone": _table(
        ("@timestamp", "log.level", "log.logger", "message"),
        lambda one: (one.iso, one.level, one.full, one.message),
    ),
    "Elasticsearch": _document(
        lambda messages: {
            "hits": {
                "hits": [
                    {
                        "_index": "a",
                        "_source": {"@timestamp": one.iso, "message": one.flink_default},
                    }
                    for one in messages
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
                            [str(one.epoch_ms * 10**6), one.flink_default] for one in messages[::-1]
                        ],
                    }
                ],
            },
        }
    ),
    "CloudWatch Insights CSV": _table(
        ("@timestamp", "@message", "@logStream"),
        lambda one: (f"{one.at:%Y-%m-%d %H:%M:%S}.{one.ms}", one.flink_default, "jm"),
    ),
    "CloudWatch Insights JSON": _document(
        lambda messages: {
            "results": [
                [
                    {"field": "@timestamp", "value": f"{one.at:%Y-%m-%d %H:%M:%S}.{one.ms}"},
                    {"field": "@message", "value": one.flink_default},
                ]
                for one in messages
            ]
        }
    ),
    "Datadog CSV": _table(
        ("Date", "Host", "Service", "Message"),
        lambda one: (one.iso, "node-1", "flink", one.flink_default),
    ),
    "Datadog JSON": _document(
        lambda messages: {
            "data": [
                {
                    "id": str(one.number),
                    "type": "log",
                    "attributes": {
                        "timestamp": one.iso,
                        "host": "node-1",
                        "service": "flink",
                        "message": one.flink_default,
                    },
                }
                for one in messages
            ]
        }
    ),
    "Splunk CSV": _table(
        ("_raw", "_time", "host", "index", "source"),
        lambda one: (one.flink_default, one.iso, "node-1", "main", "/var/log/flink.log"),
    ),
    "Splunk JSON": _json_lines(
        lambda one: {
            "preview": False,
            "result": {"_raw": one.flink_default, "_time": one.iso, "host": "node-1"},
        }
    ),
    "TSV": _table(
        ("time", "pod", "message"), lambda one: (one.iso, "jm-0", one.flink_default), by="\t"
    ),
    "CSV of unknown columns": _table(
        ("#", "when", "what it messages", "cluster"),
        lambda one: (one.number, one.iso, one.flink_default, "prod"),
    ),
    "TSV of unknown columns": _table(
        ("when", "where", "what"), lambda one: (one.iso, "jm-0", one.flink_default), by="\t"
    ),
    "CSV of semicolons": _table(
        ("Zeit", "Rechner", "Meldung"), lambda one: (one.iso, "node-1", one.flink_default), by=";"
    ),
    "CSV without header": lambda messages: _table(
        (messages[0].iso, "jm-0", messages[0].flink_default),
        lambda one: (one.iso, "jm-0", one.flink_default),
    )(messages[1:]),
    "JSON of unknown keys": _document(
        lambda messages: [
            {"n": one.number, "when": one.iso, "what": one.flink_default} for one in messages
        ]
    ),
    "JSON lines of unknown keys": _json_lines(
        lambda one: {"n": one.number, "when": one.iso, "what": {"messages": one.flink_default}}
    ),
    "JSON array of lines": _document(lambda messages: [one.flink_default for one in messages]),
}
