"""Side effects of a session: environment, files, ports and processes. All tests share one JVM."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from flowdiag.cli.spark import starter as starter_module
from flowdiag.cli.spark.folder import PrivateFolder, remove_leftovers
from flowdiag.cli.spark.java import find_java
from flowdiag.cli.spark.jvm import ARCHIVE_REJECTED, Jvm, class_path, spark_home, tail_lines
from flowdiag.cli.spark.settings import SMALL, by_size
from flowdiag.cli.spark.starter import SparkStarter
from flowdiag.parsers.errors import FlowdiagError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession


def test_spark_home_is_in_the_installed_package() -> None:
    jars = class_path(spark_home()).split(os.pathsep)
    assert len(jars) > 100
    assert any("spark-core_" in jar for jar in jars)


def test_missing_java_is_reported_when_the_session_is_requested(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def find_no_java() -> None:
        raise FlowdiagError("no Java found", hint="install one")

    monkeypatch.setattr(starter_module, "find_java", find_no_java)
    with SparkStarter.begin() as starter:
        with pytest.raises(FlowdiagError, match="no Java found"):
            starter.session()
        assert starter.folder.exists()
    assert not starter.folder.exists()


def test_closing_restores_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_REMOTE", "sc://elsewhere")
    monkeypatch.setenv("SPARK_HOME", "/opt/other-spark")
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    monkeypatch.setattr(Jvm, "start", lambda self, java, properties, flags: raise_os_error())
    before = dict(os.environ)
    with SparkStarter.begin():
        assert "SPARK_REMOTE" not in os.environ
        assert "SPARK_HOME" not in os.environ
        assert os.environ["PYSPARK_PYTHON"] == sys.executable
    assert dict(os.environ) == before


def raise_os_error() -> None:
    raise OSError("not today")


def test_an_interrupted_start_leaves_nothing(tmp_path: Path) -> None:
    starter = SparkStarter.begin()
    process = starter.process
    assert process is not None
    starter.close()
    starter.close()
    assert process.returncode is not None
    assert not starter.folder.exists()


def test_the_last_jvm_output_is_kept(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"first\n" + b"x" * 5_000_000 + b"\nlast \xff\n")
    lines: deque[str] = deque(maxlen=400)
    with log.open("rb") as stream:
        list(tail_lines(stream, lines))
    assert lines[-1] == "last \ufffd\n"
    assert sum(map(len, lines)) < 1_000_000


@pytest.mark.parametrize(
    ("line", "rejected"),
    [
        ("[0.1s][warning][cds] shared class paths mismatch (hint: enable -Xlog)", True),
        ("[0.016s][warning][aot] The AOT cache was created by a different version or build", True),
        ("[0.1s][warning][cds] A jar file is not the one used while building the archive", True),
        ("[0.1s][error  ][aot,config] An error has occurred while processing the AOT cache", True),
        ("[0.1s][warning][aot                ] Failed to link AdapterHandlerEntry (fp=L)", False),
        ("ERROR Executor: mismatch [cds]", False),
    ],
)
def test_a_rejected_archive_is_detected(line: str, rejected: bool) -> None:
    assert bool(ARCHIVE_REJECTED.match(line)) is rejected


@pytest.mark.spark
def test_a_local_session_is_private(spark: SparkSession) -> None:
    conf = spark.sparkContext.getConf()
    folder = Path(conf.get("spark.local.dir") or "")
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert conf.get("spark.driver.host") == "127.0.0.1"
    assert spark.sparkContext.uiWebUrl is None
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert str(spark.conf.get("spark.sql.warehouse.dir")).endswith(f"{folder}/warehouse")


@pytest.mark.spark
def test_verbose_output_names_the_session(spark: SparkSession, tmp_path: Path) -> None:
    with (tmp_path / "lock").open("wb") as lock:
        folder = PrivateFolder(path=tmp_path, lock=lock, unregister=lambda: None)
        lines = SparkStarter(cores=2, _folder=folder, _session=spark).summary_lines()
    assert lines == [f"{spark.version}, {spark.sparkContext.master}, 2 parallel tasks"]


@pytest.mark.spark
def test_no_port_is_open_to_other_hosts(spark: SparkSession) -> None:
    ports = _listening_on_all_interfaces()
    if ports is None:
        pytest.skip("needs /proc")
    jvm = spark.sparkContext._gateway
    assert jvm is not None
    assert jvm.gateway_parameters.port not in ports
    driver = spark.sparkContext.getConf().get("spark.driver.port")
    assert int(driver or 0) not in ports


def _listening_on_all_interfaces() -> set[int] | None:
    ports = set()
    for name in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            rows = Path(name).read_text().splitlines()[1:]
        except OSError:
            return None
        for row in rows:
            address, state = row.split()[1], row.split()[3]
            host, port = address.split(":")
            if state == "0A" and set(host) == {"0"}:
                ports.add(int(port, 16))
    return ports


@pytest.mark.spark
def test_a_hostile_module_in_the_working_directory_is_not_imported(spark: SparkSession) -> None:
    # The JVM's Python workers use its working directory.
    folder = Path(spark.sparkContext.getConf().get("spark.local.dir") or "")
    names = ("regex", "pandas", "ahocorasick_rs", "msgspec")

    def module_files(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import importlib

        import pyarrow

        for _ in batches:
            found = [str(importlib.import_module(name).__file__) for name in names]
            yield pyarrow.RecordBatch.from_pydict({"origin": found})

    for name in names:
        (folder / f"{name}.py").write_text("import os; os._exit(66)\n")
    try:
        frame = spark.range(1, numPartitions=1).mapInArrow(module_files, schema="origin string")
        found = [row["origin"] for row in frame.collect()]
    finally:
        for name in names:
            (folder / f"{name}.py").unlink()
    assert len(found) == len(names)
    assert not any(origin.startswith(str(folder)) for origin in found)


def test_the_installed_java_is_supported() -> None:
    assert find_java().major >= 17


@pytest.mark.skipif(os.name != "posix", reason="uses POSIX signals")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_no_jvm_and_no_folder_survive_a_signal(number: signal.Signals, tmp_path: Path) -> None:
    program = (
        "import time\n"
        "from flowdiag.cli.spark.starter import SparkStarter\n"
        "with SparkStarter.begin() as starter:\n"
        "    print(starter.process.pid, flush=True)\n"
        "    time.sleep(60)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-P", "-c", program],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    ) as python:
        assert python.stdout is not None
        jvm = int(python.stdout.readline())
        python.send_signal(number)
    wait_until(lambda: not is_running(jvm))
    left = list(tmp_path.glob("flowdiag-*"))
    if number is signal.SIGKILL:
        # The killed process cannot remove its folder: the next session does.
        assert len(left) == 1
        remove_leftovers(tmp_path)
        left = list(tmp_path.glob("flowdiag-*"))
    assert not left


def is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    # In a container, no process may reap orphans: a zombie counts as ended.
    status = Path(f"/proc/{process}/stat")
    try:
        return ") Z " not in status.read_text()
    except FileNotFoundError:
        return not Path("/proc").is_dir()


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_folders_in_use_are_not_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    folder = PrivateFolder.create()
    assert stat.S_IMODE(folder.path.stat().st_mode) == 0o700
    remove_leftovers(tmp_path)
    assert folder.path.is_dir()
    folder.lock.close()
    remove_leftovers(tmp_path)
    assert not folder.path.exists()
    folder.remove()


@pytest.mark.spark
def test_closing_another_starter_does_not_affect_a_session(spark: SparkSession) -> None:
    SparkStarter.begin().close()
    assert spark.range(3).count() == 3


@pytest.mark.parametrize(
    ("rows", "generated"), [(0, "NO_CODEGEN"), (100_000, "FALLBACK"), (1_000_000, None)]
)
def test_settings_depend_on_the_size_and_cover_the_same_keys(
    rows: int, generated: str | None
) -> None:
    values = by_size(rows, cores=4)
    assert values.keys() == SMALL.keys()
    assert values["spark.sql.codegen.factoryMode"] == generated
    assert by_size(None, cores=4) == by_size(10**9, cores=4)
