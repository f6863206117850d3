"""Resolves flowdiag and its extras for every supported system and Python version, from wheels of the index.

Usage: `platforms.py UV`. Prints a table of the packages without a wheel. It ends with 1 if flowdiag
itself, without extras, needs a compiler, or if a combination has no solution.
"""

from __future__ import annotations

import re
import subprocess
import sys
from itertools import product
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
SYSTEMS: Final = {
    "Linux x86-64": "x86_64-manylinux_2_28",
    "Linux arm64": "aarch64-manylinux_2_28",
    "macOS arm64": "aarch64-apple-darwin",
    "macOS x86-64": "x86_64-apple-darwin",
    "Windows x86-64": "x86_64-pc-windows-msvc",
}
PYTHONS: Final = ("3.11", "3.12", "3.13", "3.14")
# The storage extras each require another version of fsspec.
SETS: Final = {
    "flowdiag": (),
    "extras java, html, http, mcp, k8s": ("java", "html", "http", "mcp", "k8s"),
    "extra s3": ("s3",),
    "extra gcs": ("gcs",),
    "extra abfs": ("abfs",),
}
# Pure Python in a source distribution: it installs everywhere, without a compiler.
SOURCE_ONLY: Final = frozenset({"pyspark"})
_NO_WHEEL: Final = (
    re.compile(
        r"(?:Because|and that|and|because) (?:all versions of )?([\w.-]+?)(?:[=<>!~]=?\S+)? (?:has|have) no "
    ),
    re.compile(r"Wheels are required for `([\w.-]+)`"),
)


def without_wheels(uv: str, system: str, python: str, extras: tuple[str, ...]) -> set[str]:
    """Return the packages that must be compiled on a system, in the newest versions.

    Raises:
        RuntimeError: there is no solution at all.
    """
    missing: set[str] = set()
    while True:
        allowed = [flag for name in sorted(missing | SOURCE_ONLY) for flag in ("--no-binary", name)]
        command = [
            *(uv, "pip", "compile", "-q", "--no-config", "--no-annotate", "--no-header"),
            *("--python-platform", SYSTEMS[system], "--python-version", python),
            *("--only-binary", ":all:", *allowed),
            *(flag for extra in extras for flag in ("--extra", extra)),
            "pyproject.toml",
        ]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return missing
        text = " ".join(done.stderr.split())
        found = (
            {hit for pattern in _NO_WHEEL for hit in pattern.findall(text)} - missing - SOURCE_ONLY
        )
        if not found:
            raise RuntimeError(f"{system}, Python {python}, {extras}: {text}")
        missing |= found


def main(uv: str) -> int:
    """Print what lacks a wheel, as rows of a Markdown table."""
    keys = list(product(SYSTEMS, PYTHONS, SETS))
    # One after another: uv locks its copy of pyspark.
    results = {key: without_wheels(uv, key[0], key[1], SETS[key[2]]) for key in keys}
    found = {key: names for key, names in results.items() if names}
    sys.stdout.write(f"{len(keys)} combinations resolved, {len(found)} with a package to compile\n")
    for (system, python, part), names in found.items():
        sys.stdout.write(f"| {system} | {python} | {part} | {', '.join(sorted(names))} |\n")
    return 1 if any(part == "flowdiag" for _, _, part in found) else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1]))
