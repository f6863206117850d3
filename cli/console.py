"""Where output goes: the report to stdout, everything else to stderr. Nothing else prints."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Final, Self

from flowdiag.analyses.report.redact import printable
from flowdiag.cli.settings import Color
from flowdiag.parsers.errors import FlowdiagError

_GLYPHS: Final = "✓▁█…│·×→"
_WIDE: Final = 10_000  # columns of what is not a terminal: nothing is cut or wrapped there


def is_terminal(stream: IO[Any]) -> bool:
    """Whether a person looks at the stream through something that understands escapes."""
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def wants_colour(stream: IO[Any], color: Color = Color.AUTO) -> bool:
    """Colour as the user wants it, else on terminals only.

    What was asked for comes before the environment: there `NO_COLOR` (no-color.org) comes before
    `FORCE_COLOR` (force-color.org), where 0 is as good as nothing.

    Args:
        stream: where it goes.
        color: what was asked for.
    """
    if color is not Color.AUTO:
        return color is Color.ALWAYS
    if os.environ.get("NO_COLOR"):
        return False
    return os.environ.get("FORCE_COLOR", "0") not in ("", "0", "false") or is_terminal(stream)


def can_show(stream: IO[Any]) -> bool:
    """Whether the stream's encoding has the glyphs of the timeline."""
    try:
        _GLYPHS.encode(getattr(stream, "encoding", None) or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def width_of(stream: IO[Any]) -> int:
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
        FlowdiagError: the file cannot be written.
    """
    if output is not None and output != "-":
        _write_file(Path(output), text)
        return
    # Bytes, so that the platform neither chokes on a glyph nor changes the line ends.
    encoding = sys.stdout.encoding or "utf-8"
    try:
        sys.stdout.flush()
        sys.stdout.buffer.write(text.encode(encoding, "backslashreplace"))
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        # What is still buffered must not fail again when the interpreter ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _write_file(path: Path, text: str) -> None:
    data = text.encode("utf-8", "backslashreplace")
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        if path.exists() and not path.is_file():  # a device or a pipe is written as it is
            path.write_bytes(data)
            return
        try:
            partial.write_bytes(data)
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)
    except OSError as error:
        raise FlowdiagError(
            f"cannot write '{path}': {error.strerror or error}",
            hint="does the folder exist, and may you write there?",
        ) from None


def say(kind: str, message: str, hint: str | None = None) -> None:
    """One line on stderr, and one below it with what to do.

    >>> say("error", "no such file")  # doctest: +SKIP
    error: no such file
    """
    lines = [f"{kind}: {printable(message)}"]
    if hint:
        lines.append(f"  hint: {printable(hint)}")
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

    def __call__(self, text: str) -> None:
        """Show a stage, e.g. `reading 14 files, 3.2 GB`."""
        if self._shown:
            room = max(10, width_of(sys.stderr) - 1)
            sys.stderr.write(f"\r\x1b[2K{printable(text)[:room]}")
            sys.stderr.flush()

    def __enter__(self) -> Self:
        """Begin."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Wipe the line."""
        if self._shown:
            sys.stderr.write("\r\x1b[2K")
            sys.stderr.flush()
