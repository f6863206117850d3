"""Tests flowdiag as a library: the user's own Spark session, errors, types, and notebook output."""

from __future__ import annotations

import subprocess
import sys
import tarfile
from collections.abc import Callable
from datetime import UTC, datetime
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

import flowdiag
from flowdiag.analyses.contract.notebook import MOST
from flowdiag.analyses.engine.views import EVENTS, METRICS
from flowdiag.analyses.model.columns import schema_of
from flowdiag.analyses.topics import all_rules

from . import user_script
from .cli import reports

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RECORDINGS = Path(__file__).parents[1] / "fixtures" / "recordings"
EXPIRED = RECORDINGS / "flink" / "1.20.5" / "hang" / "hang.tar.zst"

COORDINATOR = "org.apache.flink.runtime.checkpoint.CheckpointCoordinator"

LIGHT = """
import sys, flowdiag
heavy = {"pyspark", "pyarrow", "typer", "rich", "msgspec", "importlib.metadata", "flowdiag.analyses"}
assert not heavy & sys.modules.keys(), heavy & sys.modules.keys()
assert {"diagnose", "read", "rules", "load", "Report", "__version__"} <= set(dir(flowdiag))
for name in flowdiag.__all__:
    assert getattr(flowdiag, name) is not None
try:
    flowdiag.no_such_name
except AttributeError as error:
    assert "no_such_name" in str(error)
assert not {"typer", "rich", "pyspark"} & sys.modules.keys()
"""

WITHOUT = """
import sys, flowdiag
paths = sys.argv[1:]
before = set(__import__("threading").enumerate())
one = flowdiag.diagnose(paths)
two = flowdiag.diagnose(paths, topics="checkpoints")
assert one.verdict == two.verdict, (one.verdict, two.verdict)
from pyspark import SparkContext
assert SparkContext._active_spark_context is None  # no Spark of ours is left to anybody
with flowdiag.read(paths) as events:
    count = events.of("checkpoint_triggered").count()
    assert count, "no trigger"
    assert flowdiag.diagnose(paths).to_json() == one.to_json()  # beside the Spark of `read`
assert SparkContext._active_spark_context is None
"""


def run(script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-P", "-c", script, *arguments],
        capture_output=True,
        check=False,
        text=True,
        timeout=200,
    )


def test_import_loads_no_large_module() -> None:
    done = run(LIGHT)
    assert done.returncode == 0, done.stderr


@pytest.mark.full
def test_a_temporary_session_is_stopped() -> None:
    done = run(WITHOUT, str(EXPIRED))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_typed() -> None:
    assert (Path(flowdiag.__file__).parent / "py.typed").exists()
    assert set(flowdiag.__all__) >= {each.__name__ for each in (flowdiag.Report, flowdiag.Rule)}


