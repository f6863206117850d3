"""Tests, without a cluster, the checks that flowdiag makes before it uses one."""

from __future__ import annotations

import socket
import threading
from types import SimpleNamespace
from typing import Any, cast

import pytest

from flowdiag.cli.spark import cluster
from flowdiag.cli.spark.cluster import check_paths, session_after_checks
from flowdiag.parsers.discover import Discovery
from flowdiag.parsers.errors import FlowdiagError, InputError
from flowdiag.parsers.source import Source

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


def discovery(path: str, size: int = 1 << 40) -> Discovery:
    return Discovery(sources=(source(path, size),), warnings=(), errors=())


@pytest.fixture
def listening() -> Any:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"spark://127.0.0.1:{server.getsockname()[1]}"


@pytest.mark.parametrize("master", [None, "local", "local[2]", "local[*]"])
def test_local_paths_are_fine_without_a_cluster(master: str | None) -> None:
    check_paths(master, ["logs/", "-", *URLS])


def test_urls_are_fine_on_a_cluster(listening: str) -> None:
    check_paths(listening, URLS)
    check_paths(f"spark://127.0.0.1:1,{listening.removeprefix('spark://')}", URLS)


def test_local_paths_are_rejected_on_a_cluster(listening: str) -> None:
    with pytest.raises(InputError, match=r"^logs \(and 1 more\): a local path") as raised:
        check_paths(listening, ["logs", URLS[0], "/var/log/flink"])
    assert "file:///path if every worker has the same files" in (raised.value.hint or "")


def test_an_invalid_master_is_rejected() -> None:
    with pytest.raises(FlowdiagError, match="'sparks://host' is not a Spark cluster"):
        check_paths("sparks://host", URLS)


def test_a_master_that_does_not_listen_is_rejected() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(FlowdiagError, match=f"listens at spark://127.0.0.1:{port}: connection ref"):
        check_paths(f"spark://127.0.0.1:{port}", URLS)


def session(master: str) -> Any:
    context = SimpleNamespace(master=master, defaultParallelism=2, cancelAllJobs=lambda: None)
    return SimpleNamespace(sparkContext=context)


def fake_executors(monkeypatch: pytest.MonkeyPatch, answer: Any) -> list[Any]:
    """Make executors return or raise `answer`. Return the list of the files that they are asked to
    check."""
    checked: list[Any] = []

    def check(spark: Any, files: Any, *, tasks: int) -> list[str]:
        checked.append(files)
        if isinstance(answer, Exception):
            raise answer
        return cast("list[str]", answer)

    monkeypatch.setattr("flowdiag.parsers.on_spark.frame.check_executors", check)
    return checked


def test_executors_are_checked_once_for_shared_files(monkeypatch: pytest.MonkeyPatch) -> None:
    checked = fake_executors(monkeypatch, [])
    spark = session("spark://head:7077")
    get = session_after_checks(lambda: spark, ["file:///shared/a.log"], discovery("/shared/a.log"))
    assert get() is spark
    assert get() is spark
    assert checked == [{"/shared/a.log": 1 << 40}]


def test_executors_are_not_checked_for_locally_parsed_inputs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    checked = fake_executors(monkeypatch, ["never"])
    for master, paths, size in (
        ("local[2]", ["a.log"], 1 << 40),
        ("spark://head:7077", ["s3://bucket/a.log"], 1000),
    ):
        session_after_checks(lambda at=master: session(at), paths, discovery(paths[0], size))()  # type: ignore[misc]
    assert not checked


def test_a_session_of_spark_submit_also_rejects_local_paths() -> None:
    # The master is only known once the session exists.
    with pytest.raises(InputError, match="a local path"):
        session_after_checks(lambda: session("yarn"), ["a.log"], discovery("a.log"))()


def test_missing_packages_on_executors_are_one_error(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_executors(monkeypatch, ["worker-1 cannot import regex", "worker-2 cannot import regex"])
    with pytest.raises(FlowdiagError) as raised:
        session_after_checks(lambda: session("yarn"), [URLS[0]], discovery("s3://bucket/a.log"))()
    assert str(raised.value) == (
        "the executors of yarn cannot parse these inputs: worker-1 cannot import regex (and 1 more)"
    )


def test_a_different_python_on_the_executors_is_one_error(monkeypatch: pytest.MonkeyPatch) -> None:
    trace = (
        "Job aborted due to stage failure: Task 0 failed 4 times\nTraceback (most recent call last):\n"
        "  File x, line 1\npyspark.errors.PySparkRuntimeError: [PYTHON_VERSION_MISMATCH] 3.9 and 3.11"
        "\n\n\tat org.apache.spark.x"
    )
    fake_executors(monkeypatch, RuntimeError(trace))
    with pytest.raises(
        FlowdiagError, match=r"cannot run Python tasks: .*VERSION_MISMATCH\] 3.9"
    ) as raised:
        session_after_checks(lambda: session("yarn"), [URLS[0]], discovery("s3://bucket/a.log"))()
    assert "\n" not in str(raised.value)


def test_waiting_for_a_cluster_without_workers_times_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "EXECUTOR_TIMEOUT_S", 0.05)
    spark = session("yarn")
    cancelled = threading.Event()
    spark.sparkContext.cancelAllJobs = cancelled.set

    def wait(spark: Any, files: Any, *, tasks: int) -> list[str]:
        assert cancelled.wait(30)
        raise RuntimeError("Job 0 cancelled")

    monkeypatch.setattr("flowdiag.parsers.on_spark.frame.check_executors", wait)
    with pytest.raises(FlowdiagError, match="no executor of yarn took a task within"):
        session_after_checks(lambda: spark, [URLS[0]], discovery("s3://bucket/a.log"))()


def test_unpacked_archive_members_are_rejected_on_a_cluster(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("flowdiag.parsers.sources.containers._private", ["/tmp/flowdiag-x"])
    with pytest.raises(InputError, match="unpacked on this host"):
        session_after_checks(lambda: session("yarn"), ["-"], discovery("/tmp/flowdiag-x/member"))()
