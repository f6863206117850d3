"""Writes the report to stdout and everything else to stderr. No other module prints."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Final, Self

from flowdiag.analyses.contract.redact import mask_secrets, printable
from flowdiag.cli.settings import When
from flowdiag.parsers.cleanup import at_exit
from flowdiag.parsers.errors import FlowdiagError, is_disk_full

_GLYPHS: Final = "✓▁█…│·×→"
_CLEAR_LINE: Final = "\r\x1b[2K"
_WIDE: Final = 10_000  # columns without a terminal, where nothing wraps


def is_terminal(stream: IO[Any]) -> bool:
    """Return whether the stream is a terminal that supports ANSI escapes."""
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def use_color(stream: IO[Any], color: When = When.AUTO) -> bool:
    """Return whether to write colors: the option decides, then the environment, then the terminal.

    `NO_COLOR` (no-color.org) overrides `FORCE_COLOR` (force-color.org), for which 0 means unset.
    """
    if color is not When.AUTO:
        return color is When.ALWAYS
    if os.environ.get("NO_COLOR"):
        return False
    return os.environ.get("FORCE_COLOR", "0") not in ("", "0", "false") or is_terminal(stream)


def supports_glyphs(stream: IO[Any]) -> bool:
    """Return whether the encoding of the stream contains the glyphs of the timeline."""
    try:
        _GLYPHS.encode(getattr(stream, "encoding", None) or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def terminal_width(stream: IO[Any]) -> int:
    """Return `COLUMNS` or the width of the terminal. Without either, the width is so large that nothing wraps."""
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

    A closed pipe (`| head`) is not an error.

    Raises:
        FlowdiagError: writing fails.
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
    """Write to stdout and flush.

    Raises:
        OSError: writing fails.
    """
    # As bytes, because text streams may reject glyphs and change line ends.
    encoding = sys.stdout.encoding or "utf-8"
    sys.stdout.flush()
    sys.stdout.buffer.write(text.encode(encoding, "backslashreplace"))
    sys.stdout.buffer.flush()


def discard_stdout() -> None:
    """Redirect stdout to the null device, so that buffered output cannot fail again at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def check_output(output: str | None) -> None:
    """Check before the diagnosis that the report can be written.

    Raises:
        FlowdiagError: the folder does not exist or is not writable.
    """
    if output is None or output == "-":
        return
    path = Path(output)
    try:
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if not path.exists():
            os.stat(os.path.join(path.parent, ""))  # fails if the parent is a file
        if not os.access(path if _written_in_place(path) else path.parent, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as error:
        raise write_error(f"'{path}'", error) from None


def _written_in_place(path: Path) -> bool:
    """Return whether the path is a device or a pipe, which a new file must not replace."""
    return path.exists() and not path.is_file()


def _write_file(path: Path, text: str) -> None:
    data = text.encode("utf-8", "backslashreplace")
    try:
        if _written_in_place(path):
            path.write_bytes(data)
            return
        path = Path(os.path.realpath(path))  # keep a symbolic link
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
    """Return the error for a failed write, with a hint."""
    if is_disk_full(error):
        hint = "free some space, or choose another place with --output"
    else:
        hint = "check that the folder exists and is writable"
    return FlowdiagError(f"cannot write {what}: {error.strerror or error}", hint=hint)


def _one_line(text: str) -> str:
    """Return a message in one line, with secrets masked: a message may quote a log, a URL or the command line."""
    return printable(mask_secrets(text))


def print_message(kind: str, message: str, hint: str | None = None) -> None:
    """Print a message to stderr, with a hint in a second line.

    >>> print_message("error", "no such file")  # doctest: +SKIP
    error: no such file
    """
    lines = [f"{kind}: {_one_line(message)}"]
    if hint:
        lines.append(f"  hint: {_one_line(hint)}")
    with suppress(OSError):
        sys.stderr.buffer.write(
            ("\n".join(lines) + "\n").encode(sys.stderr.encoding or "utf-8", "backslashreplace")
        )
        sys.stderr.flush()


class Progress:
    """A progress line on stderr, cleared at the end. Without a terminal, nothing is shown."""

    def __init__(self, *, quiet: bool = False) -> None:
        self._shown = not quiet and is_terminal(sys.stderr)
        self._forget: Callable[[], object] | None = None

    def __call__(self, text: str) -> None:
        """Show the current step, such as `reading 14 files, 3.2 GB`."""
        if self._shown:
            room = max(10, terminal_width(sys.stderr) - 1)
            sys.stderr.write(f"\r\x1b[2K{printable(text)[:room]}")
            sys.stderr.flush()

    def __enter__(self) -> Self:
        if self._shown:
            self._forget = at_exit(lambda: os.write(sys.stderr.fileno(), _CLEAR_LINE.encode()))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._shown:
            sys.stderr.write(_CLEAR_LINE)
            sys.stderr.flush()
        if self._forget is not None:
            self._forget()
