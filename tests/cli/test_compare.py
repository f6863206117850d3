"""`flowdiag compare` and `flowdiag baseline` on saved reports, without Spark."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
from collections.abc import Callable
from datetime import date
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree as Xml

import jsonschema
import pytest
import zstandard

from flowdiag.analyses.comparison.baseline import KnownFindings, with_baseline
from flowdiag.analyses.comparison.compare import compare_reports
from flowdiag.analyses.comparison.wire import json_schema
from flowdiag.analyses.contract.encoding import encode
from flowdiag.analyses.contract.report import Report
from flowdiag.analyses.report.transform import decode
from flowdiag.cli.app import main
from flowdiag.cli.comparing import is_report
from flowdiag.cli.render.comparison import RENDERERS
from flowdiag.cli.settings import Format
from flowdiag.cli.text import words
from flowdiag.cli.text.page import Page

from . import reports

KEPT = Path(__file__).with_name("reports.jsonl.zst")
REPORTS: dict[str, Callable[[], Report]] = {
    "healthy": reports.healthy,
    "failing": reports.failing,
    "inconclusive": reports.inconclusive,
    "nothing": reports.nothing,
    "hostile": reports.hostile,
    "many": lambda: reports.many(12),
}


@cache
def report_named(name: str) -> Report:
    return REPORTS[name]()


@cache
def document(name: str) -> bytes:
    return encode(report_named(name))


@pytest.fixture(autouse=True)
def saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Save every report in the working directory."""
    monkeypatch.chdir(tmp_path)
    for name in REPORTS:
        Path(f"{name}.json").write_bytes(document(name))


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main(list(arguments))
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.mark.parametrize(
    ("before", "after", "more", "code"),
    [
        ("healthy", "failing", (), 1),
        ("healthy", "failing", ("--fail-on", "never"), 0),
        ("failing", "healthy", (), 0),
        ("failing", "healthy", ("--fail-on", "change"), 1),
        ("failing", "failing", ("--fail-on", "change"), 0),
        ("healthy", "inconclusive", (), 3),
        ("healthy", "inconclusive", ("--allow-inconclusive",), 0),
        ("healthy", "nothing", (), 3),
        ("healthy", "nothing", ("--allow-inconclusive",), 3),
        ("inconclusive", "failing", (), 1),
    ],
)
def test_the_exit_code(
    before: str, after: str, more: tuple[str, ...], code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(capsys, "compare", f"{before}.json", f"{after}.json", *more)[0] == code


def test_the_last_block_shows_the_result(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, err = run(capsys, "compare", "healthy.json", "failing.json")
    last = out.rstrip().split("Verdict")[1]
    assert "healthy → failing" in last and "regression: 2 new findings" in last
    assert err == ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("healthy.json",), "missing argument 'AFTER'"),
        (("healthy.json", "nowhere.json"), "nowhere.json: no such file"),
        (("healthy.json", "other.json"), "cannot compare a report of `flowdiag checkpoints`"),
        (
            ("healthy.json", "renamed.json"),
            "cannot compare different jobs: 'orders' before, 'bills' after",
        ),
        (("healthy.json", "future.json"), "'flowdiag.report/9'"),
        (("healthy.json", "half.json"), "'half.json' is not a flowdiag report"),
        (("healthy.json", "failing.json", "--factor", "0.5"), "--factor is 0.5"),
        (("healthy.json", "failing.json", "--factor", "nan"), "--factor is nan"),
        (("healthy.json", "failing.json", "--fail-on", "warning"), "--fail-on"),
        (("healthy.json", "failing.json", "--since", "2h"), "--since applies to inputs"),
        (("healthy.json", "failing.json", "--baseline", "no.toml"), "cannot read the baseline"),
        (("healthy.json", "failing.json", "-o", "no/where"), "cannot write 'no/where'"),
        (("-", "-"), "only one of BEFORE and AFTER"),
        (("healthy.json", "http://jobmanager:8081"), "a live server"),
    ],
)
def test_wrong_usage_is_one_line(
    arguments: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = Path("healthy.json").read_text()
    Path("other.json").write_text(text.replace('"command": "checkpoints"', '"command": "rate"', 1))
    Path("renamed.json").write_text(text.replace('"orders"', '"bills"'))
    Path("future.json").write_text(text.replace("flowdiag.report/1", "flowdiag.report/9", 1))
    Path("half.json").write_text(text[: len(text) // 2])
    code, out, err = run(capsys, "compare", *arguments)
    assert (code, out) == (2, "") and message in err
    assert len(err.rstrip("\n").split("\n")) <= 2


def test_reports_are_distinguished_from_inputs() -> None:
    Path("sorted.json").write_text(
        json.dumps(json.loads(Path("healthy.json").read_text()), sort_keys=True)
    )
    Path("answer.json").write_text('{"counts": {"completed": 1}}')
    Path("lines.json").write_text('{"a": 1}\n{"a": 2}\n')
    Path("empty").write_text("")
    Path("bom.json").write_bytes(b"\xef\xbb\xbf" + Path("healthy.json").read_bytes())
    found = {name: is_report(name) for name in ("healthy.json", "sorted.json", "bom.json")}
    assert all(found.values())
    assert not any(map(is_report, ("answer.json", "lines.json", "empty", ".", "nowhere")))


def test_a_report_can_be_piped(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    piped = io.BufferedReader(io.BytesIO(document("failing")))
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=piped))
    assert run(capsys, "compare", "healthy.json", "-")[0] == 1


def test_a_comparison_imports_no_heavy_modules(tmp_path: Path) -> None:
    """Comparing saved reports imports neither Spark nor pandas."""
    script = (
        "import sys; from flowdiag.cli.app import main;"
        "main(['compare', 'healthy.json', 'failing.json', '-f', 'json', '-o', 'out.json']);"
        "sys.exit(','.join({'pyspark', 'pandas', 'numpy', 'tomlkit'} & set(sys.modules)) or 0)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], check=False, capture_output=True, text=True, cwd=tmp_path
    )
    assert done.stderr == "" and Path("out.json").stat().st_size > 1000


# --- formats --------------------------------------------------------------------------------------

PAIRS = [("healthy", "failing"), ("failing", "hostile"), ("hostile", "healthy"), ("many", "many")]


def rendered(before: str, after: str, kind: Format, **page: Any) -> str:
    return RENDERERS[kind](compare_reports(report_named(before), report_named(after)), Page(**page))


@pytest.mark.parametrize("pair", PAIRS)
def test_every_format_is_valid(pair: tuple[str, str]) -> None:
    document = json.loads(rendered(*pair, Format.JSON))
    jsonschema.validate(document, json_schema())
    suite = Xml.fromstring(rendered(*pair, Format.JUNIT))
    assert len(suite) == int(suite.get("tests") or 0)
    failures = sum(case.find("failure") is not None for case in suite)
    assert failures == int(suite.get("failures") or 0)
    assert (failures > 0) is document["regression"]
    for line in rendered(*pair, Format.GITHUB).splitlines():
        assert re.fullmatch(r"::(error|warning|notice) title=[^:,]+::.*", line), line


@pytest.mark.parametrize("kind", [Format.TABLE, Format.MARKDOWN, Format.GITHUB, Format.JUNIT])
@pytest.mark.parametrize("pair", [("healthy", "hostile"), ("hostile", "healthy")])
def test_names_from_logs_stay_text(kind: Format, pair: tuple[str, str]) -> None:
    text = rendered(*pair, kind)
    assert "\x1b" not in text and "\u202e" not in text
    assert not any(line.startswith("::error::") for line in text.splitlines())
    if kind in (Format.MARKDOWN, Format.JUNIT):
        assert "<script>" not in text
    if kind is Format.MARKDOWN:
        assert "[red]" not in text and not re.search(r"(?<!\\)@all", text)


@pytest.mark.parametrize("width", [40, 80])
@pytest.mark.parametrize("pair", PAIRS)
def test_lines_fit_narrow_terminals(width: int, pair: tuple[str, str]) -> None:
    for verbose in (0, 1):
        text = rendered(*pair, Format.TABLE, width=width, verbose=verbose)
        assert all(len(line) <= width for line in text.splitlines())


def test_a_report_does_not_differ_from_itself() -> None:
    """Compares the stored reports of recordings, which cover every topic."""
    for line in zstandard.decompress(KEPT.read_bytes()).splitlines():
        one = compare_reports(decode(line), decode(line))
        assert not one.regression and {each.change for each in one.findings} <= {"unchanged"}
        assert not any(each.significant for each in one.measures)
        for kind in RENDERERS:
            RENDERERS[kind](one, Page(width=80))


def test_all_rows_of_a_markdown_table_have_the_same_number_of_cells() -> None:
    table: list[int] = []
    for line in rendered("failing", "hostile", Format.MARKDOWN).splitlines():
        if line.startswith("|"):
            table.append(len(re.findall(r"(?<!\\)\|", line)))
        else:
            assert len(set(table)) <= 1
            table = []


def test_an_unsupported_format_is_rejected(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert isinstance(RENDERERS, dict)
    monkeypatch.delitem(RENDERERS, Format.JUNIT)
    code, _, err = run(capsys, "compare", "healthy.json", "failing.json", "-f", "junit")
    assert code == 2 and "cannot be written as junit" in err


def test_the_schema_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "schema", "--comparison")
    assert code == 0 and json.loads(out) == json_schema()


def test_one_baseline_file_works_for_all_commands() -> None:
    """An entry of another command is silent; an entry that this report cannot check is mentioned."""
    Path("k.toml").write_text(
        "".join(
            f'[[known]]\nfingerprint = "{n * 8}"\nreason = "x"\nuntil = 2099-01-01\ncode = "{code}"\n'
            for n, code in (("a", "RT101"), ("b", "CP101"))
        )
    )
    known = with_baseline(
        report_named("inconclusive"), KnownFindings.read("k.toml"), date(2027, 1, 1)
    )
    (line,) = words.baseline_lines(known)
    assert "CP101 in k.toml cannot be checked" in line and "RT101" not in line


# --- known findings -------------------------------------------------------------------------------


def test_a_baseline_is_written_and_mutes_findings(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capsys, "baseline", "failing.json", "-o", "known.toml")
    assert code == 2 and "a reason and an end date" in err and not Path("known.toml").exists()
    options = ("-o", "known.toml", "--reason", "OPS-1", "--until", "30d")
    code, out, err = run(capsys, "baseline", "failing.json", *options)
    assert (code, out) == (0, "") and "2 findings added" in err
    assert Path("known.toml").read_text().count("[[known]]") == 2
    compare = ("compare", "healthy.json", "failing.json", "--baseline", "known.toml")
    code, out, _ = run(capsys, *compare)
    assert code == 0 and " ".join(out.split()).count("muted by the baseline") == 2
    text = Path("known.toml").read_text()
    Path("known.toml").write_text(text.replace('severity = "critical"', 'severity = "warning"'))
    code, _, err = run(capsys, *compare)
    assert code == 1 and "it is now critical instead of warning, so it counts again" in err
    code, _, err = run(capsys, "baseline", "healthy.json", "-o", "known.toml")
    assert code == 0 and err.count("no longer occurs; remove it") == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("failing.json", "-o", "-"), "a baseline needs an output file"),
        (("failing.json", "-o", "known.toml", "--reason", " "), "--reason is empty"),
        (("failing.json", "-o", "k", "--reason", "x", "--until", "2020-01-01"), "is in the past"),
        (("failing.json", "-o", "k", "--reason", "x", "--until", "soon"), "which is not a date"),
        (("nowhere.json", "-o", "k", "--reason", "x", "--until", "3d"), "cannot read"),
        (("failing.json", "-o", "healthy.json"), "not valid TOML"),
        (("failing.json",), "missing option"),
    ],
)
def test_an_invalid_baseline_command_is_one_line(
    arguments: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = run(capsys, "baseline", *arguments)
    assert code == 2 and message in err
    assert not Path("k").exists()


def with_full_baseline(one: Report, capsys: pytest.CaptureFixture[str]) -> Report:
    """Return the report with a baseline of all its findings and one other finding."""
    run(capsys, "baseline", "failing.json", "-o", "k.toml", "--reason", "OPS-1", "--until", "30d")
    with open("k.toml", "a") as file:
        file.write('\n[[known]]\nfingerprint = "0123456789abcdef"\nreason = "old"\n')
        file.write('until = 2030-01-01\ncode = "CP101"\n')
    return with_baseline(one, KnownFindings.read("k.toml"), date.today())


def test_every_format_mentions_muted_findings(capsys: pytest.CaptureFixture[str]) -> None:
    from flowdiag.cli.render import RENDERERS as REPORT_RENDERERS

    known = with_full_baseline(report_named("failing"), capsys)
    for kind in (Format.TABLE, Format.MARKDOWN, Format.GITHUB, Format.BRIEF):
        text = REPORT_RENDERERS[kind](known, Page())
        assert "2 findings muted" in text and "no longer occurs: remove it" in text, kind
        assert "failing" in text
    # Muted findings are not errors, which would fail a CI job.
    annotations = REPORT_RENDERERS[Format.GITHUB](known, Page()).splitlines()
    assert not any(line.startswith("::error title=CP") for line in annotations)
    suite = Xml.fromstring(REPORT_RENDERERS[Format.JUNIT](known, Page()))
    assert suite.get("failures") == "0" and "OPS-1" in Xml.tostring(suite, "unicode")
    assert (
        json.loads(REPORT_RENDERERS[Format.JSON](known, Page()))["summary"]["verdict"] == "failing"
    )
