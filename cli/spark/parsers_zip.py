"""Packs the parsers for executors on other hosts."""

from __future__ import annotations

import zipfile
from pathlib import Path

from flowdiag import parsers


def write_parsers_zip(folder: Path) -> Path:
    """Write `flowdiag.parsers` to a zip that executors can import without a wheel.

    The zip includes `flowdiag` itself, so that it takes precedence over a version installed on the executor.
    """
    package = Path(parsers.__path__[0])
    target = folder / "flowdiag-parsers.zip"
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.mkdir("flowdiag")
        archive.write(package.parent / "__init__.py", "flowdiag/__init__.py")
        for path in [package, *sorted(package.rglob("*"))]:
            if "__pycache__" in path.parts:
                continue
            name = str(Path("flowdiag/parsers") / path.relative_to(package))
            if path.is_dir():
                archive.mkdir(name)
            else:
                archive.write(path, name)
    return target
