"""One task of a batch takes much longer than the others.

What it reports
---------------
Batches or triggers in which one task of the longest stage takes much longer than its siblings: with
as much more to read, it is skew; with as much as they, a straggler.

Why it matters
--------------
A batch is as long as its longest task: the other cores wait for it.

How it decides
--------------
Tasks are added up by stage while the event log is read. In at least `share` of the present batches
the slowest task takes `ratio` times the mean of the others or more, at least `floor` longer, and
most of the batch's time. Records (or bytes) tell skew from stragglers; where a source counts none,
as receivers and Kafka's direct stream, the same partition number each time points to skew, with
less confidence.

What to do
----------
Skew: another key, salting, more partitions; for Kafka `minPartitions`. Stragglers: see RT304;
speculation where tasks may run twice.

False alarms
------------
Stages with a single task have no siblings, and are left out. Long tasks of receivers are no part of
a batch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from statistics import median
from typing import Final

from flowdiag.analyses.finding import (
    Action,
    Confidence,
    Evidence,
    Finding,
    Inconclusive,
    Measurement,
    Rank,
    Severity,
    State,
    Subject,
)
from flowdiag.analyses.flink.judging import duration_text
from flowdiag.analyses.rate import judging as j
from flowdiag.analyses.rate import state as rate_state
from flowdiag.analyses.rate.facts import StageLoad
from flowdiag.analyses.rate.state import Assessed
from flowdiag.analyses.rule import Limits, Rule, limit


class SlowTaskLimits(Limits):
    """What RT303 compares with."""

    ratio: float = limit(3.0, "ratio", "sibling tasks of one size differ by a factor of two")
    floor: float = limit(500, "ms", "shorter differences are those of starting tasks")
    share: float = limit(0.6, "share", "of the present batches; single ones are hiccups")
    part: float = limit(0.5, "share", "of the batch's time: other stages matter more")


def judge(assessed: Assessed, limits: SlowTaskLimits) -> Iterator[Finding | Inconclusive]:
    """One finding per application or query whose batches wait for one task."""
    for _ in assessed.dstreams:
        late = rate_state.late_window(assessed.app.completed)
        units = [(b.processing_ms or 0, b.stage) for b in late]
        slow = _slow(units, limits)
        if slow and len(slow) >= limits.share * len(late):
            cited = j.of_batches(b for b in late if b.stage in slow)
            yield _finding(
                assessed, j.application_subject(assessed.app), slow, len(late), cited, None
            )
    for query, _ in assessed.queries:
        triggers = rate_state.late_triggers(query.triggers)
        units = [(t.duration_ms or 0, t.stage) for t in triggers if t.rows]
        slow = _slow(units, limits)
        if slow and len(slow) >= limits.share * len(units):
            cited = j.of_triggers(t for t in triggers if t.stage in slow)
            subject = j.query_subject(assessed.app, query)
            name = query.name or query.id
            yield _finding(assessed, subject, slow, len(units), cited, name)


def _slow(units: Sequence[tuple[int, StageLoad | None]], limits: SlowTaskLimits) -> list[StageLoad]:
    slow = []
    for lasted, stage in units:
        others = stage.others_ms if stage is not None else None
        if stage is None or others is None:
            continue
        longer = stage.longest_ms - others
        if (
            stage.longest_ms >= limits.ratio * others
            and longer >= limits.floor
            and stage.longest_ms >= limits.part * lasted
        ):
            slow.append(stage)
    return slow


def skewed(stage: StageLoad) -> bool | None:
    """Whether the slowest task had as much more to read; None where nothing counts records."""
    others = stage.others_records
    if others is None or not stage.records:
        return None
    return stage.slowest_records >= 2 * max(others, 1.0)


def _finding(
    assessed: Assessed,
    subject: Subject,
    slow: list[StageLoad],
    population: int,
    cited: tuple[Evidence, ...],
    query: str | None,
) -> Finding:
    said = [skewed(stage) for stage in slow]
    known = [one for one in said if one is not None]
    where, times = Counter(stage.index for stage in slow).most_common(1)[0]
    same = times >= 0.8 * len(slow)
    skew = sum(known) >= len(known) / 2 if known else same
    confidence = Confidence.HIGH if known else Confidence.LOW
    ratio = median(s.longest_ms / max(s.others_ms or 1.0, 1.0) for s in slow)
    longest = median(s.longest_ms for s in slow)
    share = median(s.slowest_records / s.records for s in slow if s.records) if known else None
    stage = slow[-1]
    units = "triggers" if query else "batches"
    told = f", with {share:.0%} of the records" if share is not None and skew else ""
    here = Subject(
        kind="task",
        job_name=subject.job_name,
        application=subject.application,
        query=subject.query,
        stage=stage.stage,
        subtask_index=where if same else None,
        parallelism=stage.tasks if same else None,
        executor=stage.executor,
        host=stage.host,
    )
    of = f" of query {query}" if query else ""
    return Finding(
        job=assessed.key,
        severity=Severity.WARNING,
        state=State.ONGOING,
        subject=here,
        title=(
            f"In {len(slow)} of {population} {units}{of} one task takes {ratio:.1f} times as long as "
            f"the others{told}"
        ),
        explain=(
            "It has that much more to do: the data are skewed."
            if skew and known
            else "It is the same partition each time, which points to skew; no record was counted."
            if skew
            else "It has no more to do than they: it is the place, not the data."
        ),
        why=f"one task takes {duration_text(longest)} where its siblings take a {ratio:.0f}th{told}",
        confidence=confidence,
        cause="data-skew" if skew else "stragglers",
        rank=Rank.ROOT_CAUSE if confidence is Confidence.HIGH else Rank.MECHANISM,
        count=len(slow),
        measurements=(
            Measurement(
                name="ratio",
                value=round(ratio, 2),
                unit="ratio",
                threshold=3.0,
                population="slowest task against the mean of the others, median",
            ),
            Measurement(name="slowest-task", value=longest, unit="ms"),
            Measurement(
                name="record-share",
                value=None if share is None else round(share, 3),
                unit="share",
                population=f"{stage.tasks} tasks",
            ),
        ),
        evidence=cited,
        actions=(
            Action(
                text="Spread the key that this task has: another key, or a salt"
                if skew
                else "See RT304; run slow tasks twice where they may run twice",
                option=None if skew else "spark.speculation",
                current=None if skew else assessed.app.settings.get("spark.speculation"),
                restart_needed=True,
                verify="longest task against the others of its stage",
            ),
        ),
    )


RULE: Final = Rule("RT303", judge, SlowTaskLimits)
