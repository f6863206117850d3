"""Tests the complete tables of `--data-dir`: their content, invalid folders, and leftovers of a failed run."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import flowdiag
from flowdiag.analyses.checkpoints.data import checkpoint_tables
from flowdiag.analyses.contract.report import Report, Tool
from flowdiag.analyses.engine.reading import Resources
from flowdiag.analyses.flink.job import ClusterFacts
from flowdiag.analyses.report.data_dir import MANIFEST, DataDir
from flowdiag.analyses.report.tables import BY_NAME, TABLES, tables_document, tables_of
from flowdiag.analyses.topic_names import ENGINES
from flowdiag.cli.app import main
from flowdiag.parsers.errors import FlowdiagError
from flowdiag.parsers.on_spark import parts
from flowdiag.parsers.rows import EVENTS

from .cli import reports

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[1]
TOOL = Tool(version="1.0", command="checkpoints")


class Named:
    """The attributes of a topic that `DataDir` requires."""

    def __init__(self, name: str) -> None:
        self.name = name


def facts(checkpoints: int = 3) -> ClusterFacts:
    job = reports.job_facts(
        is_failing=True, checkpoints=tuple(reports.checkpoint(n) for n in range(checkpoints))
    )
    return ClusterFacts(jobs=(job,), processes=())


def write(where: Path | str, cluster: ClusterFacts, **options: Any) -> None:
    tables = DataDir(str(where), **options)

    def diagnosis() -> Report:
        for name, rows in checkpoint_tables(cluster, excerpts=True):
            tables.rows(name, rows)
        return reports.failing()

    tables.of([Named("checkpoints")], diagnosis)  # type: ignore[list-item]


def tables_in(folder: Path) -> dict[str, int]:
    """Return the tables of a folder by its manifest, with their raw rows."""
    manifest = json.loads((folder / MANIFEST).read_text())
    assert manifest["schema"] == "flowdiag.tables/1"
    found = {}
    for table in manifest["tables"]:
        files = [folder / file for file in table["files"]]
        read = [pq.ParquetFile(file) for file in files]
        assert all(each.schema_arrow.equals(BY_NAME[table["name"]].schema) for each in read)
        found[table["name"]] = sum(each.metadata.num_rows for each in read)
        assert found[table["name"]] == table["rows"]
        assert sorted(files) == sorted((folder / table["name"]).iterdir())
    return found


# -- what is in them -------------------------------------------------------------------------------------


def test_every_table_has_a_document_of_its_columns() -> None:
    text = (ROOT / "docs" / "tables.md").read_text()
    assert text == tables_document(), "run python -m flowdiag.cli.docs"
    assert len(BY_NAME) == len(TABLES)
    for table in TABLES:
        names = [column.name for column in table.columns]
        assert len(set(names)) == len(names), table.name
        assert set(table.topics) <= set(ENGINES)
        assert f"## {table.name}\n" in text
    assert {"checkpoints", "events", "metrics"} <= {
        each.name for each in tables_of(["checkpoints"])
    }


def test_tables_are_whole_and_typed(tmp_path: Path) -> None:
    write(tmp_path / "data", facts(5_001))
    found = tables_in(tmp_path / "data")
    assert set(found) == {table.name for table in tables_of(["checkpoints"])}
    assert found["checkpoints"] == 5_001 and found["declines"] == 0
    first = pq.read_table(tmp_path / "data" / "checkpoints").slice(0, 1).to_pylist()[0]
    assert first["job_id"] == reports.JOB.job_id
    assert first["id"] == 200 and first["status"] == "completed"
    assert first["triggered_at"].isoformat() == "2018-11-29T10:30:00+00:00"
    assert sorted(os.listdir(tmp_path)) == ["data"]


def test_rows_are_taken_as_they_are_written(tmp_path: Path) -> None:
    alive = most = 0

    def rows() -> Iterator[dict[str, Any]]:
        nonlocal alive, most
        for number in range(20_000):
            alive += 1
            most = max(most, alive)
            yield {"id": number, "run": 1}

    def counting(table: pa.RecordBatch, **kwargs: Any) -> None:
        nonlocal alive
        alive -= table.num_rows

    tables = DataDir(str(tmp_path / "data"))
    with tables, pytest.MonkeyPatch.context() as patch:
        patch.setattr(pq.ParquetWriter, "write_batch", lambda self, batch, **kw: counting(batch))
        tables.rows("checkpoints", rows())
    assert alive == 0 and most < 10_000
    assert os.listdir(tmp_path) == []  # nothing was completed


# -- what they refuse, and leave behind ------------------------------------------------------------------


def test_only_our_own_tables_are_replaced(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    write(folder, facts(1))
    write(f"{folder}/", facts(2))
    assert tables_in(folder)["checkpoints"] == 2
    (folder / "notes.txt").write_text("mine")
    with pytest.raises(FlowdiagError, match=r"another file: notes\.txt"):
        DataDir(str(folder))
    assert tables_in(folder)["checkpoints"] == 2
    other = tmp_path / "other"
    other.mkdir()
    (other / "a.parquet").touch()
    for manifest in (None, "[]", '{"schema": "x", "tables": []}', "{"):
        if manifest is not None:
            (other / MANIFEST).write_text(manifest)
        with pytest.raises(FlowdiagError, match="contains no flowdiag tables"):
            DataDir(str(other))
    with pytest.raises(FlowdiagError, match="is not a folder"):
        DataDir(str(other / "a.parquet"))
    with pytest.raises(FlowdiagError, match="no such folder"):
        DataDir(str(tmp_path / "no" / "folder"))
    assert sorted(os.listdir(tmp_path)) == ["data", "other"]


def test_a_failure_keeps_the_old_tables(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    write(folder, facts(1))
    tables = DataDir(str(folder))

    def diagnosis() -> Report:
        for name, rows in checkpoint_tables(facts(2), excerpts=True):
            tables.rows(name, rows)
        raise RuntimeError("a bug")

    with pytest.raises(RuntimeError):
        tables.of([Named("checkpoints")], diagnosis)  # type: ignore[list-item]
    assert tables_in(folder)["checkpoints"] == 1
    assert os.listdir(tmp_path) == ["data"]


def test_a_full_disk_is_reported_with_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*options: object, **more: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(parts, "write_file", full)
    with pytest.raises(FlowdiagError, match=r"cannot write tables to '.*data': no space left"):
        write(tmp_path / "data", facts(1))
    assert os.listdir(tmp_path) == []


def test_the_manifest_is_uploaded_last(tmp_path: Path) -> None:
    import fsspec

    url = f"memory://{tmp_path}/data"
    from flowdiag.analyses.report import data_dir

    system = fsspec.filesystem("memory")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "flowdiag.parsers.sources.remote.system_of",
            lambda url: (system, url[len("memory://") :]),
        )
        write(url, facts(2))
        names = {Path(name).name for name in system.ls(f"{tmp_path}/data", detail=False)}
        assert names == {MANIFEST, *(table.name for table in tables_of(["checkpoints"]))}
        DataDir(url)  # ours
        tables = DataDir(url)
        with pytest.raises(RuntimeError), tables:
            assert not system.exists(f"{tmp_path}/data/{MANIFEST}")
            raise RuntimeError
        system.pipe_file(f"{tmp_path}/data/mine", b"x")
        with pytest.raises(FlowdiagError, match="is not empty"):
            data_dir.DataDir(url)


@pytest.mark.parametrize(
    "options, words",
    [
        (["--redact"], "--data-dir and --redact cannot be combined"),
        (["--data-dir", "README.md"], "is not a folder"),
        (["--data-dir", "docs"], "is not empty"),
        (
            ["--master", "spark://127.0.0.1:1"],
            "--data-dir: the executors of a cluster cannot write",
        ),
    ],
)
def test_the_command_rejects_options_before_the_diagnosis(
    options: list[str],
    words: str,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr("flowdiag.cli.diagnosing.deliver", lambda *arguments: pytest.fail("worked"))
    monkeypatch.setattr("flowdiag.cli.diagnosing.start_spark", _no_spark)
    arguments = ["--data-dir", str(tmp_path / "data")] if "--data-dir" not in options else []
    assert main(["checkpoints", "file:///logs", *arguments, *options]) == 2
    out, err = capfd.readouterr()
    assert out == "" and words in err and "hint: " in err
    assert os.listdir(tmp_path) == []


class _no_spark:
    def __init__(self, *options: object) -> None: ...

    def __enter__(self) -> None:
        return None

    def __exit__(self, *error: object) -> None:
        return None


def test_the_library_rejects_the_same_options(tmp_path: Path) -> None:
    with pytest.raises(FlowdiagError, match="data_dir and redact"):
        flowdiag.diagnose(ROOT / "README.md", topics="memory", data_dir=tmp_path, redact=True)


# -- what Spark's tasks write ----------------------------------------------------------------------------


def test_secrets_are_masked_and_log_text_is_left_out_on_request() -> None:
    schema = pa.schema([EVENTS.field(name) for name in ("event", "thread", "cause", "fields")])
    rows = [
        {
            "event": "configuration",
            "thread": "main",
            "cause": "login of https://ann:hunter2@host/ failed",
            "fields": [("key", "s3.secret-key"), ("value", "abcdef")],
        },
        {"event": "x", "cause": None, "fields": None},
        {"event": "y", "fields": [("password", "open"), ("text", "token=abc123"), ("n", "1")]},
    ]
    batch = pa.RecordBatch.from_pylist(rows, schema=schema)
    (masked,) = parts._mask_batches(iter([batch]), schema, excerpts=True)
    assert masked.column("cause").to_pylist()[0] == "login of https://***@host/ failed"
    first, second, third = masked.column("fields").to_pylist()
    assert first == [("key", "s3.secret-key"), ("value", "***")] and second is None
    assert third == [("password", "***"), ("text", "token=***"), ("n", "1")]
    (bare,) = parts._mask_batches(iter([batch]), schema, excerpts=False)
    for name in ("thread", "cause", "fields"):
        assert bare.column(name).null_count == 3
    assert bare.column("event").to_pylist() == ["configuration", "x", "y"]


LOG = """\
2026-01-31 12:00:00,000 INFO  org.apache.flink.runtime.checkpoint.CheckpointCoordinator [] - \
Triggering checkpoint 7 (type=CheckpointType{name='Checkpoint', sharingFilesStrategy=FORWARD_BACKWARD}) \
@ 1769860800000 for job 7c7769847d333438dd9ce845d5a2d980.
2026-01-31 12:10:00,000 INFO  org.apache.flink.runtime.checkpoint.CheckpointCoordinator [] - \
Checkpoint 7 of job 7c7769847d333438dd9ce845d5a2d980 expired before completing.
"""


@pytest.mark.spark
@pytest.mark.parametrize("executors", [False, True])
def test_a_diagnosis_writes_facts_and_findings(
    spark: SparkSession, tmp_path: Path, executors: bool
) -> None:
    from flowdiag.analyses.diagnosis import diagnose
    from flowdiag.analyses.topics import topic
    from flowdiag.parsers.discover import discover

    (tmp_path / "jobmanager.log").write_text(LOG)
    tables = DataDir(str(tmp_path / "data"))
    resources = Resources(
        keep=tables, executors=executors, local_bytes=-1 if executors else 1 << 20
    )
    topics = [topic("checkpoints"), topic("queues")]
    found = discover([str(tmp_path / "jobmanager.log")])
    report = tables.of(topics, lambda: diagnose(topics, found, lambda: spark, resources=resources))
    assert report.data.jobs
    rows = tables_in(tmp_path / "data")
    assert (rows["events"], rows["metrics"], rows["checkpoints"], rows["subtasks"]) == (2, 0, 1, 0)
    events = pq.read_table(tmp_path / "data" / "events").sort_by("offset").to_pylist()
    assert [each["event"] for each in events] == ["checkpoint_triggered", "checkpoint_expired"]
    assert events[0]["time"].isoformat() == "2026-01-31T12:00:00+00:00"
    assert {each["input"] for each in events} == {str(tmp_path / "jobmanager.log")}
