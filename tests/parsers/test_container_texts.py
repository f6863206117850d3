"""kubectl's texts and logs of the garbage collector."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from flowdiag.parsers.flink.container_texts import ended_containers, looks_like_kubectl, pauses

POD = """\
Name:             orders-taskmanager-1-2
Namespace:        flink
Containers:
  flink-main-container:
    State:          Running
    Last State:     Terminated
      Reason:       OOMKilled
      Exit Code:    137
    Limits:
      memory:  1728Mi
"""


def test_a_described_pod() -> None:
    assert looks_like_kubectl(POD)
    (ended,) = ended_containers(POD)
    assert (ended.reason, ended.exit_code, ended.pod) == (
        "OOMKilled",
        137,
        "orders-taskmanager-1-2",
    )
    assert ended.memory_limit == 1728 << 20
    assert POD.encode()[ended.offset :].lstrip().startswith(b"Reason:       OOMKilled")


def test_a_state_without_limits() -> None:
    (ended,) = ended_containers(POD.split("    Limits")[0])
    assert (ended.reason, ended.memory_limit) == ("OOMKilled", None)


def test_pauses_of_the_collector() -> None:
    text = (
        "[1.2s][info][gc] GC(3) Pause Young (Normal) (G1 Evacuation Pause) 24M->4M(256M) 3.456ms\n"
        "[9.9s][info][gc] GC(4) Pause Full (G1 Compaction Pause) 254M->240M(256M) 903,4ms\n"
        "[9.9s][info][gc] GC(5) Concurrent Mark Cycle 12.3ms\n"
    )
    young, full = pauses(text)
    assert (young.full, young.after, young.ms) == (False, 4 << 20, 3.456)
    assert (full.full, full.before, full.heap, full.ms) == (True, 254 << 20, 256 << 20, 903.4)


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=400))
def test_no_text_raises(text: str) -> None:
    looks_like_kubectl(text)
    list(ended_containers(text))
    list(pauses(text))