# -- errors ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments, words",
    [
        ({"paths": []}, "no input is given"),
        ({"paths": "no/such/folder"}, "no/such/folder"),
        ({"paths": EXPIRED, "topics": "checkpoint"}, "did you mean 'checkpoints'"),
        ({"paths": EXPIRED, "topics": []}, "no topic given"),
        ({"paths": EXPIRED, "since": "yesterday"}, "'yesterday' is not a time"),
        ({"paths": EXPIRED, "tz": "Mars"}, "unknown time zone 'Mars'"),
        ({"paths": EXPIRED, "select": "CP9999"}, "there is no rule 'CP9999'"),
        ({"paths": EXPIRED, "thresholds": {"CP101": {"x": 1}}}, "has no threshold 'x'"),
        ({"paths": EXPIRED, "max_rows": 0}, "max_rows is 0"),
        ({"paths": EXPIRED, "spark": "local"}, ", not a SparkSession"),
    ],
)
def test_user_errors_share_one_type(
    arguments: dict[str, Any], words: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(flowdiag.FlowdiagError) as caught:
        flowdiag.diagnose(**arguments)
    assert words in f"{caught.value.message} {caught.value.hint}"
    assert capfd.readouterr() == ("", "")


def test_an_unreadable_input_is_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(flowdiag.InputError, match="nothing-there"):
        flowdiag.read(tmp_path / "nothing-there")
    with pytest.raises(flowdiag.InputError, match="cannot read"):
        flowdiag.load(tmp_path / "no.json")
    (tmp_path / "no.json").write_text("[]")
    with pytest.raises(flowdiag.FlowdiagError, match="is not a flowdiag report"):
        flowdiag.load(tmp_path / "no.json")
    assert "no/such/input" in user_script.why_not("no/such/input")


def test_the_models_need_no_spark() -> None:
    options = flowdiag.MemoryOptions(
        given={"taskmanager.memory.process.size": "4g"}, version="1.20"
    )
    report = flowdiag.diagnose([], topics="memory", memory=options)
    assert report.verdict is flowdiag.Verdict.CALCULATED
    assert report.data.processes


# -- with the user's session -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write three checkpoints, one of them expired: Spark measures them quickly."""
    folder = tmp_path_factory.mktemp("logs")
    lines = []
    for number in (1, 2, 3):
        ms = 1_769_860_800_000 + number * 60_000
        lines.append(
            f"2026-01-31 12:0{number}:00,000 INFO  {COORDINATOR} [] - Triggering checkpoint {number}"
            f" (type=CheckpointType{{name='Checkpoint', sharingFilesStrategy=FORWARD_BACKWARD}})"
            f" @ {ms} for job 7c7769847d333438dd9ce845d5a2d980."
        )
        ended = "of job 7c7769847d333438dd9ce845d5a2d980 expired before completing."
        if number < 3:
            ended = "for job 7c7769847d333438dd9ce845d5a2d980 (9 bytes, checkpointDuration=9 ms, finalizationTime=1 ms)."
        word = "Completed checkpoint" if number < 3 else "Checkpoint"
        lines.append(
            f"2026-01-31 12:0{number}:30,000 INFO  {COORDINATOR} [] - {word} {number} {ended}"
        )
    (folder / "jobmanager.log").write_text("\n".join(lines) + "\n")
    return folder


@pytest.mark.spark
def test_the_session_of_the_user_is_unchanged(spark: SparkSession, logs: Path) -> None:
    from pyspark.sql import SparkSession as Session

    theirs = spark.newSession()
    theirs.conf.set("spark.sql.session.timeZone", "America/New_York")
    theirs.conf.set("spark.sql.shuffle.partitions", "3")
    theirs.range(3).createOrReplaceTempView("mine")
    before, active = dict(theirs.conf.getAll), Session.getActiveSession()
    heard: list[str] = []
    one = flowdiag.diagnose(logs, topics="checkpoints", spark=theirs, progress=heard.append)
    two = flowdiag.diagnose([str(logs)], topics=["checkpoints"], spark=theirs)
    assert one.to_json() == two.to_json()
    assert [each.code for each in one.findings][:1] == ["CP101"]
    assert "judging" in heard
    with flowdiag.read(logs, theirs) as events:
        assert events.events.sparkSession is theirs
        assert events.inputs == (str(logs / "jobmanager.log"),)
        events.checkpoints.createOrReplaceTempView("checkpoints")
        rows = theirs.sql(
            "SELECT event, checkpoint, input, unix_micros(time) AS us, fields['type'] AS type"
            " FROM checkpoints ORDER BY us"
        ).collect()
    assert [(row.event, row.checkpoint) for row in rows] == [
        *(("checkpoint_triggered", 1), ("checkpoint_completed", 1)),
        *(("checkpoint_triggered", 2), ("checkpoint_completed", 2)),
        *(("checkpoint_triggered", 3), ("checkpoint_expired", 3)),
    ]
    assert {row.input for row in rows} == set(events.inputs)
    assert datetime.fromtimestamp(rows[0].us / 1e6, UTC).isoformat() == "2026-01-31T12:01:00+00:00"
    assert dict(theirs.conf.getAll) == before
    assert Session.getActiveSession() is active
    assert theirs.table("mine").count() == 3
    assert user_script.expired([str(logs)], theirs) == 1


@pytest.mark.spark
def test_frames_have_the_documented_columns(spark: SparkSession, logs: Path) -> None:
    from flowdiag.parsers.on_spark.frame import spark_type

    with flowdiag.read(logs, spark) as events:
        for frame, columns in ((events.events, EVENTS), (events.metrics, METRICS)):
            found = {each.name: each.dataType for each in frame.schema}
            assert found == {each.name: spark_type(each.type) for each in columns}
            assert list(found) == schema_of(columns).names
        with pytest.raises(flowdiag.FlowdiagError, match="there is no event 'chekpoint_expired'"):
            events.of("chekpoint_expired")


# -- the data source of Spark ------------------------------------------------------------------------------


@pytest.mark.spark
def test_spark_reads_raw_events(spark: SparkSession, logs: Path) -> None:
    flowdiag.register(spark)
    frame = spark.read.format("flowdiag").load(str(logs))
    assert frame.schema.fieldNames() == ["input", *frame.schema.fieldNames()[1:]]
    rows = frame.select("event", "checkpoint", "input").orderBy("offset").collect()
    assert [row.event for row in rows].count("checkpoint_triggered") == 3
    assert (rows[-1].event, rows[-1].checkpoint) == ("checkpoint_expired", 3)
    assert {row.input for row in rows} == {str(logs / "jobmanager.log")}


@pytest.mark.full
@pytest.mark.spark
def test_spark_reports_unreadable_inputs(spark: SparkSession, logs: Path, tmp_path: Path) -> None:
    flowdiag.register(spark)
    with tarfile.open(tmp_path / "logs.tar.gz", "w:gz") as archive:
        archive.add(logs / "jobmanager.log", "inner/jobmanager.log")
    reader = spark.read.format("flowdiag")
    narrow = reader.schema("checkpoint long, input string").load(str(tmp_path / "logs.tar.gz"))
    rows = narrow.where("checkpoint = 3").collect()
    assert {row.input for row in rows} == {f"{tmp_path}/logs.tar.gz!inner/jobmanager.log"}
    for reader, path, words in (
        (spark.read, str(tmp_path / "no"), "no such file"),
        (spark.read, None, "no path given"),
        (spark.read.option("pth", "x"), str(logs), "unknown option 'pth'"),
        (spark.read.schema("chekpoint long"), str(logs), "did you mean 'checkpoint'"),
    ):
        with pytest.raises(Exception, match=words):
            reader.format("flowdiag").load(path).count()


def test_older_spark_versions_have_no_data_sources() -> None:
    class Old:
        pass

    with pytest.raises(flowdiag.FlowdiagError, match="does not support Python data sources"):
        flowdiag.register(Old())  # type: ignore[arg-type]


# -- reports and rules -------------------------------------------------------------------------------------


def test_rules_are_objects() -> None:
    assert flowdiag.rules() == all_rules()
    assert "CP101" in user_script.core_rules()
    rule = next(rule for rule in flowdiag.rules() if rule.code == "CP101")
    assert rule.name == "checkpoint-expired" and rule.thresholds and "What it reports" in rule.page


@pytest.mark.parametrize(
    "made", [reports.failing, reports.healthy, reports.inconclusive, reports.nothing]
)
def test_a_saved_report_loads_unchanged(
    made: Callable[[], flowdiag.Report], tmp_path: Path
) -> None:
    report = made()
    (tmp_path / "report.json").write_text(report.to_json())
    assert flowdiag.load(tmp_path / "report.json") == report
    assert report.verdict is report.summary.verdict and report.culprits == report.summary.culprits


class _Text(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.text, self.open = "", [""]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag not in ("script", "style", "img", "link", "iframe", "a")
        assert all(name in ("style",) for name, _ in attrs)
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.mark.parametrize(
    "made",
    [
        reports.failing,
        reports.healthy,
        reports.inconclusive,
        reports.nothing,
        reports.hostile,
        lambda: reports.many(200),
    ],
)
def test_notebooks_show_one_screen(made: Callable[[], flowdiag.Report]) -> None:
    report = made()
    shown = report._repr_mimebundle_()
    assert shown["text/html"] == report._repr_html_()
    page = _Text()
    page.feed(shown["text/html"])
    page.close()
    assert page.open == [""], "tags that are not closed"
    for text in (page.text, shown["text/plain"]):
        assert report.verdict in text
        for culprit in report.culprits[:MOST]:
            assert culprit.code in text
    assert len(shown["text/html"]) < 20_000
    if len(report.findings) > MOST:
        assert f"and {len(report.findings) - MOST} more" in page.text


def test_hostile_job_names_are_escaped() -> None:
    report = reports.failing()
    hostile = "<script>alert(1)</script><b>"
    finding = msgspec.structs.replace(report.findings[0], title=hostile)
    shown = msgspec.structs.replace(report, findings=[finding])._repr_html_()
    assert "<script" not in shown and "&lt;script&gt;alert(1)&lt;/script&gt;&lt;b&gt;" in shown
