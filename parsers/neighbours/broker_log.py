"""Reads from a Kafka broker's log when the broker started and stopped."""

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
        kind: `stopping` or `started`.
        time_us: the printed time. Broker logs print no time zone, so it is taken as UTC.
        offset: offset of the record in the text.
    """

    kind: str
    time_us: int | None
    offset: int


_EVENT: Final = re.compile(
    r"^(?P<head>\[20\d\d-\d\d-\d\d [\d:,]{8,12}\]) [A-Z]{4,5} (?:\[[^\]\n]{1,60}\] ?)?"
    r"(?:(?P<stopping>Terminating process due to signal|shutting down \(kafka\.server\.KafkaServer"
    r"|Transition from STARTED to SHUTTING_DOWN)|(?P<started>Kafka Server started))",
    re.MULTILINE,
)


def read_broker_log(text: str) -> list[BrokerEvent]:
    """Return the starts and stops in a broker's log, in order of appearance.

    >>> read_broker_log("[2026-11-25 21:30:00,000] INFO [KafkaRaftServer nodeId=1] Kafka Server started (kafka.s.K)")[0].kind
    'started'
    """
    found: list[BrokerEvent] = []
    for event in _EVENT.finditer(text[:MAX_TEXT]):
        kind = "stopping" if event["stopping"] else "started"
        if found and found[-1].kind == kind:
            continue
        offset = len(text[: event.start()].encode())
        found.append(BrokerEvent(kind=kind, time_us=time_of_line(event["head"]), offset=offset))
    return found[:MAX_EVENTS]
