"""The listener for users' applications, and its export."""

from __future__ import annotations

import ast
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from typer.testing import CliRunner

import flowdiag.cli.listener.flowdiag_listener as shipped
from flowdiag.cli.app import app
from flowdiag.cli.listener.export import JAR, JAVA, PYTHON, export
from flowdiag.parsers.errors import FlowdiagError

SOURCE = Path(str(shipped.__file__)).read_text(encoding="utf-8")
JAVA_SOURCE = (Path(str(shipped.__file__)).parent / JAVA).read_text(encoding="utf-8")
CACHE = Path(
    os.environ.get("FLOWDIAG_FIXTURES_CACHE") or Path.home() / ".cache" / "flowdiag-fixtures"
)


class Context:
    """The parts of a `StreamingContext` that the listener uses."""

    def __init__(self, **configuration: str) -> None:
        self._jssc = self
        self.sparkContext = self
        self.applicationId, self.appName = "local-1", "orders"
        self.version, self.startTime = "4.3.0", 1_700_000_000_000
        self.configuration = configuration
        self.listeners: list[Any] = []

    def ssc(self) -> Context:
        return self

    graph = batchDuration = getConf = ssc

    def milliseconds(self) -> int:
        return 2000

    def getAll(self) -> list[tuple[str, str]]:
        return [(key.replace("_", "."), value) for key, value in self.configuration.items()]

    def addStreamingListener(self, listener: Any) -> None:
        self.listeners.append(listener)


class Started:
    """The event of a started context."""

    def __init__(self, time: int = 5) -> None:
        self._time = time

    def time(self) -> int:
        return self._time


class Receiver:
    """A receiver event as PySpark wraps it."""

    def receiverInfo(self) -> Receiver:
        return self

    def __getattr__(self, name: str) -> Any:
        values = {"streamId": 3, "name": "R-3", "active": True, "location": "h", "executorId": "1"}
        values |= {"lastErrorMessage": "", "lastError": "", "lastErrorTime": -1}
        return lambda: values[name]


@pytest.fixture
def attached(tmp_path: Path) -> Iterator[tuple[Context, shipped.Listener]]:
    context = Context(spark_streaming_blockInterval="500ms", spark_hadoop_fs_secret_key="hush")
    listener = shipped.attach(context, f"file://{tmp_path}/", max_bytes=2_000, keep=2)
    yield context, listener
    listener.close()


def lines(path: str | Path | None) -> list[dict[str, Any]]:
    assert path is not None
    return [json.loads(line) for line in Path(path).read_text(encoding="utf-8").splitlines()]


def test_the_first_line_is_the_header(
    attached: tuple[Context, shipped.Listener], tmp_path: Path
) -> None:
    _, listener = attached
    assert listener.attached and listener.path == str(tmp_path / "flowdiag-local-1.jsonl")
    header = lines(listener.path)[0]
    assert header.pop("time") > 1_700_000_000_000
    assert header == {
        "flowdiag_listener": 1,
        "event": "header",
        "file": 1,
        "writer": "python",
        "dropped": 0,
        "application_id": "local-1",
        "application_name": "orders",
        "spark_version": "4.3.0",
        "start_time": 1_700_000_000_000,
        "batch_interval_ms": 2000,
        "configuration": {"spark.streaming.blockInterval": "500ms"},
    }


def test_events_become_lines(attached: tuple[Context, shipped.Listener]) -> None:
    context, listener = attached
    context.listeners[0].onStreamingStarted(Started(7))
    context.listeners[0].onReceiverStarted(Receiver())
    context.listeners[0].onReceiverError(object())
    listener.close()
    context.listeners[0].onStreamingStarted(Started(8))  # too late
    _, started, receiver, unreadable, closed = lines(listener.path)
    assert (started["event"], started["start_time"]) == ("streaming_started", 7)
    assert started["batch_interval_ms"] == 2000
    assert receiver.pop("time") > 0
    assert receiver == {
        "event": "receiver_started",
        "stream_id": 3,
        "name": "R-3",
        "active": True,
        "location": "h",
        "executor_id": "1",
        "last_error_message": None,
        "last_error": None,
        "last_error_time": None,
    }
    assert (unreadable["event"], unreadable["of"]) == ("unreadable", "receiver_error")
    assert (closed["event"], closed["dropped"]) == ("closed", 0)


