"""Assembles the measurements of single exceptions without Spark, which only passes their rows on.

`analyses/flink/sql/incidents.sql` and `analyses/rate/sql/single.sql` only select columns. Inputs
that need more (a checkpoint, a batch) are tested with Spark: `measured` returns None for them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from flowdiag.analyses.flink.assemble import assemble
from flowdiag.analyses.flink.lifecycle import INCIDENTS
from flowdiag.analyses.rate.assemble import assemble as assemble_rate
from flowdiag.analyses.selection.options import Options
from flowdiag.analyses.topic import Measured
from flowdiag.analyses.topic_names import ENGINES
from flowdiag.analyses.topics import topic
from flowdiag.parsers.discover import Discovery
from flowdiag.parsers.rows import Event
from flowdiag.parsers.split import parse_on_driver, plan_splits

_SPARK: Final = frozenset(
    {Event.SPARK_QUERY, Event.SPARK_INCIDENT, Event.SPARK_EXECUTOR, Event.FAILURE}
)
_NOT_MEASURED: Final = frozenset({Event.SPLIT, Event.MARKS})


def measured(names: Sequence[str], found: Discovery) -> Measured | None:
    """Return the measurements of the inputs, or None if Spark does more than pass rows on.

    Args:
        names: the names of the topics, all of one engine.
        found: the inputs, without those of other engines.
    """
    table = parse_on_driver(plan_splits([s for s in found.sources if s.kind != "not-read"]))
    parsed = table.to_pylist()
    rows = [row for row in parsed if Event(row["event"]) not in _NOT_MEASURED]
    for row in rows:
        row["fields"] = dict(row["fields"] or ())
        row["time_us"] = row["utc_us"] if row["utc_us"] is not None else row["local_us"]
    if {ENGINES[name] for name in names} == {"spark"}:
        return _rate(names[0], rows, _span_us(parsed))
    of_checkpoint = any(
        row["event"] == Event.CHECKPOINT_FAILED and row["checkpoint"] for row in rows
    )
    if of_checkpoint or not {Event(row["event"]) for row in rows} <= set(INCIDENTS):
        return None
    handed = [_incident(row) for row in rows]
    common = assemble(handed, [], ())
    facts = {}
    for name in names:
        one: Any = topic(name)  # for Flink
        aside = one.side_inputs(found.sources, Options()).content
        facts[name] = one.facts(handed, [], common, (), aside, Options())
    return Measured(facts=facts, processes=common.processes)


def _incident(row: dict[str, Any]) -> dict[str, Any]:
    return {**row, "what": "incident", "owner": None, "role": "unknown", "cluster": ""}


def _rate(
    name: str, rows: list[dict[str, Any]], span_us: tuple[int, int] | None
) -> Measured | None:
    if not {Event(row["event"]) for row in rows} <= _SPARK:
        return None
    rows_by_kind = [("single", json.dumps({"app": "", **_without_nulls(row)})) for row in rows]
    spans_us = {} if span_us is None else {"": span_us}
    return Measured(facts={name: assemble_rate(rows_by_kind, spans_us=spans_us)})


def _span_us(parsed: list[dict[str, Any]]) -> tuple[int, int] | None:
    """Return the first and the last time of the inputs, from the rows about their splits."""
    splits = [dict(row["fields"]) for row in parsed if row["event"] == Event.SPLIT]
    times = [int(s[key]) for s in splits for key in ("first_us", "last_us") if s.get(key)]
    return (min(times), max(times)) if times else None


def _without_nulls(row: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in row.items() if v is not None and not isinstance(v, datetime)}
