"""Reads from a Kafka broker's log when the broker started and stopped, and when it created partitions."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from flowdiag.parsers.neighbours.times import time_of_line

MAX_TEXT: Final = 16 * 1024 * 1024
MAX_EVENTS: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerEvent:
    """A change in a broker's state.

    Attributes:
        kind: `stopping`, `started` or `created`.
        time_us: the printed time. Broker logs print no time zone, so it is taken as UTC.
        offset: offset of the record in the text.
        partition: the partition that was created.
    """

    kind: str
    time_us: int | None
    offset: int
    partition: str | None = None


_EVENT: Final = re.compile(
    r"^(?P<head>\[20\d\d-\d\d-\d\d [\d:,]{8,12}\]) [A-Z]{4,5} (?:\[[^\]\n]{1,60}\] ?)?"
    r"(?:(?P<stopping>Terminating process due to signal|shutting down \(kafka\.server\.KafkaServer"
    r"|Transition from STARTED to SHUTTING_DOWN)|(?P<started>Kafka Server started)"
    r"|Created log for partition (?P<partition>[\w.-]{1,255}) in )",
    re.MULTILINE,
)


def read_broker_log(text: str) -> list[BrokerEvent]:
    """Return the starts, stops and new partitions in a broker's log, in order of appearance.

    >>> read_broker_log("[2026-11-25 21:30:00,000] INFO [KafkaRaftServer nodeId=1] Kafka Server started (kafka.s.K)")[0].kind
    'started'
    """
    text, found = text[:MAX_TEXT], []
    last, at, offset = "", 0, 0
    for event in _EVENT.finditer(text):
        kind = "created" if event["partition"] else "stopping" if event["stopping"] else "started"
        if kind == last:
            continue
        offset, at = offset + len(text[at : event.start()].encode()), event.start()
        last = last if kind == "created" else kind
        time_us = time_of_line(event["head"])
        partition = event["partition"]
        found.append(BrokerEvent(kind=kind, time_us=time_us, offset=offset, partition=partition))
        if len(found) == MAX_EVENTS:
            break
    return found
