"""Texts from kubectl, and garbage collection logs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flowdiag.parsers.discover import discover
from flowdiag.parsers.flink.container_texts import (
    ended_containers,
    looks_like_kubectl,
    pauses,
    reports_killed_process,
)

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


def test_a_pod_that_was_evicted_above_its_containers() -> None:
    text = (
        "Name:             clicks-driver\nStatus:           Failed\nReason:           Evicted\n"
        "Message:          The node was low on resource: ephemeral-storage.\nContainers:\n"
        "  spark-kubernetes-driver:\n    State:         Terminated\n      Reason:      Error\n      Exit Code:   143\n"
    )
    evicted, ended = ended_containers(text)
    assert (evicted.reason, evicted.pod, ended.exit_code) == ("Evicted", "clicks-driver", 143)
    assert "ephemeral-storage" in evicted.text


def test_a_state_without_limits() -> None:
    (ended,) = ended_containers(POD.split("    Limits")[0])
    assert (ended.reason, ended.memory_limit) == ("OOMKilled", None)


PRINTED_YAML = """\
apiVersion: v1
kind: Pod
metadata:
  labels:
    app: orders
  name: orders-taskmanager-1-3
status:
  containerStatuses:
  - lastState:
      terminated:
        exitCode: 137
        reason: OOMKilled
    name: flink-main-container
