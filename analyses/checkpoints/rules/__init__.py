"""The rules of `flowdiag checkpoints`, in the order of its reports: one file and one line here per rule."""

from typing import Final

from flowdiag.analyses.checkpoints.rules import (
    checkpoint_culprit,
    checkpoint_declined,
    checkpoint_expired,
    checkpoint_never_completes,
    checkpoint_not_triggered,
    checkpoint_storage_failing,
    checkpoint_threshold_exceeded,
    growing_checkpoint,
    jobmanager_restarted,
    jobmanager_stalled,
    late_acknowledgement,
    lost_transactions,
    no_source_acknowledged,
    restart_loop,
    skewed_taskmanager,
    slow_checkpoint,
    slow_checkpoint_storage,
    slow_finalization,
    slow_half,
    stuck_task,
    task_failure,
)
from flowdiag.analyses.flink.rules import out_of_memory, process_lost, unrecognised_failure
from flowdiag.analyses.model.rule import Rule

RULES: Final[tuple[Rule, ...]] = (
    # CP1xx: the symptoms
    checkpoint_expired.RULE,
    late_acknowledgement.RULE,
    checkpoint_declined.RULE,
    slow_checkpoint.RULE,
    growing_checkpoint.RULE,
    checkpoint_never_completes.RULE,
    checkpoint_not_triggered.RULE,
    # CP2xx: the culprit
    checkpoint_culprit.RULE,
    skewed_taskmanager.RULE,
    slow_half.RULE,
    # CP3xx: the reason
    task_failure.RULE,
    process_lost.RULE,
    out_of_memory.RULE,
    checkpoint_threshold_exceeded.RULE,
    jobmanager_stalled.RULE,
    slow_checkpoint_storage.RULE,
    slow_finalization.RULE,
    lost_transactions.RULE,
    no_source_acknowledged.RULE,
    stuck_task.RULE,
    restart_loop.RULE,
    checkpoint_storage_failing.RULE,
    jobmanager_restarted.RULE,
    unrecognised_failure.RULE,
)
