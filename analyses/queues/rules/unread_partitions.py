"""The source does not read partitions that were added to its topic.

What it reports
---------------
The partitions, and when the broker created them.

Why it matters
--------------
Producers write to the new partitions immediately, and the job never reads these records. The lag of the consumer group
does not include partitions for which it has committed nothing.

How it decides
--------------
When the source starts, it logs which partitions it found, and that it does not look for new ones. The broker's log
shows that it created other partitions of the same topics later.

False alarms
------------
A topic that was deleted and created again also gets new partitions.
"""

from flowdiag.analyses.flink.job import Incident
from flowdiag.analyses.neighbours.facts import BrokerRecord
from flowdiag.analyses.queues import helpers as h

_CAUSE = "unread-partitions"
_OFF, _FOUND = "partition-discovery-off", "partitions-discovered"


def judge(job: h.JobQueues, limits: h.Limits) -> h.Iterator[h.Finding]:
    """Yield at most one finding per job."""
    records = [i for i in job.job.incidents if i.kind == "partitions" and i.time_us is not None]
    off = [i for i in records if i.text.get("template") == _OFF]
    if off and (
        added := _added_partitions(job, off[-1].time_us or 0, _partitions_in(records, off[-1]))
    ):
        yield _finding(job, off[-1], added)


def _partitions_in(records: list[Incident], off: Incident) -> set[str]:
    """Return the partitions that the source found after its last start."""
    found = (i for i in records if i.text.get("template") == _FOUND)
    lists = (i.text.get("partitions", "") for i in found if (i.time_us or 0) >= (off.time_us or 0))
    return {name.strip() for text in lists for name in text.split(",")}


def _added_partitions(job: h.JobQueues, begun_us: int, known: set[str]) -> list[BrokerRecord]:
    """Return the records about partitions that were added to the same topics."""
    topics = {_topic_of(name) for name in known}
    created = (each for each in job.neighbours.events if each.row.partition is not None)
    return [
        each
        for each in created
        if (each.row.time_us or 0) > begun_us
        and each.row.partition not in known
        and _topic_of(each.row.partition or "") in topics
    ]


def _topic_of(partition: str) -> str:
    return partition.rpartition("-")[0]


def _finding(job: h.JobQueues, off: Incident, added: list[BrokerRecord]) -> h.Finding:
    names = sorted({each.row.partition or "" for each in added})
    listed = h.fmt.shorten(h.fmt.listed(names))
    sources = sorted(job.topology.sources)
    dated = [(each.ref, each.row.time_us) for each in added]
    return h.job_finding(
        job,
        subject=h.task_subject(job, sources[0]) if len(sources) == 1 else None,
        title=f"The source does not read {h.fmt.plural(len(names), 'new partition')} of its topic: {listed}",
        why=f"{listed} {'was' if len(names) == 1 else 'were'} added after the source started, "
        "and partition discovery is off",
        severity=h.Severity.WARNING,
        cause=_CAUSE,
        rank=h.Rank.ROOT_CAUSE,
        first_us=min(each.row.time_us or 0 for each in added),
        last_us=job.job.last_us,
        count=len(names),
        measurements=(h.measurement("unread-partitions", len(names), "partitions"),),
        evidence=h.cite([(off.ref, off.time_us), *dated]),
        actions=h.remedies(_CAUSE, job.job),
    )


RULE = h.Rule("IO107", judge, h.Limits, causes=(_CAUSE,), needs="records")
