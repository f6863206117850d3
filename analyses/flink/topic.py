"""Topics about a Flink job: one scan, one settling of clocks, one collect for all of them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from flowdiag.analyses.diagnosis import Measured, Named, Session, Topic
from flowdiag.analyses.engine.frames import kept
from flowdiag.analyses.engine.reading import Resources, Say
from flowdiag.analyses.engine.views import keep_read
from flowdiag.analyses.flink.assemble import assemble
from flowdiag.analyses.flink.clocks.settle import disputed_zones
from flowdiag.analyses.flink.job import ClusterFacts, JobFacts
from flowdiag.analyses.flink.settled import Settled, rows_of, settled_events
from flowdiag.analyses.flink.understood import understood
from flowdiag.analyses.options import Options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from flowdiag.analyses.flink.clocks.settle import Writer
    from flowdiag.parsers.sources.open import Source

Row = dict[str, Any]


class FlinkTopic(Topic):
    """What a topic about a Flink job adds to measuring."""

    checkpoints = True
    """Whether it needs the lives of checkpoints, and not only attempts and incidents."""

    def metrics(self) -> Collection[str]:
        """Names of the metrics of reports that it measures; a busy cluster's report is thousands."""
        return ()

    def frames(self, settled: Settled, unique: DataFrame) -> Sequence[DataFrame]:
        """Frames of small rows of its own, told apart by `what`; collected together with the others'.

        Args:
            settled: events and metrics with their instants and writers.
            unique: the events, each once.
        """
        return ()

    def more(self, common: ClusterFacts, settled: Settled, say: Say) -> list[Row]:
        """Rows whose query depends on the facts that all topics share: metrics in spans and windows."""
        return []

    def facts(
        self,
        rows: Sequence[Row],
        more: Sequence[Row],
        common: ClusterFacts,
        writers: Sequence[Writer],
        aside: Any,
        options: Options,
    ) -> Any:
        """The topic's facts.

        Args:
            rows: of the common collect: those of all topics.
            more: what `more` returned.
            common: the facts that all topics share.
            writers: who wrote what.
            aside: what the topic read by itself.
            options: of the user.
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
        asides: Mapping[str, Any],
        resources: Resources,
        say: Say,
    ) -> Measured:
        """Parse, settle the clocks, measure once for all topics (see `diagnosis.Engine`)."""
        if all(source.kind == "not-read" for source in sources):
            nothing = ClusterFacts(jobs=(), processes=())
            return Measured(facts=_facts(topics, [], {}, nothing, (), asides, options))
        from flowdiag.analyses.flink import lifecycle

        wanted = frozenset(name for topic in topics for name in topic.metrics())
        settled = settled_events(
            sources, session, resources=resources, tz=options.tz, say=say, metrics=wanted
        )
        say("measuring")
        unique = kept(lifecycle.once(settled.events))
        full = any(topic.checkpoints for topic in topics)
        frame = lifecycle.facts_frame(unique) if full else lifecycle.placement_frame(unique)
        for topic in topics:
            for own in topic.frames(settled, unique):
                frame = frame.unionByName(own, allowMissingColumns=True)
        rows = rows_of(frame)
        common = assemble(rows, [], settled.writers)
        more = {topic.name: topic.more(common, settled, say) for topic in topics}
        keep_read(resources.keep, self.name, sources, settled.events, settled.metrics)
        return Measured(
            facts=_facts(topics, rows, more, common, settled.writers, asides, options),
            splits=settled.splits,
            processes=common.processes,
            understood=understood(common),
            notes=disputed_zones(settled.writers),
        )


def _facts(
    topics: Sequence[FlinkTopic],
    rows: Sequence[Row],
    more: Mapping[str, Sequence[Row]],
    common: ClusterFacts,
    writers: Sequence[Writer],
    asides: Mapping[str, Any],
    options: Options,
) -> dict[str, Any]:
    return {
        topic.name: topic.facts(
            rows, more.get(topic.name, ()), common, writers, asides.get(topic.name), options
        )
        for topic in topics
    }


FLINK = Flink()


def named_jobs(jobs: Iterable[JobFacts]) -> list[Named]:
    """Jobs as a selection names them."""
    return [Named(key=job.key, id=job.key.job_id or None, name=job.name) for job in jobs]
