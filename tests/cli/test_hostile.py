"""Every format shows text from logs and stored reports as plain text.

Each test checks the written characters against the rules of the format. A new format is tested as
soon as it is in `RENDERERS`, and needs an entry in `RULES`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from functools import cache
from html.parser import HTMLParser
from typing import Any
from xml.etree import ElementTree as Xml

import msgspec
import pytest
from markdown_it import MarkdownIt

from flowdiag.analyses.contract.encoding import encode
from flowdiag.analyses.contract.report import Report
from flowdiag.analyses.report.saved import report_in
from flowdiag.cli.app import main
from flowdiag.cli.output.console import print_message
from flowdiag.cli.render import RENDERERS
from flowdiag.cli.settings import Format
from flowdiag.cli.text.page import Page

from . import reports
from .hostile import HARMLESS, INJECTIONS, inject
from .test_screen import kept

PAGE = Page(width=100)
FORMS = list(Format)
# Controls except the line feed, DEL and C1, direction and zero-width marks, separators, surrogates, tags,
# noncharacters.
FORBIDDEN = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff"
    "\ud800-\udfff\U000e0000-\U000e007f\ufdd0-\ufdef\ufffe\uffff\U0001fffe\U0001ffff\U0010fffe\U0010ffff]"
)
_SGR = re.compile(r"\x1b\[[\d;]*m")
_LINK = re.compile(r"\x1b\]8;[\w=]*;([^\x1b\x07]*)\x1b\\")


@cache
def originals() -> tuple[Report, ...]:
    """Return a report of each command, and a report with every outcome of a checkpoint."""
    chosen: dict[str, Report] = {report.tool.command: report for report in kept()}
    return (*chosen.values(), reports.failing())


def stored(document: bytes) -> Report:
    """Decode a stored report as the commands do."""
    return report_in(document, "evil.json")


def starts(form: Format) -> range:
    """Return the number of the first injection of each run; pages render slowly and have fewer
    runs."""
    return range(0, len(INJECTIONS), 13 if form is Format.HTML else 4)


def check_all_injections(form: Format, report: Report, starts: Iterable[int]) -> None:
    """Plant each injection at every place of a report, and check the output in its format."""
    plain = RENDERERS[form](stored(inject(report, 0, [HARMLESS])), PAGE)
    RULES[form](plain, plain)
    for start in starts:
        page = Page(width=100)
        shown = RENDERERS[form](stored(inject(report, start)), page)
        shown.encode()
        RULES[form](shown, plain)
        assert not page.faults.found, "no text keeps a section, or a picture, from being shown"


def _table(shown: str, _: str) -> None:
    assert not FORBIDDEN.search(shown)


def _json(shown: str, _: str) -> None:
    json.loads(shown)
    assert not FORBIDDEN.search(shown)


def _markdown(shown: str, plain: str) -> None:
    assert not FORBIDDEN.search(shown)
    kinds = set()
    # GitHub creates links and mentions from these, unless they are escaped.
    outside = re.sub(r"(`+).*?\1", "", shown)
    assert not re.search(r"(?<!\\)://|www\.", outside)
    for token in MarkdownIt("gfm-like", {"linkify": False}).parse(shown):
        kinds.add(token.type)
        kinds |= {child.type for child in token.children or ()}
    assert not kinds & {"html_block", "html_inline", "link_open", "image"}, kinds
    assert not re.search(r"(?<![\\\w])@\w", outside)


def _junit(shown: str, plain: str) -> None:
    assert not FORBIDDEN.search(shown)
    assert "<!DOCTYPE" not in shown and "<![CDATA[" not in shown
    found, expected = Xml.fromstring(shown), Xml.fromstring(plain)
    assert {(one.tag, *sorted(one.attrib)) for one in found.iter()} == {
        (one.tag, *sorted(one.attrib)) for one in expected.iter()
    }


def _github(shown: str, plain: str) -> None:
    assert not FORBIDDEN.search(shown)
    lines = shown.splitlines()
    assert len(lines) == plain.count("\n")
    for line in lines:
        assert re.fullmatch(
            r"::(error|warning|notice) (file=[^:,]*,)?(line=\d+,)?title=[^:,]*::.*", line
        ), line
        assert set(re.findall("%..?", line)) <= {"%25", "%0A", "%0D", "%3A", "%2C"}


def _brief(shown: str, plain: str) -> None:
    assert not FORBIDDEN.search(shown)
    assert "```" not in shown
    assert not re.search(r"(?<!\w)@\w|<[@!#]", shown)


class _Outline(HTMLParser):
    """Elements, and attributes that a browser would act on."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {f"{tag} {name}" for name, _ in attrs}
        self.addresses += [
            value or "" for name, value in attrs if name in ("href", "src", "action")
        ]


