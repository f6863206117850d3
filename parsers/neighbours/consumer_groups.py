"""Reads the lag of consumer groups, as printed by Kafka's tool and others, or exported as metrics.

| input | recognized by |
|---|---|
| Kafka's tool, 0.8 to 4.x | a header with TOPIC, PARTITION and LAG |
| Burrow, and tools that print JSON | objects with a topic, a partition and a lag |
| kafka_exporter, Burrow's and KMinion's exporters, kafka-lag-exporter | series of the lag with a partition |

A file may contain several outputs, written by a loop. The time of an output is in the line above it, otherwise in the
name of the file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from flowdiag.parsers.json_values import as_integer, as_string, decode_json
from flowdiag.parsers.neighbours.times import time_of_line, time_of_name

MAX_TEXT: Final = 16 * 1024 * 1024
MAX_ROWS: Final = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionLag:
    """The position of a consumer group in a partition.

    Attributes:
        committed: the committed offset; None if the group has not committed any.
        end: the end offset of the partition.
        lag: number of records between the committed offset and the end; None if unknown.
        consumer: the group member that owns the partition; None without one. Flink's consumers do not join the group.
        offset: offset of the line in the text.
    """

    group: str | None
    topic: str
    partition: int
    committed: int | None
    end: int | None
    lag: int | None
    consumer: str | None
    time_us: int | None
    offset: int

    @property
    def name(self) -> str:
        """The partition as Kafka prints it.

        >>> PartitionLag(group="g", topic="orders", partition=3, committed=1, end=2, lag=1, consumer=None,
        ...              time_us=None, offset=0).name
        'orders-3'
        """
        return f"{self.topic}-{self.partition}"


_HEADER: Final = re.compile(
    r"^[ \t]*(?:GROUP[ \t]+)?TOPIC[ \t]+(?:PARTITION|PID)[ \t][^\n]*\bLAG\b",
    re.IGNORECASE | re.MULTILINE,
)
_SERIES: Final = re.compile(
    r"^(?P<name>kafka_consumergroup_(?:group_)?lag|burrow_kafka_consumer_partition_lag"
    r"|kminion_kafka_consumer_group_topic_partition_lag)\{(?P<labels>[^}\n]{1,2000})\}"
    r"\s+(?P<value>[-+.\deE]{1,30})(?:\s+(?P<time>\d{10,13}))?[ \t\r]*$",
    re.MULTILINE,
)
# Output of Kafka's tool: its errors are not failures of a job.
_TOOL: Final = re.compile(
    r"^(?:Error: (?:Executing consumer group command failed|Consumer group '[^'\n]{1,255}' does not exist)"
    r"|Consumer group '[^'\n]{1,255}' (?:has no active members|is rebalancing))",
    re.MULTILINE,
)
_LABEL: Final = re.compile(r'(\w{1,60})="([^"\n]{0,300})"')
_JSON_SIGNS: Final = ('"partition"', '"lag', 'ag"')
_NAMES: Final = {
    "GROUP": "group",
    "TOPIC": "topic",
    "PARTITION": "partition",
    "PID": "partition",
    "CURRENT-OFFSET": "committed",
    "OFFSET": "committed",
    "LOG-END-OFFSET": "end",
    "LOGSIZE": "end",
    "LAG": "lag",
    "CONSUMER-ID": "consumer",
    "OWNER": "consumer",
}


def looks_like_lags(text: str) -> bool:
    """Return whether a text contains the lag of a consumer group in any known format.

    >>> looks_like_lags("GROUP  TOPIC  PARTITION  CURRENT-OFFSET  LOG-END-OFFSET  LAG  CONSUMER-ID  HOST  CLIENT-ID")
    True
    >>> looks_like_lags("the lag of the topic")
    False
    """
    folded = text.lower()
    # Nearly every text lacks these words, which are found much faster than the patterns.
    if ("lag" in folded or "consumer group" in folded) and (
        _HEADER.search(text) or _SERIES.search(text) or _TOOL.search(text)
    ):
        return True
    if text.lstrip()[:1] not in ("{", "[") or not ('"partition' in text and '"topic' in text):
        return False
    return bool(_lags_in_json(text, None))


def read_lags(text: str, name: str = "") -> list[PartitionLag]:
    """Return all positions in a text, in order of appearance.

    Args:
        text: the whole file.
        name: name of the file, which may contain the time.
    """
    text = text[:MAX_TEXT]
    default_us = time_of_name(name)
    if text.lstrip()[:1] in ("{", "["):
        found = _lags_in_json(text, default_us)
    else:
        found = [*_lags_in_tables(text, default_us), *_lags_in_series(text, default_us)]
    return found[:MAX_ROWS]


def _lags_in_tables(text: str, default_us: int | None) -> Iterator[PartitionLag]:
    """Yield the rows printed by Kafka's tool. Columns are separated by spaces, which topic names cannot contain."""
    columns: list[str | None] = []
    time_us, at = default_us, 0
    for line in text.splitlines(keepends=True):
        begin, at = at, at + len(line.encode("utf-8", "surrogatepass"))
        words = line.split()
        if _HEADER.match(line):
            columns = [_NAMES.get(word.upper()) for word in words]
        elif not words:
            columns = []
        elif columns and len(words) >= min(len(columns), 5):
            row = {key: word for key, word in zip(columns, words, strict=False) if key}
            partition = _number(row.get("partition"))
            if partition is not None and "topic" in row:
                yield PartitionLag(
                    group=row.get("group"),
                    topic=row["topic"],
                    partition=partition,
                    committed=_number(row.get("committed")),
                    end=_number(row.get("end")),
                    lag=_number(row.get("lag")),
                    consumer=_value(row.get("consumer")),
                    time_us=time_us,
                    offset=begin,
                )
        elif (printed := time_of_line(line)) is not None:
            time_us = printed


