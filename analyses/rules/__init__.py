"""The rules, listed by hand.

`CHECKPOINT_RULES`, `RATE_RULES`, `MEMORY_RULES` and `STARTUP_RULES` are the lists of the commands, in the
order of reports; `ALL_RULES` is all of them, for documents and settings. Importing it must not import Spark.
"""

from __future__ import annotations

from typing import Any, Final

from flowdiag.analyses.rules import (
    capped_query,
    capped_rate,
    checkpoint_culprit,
    checkpoint_declined,
    checkpoint_expired,
    checkpoint_never_completes,
    checkpoint_not_triggered,
    crowded_taskmanager,
    executor_trouble,
    failing_batches,
    failing_query,
    filling_heap,
    fixed_batch_cost,
    generation_lag,
    growing_checkpoint,
    hanging_batch,
    held_start,
    jobmanager_stalled,
    late_acknowledgement,
    late_rows,
    late_taskmanager,
    leadership_lost,
    little_headroom,
    lost_transactions,
    memory_ran_out,
    metadata_write,
    misread_options,
    missing_slots,
    missing_workers,
    no_source_acknowledged,
    out_of_memory,
    overloaded_batches,
    overloaded_query,
    rate_floor,
    receiver_restarts,
    rejected_memory_options,
    restart_loop,
    sizes_not_in_effect,
    skewed_receiver,
    skewed_taskmanager,
    slow_checkpoint,
    slow_half,
    slow_initialisation,
    slow_outside,
    slow_step,
    slow_task,
    start_loop,
    storage_throttled,
    stuck_task,
    stuck_watermark,
    task_failure,
    taskmanager_lost,
    threshold_exceeded,
    throttled,
    tight_network_memory,
    too_few_network_buffers,
    unheeded_rate,
    unlimited_first_batch,
    unmanaged_rocksdb,
    unstable_gains,
    unused_managed_memory,
)
from flowdiag.analyses.rules.base import Rule

# The facts differ by command, hence Any: each command passes its own rules their own facts.
CHECKPOINT_RULES: Final[tuple[Rule[Any], ...]] = (
    # CP1xx: what happens
    checkpoint_expired.RULE,
    late_acknowledgement.RULE,
    checkpoint_declined.RULE,
    slow_checkpoint.RULE,
    growing_checkpoint.RULE,
    checkpoint_never_completes.RULE,
    checkpoint_not_triggered.RULE,
    # CP2xx: who
    checkpoint_culprit.RULE,
    skewed_taskmanager.RULE,
    slow_half.RULE,
    # CP3xx: why
    task_failure.RULE,
    taskmanager_lost.RULE,
    out_of_memory.RULE,
    threshold_exceeded.RULE,
    jobmanager_stalled.RULE,
    storage_throttled.RULE,
    metadata_write.RULE,
    lost_transactions.RULE,
    no_source_acknowledged.RULE,
    stuck_task.RULE,
    restart_loop.RULE,
)

RATE_RULES: Final[tuple[Rule[Any], ...]] = (
    # RT1xx: what happens
    overloaded_batches.RULE,
    failing_batches.RULE,
    hanging_batch.RULE,
    generation_lag.RULE,
    little_headroom.RULE,
    # RT2xx: what holds the rate
    rate_floor.RULE,
    fixed_batch_cost.RULE,
    throttled.RULE,
    capped_rate.RULE,
    unstable_gains.RULE,
    unheeded_rate.RULE,
    unlimited_first_batch.RULE,
    # RT3xx: who is slow
    skewed_receiver.RULE,
    receiver_restarts.RULE,
    slow_task.RULE,
    executor_trouble.RULE,
    slow_outside.RULE,
    # RT4xx: Structured Streaming
    overloaded_query.RULE,
    failing_query.RULE,
    capped_query.RULE,
    late_rows.RULE,
    stuck_watermark.RULE,
)

MEMORY_RULES: Final[tuple[Rule[Any], ...]] = (
    # MM1xx: the configuration
    rejected_memory_options.RULE,
    misread_options.RULE,
    sizes_not_in_effect.RULE,
    # MM2xx: network buffers
    too_few_network_buffers.RULE,
    tight_network_memory.RULE,
    # MM3xx: the pools
    memory_ran_out.RULE,
    unused_managed_memory.RULE,
    unmanaged_rocksdb.RULE,
    filling_heap.RULE,
)

STARTUP_RULES: Final[tuple[Rule[Any], ...]] = (
    # ST1xx: what happens
    held_start.RULE,
    start_loop.RULE,
    # ST2xx: slots and workers
    missing_slots.RULE,
    missing_workers.RULE,
    late_taskmanager.RULE,
    # ST3xx: what is slow, or uneven
    slow_initialisation.RULE,
    slow_step.RULE,
    crowded_taskmanager.RULE,
    leadership_lost.RULE,
)

ALL_RULES: Final = CHECKPOINT_RULES + RATE_RULES + MEMORY_RULES + STARTUP_RULES
