"""Tests for stacks in other formats than HotSpot's thread dumps: profiles, Python, OpenJ9, Spark's Web UI."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowdiag.parsers.discover import discover
from flowdiag.parsers.split import parse_on_driver, plan_splits
from flowdiag.parsers.stacks.profiles import (
    MAX_READINGS,
    collapsed_samples,
    flame_graph_samples,
    flight_samples,
    profile_rows,
    speedscope_samples,
)
from flowdiag.parsers.stacks.texts import engine_of_stacks, stack_text_of

DATA = Path(__file__).parent / "data" / "profiles"
VERTEX = "0123456789abcdef0123456789abcdef"
LEAF = "com.shop.Price.map"
MAILBOX = "org.apache.flink.streaming.runtime.tasks.mailbox.MailboxProcessor.runMailboxLoop"
PY_SPY = (DATA / "py-spy.txt").read_text()
JAVACORE = (DATA / "javacore.txt").read_text()
DUMP_TO_FILE = (DATA.parent / "threads" / "java-25-jcmd.txt").read_text()
COPIED_PAGE = "9\tstream execution thread for x\tWAITING\t\njava.lang.Object.wait(Native Method)\ncom.shop.P.map(P.java:7)"
JAVA_21_TO_FILE = """2673
2026-11-26T23:16:10.152963451Z
21.0.8+9-LTS

#21 "enrich (1/2)#0"
      java.base/java.lang.Thread.sleep0(Native Method)
      java.base/java.lang.Thread.sleep(Unknown Source)
      com.shop.Price.map(Price.java:31)

#22 "enrich (2/2)#0" virtual
      com.shop.Price.map(Price.java:32)