def _lags_in_series(text: str, default_us: int | None) -> Iterator[PartitionLag]:
    """Yield the series of exporters, which use different label names for group and topic."""
    for found in _SERIES.finditer(text):
        labels = dict(_LABEL.findall(found["labels"]))
        topic = labels.get("topic") or labels.get("topic_name")
        partition = _number(labels.get("partition") or labels.get("partition_id"))
        if topic is None or partition is None:
            continue
        time = found["time"]
        yield PartitionLag(
            group=labels.get("consumergroup") or labels.get("group") or labels.get("group_id"),
            topic=topic,
            partition=partition,
            committed=None,
            end=None,
            lag=int(float(found["value"])),
            consumer=None,
            time_us=int(time) * (1_000_000 if len(time) == 10 else 1000) if time else default_us,
            offset=len(text[: found.start()].encode()),
        )


_KEYS: Final = {
    "committed": ("currentOffset", "current_offset", "consumerOffset", "committedOffset", "offset"),
    "end": ("logEndOffset", "endOffset", "log_end_offset", "end_offset", "latestOffset"),
    "lag": ("lag", "currentLag", "current_lag", "consumerLag", "messagesBehind"),
}


def _lags_in_json(text: str, default_us: int | None) -> list[PartitionLag]:
    found = (
        _lag_in_object(group, topic, item, default_us)
        for group, topic, item in _objects(decode_json(text.encode()), None, None)
        if topic is not None
    )
    return [row for row in found if row is not None]


def _lag_in_object(
    group: str | None, topic: str, item: Mapping[str, Any], default_us: int | None
) -> PartitionLag | None:
    """Return the position in an object, or None. Burrow puts the latest position under `end`."""
    end = item.get("end")
    last: Mapping[str, Any] = end if isinstance(end, Mapping) else {}

    def number(*names: str) -> int | None:
        return next((as_integer(item.get(name)) for name in names if name in item), None)

    partition = number("partition", "partitionId")
    committed, newest, lag = (number(*_KEYS[key]) for key in ("committed", "end", "lag"))
    committed = as_integer(last.get("offset")) if committed is None else committed
    lag = as_integer(last.get("lag")) if lag is None else lag
    if lag is None and committed is not None and newest is not None:
        lag = newest - committed
    if lag is None or partition is None:
        return None
    moment = as_integer(last.get("timestamp"))
    return PartitionLag(
        group=group,
        topic=topic,
        partition=partition,
        committed=committed,
        end=newest,
        lag=lag,
        consumer=None,
        time_us=moment * 1000 if moment else default_us,
        offset=0,
    )


def _objects(
    body: Any, group: str | None, topic: str | None, depth: int = 0
) -> Iterator[tuple[str | None, str | None, Mapping[str, Any]]]:
    """Yield each object with its group and topic, which may be in an object around it."""
    if depth > 12:
        return
    if isinstance(body, list):
        for item in body[:MAX_ROWS]:
            yield from _objects(item, group, topic, depth + 1)
    elif isinstance(body, Mapping):
        group = next(
            (
                name
                for key in ("group", "groupId", "group_id")
                if (name := as_string(body.get(key)))
            ),
            group,
        )
        topic = next(
            (name for key in ("topic", "topicName") if (name := as_string(body.get(key)))), topic
        )
        yield group, topic, body
        for item in body.values():
            if isinstance(item, (list, Mapping)):
                yield from _objects(item, group, topic, depth + 1)


def _value(text: str | None) -> str | None:
    return None if text in (None, "-", "none", "N/A") else text


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and re.fullmatch(r"\d{1,19}", text) else None
