"""What executors on other machines get sent."""

from __future__ import annotations

import zipfile
from pathlib import Path

import flowdiag.parsers


def pack_parsers(folder: Path) -> Path:
    """`flowdiag.parsers` as a zip that executors can import, without a wheel.

    The entries for folders matter: Python finds a namespace package inside a zip only by them.
    """
    package = Path(flowdiag.parsers.__path__[0])
    target = folder / "flowdiag-parsers.zip"
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.mkdir("flowdiag")
        for path in [package, *sorted(package.rglob("*"))]:
            if "__pycache__" in path.parts:
                continue
            name = str(Path("flowdiag/parsers") / path.relative_to(package))
            if path.is_dir():
                archive.mkdir(name)
            else:
                archive.write(path, name)
    return target
