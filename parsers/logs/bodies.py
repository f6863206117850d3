"""Folds JSON bodies into exception messages: a client prints the response of a service below its own message.

`fold_bodies` replaces such a body with the message of the service, on the line of the exception. The body may be
truncated, wrapped or fenced, so it is not read as a JSON document.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from flowdiag.parsers.envelopes.errors import lines_of_errors
from flowdiag.parsers.envelopes.objects import decode_or_none
from flowdiag.parsers.lines.decoration import LINE, unescape
from flowdiag.parsers.logs.line_prefixes import RELAYED, is_double_spaced, prefix_of_lines

_MOST: Final = 60  # maximum lines of a body
_TEXT: Final = 8192
_Lines = list[tuple[int, str]]
# The start of an exception or error message that a body continues.
_BEFORE: Final = re.compile(
    r"(?=.{0,2000}?(?:Exception|Error|ERROR)).{0,4000}(?P<mark>\{|:[ `]{0,4})\Z"
)
_FENCE: Final = re.compile(r"\s{0,8}```\w{0,12}\s*\Z")
_MESSAGE: Final = re.compile(
    r"\"(?i:message|msg|reason|detailMessage|errorMessage|error_message|streamLoadErrorLog)\"\s{0,4}:\s{0,4}\"(?P<message>(?:[^\"\\]|\\.){3,2000})\"?"
)
_FAILED: Final = re.compile(
    r"\"(?i:status|state|result)\"\s{0,4}:\s{0,4}\"(?P<status>(?i:fail|failed|failure|error|internal_error|cancelled_by_error))\""
)


def message_of_body(body: str) -> str:
    """Return the service's message in a JSON body, or an empty string.

    >>> message_of_body('{"Status": "Fail", "Message": "too many filtered rows", "TxnId": 7}')
    'too many filtered rows'
    """
    texts = (unescape(found["message"]) for found in _MESSAGE.finditer(body[:_TEXT]))
    return "; ".join(dict.fromkeys(" ".join(text.split()) for text in texts))


def fold_bodies(lines: Iterable[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    """Yield the lines, with each body folded into the exception or error above it.

    A body without a message above it becomes an error line if its status is a failure.

    Args:
        lines: the offset and text of each line.

    >>> text = ["a.StreamLoadException: {", '  "Status": "Fail",', '  "Message": "no partition"', "}", "\\tat a.B.c(B.java:1)"]
    >>> [line for _, line in fold_bodies(enumerate(text))]
    ['a.StreamLoadException: no partition', '\\tat a.B.c(B.java:1)']
    """
    folder = _Folder()
    for offset, line in lines:
        folder.take(offset, line)
        yield from folder.take_done()
    folder.end()
    yield from folder.take_done()


def lines_of(data: bytes, skipped: Iterable[tuple[int, int]] = ()) -> Iterator[tuple[int, str]]:
    """Yield the offset and text of each line, with the bodies of responses folded.

    Args:
        data: the text in UTF-8.
        skipped: the beginning and the end of each run of lines to leave out, in order.
    """
    lines = _printed_lines(data, skipped)
    return fold_bodies(lines) if _BODY in data else lines


_ANNOUNCES_MESSAGE: Final = re.compile(
    r"(?i)\b(?:failed|failure|error|exception|terminated|aborted)\b.{0,80}\b(?:error message|message|reason|error|cause|with)\s?:?\s*\Z"
)


def with_messages(lines: Iterator[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    """Join each line that only announces an error message with the next line."""
    above: tuple[int, str] | None = None
    for offset, line in lines:
        if above is not None and line.strip():
            offset, line = above[0], f"{above[1].rstrip()} {line.strip()}"
            above = None
        if above is None and _ANNOUNCES_MESSAGE.search(line[-200:]) is not None:
            above = offset, line
        elif above is None:
            yield offset, line
    if above is not None:
        yield above


# The frame that a terminal program draws around its text.
_BORDERS: Final = re.compile(r"\A\s{0,8}[│┃║] ?|\s{0,400}[│┃║][\s│┃║|]{0,40}\Z")
_BODY: Final = b'":'  # a sign of a service's response


def _printed_lines(data: bytes, skipped: Iterable[tuple[int, int]]) -> Iterator[tuple[int, str]]:
    """Yield the offset and the text of each line, without the prefix that all lines have."""
    prefix, spaced = prefix_of_lines(data), is_double_spaced(data)
    offset = 0
    for begin, end in (*skipped, (len(data) + 1, 0)):
        for raw in data[offset : begin - 1].split(b"\n"):
            line = RELAYED.strip(_BORDERS.sub("", raw[: 4 * LINE].decode("utf-8", "replace")))
            if not spaced or line.strip():
                yield offset, line if prefix is None else prefix.strip(line)
            offset += len(raw) + 1
        offset = end


class _Folder:
    """Collects the lines of a body until its last brace."""

    def __init__(self) -> None:
        self._above: _Lines = []  # the line that a body may continue, and possibly a fence below it
        self._is_folded = False  # whether a body was already folded into it; another one may follow
        self._body: _Lines = []
        self._depth = 0
        self._done: _Lines = []

    def take_done(self) -> _Lines:
        """Return and remove the lines that no later body can change."""
        done, self._done = self._done, []
        return done

    def take(self, offset: int, line: str) -> None:
        """Read the next line."""
        if self._depth:
            self._add(offset, line)
        elif self._opened_above():
            self._depth = 1
            self._add(offset, line)
        elif self._opens(line):
            self._add(offset, line)
        elif self._is_continued() and len(self._above) == 1 and _FENCE.match(line) is not None:
            self._above.append((offset, line))
        else:
            self._done += self._above
            self._above, self._is_folded = [(offset, line)], False

    def end(self) -> None:
        """Release all lines at the end of the text, including a body that is not closed."""
        if self._body:
            self._fold()
        self._done += self._above

    def _add(self, offset: int, line: str) -> None:
        self._body.append((offset, line))
        bare = _STRING.sub("", line[:_TEXT])
        self._depth += bare.count("{") - bare.count("}")
        if self._depth <= 0 or len(self._body) == _MOST:
            self._depth = 0
            self._fold()

    def _is_continued(self) -> bool:
        return self._is_folded or bool(self._above and _BEFORE.match(self._above[0][1].rstrip()))

    def _opened_above(self) -> bool:
        """Return whether the line above ends with the opening brace of a body."""
        found = _BEFORE.match(self._above[0][1].rstrip()) if self._above else None
        return found is not None and found["mark"] == "{"

    def _opens(self, line: str) -> bool:
        """Return whether a line starts a body, either on its own or as the continuation of the line above."""
        text = line.strip(" \t`\r")
        if text[:1] != "{" or (text != "{" and '"' not in text):
            return False
        return self._is_continued() or not any(above.strip() for _, above in self._above)

    def _fold(self) -> None:
        """Append the body's message to the line above. A body without a message is kept as it is."""
        text = "\n".join(line for _, line in self._body)
        body, self._body = self._body, []
        message = message_of_body(text)
        if message and self._is_continued():
            offset, line = self._above[0]
            line = line.rstrip().rstrip("`").rstrip().removesuffix("{").rstrip()
            separator = ";" if self._is_folded else ""
            self._above, self._is_folded = [(offset, f"{line}{separator} {message}")], True
            return
        failed = _FAILED.search(text)
        if lines := _errors_in(text):
            body = [(body[0][0], line) for line in lines]
        elif message and failed is not None:
            body = [(body[0][0], f"Error: status {failed['status']}: {message}")]
        self._done += [*self._above, *body]
        self._above = []


def _errors_in(body: str) -> list[str]:
    """Return the exceptions in a complete response as lines. Log records are left out; other code reads them."""
    value = decode_or_none(body.strip(" \t\r\n`"))
    is_record = isinstance(value, dict) and not _OF_RECORDS.isdisjoint(value)
    return (
        [] if is_record else [part for line in lines_of_errors(value) for part in line.split("\n")]
    )


_OF_RECORDS: Final = frozenset(
    {"level", "log.level", "severity", "loggerName", "logger_name", "logger", "log.logger", "log"}
)
_STRING: Final = re.compile(r"\"(?:[^\"\\]|\\.){0,4000}\"")
