"""Capacity of input queues by Flink version."""

from __future__ import annotations

import pytest

from flowdiag.analyses.queues.capacity import GateShape, input_capacity

PREFIX = "taskmanager.network.memory."


@pytest.mark.parametrize(
    ("version", "channels", "remote", "buffers", "local", "events"),
    [
        ((1, 4), 10, 10, 28, None, 10),  # C * 2 + 8, and a barrier for each
        ((1, 4), 10, 4, 28, None, 4),  # the pool is sized by all channels, remote ones are counted
        ((1, 5), 10, 10, 28, None, 10),
        ((1, 8), 10, 4, 16, None, 4),  # 4 * 2 + 8
        ((1, 8), 10, 0, 0, None, 0),
        ((1, 11), 10, 4, 16, 60, 10),  # six local channels of ten buffers
        ((1, 20), 10, 10, 28, 0, 10),
        ((2, 3), 10, 4, 16, 60, 10),
    ],
)
def test_vectors(
    version: tuple[int, int],
    channels: int,
    remote: int,
    buffers: int,
    local: int | None,
    events: int,
) -> None:
    found = input_capacity([GateShape(channels=channels, remote=remote)], {}, version)
    assert (found.buffers, found.local, found.events) == (buffers, local, events)
    assert found.has_only_own_buffers == (not local)


def test_local_producers_of_1_9_lend_their_whole_pool() -> None:
    found = input_capacity([GateShape(channels=2, remote=1, subpartitions=4)], {}, (1, 9))
    assert (found.buffers, found.local) == (10, 16)


def test_options_apply_up_to_2_0() -> None:
    options = {f"{PREFIX}buffers-per-channel": "6", f"{PREFIX}floating-buffers-per-gate": "4"}
    gate = [GateShape(channels=4, remote=4)]
    assert input_capacity(gate, options, (1, 20)).buffers == 28
    assert input_capacity(gate, options, (2, 0)).buffers == 16


def test_gates_add_up() -> None:
    gates = [GateShape(channels=2, remote=2), GateShape(channels=4, remote=4)]
    assert input_capacity(gates, {}, (1, 16)).total == (4 + 8) + (8 + 8) + 6


def test_without_credits_all_channels_share_one_pool() -> None:
    options = {"taskmanager.network.credit-model": "false"}
    assert input_capacity([GateShape(channels=4, remote=1)], options, (1, 8)).buffers == 16
