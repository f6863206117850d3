"""Maps the keys in JSON log records to their meanings, for all known writers. Add keys of new writers here.

Known writers:
- log4j 2's JsonLayout and JsonTemplateLayout (ECS, GELF, Logstash), Spark's structured logging
- AWS Managed Flink, docker's json-file, journald, OpenTelemetry
- Fluent Bit, Fluentd, Filebeat, Loki, Grafana, Elasticsearch, OpenSearch, Kibana
- CloudWatch, Google Cloud Logging, Splunk, Azure Monitor, Datadog, Graylog
"""

from __future__ import annotations

from collections.abc import Mapping
from operator import itemgetter
from typing import Any, Final

Fields = Mapping[str, Any]


# Keys of the record's text, more specific keys first. A key can be a path (`log.level`), which matches both the
# literal key and nested objects.
_TEXT: Final = (
    "_raw", "log", "line", "textPayload", "message", "msg", "logEvent", "short_message", "Message",
    "LogMessage", "LogEntry", "@message", "MESSAGE", "Line", "body.stringValue", "body", "content",
    "text", "event.original",
)  # fmt: skip
_TIME: Final = (
    "instant", "@timestamp", "timestamp", "timeMillis", "ts", "time", "_time", "tsNs",
    "timeUnixNano", "observedTimeUnixNano", "TimeGenerated", "TimeStamp", "Time", "date", "Date",
    "datetime", "@t", "__REALTIME_TIMESTAMP", "_SOURCE_REALTIME_TIMESTAMP", "receiveTimestamp",
    "ingestionTime",
)  # fmt: skip
_LEVEL: Final = (
    "level", "log.level", "loglevel", "log_level", "levelname", "_level", "severity",
    "severityText", "LogLevel", "messageType", "@l", "lvl", "status",
)  # fmt: skip
_LOGGER: Final = (
    "loggerName", "logger_name", "log.logger", "logger", "_logger", "LoggerName", "logger.name",
)  # fmt: skip
_THREAD: Final = (
    "thread", "threadName", "thread_name", "process.thread.name", "_thread", "thread.name",
)  # fmt: skip
_TRACE: Final = (
    "thrown", "error.stack_trace", "stack_trace", "stackTrace", "stacktrace",
    "throwableInformation", "exception", "throwable", "error.stack", "full_message",
    "exception.stacktrace",
)  # fmt: skip
_POD: Final = (
    "kubernetes.pod_name", "kubernetes.pod.name", "resource.labels.pod_name", "pod", "pod_name",
    "podName", "PodName", "k8s.pod.name", "k8s_pod_name", "kubernetes_pod_name", "pod.name",
)  # fmt: skip
_CONTAINER: Final = (
    "com.docker.compose.service", "attrs.tag", "container_name", "container.name", "containerName",
    "docker.container.name", "CONTAINER_NAME", "ContainerName", "container",
    "resource.labels.container_name", "kubernetes.container_name", "kubernetes.container.name",
    "container_id", "container.id", "docker.container_id", "ContainerID",
)  # fmt: skip
_STREAM: Final = ("logStreamName", "logStream", "@logStream", "log_stream")
_HOST: Final = (
    "host.name", "host", "hostname", "_HOSTNAME", "Computer", "host.hostname", "agent.hostname",
    "beat.hostname", "instance", "node", "node_name", "resource.labels.instance_id",
)  # fmt: skip
_FILE: Final = ("log.file.path", "filename", "file", "path", "source", "log_file")
# Too coarse to distinguish processes, so used only if a log store has no other name for them.
_SERVICE: Final = ("service_name", "service", "component", "app", "job", "unit")
_LABELS: Final = ("labels", "stream", "fields", "tags", "metadata", "structuredMetadata")
# Container names that do not identify a process. All pods of Flink's native Kubernetes integration have the first.
NO_LABELS: Final = ("flink-main-container", "stdout", "stderr")

