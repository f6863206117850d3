"""The web page: complete, valid and safe, with the embedded report."""

from __future__ import annotations

import re
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as Xml

import html5lib
import msgspec
import pytest
import zstandard
from msgspec.structs import replace

from benchmarks.pages import MOST, SAMPLE
from benchmarks.reports import SAMPLE as REPORTS
from flowdiag.analyses.contract.encoding import encode
from flowdiag.analyses.contract.queues import QueueFlow, QueueLag, QueueLagPoint
from flowdiag.analyses.contract.report import Report
from flowdiag.analyses.report.transform import decode
from flowdiag.cli import render as renderers
from flowdiag.cli.output.saved import read_report
from flowdiag.cli.render import check_format, html
from flowdiag.cli.render.html.embedded import extract_report, fit_report, report_script
from flowdiag.cli.settings import Format
from flowdiag.cli.text.page import Page
from flowdiag.parsers.errors import FlowdiagError

from . import reports

HTML = "{http://www.w3.org/1999/xhtml}"
SVG = "{http://www.w3.org/2000/svg}"
KINDS = ["failing", "healthy", "inconclusive", "nothing", "hostile"]
HOSTILE = (
    "</script><script>alert(1)</script>",
    "]]><svg onload=alert(1)>",
    "<!--<img src=x onerror=alert(1)>",
    "javascript:alert(1)",
    "\u202egnol\u202c a\x00b\x1b[31mc \u2028 d\ud800e",
    '" onfocus="alert(1)" x="',
    "{{ 7 * 7 }}{% raw %}",
    "&lt;b&gt;&#60;i&#62;",
)


@cache
def sampled() -> list[Report]:
    """Return reports of `diagnose` on recordings."""
    lines = zstandard.decompress(SAMPLE.read_bytes()).split(b"\n")
    return [msgspec.json.decode(line, type=Report) for line in lines]


@cache
def page_of(number: int) -> str:
    """Return the page of a sampled report."""
    return html.render(sampled()[number], Page())


def parsed(page: str) -> Xml.Element:
    """Parse the page strictly, without the errors that a browser tolerates."""
    parser = html5lib.HTMLParser(html5lib.getTreeBuilder("etree"), strict=True)
    root: Xml.Element = parser.parse(page)
    return root


def text_of(root: Xml.Element, tag: str) -> str:
    found = root.find(f".//{HTML}{tag}")
    assert found is not None
    return " ".join("".join(found.itertext()).split())


def well_made(page: str) -> Xml.Element:
    """Check the properties that every page must have."""
    root = parsed(page)
    assert page.startswith("<!DOCTYPE html>") and page.endswith("</html>\n")
    assert len(page.encode()) < MOST
    (script,) = root.iter(f"{HTML}script")
    assert script.attrib == {"type": "application/json", "id": "flowdiag-report"}
    every = list(root.iter())
    for node in every:
        assert not any(name.startswith("on") or name == "style" for name in node.attrib), (
            node.attrib
        )
        assert not {"src", "srcset", "action", "data", "{http://www.w3.org/1999/xlink}href"} & set(
            node.attrib
        )
    tags = {str(node.tag).rpartition("}")[2] for node in every}
    assert not tags & {"iframe", "object", "embed", "form", "base", "link", "img", "foreignObject"}
    ids = [node.get("id") for node in every if node.get("id")]
    assert len(ids) == len(set(ids))
    targets = [node.get("href", "") for node in root.iter(f"{HTML}a")]
    assert {target.removeprefix("#") for target in targets} <= set(ids)
    assert all(target.startswith("#") for target in targets)
    references = re.findall(r"url\(#?([^)]*)\)", page)
    assert set(references) <= set(ids)
    levels = [int(str(n.tag)[-1]) for n in every if re.fullmatch(r".*\}h[1-6]", str(n.tag))]
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))
    for chart in root.iter(f"{SVG}svg"):
        assert chart.get("role") == "img" and chart.get("aria-label")
    shown = "".join(body.itertext() if (body := root.find(f"{HTML}body")) is not None else "")
    shown = shown.replace(script.text or "", "")
    assert not re.search("undefined|NaN|Infinity|None|Markup\\(", shown)
    return root


@pytest.mark.full
def test_pages_of_single_commands() -> None:
    lines = zstandard.decompress(REPORTS.read_bytes()).split(b"\n")
    for line in lines:
        well_made(html.render(msgspec.json.decode(line, type=Report), Page()))


