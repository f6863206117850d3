"""Measures the code base: lines by kind, the shape of rules, unused names: `python -m benchmarks.house`.

The first table counts the lines of the product (`analyses`, `cli`, `parsers`, `.package`), the second
those of rules, and the third all other lines. Compare the figures with those of an earlier commit in a second worktree.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from statistics import mean, median
from typing import Final

ROOT: Final = Path(__file__).parents[1]
PRODUCT: Final = ("analyses", "cli", "parsers", ".package")
SHORT: Final = 5  # lines of a short function

Function = ast.FunctionDef | ast.AsyncFunctionDef


def modules() -> Iterator[Path]:
    """Yield the modules of the product once each; `.package` links to the other three."""
    for package in PRODUCT:
        for path in sorted((ROOT / package).rglob("*.py")):
            if not any(parent.is_symlink() for parent in path.parents):
                yield path


def span(node: ast.stmt) -> int:
    """Return the number of lines of a statement."""
    return (node.end_lineno or node.lineno) - node.lineno + 1


def docstring(node: ast.AST) -> ast.Expr | None:
    """Return the docstring statement of a module, class or function."""
    body = getattr(node, "body", None)
    first = body[0] if isinstance(body, list) and body else None
    is_text = (
        isinstance(first, ast.Expr)
        and isinstance(first.value, ast.Constant)
        and isinstance(first.value.value, str)
    )
    return first if is_text else None


def count(source: str) -> Counter[str]:
    """Count the lines of a module by kind, and count its functions."""
    lines, tree = source.splitlines(), ast.parse(source)
    counts = Counter[str](
        lines=len(lines),
        empty=sum(not line.strip() for line in lines),
        comments=sum(line.lstrip().startswith("#") for line in lines),
    )
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | Function):
            text = docstring(node)
            kind = "module docstrings" if isinstance(node, ast.Module) else "docstrings"
            counts[kind] += span(text) if text else 0
        if isinstance(node, ast.Import | ast.ImportFrom):
            counts["imports"] += span(node)
        if isinstance(node, Function):
            counts["functions"] += 1
            counts["signatures"] += node.body[0].lineno - node.lineno
            counts["short functions"] += span(node) <= SHORT
            rest = node.body[1:] if docstring(node) else node.body
            counts["single returns"] += len(rest) == 1 and isinstance(rest[0], ast.Return)
    return counts


def called_once() -> int:
    """Count the private module-level functions that are used exactly once in their module."""
    found = 0
    for path in modules():
        tree = ast.parse(path.read_text(encoding="utf-8"))
        names = Counter(n.id for n in ast.walk(tree) if isinstance(n, ast.Name))
        private = [n.name for n in tree.body if isinstance(n, Function) and n.name.startswith("_")]
        found += sum(names[name] == 1 for name in private)
    return found


def table(rows: dict[str, str]) -> str:
    """Render a Markdown table of names and figures."""
    return "\n".join(["| measured | |", "|---|--:|", *(f"| {k} | {v} |" for k, v in rows.items())])


# Lines outside the product's Python: what they are, and the patterns of their paths.
OTHERS: Final = {
    "data of the product (TOML, SQL, templates)": (
        *(
            f"{package}/**/*.{kind}"
            for package in PRODUCT
            for kind in ("toml", "sql", "html", "css")
        ),
    ),
    "listener in Java": ("cli/**/*.java",),
    "recorders": ("fixtures/**/*.py", "fixtures/**/*.java", "fixtures/**/*.scala"),
    "pastes": ("fixtures/pastes/**/*.toml",),
    "tests": ("tests/**/*.py",),
    "benchmarks": ("benchmarks/**/*.py",),
    "generated documents": tuple(
        f"docs/{name}.md" for name in ("rules", "actions", "cli", "tables")
    ),
}


def lines_of(patterns: tuple[str, ...]) -> int:
    """Count the lines of the files that match some patterns; links are left out."""
    found = {path for pattern in patterns for path in ROOT.glob(pattern) if path.is_file()}
    real = [path for path in found if not any(parent.is_symlink() for parent in path.parents)]
    return sum(len(path.read_text(encoding="utf-8").splitlines()) for path in real)


def main() -> int:
    """Print the tables."""
    total = sum((count(path.read_text(encoding="utf-8")) for path in modules()), Counter[str]())
    kinds = {name: f"{number:,}" for name, number in total.items()}
    print(table(kinds | {"private functions called once": f"{called_once():,}"}), end="\n\n")
    rules = [p for p in modules() if p.parent.name == "rules" and p.name != "__init__.py"]
    counts = [count(path.read_text(encoding="utf-8")) for path in rules]
    sizes = [each["lines"] for each in counts]
    without = [each["lines"] - each["module docstrings"] for each in counts]
    per_rule = {
        "rules": f"{len(rules)}",
        "lines, mean and median": f"{mean(sizes):.0f} / {median(sizes):.0f}",
        "lines without the page, mean": f"{mean(without):.0f}",
        "lines of the page, mean": f"{mean(each['module docstrings'] for each in counts):.1f}",
        "import lines, mean": f"{mean(each['imports'] for each in counts):.1f}",
        "functions, mean": f"{mean(each['functions'] for each in counts):.1f}",
    }
    print(table(per_rule), end="\n\n")
    print(table({name: f"{lines_of(patterns):,}" for name, patterns in OTHERS.items()}))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