def test_rotation_keeps_some_files(attached: tuple[Context, shipped.Listener]) -> None:
    context, listener = attached
    for number in range(100):
        context.listeners[0].onStreamingStarted(Started(number))
    listener.close()
    assert listener.path is not None
    newest, middle, oldest = (lines(listener.path + suffix) for suffix in ("", ".1", ".2"))
    assert [file[0]["event"] for file in (newest, middle, oldest)] == ["header"] * 3
    assert newest[0]["file"] == middle[0]["file"] + 1 == oldest[0]["file"] + 2
    numbers = [e["start_time"] for file in (oldest, middle, newest) for e in file if len(e) == 4]
    assert numbers == list(range(numbers[0], 100))
    assert not Path(listener.path + ".3").exists()


def test_existing_files_are_kept(tmp_path: Path) -> None:
    (tmp_path / "dump.jsonl").write_text("an earlier run\n")
    listener = shipped.attach(Context(), tmp_path / "dump.jsonl")
    listener.close()
    assert (tmp_path / "dump.jsonl.1").read_text() == "an earlier run\n"


def test_callbacks_never_wait_and_losses_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shipped, "QUEUE_EVENTS", 3)
    context = Context()
    listener = shipped.attach(context, tmp_path / "dump.jsonl")

    class Slow(Started):
        def time(self) -> int:
            time.sleep(0.2)
            return 1

    for _ in range(20):
        context.listeners[0].onStreamingStarted(Slow())
    listener.close()
    counted = [line for line in lines(listener.path) if line["event"] == "dropped"]
    seen = [line for line in lines(listener.path) if line["event"] == "streaming_started"]
    assert counted[-1]["total"] == lines(listener.path)[-1]["dropped"] == 20 - len(seen) > 10