"""
SLEEP = [
    {"name": "java.lang.Thread.run:840", "value": 100, "children": [
        {"name": f"{MAILBOX}:229", "value": 100, "children": [
            {"name": f"{LEAF}:31", "value": 90, "children": [
                {"name": "java.lang.Thread.sleep:-2", "value": 90, "children": []}]},
            {"name": f"{MAILBOX.replace('MailboxProcessor.runMailboxLoop', 'TaskMailboxImpl.take')}:1",
             "value": 10, "children": [{"name": "jdk.internal.misc.Unsafe.park:-2", "value": 10, "children": []}]}]}]},
]  # fmt: skip


def rows(path: Path) -> list[dict[str, Any]]:
    table = parse_on_driver(plan_splits(discover([str(path)]).sources))
    found = [row for row in table.to_pylist() if row["event"] == "thread"]
    return [row | {"fields": dict(row["fields"])} for row in found]


def read(data: bytes) -> list[dict[str, Any]]:
    found = stack_text_of(data)
    assert found is not None
    return [row for _, row in found.rows(data, "x")]


def test_a_flame_graph_belongs_to_its_vertex(tmp_path: Path) -> None:
    body = {
        "endTimestamp": 1_700_000_000_000,
        "data": {"name": "root", "value": 100, "children": SLEEP},
    }
    path = tmp_path / f"jobs_{VERTEX[::-1]}_vertices_{VERTEX}_flamegraph.json"
    path.write_text(json.dumps(body))
    sleeping, idle = rows(path)
    assert (sleeping["vertex_id"], sleeping["fields"]["samples"]) == (VERTEX, "90")
    assert sleeping["fields"]["frame"] == f"{LEAF}(line 31)"
    assert (sleeping["fields"]["kind"], idle["fields"]["kind"]) == ("sleep", "idle")


def test_a_server_without_flame_graphs_gives_no_sample(tmp_path: Path) -> None:
    path = tmp_path / f"jobs_{VERTEX[::-1]}_vertices_{VERTEX}_flamegraph.json"
    path.write_text('{"endTimestamp": -2}')
    (source,) = discover([str(path)]).sources
    assert (source.kind, rows(path)) == ("rest", [])


def test_java_flight_recorder_counts_waits_and_names_locks(tmp_path: Path) -> None:
    body = json.loads((DATA / "flight-recording.json").read_bytes())
    found = {
        (row["thread"], row["fields"]["kind"]): row["fields"]
        for row in profile_rows(flight_samples(body), "x")
    }
    calls = found["enrich (1/4)#0", "external"]
    assert calls["frame"].startswith("Jfr.ask(") and int(calls["samples"]) >= 2
    waits = found["convert (1/2)#0", "lock"]
    assert waits["owner"] == "convert (2/2)#0" and waits["lock"] == "java.lang.Object"
    (source,) = discover([str(DATA / "flight-recording.json")]).sources
    assert source.kind == "rest"


def test_collapsed_stacks_with_threads() -> None:
    (row,) = read((DATA / "collapsed.txt").read_bytes())
    assert (row["task"], row["fields"]["samples"]) == ("enrich", "120")
    assert (row["fields"]["kind"], row["fields"]["frame"]) == ("sleep", "com.shop.Price.map")


def test_a_large_profile_combines_rare_readings_and_keeps_their_samples() -> None:
    task, loop = "[enrich (1/4)#0 tid=7]", f"java/lang/Thread.run;{MAILBOX.replace('.', '/', 7)}"
    lines = [f"{task};{loop};com/shop/Price{n}.map {9 if n < 20 else 1}" for n in range(1500)]
    lines += [f"{task};{loop};com/shop/Price0.map;java/lang/Thread.sleep 30"]
    found = [row["fields"] for row in read("\n".join(lines).encode())]
    assert len(found) == MAX_READINGS + 1
    assert sum(int(fields["samples"]) for fields in found) == 20 * 9 + 1480 + 30
    (rare,) = [fields for fields in found if "frame" not in fields]
    assert (rare["kind"], rare["samples"]) == ("cpu", "501")


def test_a_large_profile_is_read_once(tmp_path: Path) -> None:
    path = tmp_path / "profile.collapsed"
    line = "[enrich (1/4)#0 tid=7];java/lang/Thread.run;com/shop/Price.map;com/shop/{n}.call 2\n"
    path.write_text("".join(line.format(n=n) for n in range(8000)))
    found = rows(path)
    assert sum(int(row["fields"]["samples"]) for row in found) == 16000


def test_speedscope() -> None:
    body = {
        "$schema": "https://www.speedscope.app/file-format-schema.json",
        "shared": {"frames": [{"name": LEAF, "file": "Price.java", "line": 31}, {"name": "java.lang.Thread.sleep"}]},
        "profiles": [
            {"type": "sampled", "name": "enrich (1/4)#0", "samples": [[0, 1], [0]], "weights": [0.02, 0.01]}
        ],
    }  # fmt: skip
    sleeping, running = profile_rows(speedscope_samples(body), "x")
    assert (sleeping["fields"]["samples"], sleeping["fields"]["kind"]) == ("2", "sleep")
    assert running["fields"]["frame"] == f"{LEAF}(Price.java:31)"


def test_py_spy_shows_the_line_of_a_python_worker(tmp_path: Path) -> None:
    path = tmp_path / "workers.txt"
    path.write_text(PY_SPY)
    (source,) = discover([str(path)]).sources
    assert (source.kind, source.engine) == ("log", "spark")
    (row,) = rows(path)
    assert row["fields"]["frame"] == "ask_service (lookups.py:12)"
    assert (row["fields"]["activity"], row["fields"]["role"]) == ("python-call", "python-task")


@pytest.mark.parametrize(
    ("state", "top", "activity"),
    [
        ("idle", "", "python-waits"),
        ("active+gil", "", "python-computes"),
        ("idle", "    send_command (py4j/clientserver.py:53)\n", "python-job"),
    ],
)
def test_activities_of_python(state: str, top: str, activity: str) -> None:
    proxy = "ClientServerConnection._call_proxy (py4j/clientserver.py:617)"
    frames = f"{top}    send (report.py:13)\n    {proxy}\n"
    text = f'Process 1: python3 report.py\n\nThread 1 ({state}): "Thread-2"\n{frames}'
    (row,) = read(text.encode())
    assert row["fields"]["activity"] == activity
    assert (row["fields"]["role"], row["fields"]["frame"]) == (
        "python-driver",
        "send (report.py:13)",
    )


def test_py_spy_prints_no_package_of_files_in_an_archive() -> None:
    """`spark-submit` imports PySpark and Py4J from archives."""
    worker = """Process 191: /opt/bin/python3 -m pyspark.daemon pyspark.worker

