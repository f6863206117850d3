"""The rules of `flowdiag queues`, in the order of its reports: one file a rule, one line here."""

from __future__ import annotations

from typing import Any, Final

from flowdiag.analyses.queues.rules import (
    back_pressure,
    data_skew,
    garbage_collection,
    shared_connection,
    slow_operator,
    slow_subtask,
    uneven_channels,
    uneven_load,
    uneven_placement,
    watermark_lag,
)
from flowdiag.analyses.queues.rules import network_bottleneck as network_between
from flowdiag.analyses.queues.rules import network_memory_used_up as network_memory
from flowdiag.analyses.queues.rules import saturated_input_queue as saturated_input
from flowdiag.analyses.queues.rules import slow_taskmanager as slow_machine
from flowdiag.analyses.rule import Rule

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