@pytest.mark.parametrize("kind", KINDS)
def test_a_page_of_every_kind_of_report(kind: str) -> None:
    report: Report = getattr(reports, kind)()
    page = html.render(report, Page())
    well_made(page)
    document = extract_report(page.encode())
    assert document is not None and encode(decode(document)) == encode(report)


def test_pages_of_recordings_show_their_findings() -> None:
    page = page_of(0)
    root = well_made(page)
    assert text_of(root, "h1").startswith("failing: ") and "data-skew" in text_of(root, "h1")
    captions = [" ".join(node.itertext()) for node in root.iter(f"{HTML}figcaption")]
    assert captions[:4] == [
        "Checkpoints over time",
        "Late acknowledgements: subtask by TaskManager",
        "Job graph",
        "Busy time: subtask by TaskManager",
    ]
    # Tooltips agree with the report.
    titles = [node.text or "" for node in root.iter(f"{SVG}title")]
    assert any("enrich 1/4 on taskmanager-2: 93% of the time busy" in title for title in titles)
    assert any(title.startswith("enrich, parallelism 4: busy 93%") for title in titles)
    assert (
        len(re.findall(r"checkpoint \d+, [^<]*: expired after", page)) == 2 * 9
    )  # wide and narrow
    for number, words in ((1, "never ended"), (2, "interval, 2 s"), (3, "published rate limit")):
        well_made(page_of(number))
        assert words in page_of(number)


@pytest.mark.parametrize("with_tasks", [True, False])
def test_the_lag_of_a_job_is_a_chart(with_tasks: bool) -> None:
    report = sampled()[0]
    vertices = report.data.vertices if with_tasks else None
    points = [
        QueueLagPoint(at=f"2026-11-25T21:30:{second:02d}.000Z", records=100.0 * second)
        for second in (0, 15, 30)
    ]
    flow = QueueFlow(
        job_id=vertices[0].job_id if vertices else "",
        job_name="pricing",
        side="source",
        task=None,
        neighbour=None,
        text="group pricing falls behind",
        busy={},
        lag=QueueLag(
            of="group pricing",
            first=0.0,
            last=3000.0,
            per_s=100.0,
            direction="growing",
            behind_ms=None,
            first_seen=points[0].at,
            last_seen=points[-1].at,
            points=points,
        ),
    )
    data = replace(report.data, flow=[flow], vertices=vertices)
    page = html.render(replace(report, data=data), Page())
    captions = [" ".join(node.itertext()) for node in well_made(page).iter(f"{HTML}figcaption")]
    assert "Lag of group pricing: unread records in the source" in captions


def test_the_same_report_gives_the_same_bytes() -> None:
    assert html.render(sampled()[2], Page()) == page_of(2)


def test_times_use_the_requested_time_zone() -> None:
    assert "2026-11-20 23:51:11 to 23:52:42 UTC" in page_of(2)
    tokyo = html.render(sampled()[2], Page(zone="Asia/Tokyo"))
    assert "2026-11-21 08:51:11 to 08:52:42 Asia/Tokyo" in tokyo
    assert re.search(r"<text[^>]*>08:51:30</text>", tokyo) and "23:51:30<" not in tokyo


POISONED = frozenset(
    {
        "name",
        "task",
        "taskmanager",
        "host",
        "title",
        "why",
        "explain",
        "excerpt",
        "source",
        "reason",
    }
    | {
        "job_name",
        "narrative",
        "says",
        "text",
        "population",
        "upstream",
        "message",
        "hint",
        "example",
    }
    | {
        "risk",
        "verify",
        "measure",
        "current",
        "proposed",
        "option",
        "command",
        "run",
        "held_because",
    }
    | {"because", "cause", "trigger", "diagnostics", "label", "version", "application", "signal"}
    | {
        "executor",
        "query",
        "operator",
        "change",
        "zone",
        "step",
        "slowest",
        "status",
        "kind",
        "role",
    }
)


def test_log_text_never_becomes_markup() -> None:
    for report in (sampled()[0], sampled()[3]):
        document = msgspec.to_builtins(report)
        for key in ("summary", "findings", "inputs", "rules", "warnings", "data"):
            # Changed words of the contract are rejected, changed names are not.
            free = POISONED - ({"kind", "status", "cause"} if key != "data" else {"verdict"})
            document[key] = poisoned_of(document[key], free)
        page = html.render(msgspec.convert(document, type=Report), Page())
        root = well_made(page)
        assert "alert(1)" in page  # as text
        assert not re.search("[\u202a-\u202e\u2028\x00\x1b\ud800]", page)
        assert "49" not in text_of(root, "h1")