"""
PRINTED_JSON = """\
{
  "kind": "Pod",
  "metadata": {"uid": "4f"},
  "metadata": {
    "name": "orders-taskmanager-1-3"
  },
  "status": {
    "containerStatuses": [
      {
        "name": "flink-main-container",
        "lastState": {
          "terminated": {
            "exitCode": 137,
            "reason": "OOMKilled"
          }
        }
      }
    ]
  }
}
"""


@pytest.mark.parametrize("text", [PRINTED_YAML, PRINTED_JSON], ids=["yaml", "json"])
def test_a_pod_as_yaml_or_json(text: str, tmp_path: Path) -> None:
    (tmp_path / "pod").write_text(text)
    assert str(discover([str(tmp_path)]).sources[0].reason).startswith("kubectl output")
    (ended,) = ended_containers(text)
    assert (ended.reason, ended.exit_code, ended.pod) == (
        "OOMKilled",
        137,
        "orders-taskmanager-1-3",
    )


KILLED = {
    "kernel": (
        "[Fri Nov 20 14:02:11 2026] Memory cgroup out of memory: Killed process 4711 (java) total-vm:9kB\n",
        None,
    ),
    "NodeManager": (
        (
            "2026-11-20 14:02:11,871 WARN ContainersMonitorImpl: Container [pid=1,containerID=container_e05_1_01_12]"
            " is running beyond physical memory limits. Current usage: 4.1 GB of 4 GB\n"
        ),
        "container_e05_1_01_12",
    ),
    "diagnostics": (
        (
            "Diagnostics: [x]Container [pid=1,containerID=container_e05_1_01_12] is running 12288B beyond the"
            " 'PHYSICAL' memory limit. Killing container.\n"
        ),
        "container_e05_1_01_12",
    ),
}


@pytest.mark.parametrize(("text", "name"), KILLED.values(), ids=KILLED)
def test_processes_killed_by_the_system(text: str, name: str | None) -> None:
    assert reports_killed_process(text)
    (ended,) = ended_containers(text)
    assert (ended.reason, ended.pod) == ("OOMKilled", name)


# As printed by Linux 6.18, without most of the counters.
REPORT = (
    "VM Thread invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0",
    "memory: usage 1228800kB, limit 1228800kB, failcnt 41",
    "memory+swap: usage 1228800kB, limit 9007199254740988kB, failcnt 0",
    "Memory cgroup stats for /flink-worker-1:",
    "[  11744]     0 11744  1059315    27301    20256     7045         0   425984        0             0 java",
    "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,oom_memcg=/a,task=java,pid=11744,uid=0",
    "Memory cgroup out of memory: Killed process 11744 (java) total-vm:4237260kB, anon-rss:1181024kB, file-rss:28kB",
)
AT = 1795855742_000_000


@pytest.mark.parametrize(
    ("prefix", "time_us"),
    [
        ("[23826.079276] ", None),
        ("[Sat Nov 28 08:49:02 2026] ", AT),
        ("2026-11-28T08:49:02,000000+00:00 ", AT),
        ("2026-11-28T08:49:02+0000 node-7 kernel: ", AT),
        ("Nov 28 08:49:02 node-7 kernel: ", None),
    ],
    ids=["dmesg", "dmesg -T", "dmesg --time-format iso", "journalctl -o short-iso", "syslog"],
)
def test_the_kernel_reports_the_limit_and_the_size_of_the_process(
    prefix: str, time_us: int | None, tmp_path: Path
) -> None:
    boot = "".join(f"{prefix}EXT4-fs (loop0): mounted filesystem {n}\n" for n in range(2000))
    text = boot + "".join(f"{prefix}{line}\n" for line in REPORT)
    (tmp_path / "kernel.txt").write_text(text)
    (source,) = discover([str(tmp_path)]).sources
    assert source.kind == "not-read" and "OOM-killed" in str(source.reason)
    (ended,) = ended_containers(text)
    assert (ended.memory_limit, ended.time_us) == (1200 << 20, time_us)
    assert "at its memory limit" in ended.text and f"{1181024 << 10}B" in ended.text


def test_the_host_has_no_memory_left() -> None:
    *above, last = REPORT
    line = last.replace("Memory cgroup out", "Out").replace("limit", "")
    (ended,) = ended_containers("\n".join([*above, line]))
    assert ended.memory_limit is None and "the host ran out of memory" in ended.text


def test_a_failure_next_to_a_report_of_the_kernel_is_read(tmp_path: Path) -> None:
    failure = "java.lang.IllegalStateException: the warehouse is closed\n\tat com.example.Orders.map(Orders.java:7)"
    (tmp_path / "mail.txt").write_text("\n".join([*REPORT, "", failure, ""]))
    assert discover([str(tmp_path)]).sources[0].kind == "log"


def test_pauses_of_the_collector() -> None:
    text = (
        "[1.2s][info][gc] GC(3) Pause Young (Normal) (G1 Evacuation Pause) 24M->4M(256M) 3.456ms\n"
        "[9.9s][info][gc] GC(4) Pause Full (G1 Compaction Pause) 254M->240M(256M) 903,4ms\n"
        "[9.9s][info][gc] GC(5) Concurrent Mark Cycle 12.3ms\n"
    )
    young, full = pauses(text)
    assert (young.full, young.after, young.ms) == (False, 4 << 20, 3.456)
    assert (full.full, full.before, full.heap, full.ms) == (True, 254 << 20, 256 << 20, 903.4)


def test_stalls_of_one_cycle_overlap() -> None:
    """Check a collector that hardly pauses: ZGC threads without memory stall until the cycle
    ends.
    """
    text = (
        "[2.100s][info][gc          ] GC(7) Garbage Collection (Allocation Rate) 40M(62%)->22M(34%)\n"
        "[2.301s][info][gc          ] Allocation Stall (enrich (1/2)#0) 21.093ms\n"
        "[2.302s][info][gc          ] Allocation Stall (main) 48,5ms\n"
        "[2.310s][info][gc          ] GC(8) Garbage Collection (Allocation Stall) 64M(100%)->60M(94%)\n"
        "[2.400s][info][gc          ] GC(9) Garbage Collection (Allocation Rate) 62M(97%)->58M(91%)\n"
    )
    assert [(pause.full, pause.ms) for pause in pauses(text)] == [
        (False, 0.0),
        (True, 48.5),
        (False, 0.0),
    ]


def test_a_degenerated_collection_stops_all_threads() -> None:
    text = (
        "[1.5s][info][gc] GC(3) Pause Init Mark (unload classes) 0.145ms\n"
        "[1.9s][info][gc] GC(3) Pause Degenerated GC (Mark) 62M->50M(64M) 35.210ms\n"
        "[2.2s][info][gc] GC(4) Pause Full 63M->51M(64M) 80.112ms\n"
    )
    assert [(p.full, p.after >> 20, p.ms) for p in pauses(text)] == [
        (True, 50, 35.21),
        (True, 51, 80.112),
    ]


def test_cms_of_java_8_collects_the_whole_heap_if_it_falls_behind() -> None:
    """Check lines of Java 8 with and without `-XX:+PrintGCDetails`."""
    text = (
        "0.300: [GC (CMS Initial Mark)  45121K(63360K), 0.0021216 secs]\n"
        "0.307: [GC (Allocation Failure)  45121K->40564K(63360K), 0.0273767 secs]\n"
        "0.264: [GC (Allocation Failure) 0.264: [ParNew: 19615K->19615K(19648K), 0.0000107 secs]0.264: "
        "[CMS (concurrent mode failure): 38506K->22134K(43712K), 0.0054321 secs] 58121K->22134K(63360K), "
        "[Metaspace: 2827K->2827K(1056768K)], 0.0054736 secs] [Times: user=0.00 sys=0.01, real=0.00 secs] \n"
    )
    assert [(p.full, p.after >> 10, p.ms) for p in pauses(text)] == [
        (False, 45121, 2.1216),
        (False, 40564, 27.3767),
        (True, 22134, 5.4736),
    ]


def test_a_log_contains_the_collections_that_the_jvm_counted() -> None:
    """Check the logs of five collectors of Java 17 and 25 against their MXBeans."""
    folder = Path(__file__).parent / "data" / "gc"
    counted = json.loads((folder / "counted.json").read_text())
    for name, (collections, total_ms) in counted.items():
        found = list(pauses((folder / f"{name}.log").read_text()))
        if "Shenandoah" in name:  # a cycle frees memory once or twice
            assert collections <= len(found) <= 2 * collections, name
        elif "-Z" in name:
            assert abs(len(found) - collections) <= 2, name  # the log continues
        else:
            assert len(found) == collections, name
            # The JVM counts whole milliseconds.
            assert abs(sum(pause.ms for pause in found) - total_ms) <= len(found), name
        assert all(pause.uptime_s and pause.time_us for pause in found), name
        assert all(0 < pause.after <= pause.heap < 75 << 20 for pause in found), name


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=400))
def test_no_text_raises(text: str) -> None:
    looks_like_kubectl(text)
    list(ended_containers(text))
    list(pauses(text))


def test_an_event_names_its_pod() -> None:
    text = (
        "LAST SEEN   TYPE      REASON    OBJECT                     MESSAGE\n"
        "5m          Warning   Evicted   pod/orders-taskmanager-1-1 The node was low on resource\n"
        "4m          Warning   OOMKilling   node/worker-1           Memory cgroup out of memory\n"
    )
    assert looks_like_kubectl(text)
    found = [(ended.reason, ended.pod) for ended in ended_containers(text)]
    assert found == [("Evicted", "orders-taskmanager-1-1"), ("OOMKilling", None)]


@pytest.mark.parametrize(
    ("text", "full", "after", "heap", "ms"),
    [
        (
            (
                "2018-05-22T02:31:33.064+0000: [GC (Allocation Failure) 2018-05-22T02:31:33.064+0000: [ParNew: "
                "77824K->8202K(77824K), 0.0035546 secs] 1837015K->1768418K(3009812K), 0.0036089 secs]\n"
            ),
            False,
            1768418 * 1024,
            3009812 * 1024,
            3.6089,
        ),
        (
            (
                "1.092: [Full GC (Allocation Failure) 1.092: [Tenured: 349499K->349393K(349568K), 0.0399489 secs] "
                "506730K->372468K(506816K), [Metaspace: 3794K->3794K(1056768K)], 0.0399981 secs]\n"
            ),
            True,
            372468 * 1024,
            506816 * 1024,
            39.9981,
        ),
        (
            (
                "4.148: [GC (CMS Final Remark) [YG occupancy: 97189 K (154880 K)]4.148: [Rescan (parallel) , 0.03 "
                "secs][1 CMS-remark: 6878886K(8218240K)] 6986289K(8371584K), 0.2329748 secs]\n"
            ),
            False,
            6986289 * 1024,
            8371584 * 1024,
            232.9748,
        ),
        (
            (
                "4.296: [GC4.296: [DefNew: 68160K->8512K(76672K), 0.0528470 secs] 68160K->11664K(1325760K), "
                "0.0530640 secs] [Times: user=0.04 sys=0.00, real=0.05 secs]\n"
            ),
            False,
            11664 * 1024,
            1325760 * 1024,
            53.064,
        ),
        (
            (
                "2022-05-06T10:00:00.123+0000: 12.345: [GC (Allocation Failure) [PSYoungGen: "
                "65536K->10748K(76288K)] 65536K->10764K(251392K), 0.0124760 secs] [Times: user=0.02]\n"
            ),
            False,
            10764 * 1024,
            251392 * 1024,
            12.476,
        ),
        (
            (
                "99.1: [Full GC (Ergonomics) [PSYoungGen: 10748K->0K(76288K)] [ParOldGen: 16K->9821K"
                "(175104K)] 10764K->9821K(251392K), [Metaspace: 20000K->20000K(1067008K)], 0.0512000 secs]\n"
            ),
            True,
            9821 * 1024,
            251392 * 1024,
            51.2,
        ),
        (
            (
                "1.2: [GC pause (G1 Evacuation Pause) (young), 0.0123456 secs]\n"
                "   [Eden: 24.0M(24.0M)->0.0B(13.0M) Survivors: 0.0B->3072.0K Heap: 24.0M(256.0M)->"
                "21.5M(256.0M)]\n"
            ),
            False,
            int(21.5 * 1024**2),
            256 * 1024**2,
            12.3456,
        ),
        (
            "[1.234s][info][gc] GC(3) Garbage Collection (Warmup) 26M(10%)->14M(5%)\n",
            False,
            14 * 1024**2,
            260 * 1024**2,
            0.0,
        ),
    ],
)
def test_collections_of_other_java_versions(
    text: str, full: bool, after: int, heap: int, ms: float
) -> None:
    (pause,) = pauses(text)
    assert (pause.full, pause.after, pause.heap) == (full, after, heap)
    assert pause.ms == pytest.approx(ms)


PODS = """\
$ kubectl get pods -A
NAMESPACE   NAME                      READY   STATUS             RESTARTS      AGE
prod        orders-6d5f7c8b9-x7k2p    1/1     Running            0             3d
prod        orders-taskmanager-1-2    0/1     OOMKilled          3 (5m ago)    3d
prod        orders-taskmanager-1-3    0/1     CrashLoopBackOff   12            3d
prod        orders-taskmanager-1-4    0/1     Evicted            0             1d
prod        orders-taskmanager-1-5    0/1     Init:Error         2             1d
prod        orders-taskmanager-1-6    0/1     ExitCode:143       2             1d
"""


def test_ended_containers_in_a_pod_list() -> None:
    for text in (PODS, PODS.replace("NAMESPACE   ", "").replace("prod        ", "")):
        assert looks_like_kubectl(text)
        assert [(one.pod, one.reason, one.exit_code) for one in ended_containers(text)] == [
            ("orders-taskmanager-1-2", "OOMKilled", None),
            ("orders-taskmanager-1-3", "CrashLoopBackOff", None),
            ("orders-taskmanager-1-4", "Evicted", None),
            ("orders-taskmanager-1-5", "Error", None),
            ("orders-taskmanager-1-6", "Error", 143),
        ]


@pytest.mark.parametrize(
    "text",
    [
        PODS,
        "LAST SEEN   TYPE      REASON    OBJECT         MESSAGE\n5m   Warning   Evicted   pod/a-1   low\n",
        "Name:         a-1\nNamespace:    b\nStatus:  Running\nContainers:\n  c:\n",
    ],
)
def test_kubectl_output_is_not_a_log(text: str, tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text(text)
    (source,) = discover([str(tmp_path)]).sources
    assert source.kind == "not-read"
    assert "kubectl" in (source.reason or "")
