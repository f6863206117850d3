"""Links to evidence: only in terminals that support links, only to existing files, with nothing else in the URL."""

from __future__ import annotations

import io
import re
from pathlib import Path

import msgspec
import pytest

from flowdiag.analyses.contract.report import Report
from flowdiag.cli.render import table
from flowdiag.cli.settings import When
from flowdiag.cli.text.hyperlinks import file_url, use_hyperlinks
from flowdiag.cli.text.page import Page

from . import reports

LINK = re.compile(r"\x1b\]8;;([^\x1b]*)\x1b\\")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("stream", "when", "environ", "expected"),
    [
        (Terminal(), When.AUTO, {"VTE_VERSION": "7200"}, True),
        (Terminal(), When.AUTO, {"VTE_VERSION": "4205"}, False),
        (Terminal(), When.AUTO, {"TERM_PROGRAM": "iTerm.app"}, True),
        (Terminal(), When.AUTO, {"TERM_PROGRAM": "Apple_Terminal"}, False),
        (Terminal(), When.AUTO, {"TERM": "dumb", "VTE_VERSION": "7200"}, False),
        (Terminal(), When.AUTO, {}, False),
        (Terminal(), When.AUTO, {"FORCE_HYPERLINK": "1"}, True),
        (Terminal(), When.AUTO, {"FORCE_HYPERLINK": "0", "VTE_VERSION": "7200"}, False),
        (io.StringIO(), When.AUTO, {"VTE_VERSION": "7200"}, False),
        (io.StringIO(), When.AUTO, {"FORCE_HYPERLINK": "1"}, True),
        (io.StringIO(), When.ALWAYS, {}, True),
        (Terminal(), When.NEVER, {"FORCE_HYPERLINK": "1"}, False),
    ],
)
def test_links_depend_on_the_terminal(
    stream: io.StringIO, when: When, environ: dict[str, str], expected: bool
) -> None:
    assert use_hyperlinks(stream, when, environ) is expected


def of(source: str) -> Report:
    report = reports.failing()
    first = report.findings[0]
    moved = [msgspec.structs.replace(item, source=source) for item in first.evidence]
    report.findings[0] = msgspec.structs.replace(first, evidence=moved)
    return report


@pytest.mark.parametrize("color", [False, True])
def test_a_location_links_to_its_file(tmp_path: Path, color: bool) -> None:
    (tmp_path / "a b;\x07é.log").write_text("x")
    page = Page(width=100, folder=f"{tmp_path}/", hyperlinks=True, color=color)
    shown = table.render(of("a b;\x07é.log"), page)
    targets = [target for target in LINK.findall(shown) if target]
    assert targets and all(re.fullmatch(r"file://[\w.-]*/[\w./%-]+", one) for one in targets)
    assert targets[0].endswith("/a%20b%3B%07%C3%A9.log")
    plain = table.render(of("a b;\x07é.log"), Page(width=100, folder=f"{tmp_path}/"))
    without = LINK.sub("", shown)
    assert color or without == plain
    assert table.render(of("a b;\x07é.log"), page) == shown


def test_names_that_are_not_local_files_are_not_links(tmp_path: Path) -> None:
    (tmp_path / "logs.zip").write_text("x")
    assert file_url("logs.zip", f"{tmp_path}/") is not None
    for source in ("logs.zip!jm.log", "gone.log", "s3://bucket/jm.log", "-", "a\0b"):
        assert file_url(source, f"{tmp_path}/") is None


def test_links_are_optional(tmp_path: Path) -> None:
    (tmp_path / "jm.log").write_text("x")
    page = Page(width=100, folder=f"{tmp_path}/", color=True)
    assert "\x1b]8" not in table.render(of("jm.log"), page)