def _html(shown: str, plain: str) -> None:
    assert not FORBIDDEN.search(shown)
    found, expected = _Outline(), _Outline()
    found.feed(shown)
    expected.feed(plain)
    assert found.tags <= expected.tags | {"br", "wbr", "path", "g", "text", "tspan", "title"}
    assert not {one for one in found.attributes if one.split()[1].startswith("on")}
    for address in found.addresses:
        assert address.startswith(("#", "https://", "data:image/")), address
        assert "evil" not in address


RULES: dict[Format, Callable[[str, str], None]] = {
    Format.TABLE: _table,
    Format.JSON: _json,
    Format.MARKDOWN: _markdown,
    Format.JUNIT: _junit,
    Format.GITHUB: _github,
    Format.BRIEF: _brief,
    Format.HTML: _html,
}


def test_every_format_has_a_check() -> None:
    assert set(RULES) == set(RENDERERS) == set(Format)


@pytest.mark.parametrize("form", FORMS)
def test_log_text_stays_text(form: Format) -> None:
    # A page takes a long time to render, so only the report with the most kinds of texts is used.
    sample = originals()[-1:] if form is Format.HTML else originals()
    for number, report in enumerate(sample):
        check_all_injections(form, report, [(7 * number + 3) % len(INJECTIONS)])


@pytest.mark.full
@pytest.mark.parametrize("form", FORMS)
def test_all_log_text_stays_text(form: Format) -> None:
    for report in originals():
        check_all_injections(form, report, starts(form))


@pytest.mark.parametrize("width", [40, pytest.param(200, marks=pytest.mark.full)])
def test_a_terminal_gets_no_escapes_from_logs(width: int) -> None:
    for report in originals():
        for start in range(0, len(INJECTIONS), 9):
            page = Page(width=width, color=True, hyperlinks=True, verbose=1)
            shown = RENDERERS[Format.TABLE](stored(inject(report, start)), page)
            for target in _LINK.findall(shown):
                assert not target or re.fullmatch(r"file://[!-~]*", target), target
            assert not FORBIDDEN.search(_LINK.sub("", _SGR.sub("", shown)))


def test_rich_markup_in_logs_is_not_interpreted() -> None:
    report = stored(inject(reports.failing(), 0, ["[bold]x[/bold]"]))
    assert "[bold]x[/bold]" in RENDERERS[Format.TABLE](report, PAGE)


def test_messages_on_stderr_are_one_line(capfd: pytest.CaptureFixture[str]) -> None:
    for text in INJECTIONS:
        print_message("warning", text, f"x {text}")
        shown = capfd.readouterr().err
        assert shown.count("\n") == 2 and not FORBIDDEN.search(shown), text


@pytest.mark.parametrize(
    "form",
    [pytest.param(form, marks=[pytest.mark.full] if form is Format.HTML else []) for form in FORMS],
)
def test_a_stored_report_is_not_trusted(
    form: Format, tmp_path: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    saved = tmp_path / "evil.json"
    report = reports.failing()
    plain = RENDERERS[form](stored(inject(report, 0, [HARMLESS])), PAGE)
    for start in starts(form)[:3]:
        saved.write_bytes(inject(report, start))
        assert main(["render", str(saved), "-f", form.value]) == 0
        shown = capfd.readouterr()
        assert not shown.err
        RULES[form](shown.out, plain)


def test_unknown_contract_words_are_rejected_in_one_line(
    tmp_path: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    document = msgspec.json.decode(encode(reports.failing()))
    saved = tmp_path / "x\x1b[31m\u202e.json"
    for text in INJECTIONS:
        document["findings"][0]["severity"] = text.encode("ascii", "replace").decode()
        saved.write_bytes(msgspec.json.encode(document))
        status = main(["render", str(saved)])
        shown = capfd.readouterr()
        assert not FORBIDDEN.search(shown.err + shown.out)
        assert status == 0 or (status == 2 and shown.err.startswith("error: ")), shown.err


@pytest.mark.parametrize(
    "number",
    [pytest.param(n, marks=[pytest.mark.full] if n % 3 else []) for n in range(len(INJECTIONS))],
)
def test_messages_with_file_names_and_options_are_one_line(
    number: int, capfd: pytest.CaptureFixture[str]
) -> None:
    text = INJECTIONS[number].replace("\x00", "")[:200]
    for arguments in (["render", f"no{text}"], ["explain", f"no{text}"], [f"--no{text}"]):
        assert main(arguments) == 2
        shown = capfd.readouterr()
        assert shown.out == "" and not FORBIDDEN.search(shown.err)
        assert shown.err.startswith("error: ") and shown.err.count("\n") <= 2, shown.err