def poisoned_of(node: Any, keys: frozenset[str]) -> Any:
    counter = iter(range(10**9))

    def walk(node: Any, key: str = "") -> Any:
        if isinstance(node, dict):
            return {name: walk(value, name) for name, value in node.items()}
        if isinstance(node, list):
            return [walk(item, key) for item in node]
        if isinstance(node, str) and key in keys:
            return f"{HOSTILE[next(counter) % len(HOSTILE)]} {node}"
        return node

    return walk(node)


def test_an_embedded_report_cannot_end_its_element() -> None:
    report = reports.hostile()
    rule = msgspec.structs.replace(report.rules[0], reason="<!--<script></script>&amp;]]>\u2028")
    script = report_script(msgspec.structs.replace(report, rules=[rule]))
    assert script.count("<") == 2 and script.count(">") == 2
    document = extract_report(f"<!DOCTYPE html>{script}".encode())
    assert document is not None and decode(document).rules[0].reason == rule.reason


def test_a_truncated_page_contains_no_report() -> None:
    page = html.render(reports.failing(), Page()).encode()
    assert extract_report(page[:-200]) is None and extract_report(b"<!doctype html><p>hi") is None


def test_render_extracts_the_report_from_a_page(tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    file.write_text(page_of(2), encoding="utf-8")
    assert read_report(str(file)) == sampled()[2]
    file.write_text("<html><p>somebody else's</p></html>", encoding="utf-8")
    with pytest.raises(FlowdiagError, match="it is a web page without a report, or truncated"):
        read_report(str(file))


def many(count: int) -> Report:
    """Return a report with this number of jobs."""
    report = sampled()[0]
    document = msgspec.to_builtins(report)
    job, finding = document["data"]["jobs"][0], document["findings"][0]
    copies = [{**job, "job_id": f"{n:032x}", "name": f"job {n}"} for n in range(count)]
    document["data"]["jobs"] = copies
    document["data"]["vertices"] = [
        {**vertex, "job_id": one["job_id"], "job_name": one["name"]}
        for one in copies
        for vertex in document["data"]["vertices"]
    ]
    document["findings"] += [
        {
            **finding,
            "fingerprint": f"{n:016x}",
            "subject": {**finding["subject"], "job_id": one["job_id"], "job_name": one["name"]},
        }
        for n, one in enumerate(copies)
    ]
    return msgspec.convert(document, type=Report)


def test_a_page_of_five_hundred_jobs_fits_and_lists_omissions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    report = many(500)
    monkeypatch.setattr(html, "CHARTS", 0)  # rendering them takes most of the time
    page = html.render(report, Page())
    root = well_made(page)
    assert "The report in this page is incomplete" in text_of(root, "footer")
    assert "more charts do not fit" in text_of(root, "footer")
    assert "500 jobs" in page
    document = extract_report(page.encode())
    assert document is not None and len(document) <= html.EMBEDDED
    cut = decode(document)
    assert cut.summary.verdict == report.summary.verdict
    assert "shortened to fit the page" in cut.warnings[-1].text
    known = {finding.fingerprint for finding in cut.findings}
    assert all(set(story.findings) <= known for story in cut.summary.stories)


def test_a_long_list_is_cut_before_any_finding() -> None:
    report = sampled()[2]
    apps = report.data.applications or []
    longer = msgspec.structs.replace(apps[0], batches=apps[0].batches * 400)
    data = msgspec.structs.replace(report.data, applications=[longer])
    cut, left_out = fit_report(msgspec.structs.replace(report, data=data), 600_000)
    assert left_out == ["applications.batches after 500"] or left_out == [
        "applications.batches after 2 000"
    ]
    assert cut.findings == report.findings
    assert cut.data.applications is not None and cut.data.applications[0].truncated
    assert fit_report(report, 600_000) == (report, [])


def test_missing_libraries_are_reported_before_the_diagnosis(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    check_format(Format.HTML)
    monkeypatch.setattr(renderers, "find_spec", lambda name: None)
    check_format(Format.TABLE)
    with pytest.raises(FlowdiagError, match="--format html needs jinja2 and vl_convert") as raised:
        check_format(Format.HTML)
    assert raised.value.hint is not None and "html" in raised.value.hint


def test_the_style_has_every_color_that_charts_use() -> None:
    templates = Path(html.__file__).parent / "templates" / "style.css"
    known = set(re.findall(r"(--[\w-]+):", templates.read_text(encoding="utf-8")))
    for number in range(len(sampled())):
        assert set(re.findall(r"var\((--[\w-]+)\)", page_of(number))) <= known
