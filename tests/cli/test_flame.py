"""Tests for the flame graph of a finding."""

from __future__ import annotations

from xml.etree import ElementTree

from flowdiag.analyses.model.finding import StackPath
from flowdiag.cli.render.html.charts.flame import flame_graph

RUN, MAP = "java.lang.Thread.run(Thread.java:840)", "com.shop.Price.map(Price.java:31)"


def test_boxes_are_as_wide_as_their_share_and_user_code_is_marked() -> None:
    stacks = [
        StackPath(samples=3, frames=(RUN, MAP, "java.lang.Thread.sleep(Native Method)")),
        StackPath(samples=1, frames=(RUN, MAP)),
    ]
    tree = ElementTree.fromstring(str(flame_graph(stacks)))
    boxes = {group.find("title").text: group for group in tree.iter("g")}  # type: ignore[union-attr]
    widths = [round(float(group.find("rect").get("width") or 0)) for group in boxes.values()]  # type: ignore[union-attr]
    assert widths == [999, 999, 999, 749]
    assert [title for title, group in boxes.items() if group.get("class") == "mine"] == [
        f"{MAP}: 4 samples, 100%"
    ]


def test_names_are_escaped() -> None:
    text = str(flame_graph([StackPath(samples=1, frames=("com.shop.Price.<init>(P.java:1)",))]))
    assert "&lt;init&gt;" in text and "<init>" not in text


def test_no_stacks_give_no_graph() -> None:
    assert flame_graph([]) == ""