def test_a_full_disk_does_not_fail_the_application(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    context = Context()
    listener = shipped.attach(context, tmp_path / "dump" / "dump.jsonl", max_bytes=1)
    shutil.rmtree(tmp_path / "dump")
    (tmp_path / "dump").write_text("in the way")
    for _ in range(3):
        context.listeners[0].onStreamingStarted(Started())
    listener.close()
    assert capsys.readouterr().err.count("cannot write") == 1


@pytest.mark.parametrize("path", ["hdfs://name/x", "/dev/null/x/", 7, "s3a://bucket/x"])
def test_an_unwritable_path_is_reported(path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert not shipped.attach(Context(), path).attached
    assert capsys.readouterr().err.startswith("flowdiag_listener: not attached: ")


def test_an_unsupported_target_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    class OldStreams:
        def awaitAnyTermination(self) -> None: ...

    assert not shipped.attach(object(), "/nowhere").attached
    assert not shipped.attach(OldStreams(), "/nowhere").attached
    stderr = capsys.readouterr().err
    assert "neither a StreamingContext" in stderr and "use FlowdiagListener.jar" in stderr


def test_failures_have_no_stack_frames() -> None:
    text = "java.io.IOException: no\n\tat a.B.c(B.java:1)\nCaused by: x\n\tat d\n\t... 3 more\n"
    assert shipped._failure(text) == "java.io.IOException: no\nCaused by: x"
    python = """Traceback (most recent call last):
  File "/opt/python/lib/pyspark.zip/pyspark/worker.py", line 4327, in invoke_udf
    run_process()
           ^^^^^^
  File "/opt/app/orders.py", line 26, in handle
    raise ValueError(7)
ValueError: 7
"""
    expected = """Traceback (most recent call last):
  File "/opt/app/orders.py", line 26, in handle
    raise ValueError(7)
ValueError: 7"""
    assert shipped._failure(python) == expected
    assert shipped._failure("") is None and shipped._failure(None) is None


def test_long_texts_are_cut() -> None:
    assert shipped._cut("x" * 99, 10) == "x" * 9 + "…"
    whole = shipped._failure(f"first\n{'middle' * 9999}\nlast")
    assert whole is not None and len(whole) == shipped.LONGEST_FAILURE
    assert whole.startswith("first\n") and whole.endswith("\nlast") and "\n…\n" in whole


def test_the_listener_runs_on_old_pythons_without_packages() -> None:
    tree = ast.parse(SOURCE, feature_version=(3, 8))
    modules = {
        name.partition(".")[0]
        for node in ast.walk(tree)
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }
    assert modules - set(sys.stdlib_module_names) == {"pyspark"}


def test_both_listeners_write_the_same_options() -> None:
    keys = re.findall(r'^    "(spark\.[^"]+)",$', JAVA_SOURCE, re.MULTILINE)
    assert tuple(keys) == shipped.CONFIGURATION == tuple(sorted(set(keys)))
    assert not [
        k for k in keys if re.search(r"secret|password|token|key|url|uri", k, re.IGNORECASE)
    ]


def test_both_listeners_write_the_same_events() -> None:
    events = r'"((?:streaming|batch|output_operation|receiver|query)_[a-z]+)"'
    words = {w for w in re.findall(events, SOURCE) if w.split("_")[-1] not in ("interval", "time")}
    java = re.findall(r'kind\("(\w+)"', JAVA_SOURCE)
    assert words <= set(java)
    documented = (Path(__file__).parents[2] / "docs" / "listener.md").read_text()
    assert {w for w in java if f"`{w}`" not in documented} == set()


def test_export(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["listener", "export", str(tmp_path / "new" / "folder")])
    assert done.exit_code == 0, done.output
    folder = tmp_path / "new" / "folder"
    assert (folder / PYTHON).read_text(encoding="utf-8") == SOURCE
    assert (folder / JAVA).read_text(encoding="utf-8") == JAVA_SOURCE
    assert (folder / JAR).exists() == (shutil.which("javac") is not None)
    assert f"--py-files {folder / PYTHON}" in done.stdout
    spec = importlib.util.spec_from_file_location("exported", folder / PYTHON)
    assert spec is not None and spec.loader is not None
    module: ModuleType = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.SCHEMA == shipped.SCHEMA


def test_export_without_a_jdk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    done = export(tmp_path)
    assert done.files == (tmp_path / PYTHON, tmp_path / JAVA)
    assert done.without_jar == "no JDK found (javac); set JAVA_HOME"


def test_export_errors(tmp_path: Path) -> None:
    with pytest.raises(FlowdiagError, match="no Spark in"):
        export(tmp_path, spark_home=str(tmp_path))
    (tmp_path / "file").touch()
    with pytest.raises(FlowdiagError, match="cannot write to"):
        export(tmp_path / "file" / "folder")


APPLICATION = """
import sys, time
from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession
from pyspark.streaming import StreamingContext
import flowdiag_listener

delivered = []

def deliver(rdd):
    delivered.append(rdd.count())
    if delivered[-1] > 2:
        raise ValueError("three is too much")

context = SparkContext(conf=SparkConf())
streaming = StreamingContext(context, 1)
batches = [context.parallelize(range(n), 1) for n in (1, 2, 3)]
streaming.queueStream(batches).foreachRDD(deliver)
first = flowdiag_listener.attach(streaming, sys.argv[1])
second = flowdiag_listener.attach(SparkSession.builder.getOrCreate().streams, sys.argv[1])
assert first.attached, "no StreamingContext"
streaming.start()
for _ in range(120):
    time.sleep(0.5)
    if len(delivered) > 3:
        break
time.sleep(1)
streaming.stop(stopSparkContext=False)
session = SparkSession.builder.getOrCreate()
query = session.readStream.format("rate").load().writeStream.format("noop").queryName("q").start()
for _ in range(120):
    time.sleep(0.5)
    if len(query.recentProgress) > 1:
        break
query.stop()
time.sleep(1)
session.stop()
"""


def _pythons() -> list[Any]:
    """Return this environment's PySpark, and the versions that the recorder has installed."""
    known = [pytest.param(sys.executable, id="own")]
    python = next(iter(sorted(CACHE.glob("spark-3.5*-venv/bin/python"))), None)
    reason = (
        f"no PySpark 3.5 in {CACHE}; `python -m fixtures.spark_recorder install --version 3.5.7`"
    )
    skip = pytest.mark.skipif(python is None, reason=reason)
    return [*known, pytest.param(str(python), id="3.5", marks=[skip, pytest.mark.full])]


@pytest.mark.application
@pytest.mark.skipif(shutil.which("javac") is None, reason="the jar needs a JDK")
@pytest.mark.parametrize("python", _pythons())
def test_attached_to_a_real_application(python: str, tmp_path: Path) -> None:
    home = subprocess.check_output(
        [python, "-c", "import os, pyspark; print(os.path.dirname(pyspark.__file__))"], text=True
    ).strip()
    export(tmp_path, spark_home=home)
    (tmp_path / "app.py").write_text(textwrap.dedent(APPLICATION))
    submit = [f"{home}/bin/spark-submit", "--master", "local[2]", "--name", "tested"]
    submit += ["--py-files", str(tmp_path / PYTHON), "--jars", str(tmp_path / JAR)]
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "600m",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.local.dir": str(tmp_path / "scratch"),
        "spark.sql.warehouse.dir": str(tmp_path / "warehouse"),
        "spark.streaming.blockInterval": "500ms",
        "spark.extraListeners": "FlowdiagListener",
        "spark.flowdiag.listener.path": f"file:{tmp_path}/java/",
    }
    for key, value in settings.items():
        submit += ["--conf", f"{key}={value}"]
    done = subprocess.run(
        [*submit, str(tmp_path / "app.py"), f"{tmp_path}/python/"],
        env={**os.environ, "SPARK_HOME": home, "PYSPARK_PYTHON": python, "PYTHONPATH": ""},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    (by_python,) = (tmp_path / "python").iterdir()
    (by_java,) = (tmp_path / "java").iterdir()
    assert by_python.name == by_java.name
    one, two = lines(by_python), lines(by_java)
    for key in ("flowdiag_listener", "application_id", "application_name", "spark_version"):
        assert one[0][key] == two[0][key] is not None
    assert one[0]["batch_interval_ms"] == two[0]["batch_interval_ms"] == 1000
    assert two[0]["configuration"]["spark.streaming.blockInterval"] == "500ms"
    for event in ("closed", "streaming_started", "query_started", "query_terminated"):
        assert sum(line["event"] == event for line in one) == 1, event
        assert sum(line["event"] == event for line in two) == 1, event
    for event in ("batch_completed", "output_operation_completed"):
        mine, theirs = _events(one, event), _events(two, event)
        # Spark delivers no events to the listeners of a stopping context.
        assert mine == theirs[: len(mine)] and len(theirs) - len(mine) <= 1, event
    assert _events(one, "query_progress") == _events(two, "query_progress") != []
    batches = _events(one, "batch_completed")
    assert len(batches) >= 3
    for batch in batches:
        end, start = batch["processing_end_time"], batch["processing_start_time"]
        assert batch["processing_delay"] == end - start
        assert batch["scheduling_delay"] == start - batch["submission_time"]
    failed = [op["failure_reason"] for b in batches for op in b["output_operations"]]
    assert sum(reason is not None for reason in failed) == 1
    (reason,) = (reason for reason in failed if reason)
    assert "ValueError: three is too much" in reason and "\tat " not in reason


def _events(written: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    """Return the events of a kind, without their time."""
    return [
        {key: value for key, value in line.items() if key != "time"}
        for line in written
        if line["event"] == kind
    ]
