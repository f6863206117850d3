"""Draws texts for an editor who has not seen them: `python -m tests.draw --seed 7`.

The editor reads them with nothing but the style standard, and rewrites each sentence that does not read as if a native
engineer had written it. The texts are strings of the product (titles, reasons, errors, help), sentences of the data
files (causes, remedies, checks), docstrings, and identifiers. Rule pages and documents follow by name.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.english import (
    GENERATED,
    PRODUCT,
    ROOT,
    Text,
    data_texts,
    docstring_nodes,
    files,
    python_texts,
)

_EXAMPLE: Final = re.compile(r"^ *>>> .*(?:\n(?! *$).+)*", re.MULTILINE)
SHARES: Final = {"string": 0.4, "data": 0.2, "docstring": 0.3, "identifier": 0.1}


def pool() -> dict[str, list[Text]]:
    """Return every text that may be drawn, by kind."""
    found: dict[str, list[Text]] = {kind: [] for kind in SHARES}
    for path in files(PRODUCT):
        if path.suffix == ".toml":
            found["data"] += [text for text in data_texts(path) if text.prose]
        elif path.suffix == ".py" and path.name != "__init__.py":
            documented = set(python_texts(path, literals=False))
            found["docstring"] += docstrings(path)
            found["string"] += [t for t in python_texts(path, literals=True) if t not in documented]
            found["identifier"] += identifiers(path)
    return {kind: sorted(set(texts), key=str) for kind, texts in found.items()}


def docstrings(path: Path) -> Iterator[Text]:
    """Yield the docstrings below the module's own, with the names of their sections and without examples."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in docstring_nodes(tree):
        if node.lineno > 1:
            text = _EXAMPLE.sub("", inspect.cleandoc(str(node.value))).strip()
            yield Text(str(path.relative_to(ROOT)), node.lineno, text)


def identifiers(path: Path) -> Iterator[Text]:
    """Yield the names of the functions and classes of a module."""
    name = str(path.relative_to(ROOT))
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("__"):
            yield Text(name, node.lineno, node.name, prose=False)


def main() -> int:
    """Print the drawn texts with their places, then the names of pages and documents."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--number", type=int, default=300, help="of texts (default: 300)")
    args = parser.parse_args()
    draw = random.Random(args.seed)
    for kind, texts in pool().items():
        for text in draw.sample(texts, round(args.number * SHARES[kind])):
            print(f"{kind}\t{text.path}:{text.line}\t{' '.join(text.text.split())}")
    rules = [path for path in files(PRODUCT) if path.parent.name == "rules"]
    docs = [path for path in files(["docs"]) if path.suffix == ".md" and path.name not in GENERATED]
    for path in (*draw.sample(rules, 10), *draw.sample(docs, 5)):
        print(f"page\t{path.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
