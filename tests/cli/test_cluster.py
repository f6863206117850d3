"""What is refused before a cluster is asked for anything; no cluster runs here."""

from __future__ import annotations

import socket
import threading
from types import SimpleNamespace
from typing import Any, cast

import pytest

from flowdiag.cli.spark import cluster
from flowdiag.cli.spark.cluster import check_inputs_of, checked_session
from flowdiag.parsers.errors import FlowdiagError, InputError
from flowdiag.parsers.sources.discover import Discovery
from flowdiag.parsers.sources.open import Source

URLS = ("s3://bucket/logs/", "file:///shared/logs")


def source(path: str, size: int = 1 << 40) -> Source:
    return Source(
        index=0,
        name=path,
        path=path,
        member=None,
        codec="none",
        encoding="utf-8",
        size=size,
        kind="log",
        engine="flink",
        role="unknown",
        group=path,
        url=None,
        splittable=True,
        reason=None,
    )


def found(path: str, size: int = 1 << 40) -> Discovery:
    return Discovery(sources=(source(path, size),), warnings=(), errors=())


@pytest.fixture
def listening() -> Any:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"spark://127.0.0.1:{server.getsockname()[1]}"


@pytest.mark.parametrize("master", [None, "local", "local[2]", "local[*]"])
def test_this_machine_reads_its_own_paths(master: str | None) -> None:
    check_inputs_of(master, ["logs/", "-", *URLS])


def test_a_cluster_reads_urls(listening: str) -> None:
    check_inputs_of(listening, URLS)
    check_inputs_of(f"spark://127.0.0.1:1,{listening.removeprefix('spark://')}", URLS)


def test_a_cluster_is_not_told_to_read_local_paths(listening: str) -> None:
    with pytest.raises(InputError, match=r"^logs \(and 1 more\): a local path") as raised:
        check_inputs_of(listening, ["logs", URLS[0], "/var/log/flink"])
    assert "file:///path, where every worker has the same files" in (raised.value.hint or "")


def test_what_is_no_master() -> None:
    with pytest.raises(FlowdiagError, match="'sparks://host' is no Spark cluster"):
        check_inputs_of("sparks://host", URLS)


def test_nobody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(FlowdiagError, match=f"listens at spark://127.0.0.1:{port}: connection ref"):
        check_inputs_of(f"spark://127.0.0.1:{port}", URLS)


def session(master: str) -> Any:
    context = SimpleNamespace(master=master, defaultParallelism=2, cancelAllJobs=lambda: None)
    return SimpleNamespace(sparkContext=context)


def probe(monkeypatch: pytest.MonkeyPatch, answer: Any) -> list[Any]:
    """Let the executors answer so; what they are asked is in the list."""
    asked: list[Any] = []

    def check(spark: Any, files: Any, *, tasks: int) -> list[str]:
        asked.append(files)
        if isinstance(answer, Exception):
            raise answer
        return cast("list[str]", answer)

    monkeypatch.setattr("flowdiag.parsers.spark.frame.check_executors", check)
    return asked


def test_executors_are_asked_once_for_shared_files(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = probe(monkeypatch, [])
    spark = session("spark://head:7077")
    get = checked_session(lambda: spark, ["file:///shared/a.log"], found("/shared/a.log"))
    assert get() is spark
    assert get() is spark
    assert asked == [{"/shared/a.log": 1 << 40}]


def test_executors_are_not_asked_for_what_is_parsed_here(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = probe(monkeypatch, ["never"])
    for master, paths, size in (
        ("local[2]", ["a.log"], 1 << 40),
        ("spark://head:7077", ["s3://bucket/a.log"], 1000),
    ):
        checked_session(lambda at=master: session(at), paths, found(paths[0], size))()  # type: ignore[misc]
    assert not asked


def test_a_session_of_spark_submit_refuses_local_paths_too() -> None:
    # The master is known only when the session is there.
    with pytest.raises(InputError, match="a local path"):
        checked_session(lambda: session("yarn"), ["a.log"], found("a.log"))()


def test_what_executors_lack_is_one_error(monkeypatch: pytest.MonkeyPatch) -> None:
    probe(monkeypatch, ["worker-1 cannot import regex", "worker-2 cannot import regex"])
    with pytest.raises(FlowdiagError) as raised:
        checked_session(lambda: session("yarn"), [URLS[0]], found("s3://bucket/a.log"))()
    assert str(raised.value) == (
        "the executors of yarn cannot parse these inputs: worker-1 cannot import regex (and 1 more)"
    )


def test_another_python_on_the_executors_is_one_error(monkeypatch: pytest.MonkeyPatch) -> None:
    trace = (
        "Job aborted due to stage failure: Task 0 failed 4 times\nTraceback (most recent call last):\n"
        "  File x, line 1\npyspark.errors.PySparkRuntimeError: [PYTHON_VERSION_MISMATCH] 3.9 and 3.11"
        "\n\n\tat org.apache.spark.x"
    )
    probe(monkeypatch, RuntimeError(trace))
    with pytest.raises(
        FlowdiagError, match=r"cannot run Python tasks: .*VERSION_MISMATCH\] 3.9"
    ) as it:
        checked_session(lambda: session("yarn"), [URLS[0]], found("s3://bucket/a.log"))()
    assert "\n" not in str(it.value)


def test_a_cluster_without_workers_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "EXECUTORS_WITHIN_S", 0.05)
    spark = session("yarn")
    cancelled = threading.Event()
    spark.sparkContext.cancelAllJobs = cancelled.set

    def wait(spark: Any, files: Any, *, tasks: int) -> list[str]:
        assert cancelled.wait(30)
        raise RuntimeError("Job 0 cancelled")

    monkeypatch.setattr("flowdiag.parsers.spark.frame.check_executors", wait)
    with pytest.raises(FlowdiagError, match="no executor of yarn took a task within"):
        checked_session(lambda: spark, [URLS[0]], found("s3://bucket/a.log"))()


def test_unpacked_members_stay_on_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flowdiag.parsers.sources.containers._private", ["/tmp/flowdiag-x"])
    with pytest.raises(InputError, match="unpacked on this machine"):
        checked_session(lambda: session("yarn"), ["-"], found("/tmp/flowdiag-x/member"))()
