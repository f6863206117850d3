"""What is set for the process while a command runs is undone after it."""

from __future__ import annotations

import gc
import sys

import pytest

from flowdiag.cli.early import in_a_hurry


def test_settings_of_the_interpreter_come_back() -> None:
    before = sys.getswitchinterval(), gc.get_threshold()
    with pytest.raises(RuntimeError), in_a_hurry():
        assert sys.getswitchinterval() < before[0]
        assert gc.get_threshold()[0] > before[1][0]
        assert gc.isenabled()
        raise RuntimeError
    assert (sys.getswitchinterval(), gc.get_threshold()) == before


def test_garbage_is_still_collected() -> None:
    with in_a_hurry():
        gc.collect()
        collections = gc.get_stats()[0]["collections"]
        for _ in range(2 * gc.get_threshold()[0]):
            ring: list[object] = []
            ring.append(ring)
        assert gc.get_stats()[0]["collections"] > collections
