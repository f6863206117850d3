"""A failure of the chart process never breaks the page."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from markupsafe import Markup

from flowdiag.analyses.faults import Faults
from flowdiag.cli.render import html
from flowdiag.cli.render.html import converter, drawing
from flowdiag.cli.render.html.converter import Converter, RefusedError
from flowdiag.cli.render.html.drawing import draw
from flowdiag.cli.render.html.figures import ChartRenderer, Figure, Table
from flowdiag.cli.text.page import Page

from . import reports

pytestmark = pytest.mark.usefixtures("planted")

# Each of these characters in a label crashed the process or was rejected.
UNDRAWABLE = ("\ufffe", "\uffff", "\x00", "\x01", "\ud800", "\U0001f469" * 60)
NUMBERS = Table(heads=("a",), rows=(("1",),))
HOSTILE_PROGRAM = """
import json, os, sys, time
print("ready", flush=True)
for line in sys.stdin:
    if "die" in line: os.abort()
    if "hang" in line: time.sleep(60)
    if "half" in line: print('{"svg"', end="", flush=True); os._exit(3)
    if "refuse" in line: print(json.dumps({"error": "ValueError: no"}), flush=True); continue
    print(json.dumps({"svg": "<svg xmlns='http://www.w3.org/2000/svg' width='1' height='1'/>"}), flush=True)
"""


def spec_of(text: str) -> dict[str, Any]:
    """Return the smallest chart that has a label."""
    return {
        "data": {"values": [{"a": text}]},
        "mark": "bar",
        "encoding": {"y": {"field": "a", "type": "nominal", "axis": {"labelLimit": 60}}},
    }


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Converter]:
    """Return a fake process that follows instructions in the specification."""
    program = tmp_path / "program.py"
    program.write_text(HOSTILE_PROGRAM)
    monkeypatch.setattr(converter, "_PROGRAM", program)
    made = Converter()
    monkeypatch.setattr(drawing, "CONVERTER", made)
    yield made
    made.close()


def drawn(renderer: ChartRenderer, what: str) -> Figure | None:
    return renderer.figure(what, "label", lambda _: {"title": what}, how="", numbers=NUMBERS)


def test_charts_draw_any_character() -> None:
    for number, text in enumerate(UNDRAWABLE):
        shown = draw(spec_of(f"x{text}"), f"c{number}", "label")
        assert isinstance(shown, Markup) and "\ufffd" in shown, ascii(text)


def test_a_crash_costs_one_chart() -> None:
    made = Converter()
    with pytest.raises(RefusedError, match="exited with code"):
        made.svg(json.dumps(spec_of("\ufffe")))
    assert made.svg(json.dumps(spec_of("x"))).startswith("<svg")
    with pytest.raises(RefusedError):
        made.svg("{}")
    made.close()


@pytest.mark.parametrize("what", ["die", "half", "refuse"])
def test_a_failed_chart_leaves_a_message(what: str, stand_in: Converter) -> None:
    faults = Faults()
    renderer = ChartRenderer(room=1000, faults=faults)
    figures = [drawn(renderer, title) for title in ("one", what, "two")]
    assert [bool(one and one.wide) for one in figures] == [True, False, True]
    bad = figures[1]
    assert bad and bad.error == "This chart could not be drawn." and bad.numbers == NUMBERS
    assert [fault.message.split(":")[0] for fault in faults.found] == [what]
    assert not renderer.error


def test_repeated_timeouts_stop_drawing(
    stand_in: Converter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(converter, "TIMEOUT_S", 0.5)
    stand_in.svg("x")  # started
    faults = Faults()
    renderer = ChartRenderer(room=1000, faults=faults)
    figures = [drawn(renderer, title) for title in ("hang", "one", "hang", "two")]
    assert [bool(one and one.wide) for one in figures] == [False, True, False, False]
    assert "not drawn within" in renderer.error and not faults.found


@pytest.mark.parametrize("program", ["raise ImportError", None])
def test_a_page_without_charts_is_complete_and_explains_why(
    program: str | None, stand_in: Converter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if program:
        (tmp_path / "program.py").write_text(program)
    else:
        monkeypatch.setattr(sys, "executable", str(tmp_path / "gone"))
    page = Page()
    shown = html.render(reports.failing(), page)
    assert shown.count("Charts are missing: the chart process") == 1
    assert "<figcaption>" in shown and "<svg" not in shown and shown.endswith("</html>\n")
    assert not page.faults.found


def test_the_chart_process_ends_with_flowdiag() -> None:
    # What is registered before flowdiag runs behind its clean-up.
    code = (
        "import atexit; atexit.register(lambda: print(p.pid, p.returncode, p.stdin.closed, p.stdout.closed))\n"
        "from flowdiag.cli.render.html.converter import CONVERTER as c\n"
        f"c.svg({json.dumps(json.dumps(spec_of('x')))}); p = c._process.popen"
    )
    pid, *left = subprocess.check_output([sys.executable, "-c", code], text=True).split()
    assert left == ["-9", "True", "True"]
    assert not Path(f"/proc/{pid}").exists()
