"""Inputs that are named by a URL: listed on the driver, read where they are parsed.

Everything goes through `fsspec`, whose backends are packages of their own; credentials come from
each machine's environment, as the backend documents it, and are never sent along. `file://` names
a local path that every machine is said to share.
"""

from __future__ import annotations

import io
import re
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote, urlsplit, urlunsplit

from flowdiag.parsers.extras import pip_install

_URL: Final = re.compile(r"([a-z][a-z0-9+.-]+)://", re.IGNORECASE)
_BLOCK: Final = 4 * 1024 * 1024  # bytes asked for at once
_FILES: Final = 100_000  # below one URL

BACKENDS: Final = {
    "abfs": "adlfs",
    "abfss": "adlfs",
    "az": "adlfs",
    "gcs": "gcsfs",
    "gs": "gcsfs",
    "hdfs": "pyarrow",
    "http": "aiohttp requests",
    "https": "aiohttp requests",
    "memory": "fsspec",
    "oss": "ossfs",
    "s3": "s3fs",
    "s3a": "s3fs",
    "sftp": "paramiko",
    "webhdfs": "requests",
}
"""What can be read, and the packages it takes."""

_EXTRAS: Final = {"s3fs": "s3", "gcsfs": "gcs", "adlfs": "abfs", "aiohttp requests": "http"}
_LISTED: Final = re.compile(r"https?", re.IGNORECASE)  # whose folders cannot be listed


def is_url(path: str) -> bool:
    """Whether a path is a URL.

    >>> is_url("s3://bucket/logs"), is_url("C:/logs"), is_url("file:///logs")
    (True, False, True)
    """
    return _URL.match(path) is not None


def local_path(url: str) -> str | None:
    """The path that a `file:` URL names.

    >>> local_path("file:///mnt/a%20b"), local_path("s3://bucket/x")
    ('/mnt/a b', None)
    """
    parts = urlsplit(url)
    if parts.scheme.lower() != "file" or parts.netloc not in ("", "localhost"):
        return None
    return unquote(parts.path)


def without_credentials(url: str) -> str:
    """A URL without what opens doors: user, password, signatures in its query.

    >>> without_credentials("https://me:secret@host:8443/a.log?sig=1"), without_credentials("s3://bucket/a?.log")
    ('https://host:8443/a.log', 's3://bucket/a?.log')
    """
    parts = urlsplit(url)
    netloc = parts.netloc.rpartition("@")[2]
    if _LISTED.fullmatch(parts.scheme):
        return urlunsplit((parts.scheme, netloc, parts.path, "", ""))
    return url.replace(parts.netloc, netloc, 1) if netloc != parts.netloc else url


@dataclass(frozen=True, slots=True)
class Found:
    """A file below a URL, and its size in bytes."""

    url: str
    size: int


def list_files(url: str) -> list[Found]:
    """The files that a URL stands for, sorted: itself, those below a folder, or those of a glob.

    Files and folders whose names begin with a dot are passed over.

    Raises:
        OSError: with a clause for the user: nothing there, no backend, no access.
    """
    system, path = system_of(url)
    scheme = _scheme(url)
    try:
        if _LISTED.fullmatch(scheme):
            return [Found(url, _size(system.info(path)))]
        # A name may have the characters of a glob in it.
        listed: dict[str, Any]
        if system.exists(path):
            listed = system.find(path, detail=True)
        elif set(path) & set("*?["):
            listed = {}
            matches = system.glob(path, detail=True)
            if not matches:
                raise FileNotFoundError
            for name, info in matches.items():
                is_folder = info.get("type") == "directory"
                listed |= system.find(name, detail=True) if is_folder else {name: info}
        else:
            raise FileNotFoundError
    except FileNotFoundError:
        raise FileNotFoundError("no such file or folder") from None
    except Exception as error:  # noqa: BLE001 - backends raise what their libraries do
        raise OSError(_clause(error)) from None
    top = len(path.rstrip("/"))
    found = [
        Found(system.unstrip_protocol(name), _size(info))
        for name, info in sorted(listed.items())
        if info.get("type") != "directory" and "/." not in name[top:]
    ]
    if len(found) > _FILES:
        raise OSError(f"{len(found)} files: name fewer")
    return found


class RemoteFile(io.RawIOBase):
    """A file behind a URL, read in large blocks; it ends, with `error` set, where reading fails.

    The counterpart of `codecs.PlainFile`.
    """

    def __init__(self, url: str, *, expected: int | None = None) -> None:
        """Open `url` for reading.

        Raises:
            OSError: with a clause for the user.
        """
        super().__init__()
        self.error: str | None = None
        self._expected = expected
        system, path = system_of(url)
        try:
            self._file: Any = system.open(path, "rb", block_size=_BLOCK)
            size = getattr(self._file, "size", None)
            self._size = int(system.size(path) if size is None else size)
        except FileNotFoundError:
            raise OSError("no such file") from None
        except Exception as error:  # noqa: BLE001 - see `find`
            raise OSError(_clause(error)) from None
        if expected is not None and self._size < expected:
            self.error = f"shrank from {expected} to {self._size} bytes while it was read"

    def size(self) -> int:
        """Bytes of the file."""
        return self._size

    def readable(self) -> bool:
        """Tell `io` that this can be read."""
        return True

    def seekable(self) -> bool:
        """Tell `io` that any byte can be reached."""
        return True

    def read(self, size: int | None = -1, /) -> bytes:
        """Read up to `size` bytes, or to the end."""
        try:
            data: bytes = self._file.read(-1 if size is None else size)
        except Exception as error:  # noqa: BLE001 - see `find`
            if self.error is None:
                self.error = f"unreadable ({_clause(error)})"
            return b""
        return data

    def readinto(self, buffer: Any, /) -> int:
        """Fill `buffer` as far as the file goes."""
        with memoryview(buffer).cast("B") as view:
            data = self.read(len(view))
            view[: len(data)] = data
        return len(data)

    def seek(self, offset: int, whence: int = 0, /) -> int:
        """Move to another byte."""
        return int(self._file.seek(offset, whence))

    def tell(self) -> int:
        """The position in the file."""
        return int(self._file.tell())

    def close(self) -> None:
        """Close it."""
        if not self.closed:
            self._file.close()
        super().close()


def _scheme(url: str) -> str:
    found = _URL.match(url)
    return found[1].lower() if found else ""


def system_of(url: str) -> tuple[Any, str]:
    """The file system of a URL and the path in it.

    Raises:
        OSError: with a clause for the user.
    """
    scheme = _scheme(url)
    package = BACKENDS.get(scheme)
    if package is None or "::" in url:
        raise OSError(f"URLs of this kind are not read; there are {', '.join(sorted(BACKENDS))}")
    from fsspec.core import url_to_fs

    try:
        system, path = url_to_fs(url)
    except ImportError:
        extra = _EXTRAS.get(package)
        command = pip_install(extra) if extra else f"pip install {package}"
        raise OSError(f"reading {scheme} needs another package: {command}") from None
    except Exception as error:  # noqa: BLE001 - backends raise what their libraries do
        raise OSError(_clause(error)) from None
    return system, path


def _size(info: Any) -> int:
    return int(info.get("size") or 0)


def _clause(error: Exception) -> str:
    """What a backend says, in one line."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror[:1].lower() + error.strerror[1:]
    words = " ".join(str(error).split())[:200]
    return f"{type(error).__name__}: {words}" if words else type(error).__name__
