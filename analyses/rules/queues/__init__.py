"""The rules of `flowdiag queues`, in the order of its reports: one file a rule, one line here."""

from __future__ import annotations

from typing import Any, Final

from flowdiag.analyses.rules.base import Rule
from flowdiag.analyses.rules.queues import (
    back_pressure,
    data_skew,
    garbage_collection,
    network_between,
    network_memory,
    saturated_input,
    shared_connection,
    slow_machine,
    slow_operator,
    slow_subtask,
    uneven_channels,
    uneven_load,
    uneven_placement,
    watermark_lag,
)

QUEUE_RULES: Final[tuple[Rule[Any], ...]] = (
    # BP1xx: what happens, and where it starts
    back_pressure.RULE,
    slow_operator.RULE,
    saturated_input.RULE,
    slow_subtask.RULE,
    # BP2xx: the network
    network_between.RULE,
    network_memory.RULE,
    shared_connection.RULE,
    uneven_channels.RULE,
    # SK1xx: who gets more, or is slower
    data_skew.RULE,
    slow_machine.RULE,
    uneven_load.RULE,
    garbage_collection.RULE,
    uneven_placement.RULE,
    watermark_lag.RULE,
)