Thread 191 (idle): "MainThread"
    ask_service (lookups.py:11)
    wrapper (util.py:158)
    main (worker.py:4364)
    worker (daemon.py:90)
    manager (daemon.py:264)

Process 188: /opt/bin/python3 -m pyspark.daemon pyspark.worker

Thread 188 (idle): "MainThread"
    manager (daemon.py:184)
"""
    driver = """Process 68: /opt/bin/python3 report.py

Thread 68 (idle): "MainThread"
    send_command (clientserver.py:535)
    <module> (report.py:24)
Thread 186 (idle): "Thread-4 (run)"
    send (report.py:11)
    call (utils.py:163)
    _call_proxy (clientserver.py:644)
    run (clientserver.py:521)
"""
    found = [row["fields"] for row in read((worker + driver).encode())]
    assert [(f["role"], f["activity"], f.get("frame")) for f in found] == [
        ("python-task", "python-waits", "ask_service (lookups.py:11)"),
        ("python-driver", "python-waits", "send (report.py:11)"),
    ]
    assert engine_of_stacks(driver.encode()) == engine_of_stacks(worker.encode()) == "spark"


@pytest.mark.parametrize("classes", [("", ""), ("BundleProcessor.", "SdkWorker.")])
def test_a_python_worker_of_flink_processes_a_bundle_in_one_of_its_threads(
    classes: tuple[str, str],
) -> None:
    text = f"""Process 7: python -m pyflink.fn_execution.beam.beam_sdk_worker_main

Thread 7 (idle): "MainThread"
    wait (threading.py:320)
    main (pyflink/fn_execution/beam/beam_sdk_worker_main.py:43)
Thread 9 (idle): "Thread-8 (run)"
    readinto (socket.py:705)
    request_price (lookups.py:12)
    {classes[0]}process_bundle (apache_beam/runners/worker/bundle_processor.py:1040)
    {classes[1]}process_bundle (apache_beam/runners/worker/sdk_worker.py:669)
    run (apache_beam/utils/thread_pool_executor.py:53)
