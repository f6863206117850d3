"""Executors are slow, or were lost.

What it reports
---------------
An executor on which tasks take longer than the other tasks of the same stages. The rule also reports lost
executors with the reason, and the receiver blocks that were lost with them.

Why it matters
--------------
Every batch has to wait for the tasks on a slow executor. If an executor is lost, so are the receiver blocks on it,
and Spark cannot compute the batches that need these blocks.

How it decides
--------------
Slow: in each stage, the rule divides the mean task duration on this executor by the mean on the other executors.
The median of these ratios, over at least `stages` stages, must be at least `ratio`. Half as many stages are enough if
the median is at least twice as large.

Lost: the executor was removed, but not because it was idle or because of a request. Removals after the application
began to stop do not count. Within `shutdown` of the application's end, only a kill or an exceeded memory limit
counts as a reason. `Could not compute split, block input-... not found` in logs or in the reason of a failed batch
proves lost blocks. If the input contains the earlier loss of an executor, the rule blames that executor for the
lost blocks. The finding is recovered when `recovery-time` has passed since the last loss. If executors were lost
at once, it is also recovered when others replace them and `recovery-batches` batches or triggers succeed.

What to do
----------
Slow: check the host for other work, throttled CPUs and slow disks. Lost: raise the memory overhead if the executor
was killed for exceeding its memory limit. Exit code 137 alone only means SIGKILL, and only the logs of the node
show which process sent the signal. If the executor was preempted, use another queue. With receivers, replicate the
blocks (a storage level with `_2`), or use a write-ahead log.

False alarms
------------
An executor that starts later is slow at first because it loads its classes. This only affects a few of its stages.
"""

from typing import Final

from flowdiag.analyses.rate import helpers as h
from flowdiag.analyses.rate.failures import executors as x
from flowdiag.analyses.rate.failures.troubles import BLOCK, Trouble, troubles
from flowdiag.analyses.rate.state_store import has_unlimited_rocksdb

_EXIT_CODE_137: Final = (
    " Exit code 137 means SIGKILL, sent by a user or the node. Memory is the reason only if the "
    "container's events or the node's kernel log (dmesg) confirm it."
)

_CLEAR: Final = 2  # a ratio this many times the limit needs half as many stages


class Limits(h.Limits):
    ratio: float = h.limit(2.0, "ratio", "minimum ratio of task times; similar hosts differ by 20%")
    stages: float = h.limit(10, "stages", "minimum number of stages; fewer may be a coincidence")
    shutdown: float = h.limit(
        2000, "ms", "time before the end of the application that counts as its shutdown"
    )
    recovery_time: float = h.limit(
        600_000, "ms", "minimum time without a lost executor for a recovery"
    )
    recovery_batches: float = h.limit(
        h.defaults.WORKED, "batches", "number of batches or triggers that must succeed to recover"
    )


def judge(assessed: h.AssessedApplication, limits: Limits) -> h.Results:
    """Yield one finding per slow executor, and one for all lost executors or blocks."""
    app = assessed.app
    if app.kind == "other" and app.application:
        return  # a fragment of an unknown kind
    for executor in app.executors:
        ratio = executor.ratio or 0.0
        clear = ratio >= _CLEAR * limits.ratio
        if executor.stages >= limits.stages / (1 + clear) and ratio >= limits.ratio:
            over = f"{executor.tasks} tasks of {executor.stages} stages"
            times = f"{ratio:.1f} times as long"
            yield h.application_finding(
                assessed,
                subject=h.executor_subject(app, executor),
                title=f"Tasks on executor {executor.executor} take {times} as tasks of the same stages "
                "on other executors",
                why=f"its tasks take {times} as tasks on other executors, over "
                f"{executor.stages} stages",
                cause="slow-executor",
                rank=h.Rank.ROOT_CAUSE,
                last_us=None,
                count=executor.stages,
                measurements=(
                    h.measurement("ratio", round(ratio, 2), "ratio", limits.ratio, over=over),
                ),
                evidence=h.cite([(executor.ref, executor.added_us)]),
                actions=h.remedies("slow-executor", app),
            )
    # Blocks are lost with every removal, whatever its reason.
    removed = [
        executor for executor in app.executors if x.was_removed(app, executor, limits.shutdown)
    ]
    lost = [executor for executor in removed if x.is_loss(executor)]
    blocks = troubles(app, BLOCK)
    if lost:
        yield _lost_executors(assessed, lost, blocks, limits)
    elif blocks:
        yield _lost_blocks(assessed, removed, blocks, limits)


