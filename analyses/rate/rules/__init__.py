"""The rules of `flowdiag rate`, in the order of its reports: one file per rule, one line here."""

from __future__ import annotations

from typing import Final

from flowdiag.analyses.model.rule import Rule
from flowdiag.analyses.rate.rules import (
    abandoned_batches,
    capped_rate,
    concurrent_jobs,
    driver_gaps,
    driver_killed,
    executor_trouble,
    failing_batches,
    falling_behind,
    few_tasks,
    fixed_batch_cost,
    generation_lag,
    growing_state,
    hanging_batch,
    late_rows,
    little_headroom,
    many_tasks,
    no_core_left,
    periodic_triggers,
    rate_floor,
    receiver_restarts,
    repeated_batch,
    skewed_partition,
    skewed_receiver,
    slow_commits,
    slow_output,
    slow_outside,
    slow_task,
    stuck_watermark,
    task_overhead,
    throttled,
    unexplained_failure,
    unheeded_rate,
    unlimited_first_batch,
    unstable_gains,
)

RULES: Final[tuple[Rule, ...]] = (
    # RT1xx: what happens
    falling_behind.RULE,
    failing_batches.RULE,
    hanging_batch.RULE,
    generation_lag.RULE,
    little_headroom.RULE,
    abandoned_batches.RULE,
    unexplained_failure.RULE,
    # RT2xx: what limits the rate
    rate_floor.RULE,
    fixed_batch_cost.RULE,
    throttled.RULE,
    capped_rate.RULE,
    unstable_gains.RULE,
    unheeded_rate.RULE,
    unlimited_first_batch.RULE,
    concurrent_jobs.RULE,
    # RT3xx: slow parts
    skewed_receiver.RULE,
    receiver_restarts.RULE,
    slow_task.RULE,
    executor_trouble.RULE,
    slow_outside.RULE,
    few_tasks.RULE,
    task_overhead.RULE,
    driver_gaps.RULE,
    slow_output.RULE,
    skewed_partition.RULE,
    driver_killed.RULE,
    many_tasks.RULE,
    no_core_left.RULE,
    # RT4xx: Structured Streaming
    late_rows.RULE,
    stuck_watermark.RULE,
    growing_state.RULE,
    slow_commits.RULE,
    periodic_triggers.RULE,
    repeated_batch.RULE,
)
