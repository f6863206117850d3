"""Where output goes: the report to stdout, everything else to stderr. Nothing else prints."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Final, Self

from flowdiag.analyses.report.redact import mask_secrets, printable
from flowdiag.cli.options.settings import When
from flowdiag.parsers.cleanup import at_exit
from flowdiag.parsers.errors import FlowdiagError, is_disk_full

_GLYPHS: Final = "✓▁█…│·×→"
_WIPED: Final = "\r\x1b[2K"
_WIDE: Final = 10_000  # columns of what is not a terminal: nothing is cut or wrapped there


def is_terminal(stream: IO[Any]) -> bool:
    """Whether a person looks at the stream through something that understands escapes."""
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def use_colour(stream: IO[Any], color: When = When.AUTO) -> bool:
    """Colour as the user wants it, else on terminals only.

    What was asked for comes before the environment: there `NO_COLOR` (no-color.org) comes before
    `FORCE_COLOR` (force-color.org), where 0 is as good as nothing.

    Args:
        stream: where it goes.
        color: what was asked for.
    """
    if color is not When.AUTO:
        return color is When.ALWAYS
    if os.environ.get("NO_COLOR"):
        return False
    return os.environ.get("FORCE_COLOR", "0") not in ("", "0", "false") or is_terminal(stream)


def supports_glyphs(stream: IO[Any]) -> bool:
    """Whether the stream's encoding has the glyphs of the timeline."""
    try:
        _GLYPHS.encode(getattr(stream, "encoding", None) or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def terminal_width(stream: IO[Any]) -> int:
    """Columns of the terminal; where there is none, `COLUMNS` or as wide as it takes."""
    columns = os.environ.get("COLUMNS", "")
    if columns.isdecimal() and int(columns) > 0:
        return int(columns)
    if not stream.isatty():
        return _WIDE
    try:
        return os.get_terminal_size(stream.fileno()).columns or 80
    except (OSError, ValueError):
        return 80


def write_report(text: str, output: str | None) -> None:
    """Write the report to stdout, or to a file that appears only when it is complete.

    A reader that closed the pipe (`| head`) is no error.

    Raises:
        FlowdiagError: it cannot be written.
    """
    if output is not None and output != "-":
        _write_file(Path(output), text)
        return
    try:
        write_stdout(text)
    except BrokenPipeError:
        discard_stdout()
    except OSError as error:
        discard_stdout()
        raise write_error("standard output", error) from None


def write_stdout(text: str) -> None:
    """Write to stdout, at once.

    Raises:
        OSError: it cannot be written.
    """
    # Bytes, so that the platform neither chokes on a glyph nor changes the line ends.
    encoding = sys.stdout.encoding or "utf-8"
    sys.stdout.flush()
    sys.stdout.buffer.write(text.encode(encoding, "backslashreplace"))
    sys.stdout.buffer.flush()


def discard_stdout() -> None:
    """Let what is still buffered go nowhere: it must not fail again when the process ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def check_output(output: str | None) -> None:
    """Find out before the work whether its report can be written.

    Raises:
        FlowdiagError: the folder does not exist, or cannot be written.
    """
    if output is None or output == "-":
        return
    path = Path(output)
    try:
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if not path.exists():
            os.stat(os.path.join(path.parent, ""))  # a file has no such name
        if not os.access(path if _written_in_place(path) else path.parent, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as error:
        raise write_error(f"'{path}'", error) from None


def _written_in_place(path: Path) -> bool:
    """Whether it is a device or a pipe, which nothing can take the place of."""
    return path.exists() and not path.is_file()


def _write_file(path: Path, text: str) -> None:
    data = text.encode("utf-8", "backslashreplace")
    try:
        if _written_in_place(path):
            path.write_bytes(data)
            return
        path = Path(os.path.realpath(path))  # a link stays one
        partial = path.with_name(f".{path.name}.{os.getpid()}")
        forget = at_exit(partial.unlink)
        try:
            partial.write_bytes(data)
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)
            forget()
    except OSError as error:
        raise write_error(f"'{path}'", error) from None


def write_error(what: str, error: OSError) -> FlowdiagError:
    """What to tell of a report that could not be written."""
    if is_disk_full(error):
        hint = "make room, or write it elsewhere with --output"
    else:
        hint = "does the folder exist, and may you write there?"
    return FlowdiagError(f"cannot write {what}: {error.strerror or error}", hint=hint)


def _told(text: str) -> str:
    """A message that may quote a log, an address or the command line, as one line without secrets."""
    return printable(mask_secrets(text))


def print_message(kind: str, message: str, hint: str | None = None) -> None:
    """One line on stderr, and one below it with what to do.

    >>> print_message("error", "no such file")  # doctest: +SKIP
    error: no such file
    """
    lines = [f"{kind}: {_told(message)}"]
    if hint:
        lines.append(f"  hint: {_told(hint)}")
    with suppress(OSError):
        sys.stderr.buffer.write(
            ("\n".join(lines) + "\n").encode(sys.stderr.encoding or "utf-8", "backslashreplace")
        )
        sys.stderr.flush()


class Progress:
    """What is going on, in one line on stderr that leaves no trace; silent off a terminal."""

    def __init__(self, *, quiet: bool = False) -> None:
        """Be silent if asked to, or if nobody is looking."""
        self._shown = not quiet and is_terminal(sys.stderr)
        self._forget: Callable[[], object] | None = None

    def __call__(self, text: str) -> None:
        """Show a stage, e.g. `reading 14 files, 3.2 GB`."""
        if self._shown:
            room = max(10, terminal_width(sys.stderr) - 1)
            sys.stderr.write(f"\r\x1b[2K{printable(text)[:room]}")
            sys.stderr.flush()

    def __enter__(self) -> Self:
        """Begin."""
        if self._shown:
            self._forget = at_exit(lambda: os.write(sys.stderr.fileno(), _WIPED.encode()))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Wipe the line."""
        if self._shown:
            sys.stderr.write(_WIPED)
            sys.stderr.flush()
        if self._forget is not None:
            self._forget()
