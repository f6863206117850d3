"""Parses Spark's inputs and assigns them to applications and clocks, for the topic and for the library."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc

from flowdiag.analyses.contract.report import Where
from flowdiag.analyses.engine.reading import ORDINARY, ProgressCallback, Resources, frame_of, read
from flowdiag.analyses.faults import Faults
from flowdiag.analyses.rate.survey import survey, survey_table
from flowdiag.parsers.rows import Event

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from flowdiag.analyses.rate.measure import Owner
    from flowdiag.parsers.source import Source


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnedEvents:
    """Events of Spark, with their applications and times.

    Args:
        events: EVENTS without `split` rows, with `app` instead of `application`, and with `time_us`.
        owners: the parts of the sources, with their applications.
        splits: the `split` rows, for the list of inputs.
        present: the kinds of events in the input; empty if unknown.
    """

    events: DataFrame
    owners: tuple[Owner, ...]
    splits: tuple[dict[str, Any], ...]
    present: frozenset[str]


def owned_events(
    sources: Sequence[Source],
    session: Callable[[], SparkSession],
    *,
    resources: Resources = ORDINARY,
    tz: str | None = None,
    progress: ProgressCallback = lambda stage: None,
    faults: Faults | None = None,
) -> OwnedEvents:
    """Parse the sources and assign each record to an application.

    Args:
        sources: the sources from `parsers.discover.discover`.
        session: waits for Spark and returns its session; called after parsing.
        resources: limits for reading and measuring.
        tz: name of a time zone that overrides the inferred zone.
        progress: called with the name of each stage.
        faults: collects the errors of single sources.

    Raises:
        FlowdiagError: Spark cannot start, or there is no space for the parsed events.
    """
    from flowdiag.analyses.rate import measure

    found = read(sources, resources, progress=progress)
    surveyed: list[dict[str, Any]] = []
    present: set[str] = set()
    if found.table is not None:
        surveyed = survey_table(found.table)
        present.update(pc.unique(found.table["event"]).to_pylist())
    progress("starting Spark")
    spark = session()
    resources.tune(found.rows)
    progress("distinguishing applications" if found.tasks is None else "reading")
    events = frame_of(found, spark)
    if found.table is None:
        surveyed = survey(events)
        # Tasks were added up while reading, so few rows remain even of a large log. Compiling the next plan
        # would take longer than running it.
        resources.tune(sum(row["rows"] or 0 for row in surveyed))
    owners = _owners(surveyed, sources, tz, faults or Faults(resources.explained))
    return OwnedEvents(
        events=measure.with_owner_columns(events, owners),
        owners=owners,
        splits=tuple(row for row in surveyed if row["event"] == Event.SPLIT),
        present=frozenset(present),
    )


def _owners(
    surveyed: Sequence[Mapping[str, Any]],
    sources: Sequence[Source],
    tz: str | None,
    faults: Faults,
) -> tuple[Owner, ...]:
    """Return the application of each part of each source, leaving out sources that trigger a bug."""
    from flowdiag.analyses.rate.measure import assign_owners

    def of_some(some: Sequence[int]) -> tuple[Owner, ...]:
        return assign_owners([row for row in surveyed if row["source"] in some], sources, tz)

    found = sorted({row["source"] for row in surveyed})
    return faults.run_skipping_failures(
        found, of_some, Where.RESOLVE, source=lambda each: sources[each].name
    )[0]