LEVELS: Final = {
    "WARNING": "WARN", "ERR": "ERROR", "CRITICAL": "FATAL", "SEVERE": "ERROR", "FINE": "DEBUG",
    "FINER": "TRACE", "FINEST": "TRACE", "NOTICE": "INFO", "EMERGENCY": "FATAL", "ALERT": "FATAL",
    "INFORMATION": "INFO",
} | {name: name for name in ("TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL")}  # fmt: skip
SYSLOG: Final = ("FATAL", "FATAL", "FATAL", "ERROR", "WARN", "INFO", "INFO", "DEBUG")

# Keys of nested events. The outer object provides their time and labels.
INNER: Final = (
    "result", "_source", "jsonPayload", "attributes", "logEvent", "event", "properties", "message",
    "fields",
)  # fmt: skip


_WORDS: Final = (
    _TEXT, _TIME, _LEVEL, _LOGGER, _THREAD, _TRACE, _POD, _CONTAINER, _STREAM, _HOST, _FILE,
    _SERVICE,
)  # fmt: skip
(
    IS_TEXT, IS_TIME, IS_LEVEL, IS_LOGGER, IS_THREAD, IS_TRACE, IS_POD, IS_CONTAINER,
    IS_STREAM, IS_HOST, IS_FILE, IS_SERVICE,
) = range(len(_WORDS))  # fmt: skip

# Meaning of each key, and its rank among keys with the same meaning. One lookup per key of the object takes a tenth
# of the time of one lookup per known key.
_MEANING: Final = {
    key: (what, rank)
    for what, keys in enumerate(_WORDS)
    if what != IS_SERVICE
    for rank, key in enumerate(keys)
}
_LABEL_MEANING: Final = {
    key: (what, 1000 + rank)
    for what, keys in enumerate(_WORDS)
    if what >= IS_POD
    for rank, key in enumerate(keys)
}
# Objects under these keys are not searched for nested keys such as `log.level`, because they are an event or a stack
# trace.
_CLOSED: Final = frozenset(INNER) - {"fields", "event"} | {"thrown", "exception", "instant"}

Meanings = list[list[tuple[int, Any]]]
_rank = itemgetter(0)


def is_of_event(value: Fields) -> bool:
    """Return whether an object has a key for the text, time, level or logger of a record.

    >>> is_of_event({"msg": "", "stdout": "a"}), is_of_event({"message": "a"})
    (False, True)
    """
    return any(value[key] not in (None, "") for key in _OF_EVENTS.intersection(value))


_OF_EVENTS: Final = frozenset((*_TEXT, *_TIME, *_LOGGER, "level", "severity"))


def values_by_meaning(value: Fields) -> Meanings:
    """Group the values of an object by meaning, each group with the most specific key first."""
    found: Meanings = [[] for _ in _WORDS]
    for key, inner in value.items():
        if (meaning := _MEANING.get(key)) is not None:
            found[meaning[0]].append((meaning[1], inner))
        if inner.__class__ is dict and key not in _CLOSED:
            _sort_nested(inner, f"{key}.", key in _LABELS, found, 3)
        elif key == "attributes" and inner.__class__ is dict:  # of OpenTelemetry
            for name, each in inner.items():
                if "." in name and (meaning := _MEANING.get(name)) is not None:
                    found[meaning[0]].append((1000 + meaning[1], each))
    for hits in found:
        if len(hits) > 1:
            hits.sort(key=_rank)
    return found


def _sort_nested(value: Fields, path: str, labels: bool, found: Meanings, depth: int) -> None:
    for key, inner in value.items():
        meaning = _MEANING.get(path + key)
        if meaning is None and labels:
            meaning = _LABEL_MEANING.get(key)
        if meaning is not None:
            found[meaning[0]].append((meaning[1], inner))
        if inner.__class__ is dict and depth:
            _sort_nested(inner, f"{path}{key}.", False, found, depth - 1)


def first_text(hits: list[tuple[int, Any]]) -> str | None:
    """Return the first string that is not blank."""
    for _, value in hits:
        if isinstance(value, list):  # Kibana and Elasticsearch return fields as lists.
            value = value[0] if len(value) == 1 else None
        if isinstance(value, str) and value and not value.isspace():
            return value
    return None
