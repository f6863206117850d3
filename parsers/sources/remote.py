"""Reads inputs by URL: the driver lists them, and the process that parses them reads them.

All access uses `fsspec`, whose backends are separate packages. Credentials come from the environment of each
host, as documented by the backend, and are never sent to other hosts. A `file://` URL is a local path that all
hosts share.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote, urlsplit, urlunsplit

from flowdiag.parsers.errors import FlowdiagError
from flowdiag.parsers.extras import pip_install

_URL: Final = re.compile(r"([a-z][a-z0-9+.-]+)://", re.IGNORECASE)
_BLOCK: Final = 4 * 1024 * 1024  # bytes to read per request
_FILES: Final = 100_000  # maximum number of files under one URL

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
"""Supported URL schemes, and the package that each requires."""

_EXTRAS: Final = {"s3fs": "s3", "gcsfs": "gcs", "adlfs": "abfs", "aiohttp requests": "http"}
_WITH_HOST: Final = frozenset({"hdfs", "sftp", "webhdfs"})
_NO_NATIVE_HADOOP: Final = re.compile(r"Unable to load lib(?:jvm|hdfs)")
_HADOOP: Final = (
    "reading hdfs requires Hadoop's libhdfs and Java (HADOOP_HOME, JAVA_HOME, CLASSPATH from `hadoop classpath --glob`),"
    " or use webhdfs://namenode:9870/path"
)
_UNLISTABLE: Final = re.compile(r"https?", re.IGNORECASE)  # schemes that cannot list folders


def is_url(path: str) -> bool:
    """Return whether a path is a URL.

    >>> is_url("s3://bucket/logs"), is_url("C:/logs"), is_url("file:///logs")
    (True, False, True)
    """
    return _URL.match(path) is not None


def local_path(url: str) -> str | None:
    """Return the path of a `file:` URL, or None for other URLs.

    >>> local_path("file:///mnt/a%20b"), local_path("s3://bucket/x")
    ('/mnt/a b', None)
    """
    parts = urlsplit(url)
    if parts.scheme.lower() != "file" or parts.netloc not in ("", "localhost"):
        return None
    return unquote(parts.path)


def without_credentials(url: str) -> str:
    """Remove the user and password from a URL, and from a web URL the query, which may contain a signature.

    >>> without_credentials("https://me:secret@host:8443/a.log?sig=1"), without_credentials("s3://bucket/a?.log")
    ('https://host:8443/a.log', 's3://bucket/a?.log')
    """
    parts = urlsplit(url)
    netloc = parts.netloc.rpartition("@")[2]
    if _UNLISTABLE.fullmatch(parts.scheme):
        return urlunsplit((parts.scheme, netloc, parts.path, "", ""))
    return url.replace(parts.netloc, netloc, 1) if netloc != parts.netloc else url


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file under a URL, with its size in bytes."""

    url: str
    size: int


def list_files(url: str) -> list[FoundFile]:
    """Return, sorted, the file at a URL, the files under a folder, or the files that match a glob.

    Hidden files and folders (names with a leading dot) are ignored.

    Raises:
        OSError: there is no such file, no backend or no access; the message is a clause for the user.
    """
    system, path = system_of(url)
    scheme = _scheme(url)
    try:
        if _UNLISTABLE.fullmatch(scheme):
            return [FoundFile(url, _size(system.info(path)))]
        listed = _list_matches(system, path)
    except FileNotFoundError as error:
        reason = error.__cause__
        # fsspec reports every failure of a web server as a missing file.
        is_missing = isinstance(reason, FileNotFoundError) or getattr(reason, "status", None) == 404
        if reason is not None and not is_missing:
            raise OSError(_clause(reason)) from None
        raise FileNotFoundError("no such file or folder") from None
    except Exception as error:  # noqa: BLE001 - backends raise what their libraries do
        raise OSError(_clause(error)) from None
    top = len(path.rstrip("/"))
    found = [
        FoundFile(_url_of(name, url, system), _size(info))
        for name, info in sorted(listed.items())
        if info.get("type") != "directory" and "/." not in name[top:]
    ]
    if len(found) > _FILES:
        raise OSError(f"{len(found)} files: too many, pass a narrower URL")
    return found


def _list_matches(system: Any, path: str) -> dict[str, Any]:
    """Return the details of the files at or under a path, or of the files that match a glob.

    Raises:
        FileNotFoundError: there are none.
    """
    if system.exists(path):  # a file name can contain the characters of a glob
        found: dict[str, Any] = system.find(path, detail=True)
        return found
    matches = system.glob(path, detail=True) if set(path) & set("*?[") else {}
    if not matches:
        raise FileNotFoundError
    listed: dict[str, Any] = {}
    for name, info in matches.items():
        is_folder = info.get("type") == "directory"
        listed |= system.find(name, detail=True) if is_folder else {name: info}
    return listed