"""
    (row,) = read(text.encode())
    assert row["fields"]["frame"] == "request_price (lookups.py:12)"
    assert (row["fields"]["activity"], row["fields"]["kind"]) == ("python-call", "python")
    assert engine_of_stacks(text.encode()) == "flink"


def test_an_idle_python_worker_waits_for_input() -> None:
    frames = "    read_int (pyspark/serializers.py:599)\n    main (pyspark/worker.py:1)\n"
    (row,) = read(f"Process 1: python3\n\nThread 1 (idle)\n{frames}".encode())
    assert row["fields"]["kind"] == "idle"


def test_javacores_of_openj9() -> None:
    blocked, owner = read(JAVACORE.encode())
    fields = blocked["fields"]
    assert (blocked["task"], blocked["subtask_index"], fields["kind"]) == ("enrich", 1, "lock")
    assert (fields["owner"], fields["frame"]) == (
        "enrich (1/4)#0",
        "com.shop.Price.map(Price.java:31)",
    )
    assert (fields["cpu_ms"], owner["to_state"]) == ("500", "RUNNABLE")


def test_the_thread_dump_page_of_spark(tmp_path: Path) -> None:
    path = DATA / "spark-4.3-page.html"
    (source,) = discover([str(path)]).sources
    assert (source.kind, source.engine) == ("log", "spark")
    (row,) = rows(path)
    assert (row["fields"]["query"], row["fields"]["kind"]) == ("reports", "job")


def test_the_rows_of_sparks_page_copied_as_text() -> None:
    page = (DATA / "spark-4.3-page.html").read_text()
    cells = dict(re.findall(r'id="87_td_(\w+)"[^>]*>(.*?)</td>', page, re.DOTALL))
    stack = cells.pop("stacktrace").replace("<br/>", "\n")
    blocked = "64\tExecutor task launch worker for task 3.0 in stage 5.0 (TID 12)\tBLOCKED\tBlocked by Thread 87"
    text = f"Thread ID\tThread Name\n{chr(9).join(cells.values())}\n{stack}\n{blocked}\ncom.shop.P.map(P.java:7)\n"
    query, task = read(text.encode())
    (saved,) = read(page.encode())
    assert query["fields"] | {"dump": "", "threads": ""} == saved["fields"] | {
        "dump": "",
        "threads": "",
    }
    assert (task["fields"]["kind"], task["fields"]["owner"]) == ("lock", query["thread"])
    assert engine_of_stacks(text.encode()) == "spark"


def test_a_dump_to_a_file_without_states() -> None:
    sleeping, virtual = read(JAVA_21_TO_FILE.encode())
    assert (sleeping["to_state"], sleeping["fields"]["kind"]) == ("WAITING", "sleep")
    assert sleeping["utc_us"] == 1_795_734_970_152_963
    assert virtual["fields"]["frame"] == "com.shop.Price.map(Price.java:32)"


def test_thread_infos_as_text() -> None:
    text = '"enrich (1/4)#0" prio=5 Id=87 TIMED_WAITING\n\tat java.lang.Thread.sleep(N)\n\tat com.shop.P.map(P.java:1)\n'
    (row,) = read(text.encode())
    assert (row["fields"]["kind"], row["fields"]["frame"]) == ("sleep", "com.shop.P.map(P.java:1)")


@pytest.mark.parametrize(
    ("text", "engine"),
    [
        (b'"stream execution thread for orders" #1 prio=5', "spark"),
        (b"\tat org.apache.flink.runtime.taskmanager.Task.run(Task.java:1)", "flink"),
        (b"\tat com.shop.Main.main(Main.java:1)", "unknown"),
    ],
)
def test_the_engine_of_a_dump(text: bytes, engine: str) -> None:
    assert engine_of_stacks(text) == engine


KEYS = [
    "name",
    "value",
    "children",
    "data",
    "frames",
    "profiles",
    "samples",
    "weights",
    "shared",
    "recording",
    "events",
    "type",
    "values",
    "stackTrace",
    "method",
    "lineNumber",
    "duration",
]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(KEYS),
            inner,
            max_size=4,
        )
    ),
    max_leaves=25,
)


@given(
    st.dictionaries(
        st.sampled_from(["data", "shared", "profiles", "recording", "endTimestamp"]), JSON
    )
)
def test_any_profile_is_read_without_an_error(body: dict[str, Any]) -> None:
    graph, _ = flame_graph_samples(body)
    for samples in (graph, speedscope_samples(body), flight_samples(body)):
        assert all(row["event"] == "thread" for row in profile_rows(samples, "x", {"task": "t"}))


@given(
    st.sampled_from([PY_SPY, JAVACORE, DUMP_TO_FILE, COPIED_PAGE]),
    st.integers(0, 1500),
    st.binary(max_size=60),
)
def test_any_damage_to_a_text_is_read_without_an_error(text: str, at: int, noise: bytes) -> None:
    data = text.encode()[:at] + noise + text.encode()[at:]
    found = stack_text_of(data)
    assert found is None or all(row["event"] == "thread" for _, row in found.rows(data, "x"))
    assert all(sample.times >= 0 for sample in collapsed_samples(data))
