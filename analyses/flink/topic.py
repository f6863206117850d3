"""Base of all Flink topics, which share one scan, one settling of clocks and one collect."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from flowdiag.analyses.contract.report import Where
from flowdiag.analyses.engine.frames import cached_frame
from flowdiag.analyses.engine.reading import ProgressCallback, Resources
from flowdiag.analyses.engine.sql import union_all
from flowdiag.analyses.engine.views import keep_read
from flowdiag.analyses.faults import Faults
from flowdiag.analyses.flink.assemble import assemble
from flowdiag.analyses.flink.batches import batches_of, combine_measures, each_batch
from flowdiag.analyses.flink.clocks.settle import disputed_zones
from flowdiag.analyses.flink.job import ClusterFacts, JobFacts
from flowdiag.analyses.flink.settled import Settled, rows_of, settled_events
from flowdiag.analyses.flink.understood import recognized_kinds
from flowdiag.analyses.selection.options import Options
from flowdiag.analyses.topic import Measured, SelectableJob, Session, Topic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from flowdiag.analyses.engine.sql import Part
    from flowdiag.analyses.flink.clocks.settle import Writer
    from flowdiag.parsers.source import Source

Row = dict[str, Any]


class FlinkTopic(Topic):
    """A Flink topic and its additions to the shared measurement."""

    checkpoints = True
    """Whether the topic needs checkpoints in addition to attempts and incidents."""

    loads = False
    """Whether the topic needs the loads of subtasks while checkpoints failed."""

    def metrics(self) -> Collection[str]:
        """Return the names of the metrics to keep. Others are dropped, as a busy cluster reports thousands."""
        return ()

    def queries(self, settled: Settled, unique: DataFrame) -> Sequence[Part]:
        """Return the queries of the topic, with rows tagged by `what`. All topics share one SQL statement.

        Args:
            settled: events and metrics with their instants and writers.
            unique: the events without duplicates.
        """
        return ()

    def more(self, common: ClusterFacts, settled: Settled, progress: ProgressCallback) -> list[Row]:
        """Return rows of queries that depend on the shared facts, such as metrics in certain spans and windows."""
        return []

    def facts(
        self,
        rows: Sequence[Row],
        more: Sequence[Row],
        common: ClusterFacts,
        writers: Sequence[Writer],
        side_inputs: Any,
        options: Options,
    ) -> Any:
        """Build the topic's facts.

        Args:
            rows: rows of the shared collect, of all topics.
            more: the result of `more`.
            common: the facts that all topics share.
            writers: the process that wrote each stream.
            side_inputs: the topic's own side inputs.
            options: the user's options.
        """
        raise NotImplementedError


class Flink:
    """The engine of topics about a Flink job."""

    name = "flink"

    def measure(
        self,
        topics: Sequence[FlinkTopic],
        sources: Sequence[Source],
        session: Session,
        options: Options,
        *,
        side_inputs: Mapping[str, Any],
        resources: Resources,
        progress: ProgressCallback,
    ) -> Measured:
        """Parse, settle the clocks, and measure once for all topics (see `topic.Engine`)."""
        if all(source.kind == "not-read" for source in sources):
            nothing = ClusterFacts(jobs=(), processes=())
            faults = Faults()
            facts = _facts(topics, [], {}, nothing, (), side_inputs, options, faults)
            return Measured(facts=facts, faults=faults.found)
        measure = partial(self._measure, topics, session, options, side_inputs)
        batches = batches_of(sources) if resources.keep is None else [sources]
        parts = [
            measure(batch, resources, show)
            for batch, resources, show in each_batch(batches, resources, progress)
        ]
        return combine_measures(parts) or measure(sources, resources, progress)

    def _measure(
        self,
        topics: Sequence[FlinkTopic],
        session: Session,
        options: Options,
        side_inputs: Mapping[str, Any],
        sources: Sequence[Source],
        resources: Resources,
        progress: ProgressCallback,
    ) -> Measured:
        metric_names = frozenset(name for topic in topics for name in topic.metrics())
        faults = Faults(resources.explained)
        settled = settled_events(
            sources,
            session,
            resources=resources,
            tz=options.tz,
            progress=progress,
            metrics=metric_names,
            faults=faults,
        )
        from flowdiag.analyses.flink.tasks.measured_loads import load_rows

        progress("measuring")
        rows, unmeasured = _rows(topics, settled, faults)
        topics = [topic for topic in topics if topic not in unmeasured]
        rows, common = _common_facts(rows, [], settled.writers, faults)
        if any(topic.loads for topic in topics):
            progress("measuring metrics")
            with faults.catch(Where.MEASURE, "metrics"):
                loads = load_rows(common, settled)
                if loads:
                    rows, common = _common_facts(rows, loads, settled.writers, faults)
        more: dict[str, Sequence[Row]] = {}
        for topic in topics:
            with faults.catch(Where.MEASURE, topic.name):
                more[topic.name] = topic.more(common, settled, progress)
        topics = [topic for topic in topics if topic.name in more]
        keep_read(resources.keep, self.name, sources, settled.events, settled.metrics)
        return Measured(
            facts=_facts(topics, rows, more, common, settled.writers, side_inputs, options, faults),
            splits=settled.splits,
            processes=common.processes,
            understood=recognized_kinds(common),
            notes=disputed_zones(settled.writers),
            faults=faults.found,
        )


def _rows(
    topics: Sequence[FlinkTopic], settled: Settled, faults: Faults
) -> tuple[list[Row], list[FlinkTopic]]:
    """Collect the small rows of all topics in one query. Return them with the topics whose queries failed."""
    from flowdiag.analyses.flink import lifecycle

    unique = cached_frame(lifecycle.once(settled.events))
    full = any(topic.checkpoints for topic in topics)
    common = lifecycle.facts(unique) if full else lifecycle.placement(unique)

    def of_some(some: Sequence[FlinkTopic]) -> list[Row]:
        own = (query for topic in some for query in topic.queries(settled, unique))
        return rows_of(union_all([*common, *own]))

    return faults.run_skipping_failures(
        topics, of_some, Where.MEASURE, about=lambda topic: topic.name
    )


def _common_facts(
    rows: list[Row], loads: list[Row], writers: Sequence[Writer], faults: Faults
) -> tuple[list[Row], ClusterFacts]:
    """Return the facts that all topics share, and the rows behind them. Jobs that cause an error are left out."""
    jobs = sorted({row["job_id"] for row in rows if row.get("job_id")})
    common, left = faults.run_skipping_failures(
        jobs,
        lambda some: assemble(
            rows if len(some) == len(jobs) else _rows_of(rows, some),
            loads if len(some) == len(jobs) else _rows_of(loads, some),
            writers,
        ),
        Where.MEASURE,
        about=_job,
    )
    return _rows_of(rows, set(jobs) - set(left)) if left else rows, common


def _rows_of(rows: Sequence[Row], jobs: Collection[str]) -> list[Row]:
    """Return the rows of these jobs and all rows without a job."""
    return [row for row in rows if not row.get("job_id") or row["job_id"] in jobs]


def _job(job_id: str) -> str:
    return f"job {job_id}"


def _facts(
    topics: Sequence[FlinkTopic],
    rows: Sequence[Row],
    more: Mapping[str, Sequence[Row]],
    common: ClusterFacts,
    writers: Sequence[Writer],
    side_inputs: Mapping[str, Any],
    options: Options,
    faults: Faults,
) -> dict[str, Any]:
    """Return the facts of each topic, without jobs or topics that cause an error."""
    jobs = sorted({job.key.job_id for job in common.jobs})

    def of_topic(topic: FlinkTopic) -> Any:
        found = more.get(topic.name, ())

        def of_some(some: Sequence[str]) -> Any:
            whole = len(some) == len(jobs)
            return topic.facts(
                rows if whole else _rows_of(rows, some),
                found if whole else _rows_of(found, some),
                common
                if whole
                else replace(common, jobs=tuple(j for j in common.jobs if j.key.job_id in some)),
                writers,
                side_inputs.get(topic.name),
                options,
            )

        return faults.run_skipping_failures(jobs, of_some, Where.MEASURE, about=_job)[0]

    facts = {}
    for topic in topics:
        with faults.catch(Where.MEASURE, topic.name):
            facts[topic.name] = of_topic(topic)
    return facts


FLINK = Flink()

UNDATED: Final = "the input has no log records with times"


def has_dated_records(facts: ClusterFacts) -> bool:
    """Return whether the input would show failures: it has log lines with times, or a job's tasks from REST.

    A few undated lines, or checkpoint statistics alone, do not prove that nothing else happened.
    """
    dated = any(process.last_us is not None for process in facts.processes)
    return dated or any(job.attempts and job.last_us is not None for job in facts.jobs)


def named_jobs(jobs: Iterable[JobFacts]) -> list[SelectableJob]:
    """Return the IDs and names by which users can select these jobs."""
    return [SelectableJob(key=job.key, id=job.key.job_id or None, name=job.name) for job in jobs]
