"""The rules of `flowdiag startup`, in report order. Each rule has one file, and one line here."""

from typing import Final

from flowdiag.analyses.model.rule import Rule
from flowdiag.analyses.startup import lost_processes, unrecognized_failures
from flowdiag.analyses.startup.rules import (
    below_parallelism,
    blocked_autoscaler,
    class_loading_failed,
    crowded_taskmanager,
    frame_too_large,
    held_start,
    ineffective_scaling,
    late_taskmanager,
    leadership_lost,
    missing_slots,
    missing_workers,
    operator_refusal,
    rescale_loop,
    rpc_trouble,
    slow_initialization,
    slow_step,
    start_loop,
    submission_failed,
)

RULES: Final[tuple[Rule, ...]] = (
    # ST1xx: the symptoms
    held_start.RULE,
    start_loop.RULE,
    submission_failed.RULE,
    class_loading_failed.RULE,
    operator_refusal.RULE,
    # ST2xx: slots and workers
    missing_slots.RULE,
    missing_workers.RULE,
    late_taskmanager.RULE,
    # ST3xx: slow or uneven starts
    slow_initialization.RULE,
    slow_step.RULE,
    crowded_taskmanager.RULE,
    leadership_lost.RULE,
    # ST4xx: rescaling
    rescale_loop.RULE,
    below_parallelism.RULE,
    ineffective_scaling.RULE,
    blocked_autoscaler.RULE,
    # CP302, and ST306 and following: processes that do not respond to each other
    lost_processes.RULE,
    unrecognized_failures.RULE,
    rpc_trouble.RULE,
    frame_too_large.RULE,
)
