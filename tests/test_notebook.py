"""Checks that the cells of the documentation notebook compile, use existing names, and run."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest

import flowdiag

PATH = Path(__file__).parents[1] / "docs" / "flowdiag.ipynb"
TEXT = PATH.read_text(encoding="utf-8")
CELLS: list[dict[str, Any]] = json.loads(TEXT)["cells"]
CODE = ["".join(cell["source"]) for cell in CELLS if cell["cell_type"] == "code"]


def test_it_is_small_and_machine_independent() -> None:
    assert len(TEXT) < 30_000
    for word in ("/home/", "/root/", "/tmp/", str(PATH.parents[1]), "site-packages", "Traceback"):
        assert word not in TEXT
    outputs = [output for cell in CELLS for output in cell.get("outputs", [])]
    assert outputs and {each["output_type"] for each in outputs} <= {"execute_result", "stream"}
    assert not any(each.get("name") == "stderr" for each in outputs)


def test_its_cells_use_existing_names() -> None:
    named = set()
    for text in CODE:
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                if node.value.id == "flowdiag":
                    named.add(node.attr)
                for owner, kind in (("report", flowdiag.Report), ("events", flowdiag.Events)):
                    assert node.value.id != owner or hasattr(kind, node.attr), node.attr
    assert {"diagnose", "read", "rules"} <= named <= set(flowdiag.__all__)


@pytest.mark.full
@pytest.mark.spark
def test_it_runs() -> None:
    nbformat, client = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    notebook = nbformat.read(PATH, as_version=4)
    folder = {"metadata": {"path": str(PATH.parent)}}
    ran = client.NotebookClient(notebook, timeout=280, kernel_name="python3", resources=folder)
    ran.execute()
    shown = [cell["outputs"] for cell in notebook.cells if cell["cell_type"] == "code"]
    assert "data-skew" in shown[0][0]["data"]["text/plain"]