def _url_of(name: str, url: str, system: Any) -> str:
    """Return the URL of a listed file, adding the host if the file system lists names without it."""
    parts = urlsplit(url)
    if parts.scheme.lower() in _WITH_HOST:
        return f"{parts.scheme}://{parts.netloc}/{name.lstrip('/')}"
    return str(system.unstrip_protocol(name))


def sends_ranges(url: str) -> bool:
    """Return whether parts of a file can be read. Some web servers send only whole files, or no size.

    Raises:
        OSError: the server fails; the message is a clause for the user.
    """
    if _UNLISTABLE.fullmatch(_scheme(url)) is None:
        return True
    system, path = system_of(url)
    try:
        info = system.info(path)
        size = info.get("size")
        if info.get("partial") or (size is not None and size <= _BLOCK):  # one request is enough
            return size is not None
        if size is None:
            return False
        with system.open(path, "rb", cache_type="none") as file:
            file.seek(1)
            try:
                file.read(1)
            except ValueError:  # the response is the whole file
                return False
    except Exception as error:  # noqa: BLE001 - see `list_files`
        raise OSError(_clause(error)) from None
    return True


@contextmanager
def whole_file(url: str) -> Iterator[Callable[[int], bytes]]:
    """Open a file on a web server for one pass from its start, and yield a function that reads it.

    Raises:
        OSError: reading fails, here or in the function; the message is a clause for the user.
    """
    system, path = system_of(url)
    try:
        # A block size of 0 means a single request.
        with system.open(path, "rb", block_size=0) as file:
            yield lambda _size: file.read(_BLOCK)
    except FlowdiagError:  # raised by the caller: no space for a copy
        raise
    except Exception as error:  # noqa: BLE001 - see `list_files`
        raise OSError(_clause(error)) from None


class RemoteFile(io.RawIOBase):
    """A file at a URL, read in large blocks. As in `codecs.PlainFile`, a read error ends it and sets `error`."""

    def __init__(self, url: str, *, expected: int | None = None) -> None:
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
        except Exception as error:  # noqa: BLE001 - see `list_files`
            raise OSError(_clause(error)) from None
        if expected is not None and self._size < expected:
            self.error = f"shrank from {expected} to {self._size} bytes while it was read"

    def size(self) -> int:
        """Return the size of the file in bytes."""
        return self._size

    def readable(self) -> bool:

        return True

    def seekable(self) -> bool:

        return True

    def read(self, size: int | None = -1, /) -> bytes:
        """Read up to `size` bytes, or to the end."""
        try:
            data: bytes = self._file.read(-1 if size is None else size)
        except Exception as error:  # noqa: BLE001 - see `list_files`
            if self.error is None:
                self.error = f"unreadable ({_clause(error)})"
            return b""
        return data

    def readinto(self, buffer: Any, /) -> int:
        """Fill `buffer`, unless the file ends first."""
        with memoryview(buffer).cast("B") as view:
            data = self.read(len(view))
            view[: len(data)] = data
        return len(data)

    def seek(self, offset: int, origin: int = 0, /) -> int:

        return int(self._file.seek(offset, origin))

    def tell(self) -> int:

        return int(self._file.tell())

    def close(self) -> None:

        if not self.closed:
            self._file.close()
        super().close()


def _scheme(url: str) -> str:
    found = _URL.match(url)
    return found[1].lower() if found else ""


def system_of(url: str) -> tuple[Any, str]:
    """Return the file system for a URL, and the path in it.

    Raises:
        OSError: there is no backend; the message is a clause for the user.
    """
    scheme = _scheme(url)
    package = BACKENDS.get(scheme)
    if package is None or "::" in url:
        raise OSError(f"unsupported URL scheme; supported are {', '.join(sorted(BACKENDS))}")
    from fsspec.core import url_to_fs

    try:
        system, path = url_to_fs(url)
    except ImportError:
        extra = _EXTRAS.get(package)
        command = pip_install(extra) if extra else f"pip install {package}"
        raise OSError(f"reading {scheme} requires another package: {command}") from None
    except Exception as error:  # noqa: BLE001 - backends raise what their libraries do
        if scheme == "hdfs" and _NO_NATIVE_HADOOP.search(str(error)):
            raise OSError(_HADOOP) from None
        raise OSError(_clause(error)) from None
    return system, path


def _size(info: Any) -> int:
    return int(info.get("size") or 0)


def _clause(error: BaseException) -> str:
    """Describe an error of a backend in one line."""
    status, message = getattr(error, "status", None), getattr(error, "message", None)
    # The error's text contains the whole URL.
    if isinstance(status, int) and isinstance(message, str):
        return f"the server responds with {status} {message}".rstrip()
    if isinstance(error, OSError) and error.strerror:
        return error.strerror[:1].lower() + error.strerror[1:]
    words = " ".join(str(error).split())[:200]
    return f"{type(error).__name__}: {words}" if words else type(error).__name__