def _memory_remedies(app: h.ApplicationFacts, reason: str) -> tuple[h.Action, ...]:
    if x.is_of_heap(reason):
        return h.remedies("out-of-memory", app, "spark-heap")
    limit = ("rocksdb-limit",) if has_unlimited_rocksdb(app) else ()
    return h.remedies("out-of-memory", app, "spark-overhead", *limit)


def _severity(
    app: h.ApplicationFacts,
    last_us: int,
    limits: Limits,
    *,
    blocks: bool,
    recovered: bool = False,
) -> h.SubjectFields:
    """Return severity and state. Recent losses are ongoing, and they are critical if blocks are lost."""
    recent = not recovered and (app.last_us or 0) - last_us < limits.recovery_time * 1000
    return {
        "severity": h.Severity.CRITICAL if blocks and recent else h.Severity.WARNING,
        "state": h.State.ONGOING if recent else h.State.RECOVERED,
        "rank": h.Rank.ROOT_CAUSE,
    }


def _lost_blocks(
    assessed: h.AssessedApplication,
    removed: list[h.Executor],
    blocks: h.Sequence[Trouble],
    limits: Limits,
) -> h.Finding:
    """Return the finding about blocks that were lost although no executor failed."""
    app = assessed.app
    names = {block.what for block in blocks if block.what}
    last = max(block.time_us or 0 for block in blocks)
    subject, how = x.place_and_reason(app, removed, names)
    count = len(names) or len(blocks)
    gone = h.fmt.plural(count, "block of receivers is lost", "blocks of receivers are lost")
    return h.application_finding(
        assessed,
        **_severity(app, last, limits, blocks=True)
        | {
            "subject": subject,
            "title": f"{gone}, {how}",
            "why": gone,
            "cause": "blocks-lost",
            "first_us": min((b.time_us for b in blocks if b.time_us), default=None),
            "last_us": last or None,
            "count": len(blocks),
            "measurements": (h.measurement("lost-blocks", count, "blocks"),),
            "evidence": h.cite((block.ref, block.time_us) for block in blocks),
            "actions": h.remedies("blocks-lost", app),
        },
    )


def _lost_executors(
    assessed: h.AssessedApplication,
    lost: list[h.Executor],
    gone: h.Sequence[Trouble],
    limits: Limits,
) -> h.Finding:
    app, times = assessed.app, [executor.removed_us or 0 for executor in lost]
    first, last = min(times), x.best_explained_loss(lost)
    some = x.share_of(last, lost)
    # Log times have a resolution of one second.
    blocks = [b for b in gone if b.time_us is None or b.time_us >= first - 1_000_000]
    reason = h.fmt.shorten((last.reason or "").strip().partition("\n")[0], 160)
    explain, with_blocks = h.explanation("executor-lost"), ""
    if blocks:
        explain = h.explanation("blocks-lost")
        with_blocks = f", and {x.block_names(blocks)} with {'them' if len(lost) > 1 else 'it'}"
    reason_clause = reason and f": {reason}"
    memory = x.is_of_memory(reason)
    cause, actions = (
        "executor-lost",
        h.remedies("executor-lost", app, *x.loss_remedies(app, reason)),
    )
    if memory:
        cause, actions = "out-of-memory", _memory_remedies(app, reason)
    elif x.was_killed(reason):
        explain += _EXIT_CODE_137
    else:
        explain = f"{explain} {x.meaning_of_exit(reason)}".rstrip()
    executors = h.cite((executor.ref, executor.removed_us) for executor in lost)
    missing = h.cite((block.ref, block.time_us) for block in blocks)
    return h.application_finding(
        assessed,
        **_severity(
            app,
            max(times),
            limits,
            blocks=bool(blocks),
            recovered=x.has_recovered(app, lost, limits.recovery_batches),
        )
        | {
            "subject": h.executor_subject(app, last),
            "title": h.fmt.plural(len(lost), "executor was", "executors were")
            + f" lost{some}{with_blocks}{reason_clause}",
            "explain": explain,
            "why": f"lost{reason_clause}",
            "cause": cause,
            "confidence": x.loss_confidence(app, last),
            "first_us": first,
            "last_us": max(times) or None,
            "count": len(lost),
            "measurements": (
                h.measurement("lost-executors", len(lost), "executors"),
                h.measurement("lost-blocks", len(blocks), "blocks"),
            ),
            "evidence": (*executors[-6:], *missing[:4]),
            "evidence_total": len({*executors, *missing}),
            "actions": actions,
        },
    )


RULE = h.Rule(
    "RT304",
    judge,
    Limits,
    causes=("slow-executor", "executor-lost", "out-of-memory", "blocks-lost"),
    needs="work",
    severity=h.Severity.CRITICAL,
)
