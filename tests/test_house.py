"""Keeps the code base maintainable: limits on complexity and on the size of modules and packages."""

from __future__ import annotations

import ast
import graphlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[1]
PACKAGES: Final = ("analyses", "cli", "parsers", ".package")
COMPLEXITY: Final = 15  # of a function, boolean operators included
MODULE_LINES: Final = 800
PACKAGE_FILES: Final = 12  # loose modules at the top of a package; rules/ hold one file per rule

# Functions, modules and packages over a limit, with the reason. Entries may only be removed.
COMPLEX: Final[dict[str, str]] = {}
LONG: Final[dict[str, str]] = {}
CROWDED: Final[dict[str, str]] = {
    "analyses/queues": "15",
    "analyses/rate": "20",
    "analyses/report": "20",
    "cli/commands": "17",
    "cli/spark": "17",
    "parsers": "18",
}

Function = ast.FunctionDef | ast.AsyncFunctionDef
BRANCHES: Final = (
    ast.If,
    ast.IfExp,
    ast.For,
    ast.AsyncFor,
    ast.While,
    ast.ExceptHandler,
    ast.Assert,
    ast.comprehension,
    ast.match_case,
)


def functions(tree: ast.AST, prefix: str = "") -> Iterator[tuple[str, Function]]:
    """Yield every function of a module with its qualified name; a nested function counts with its parent."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, Function):
            yield f"{prefix}{node.name}", node
        elif isinstance(node, ast.ClassDef):
            yield from functions(node, f"{prefix}{node.name}.")


def complexity(function: ast.AST) -> int:
    """Count the independent paths: one, plus one for each branch, filter and boolean operand."""
    total = 1
    for node in ast.walk(function):
        if isinstance(node, BRANCHES):
            total += 1
        if isinstance(node, ast.comprehension):
            total += len(node.ifs)
        elif isinstance(node, ast.BoolOp):
            total += len(node.values) - 1
    return total


def modules(package: str) -> list[Path]:
    return sorted(path for path in (ROOT / package).rglob("*.py") if not path.is_symlink())


def test_complexity_counts_branches_and_boolean_operators() -> None:
    text = "class A:\n  def f(self, x):\n    if x and x > 1 or not x:\n      return [y for y in x if y]\n"
    assert [(name, complexity(node)) for name, node in functions(ast.parse(text))] == [("A.f", 6)]


@pytest.mark.parametrize("package", PACKAGES)
def test_no_function_is_too_complex(package: str) -> None:
    found = {
        f"{path.relative_to(ROOT)}:{name}"
        for path in modules(package)
        for name, function in functions(ast.parse(path.read_text(encoding="utf-8")))
        if complexity(function) > COMPLEXITY
    }
    assert found <= {name for name in COMPLEX if name.startswith(f"{package}/")}


@pytest.mark.parametrize("package", PACKAGES)
def test_no_module_is_too_long(package: str) -> None:
    found = {
        str(path.relative_to(ROOT))
        for path in modules(package)
        if len(path.read_text(encoding="utf-8").splitlines()) > MODULE_LINES
    }
    assert found <= {name for name in LONG if name.startswith(f"{package}/")}


@pytest.mark.parametrize("package", PACKAGES)
def test_no_package_has_too_many_modules(package: str) -> None:
    folders = {path.parent for path in modules(package) if path.parent.name != "rules"}
    found = {
        str(folder.relative_to(ROOT))
        for folder in folders
        if len([path for path in folder.glob("*.py") if path.name != "__init__.py"]) > PACKAGE_FILES
    }
    assert found <= {name for name in CROWDED if name.split("/")[0] == package}


def names() -> dict[str, Path]:
    """Return every module of the product, by its name."""
    found: dict[str, Path] = {}
    for package in PACKAGES:
        top = ROOT if package != ".package" else ROOT / package / "flowdiag"
        for path in modules(package):
            parts = path.relative_to(top).with_suffix("").parts
            name = ".".join(("flowdiag", *(part for part in parts if part != "__init__")))
            found[name] = path
    return found


def imports(path: Path, known: dict[str, Path]) -> Iterator[str]:
    """Yield the modules that a module imports anywhere, also within functions and for annotations."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("flowdiag"):
            for alias in node.names:
                name = f"{node.module}.{alias.name}"
                yield name if name in known else str(node.module)


def test_no_modules_import_each_other_in_a_cycle() -> None:
    known = names()
    assert {"flowdiag", "flowdiag.library", "flowdiag.cli.app", "flowdiag.parsers"} <= set(known)
    graph = {name: set(imports(path, known)) for name, path in known.items()}
    graphlib.TopologicalSorter(graph).prepare()
