"""The house stays one to live in: what is long or complex stands in a list that only becomes shorter."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LINES = 60

# Functions that are longer, each with why it stays whole. No line may be added here; what forks too
# often is found by ruff (C901 in pyproject.toml).
KNOWN: dict[str, str] = {}

Function = ast.FunctionDef | ast.AsyncFunctionDef


def functions(tree: ast.AST, prefix: str = "") -> Iterator[tuple[str, Function]]:
    """Every function of a module by its name within it; those within functions belong to them."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, Function):
            yield f"{prefix}{node.name}", node
        elif isinstance(node, ast.ClassDef):
            yield from functions(node, f"{prefix}{node.name}.")


def length(function: Function) -> int:
    """Lines of a function, its docstring among them."""
    return (function.end_lineno or 0) - function.lineno + 1


def test_functions_of_classes_are_measured_too() -> None:
    text = "class A:\n  def f(self):\n    def g():\n      pass\n    return g\n"
    assert [(name, length(node)) for name, node in functions(ast.parse(text))] == [("A.f", 4)]


@pytest.mark.parametrize("package", ["analyses", "cli", "parsers"])
def test_no_function_is_longer_than_a_reader_can_hold(package: str) -> None:
    found = {
        f"{path.relative_to(ROOT)}:{name}"
        for path in sorted((ROOT / package).rglob("*.py"))
        for name, function in functions(ast.parse(path.read_text(encoding="utf-8")))
        if length(function) > LINES
    }
    known = {name for name in KNOWN if name.startswith(f"{package}/")}
    assert found == known, "split what is new; take what is gone off the list"
