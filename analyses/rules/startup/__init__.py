"""The rules of `flowdiag startup`, in the order of its reports: one file a rule, one line here."""

from __future__ import annotations

from typing import Any, Final

from flowdiag.analyses.rules.base import Rule
from flowdiag.analyses.rules.startup import (
    crowded_taskmanager,
    held_start,
    late_taskmanager,
    leadership_lost,
    missing_slots,
    missing_workers,
    slow_initialisation,
    slow_step,
    start_loop,
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
