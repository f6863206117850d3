"""The rules of `flowdiag queues`, in the order of its reports: one file and one line here per rule."""

from __future__ import annotations

from typing import Final

from flowdiag.analyses.model.rule import Rule
from flowdiag.analyses.queues.rules import (
    back_pressure,
    broker_unreachable,
    consumer_lag,
    data_skew,
    database_lock,
    deleted_records,
    garbage_collection,
    heap_state,
    hot_partition,
    idle_source_subtasks,
    late_records,
    multiplied_state,
    network_bottleneck,
    network_memory_used_up,
    no_output,
    recreated_slot,
    refused_records,
    refused_requests,
    saturated_input_queue,
    shared_connection,
    slow_code,
    slow_operator,
    slow_service,
    slow_subtask,
    slow_taskmanager,
    small_block_cache,
    small_state_files,
    stale_state_files,
    store_errors,
    thread_leak,
    unbounded_state,
    uneven_channels,
    uneven_load,
    uneven_placement,
    watermark_lag,
    write_stalls,
)

RULES: Final[tuple[Rule, ...]] = (
    # BP1xx: what happens, and where it starts
    back_pressure.RULE,
    slow_operator.RULE,
    saturated_input_queue.RULE,
    slow_subtask.RULE,
    no_output.RULE,
    slow_code.RULE,
    thread_leak.RULE,
    late_records.RULE,
    # BP2xx: the network
    network_bottleneck.RULE,
    network_memory_used_up.RULE,
    shared_connection.RULE,
    uneven_channels.RULE,
    # SK1xx: uneven or slow subtasks
    data_skew.RULE,
    slow_taskmanager.RULE,
    uneven_load.RULE,
    garbage_collection.RULE,
    uneven_placement.RULE,
    watermark_lag.RULE,
    # IO1xx: sources, IO2xx: sinks and the systems behind them
    consumer_lag.RULE,
    hot_partition.RULE,
    deleted_records.RULE,
    recreated_slot.RULE,
    idle_source_subtasks.RULE,
    database_lock.RULE,
    broker_unreachable.RULE,
    slow_service.RULE,
    refused_requests.RULE,
    refused_records.RULE,
    # IO3xx: the stores of state
    write_stalls.RULE,
    small_block_cache.RULE,
    heap_state.RULE,
    store_errors.RULE,
    unbounded_state.RULE,
    stale_state_files.RULE,
    small_state_files.RULE,
    multiplied_state.RULE,
)
