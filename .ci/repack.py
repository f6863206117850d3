"""Rewrites a wheel or a source distribution so that equal contents give equal bytes.

setuptools copies the builder's file times, modes and user into the archives. Usage: `repack.py EPOCH FILE…`
"""

from __future__ import annotations

import gzip
import io
import sys
import tarfile
import time
import zipfile
from pathlib import Path

_MODE = 0o644


def repack(path: Path, epoch: int) -> None:
    """Replace an archive by one with sorted members, fixed modes and no user.

    Args:
        path: a wheel (.whl) or source distribution (.tar.gz).
        epoch: the time of all members, in seconds since 1970.
    """
    packed = io.BytesIO()
    if path.suffix == ".whl":
        _repack_wheel(path, packed, epoch)
    else:
        _repack_sdist(path, packed, epoch)
    path.write_bytes(packed.getvalue())


def _repack_wheel(path: Path, packed: io.BytesIO, epoch: int) -> None:
    date_time = time.gmtime(max(epoch, 315_532_800))[:6]  # ZIP begins in 1980
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(packed, "w") as new:
        # Wheels keep their metadata at the end.
        for name in sorted(old.namelist(), key=lambda name: (".dist-info/" in name, name)):
            member = zipfile.ZipInfo(name, date_time)
            member.external_attr = (0o100000 | _MODE) << 16
            member.compress_type = zipfile.ZIP_DEFLATED
            member.create_system = 3
            new.writestr(member, old.read(name), compresslevel=9)


def _repack_sdist(path: Path, packed: io.BytesIO, epoch: int) -> None:
    with (
        tarfile.open(path) as old,
        gzip.GzipFile("", "wb", 9, packed, mtime=epoch) as stream,
        tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as new,
    ):
        for found in sorted(old.getmembers(), key=lambda member: member.name):
            member = tarfile.TarInfo(found.name)
            member.type, member.size, member.linkname = found.type, found.size, found.linkname
            is_program = found.isdir() or found.mode & 0o100
            member.mode = 0o755 if is_program else _MODE
            member.mtime = epoch
            new.addfile(member, old.extractfile(found) if found.isfile() else None)


if __name__ == "__main__":
    for name in sys.argv[2:]:
        repack(Path(name), int(sys.argv[1]))
