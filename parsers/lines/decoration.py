"""Strips formatting from pasted text: comments, quotes, lists, tables, HTML, JSON strings."""

from __future__ import annotations

import html
import re
from typing import Final

LINE: Final = 8192
"""Maximum characters read from a line."""
_PIECES: Final = 2000  # maximum lines taken from one formatted line

_ANSI = re.compile(r"\x1b\[[0-9;]{0,12}m")
_TAGS = re.compile(
    r"</?(?:p|pre|code|div|li|ul|ol|span|b|i|em|strong|tt|td|th|tr|table|blockquote"
    r"|(?:log4j:)?(?:message|msg|throwable|exception|error|description|reason))(?: [^<>]{0,200})?>|<!\[CDATA\[|\]\]>"
)
_BREAK = re.compile(r"<br ?/?>|</t[dh]>(?=.)")
_DECORATION = re.compile(
    r"\s{0,40}(?:(?:\*+|#+|//+|>+|--|;|`+|[-•+–·|!])(?:\s{1,8}|(?=[\"'>\t]|at |Caused by|[a-z]+\.[a-z]))|\d{1,3}[.)] |\[(?:info|error|warn)\] {1,8}|E {3,40}(?=\S|\t)|_(?=\[[A-Z]{4,5}\] ))"
)
COUNT: Final = re.compile(
    r"\s{0,8}\|?\s{0,8}\d{1,7}\s{0,3}[x×]?\s{0,8}[|\t]\s{0,8}|\s{0,8}\d{1,7} ?[x×] (?=[a-z])|\s{0,8}\d{1,7}\s{2,8}(?=(?:[a-z]\w{0,40}\.){2})"
)
_PAIR = re.compile(
    r"\s{0,40}(?P<mark>\*{1,3}|`{1,3}|_{1,2}|[\"'])(?P<text>[^\s*`_\"'].{2,}?)(?P=mark)[.,;]?\s*\Z"
)
_KEY = re.compile(r"\s{0,40}[{,]?\s{0,8}\"[\w .-]{1,60}\"\s{0,3}:\s{0,3}(?=\")")
_SEPARATE = re.compile(r"(?<!\\)\"\s{0,3},\s{0,3}\"")
# A JSON list or object, or a part of one, but not a Spark error condition, a label or the name of a Kafka client.
_STRINGS = re.compile(
    r"(?!\[[A-Z][A-Z0-9_.]{4,100}\]|\[[A-Za-z][\w -]{1,40}\]: ?\S|\[\w{1,40} \w{1,40}=|\"[\w .-]{1,60}\"\s{0,3}:\s{0,3}(?:-?\d|true|false|null))(?:[\[\"{,]|\Z)"
)
_JOINED = re.compile(
    r"\s{1,16}(?=at (?:[\w.$-]{1,80}/{1,2})?[\w.$<>-]{3,300}\([^()\n]{1,120}\)|Caused by: |\.\.\. \d{1,4} (?:more|common))"
)


def strip_decoration(text: str, escaped: bool) -> list[str]:
    """Return the lines inside a formatted line.

    Args:
        text: the formatted line.
        escaped: whether to remove HTML tags and unescape HTML entities.
    """
    text = _ANSI.sub("", text[:LINE].rstrip("\r"))
    if escaped:
        text = html.unescape(html.unescape(_TAGS.sub("", _BREAK.sub("\n", text))))
    text = text.replace("\xa0", " ")
    pieces = [text]
    stripped = text.strip()
    ends = stripped.endswith(('"', '",', '"]', '"}')) and stripped.count('"') % 2 == 1
    if _STRINGS.match(stripped) or ends:
        key = _KEY.match(text)
        text = text[key.end() :] if key is not None else text
        bare = text.strip().strip("[]{}, ")
        pieces = [unescape(piece) for piece in _SEPARATE.split(bare)]
    elif "\\n" in text and ("\\tat " in text or "\\n    at " in text or "\\nCaused" in text):
        pieces = [unescape(text)]
    lines = [line for piece in pieces for line in piece.split("\n")]
    found = [part for line in lines for part in _JOINED.split(strip_marks(line))]
    return found[:_PIECES]


def unescape(text: str) -> str:
    r"""Unquote a JSON string, and unescape newlines, tabs, quotes and coded characters.

    >>> unescape(r'"a\u00e9 \ud83d\ude00\tb"')
    'aé 😀\tb'
    """
    text = text.strip().removeprefix('"').removesuffix('"')
    for escape, plain in (("\\n", "\n"), ("\\r", ""), ("\\t", "\t"), ('\\"', '"'), ("\\/", "/")):
        text = text.replace(escape, plain)
    return _CODED.sub(_decoded, text) if "\\u" in text else text


def _decoded(coded: re.Match[str]) -> str:
    units = bytes.fromhex(coded[0].replace("\\u", ""))
    return units.decode("utf-16-be", "replace")


_CODED: Final = re.compile(r"(?:\\u[0-9a-fA-F]{4}){1,500}")


_HTML: Final = re.compile(
    rb"&(?:lt;|#|gt;|quot;|nbsp;)"
    rb"|<(?:br|pre|p>|b>|strong|em>|message|throwable|!\[CDATA\[|td|li>|code|div|span)"
)


def is_html(data: bytes) -> bool:
    """Return whether a text has HTML tags or entities."""
    return _HTML.search(data) is not None


def message_lines(message: str) -> list[str]:
    """Return the lines of a message that contains a stack trace with escaped newlines."""
    message = message.replace("\\\\n", "\\n").replace("\\\\t", "\\t")  # JSON inside JSON
    is_escaped = "\\n" in message and ("\\tat " in message or "\\nCaused" in message)
    return unescape(message).split("\n") if is_escaped else [message]


def without_quotes(cell: str) -> str:
    """Return the text of a quoted cell of a CSV table. Other text is only stripped.

    >>> without_quotes(' "a.b.XException: no ""lock"" on 7" '), without_quotes('"a" is not "b"')
    ('a.b.XException: no "lock" on 7', '"a" is not "b"')
    """
    cell = cell.strip()
    quoted = _QUOTED.fullmatch(cell)
    return cell if quoted is None else quoted[1].replace('""', '"').strip()


def record_in_cells(line: str) -> str:
    """Return the log record in the last quoted cell of a row of a CSV export. Other lines are returned unchanged.

    >>> record_in_cells('"2024-01-02T03:04:05Z",main,"host=a","24/01/02 03:04:05 ERROR Client: no ""lock"" on 7"')
    '24/01/02 03:04:05 ERROR Client: no "lock" on 7'
    """
    if not line.startswith('"') or (row := _ROW.fullmatch(line[:LINE].strip())) is None:
        return line
    cell = row["last"].replace('""', '"')
    return cell if _RECORD.match(cell) is not None else line


_CELL: Final = r'(?:"(?:[^"]|"")*"|[^",]*)'
_ROW: Final = re.compile(rf'"(?:[^"]|"")*+"(?:,{_CELL}){{0,40}},"(?P<last>(?:[^"]|"")+)"')
_RECORD: Final = re.compile(r"\[?\d{2,4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d:\d\d\S{0,12} ")
_QUOTED: Final = re.compile(r'"((?:[^"]|"")+)"')


def strip_marks(line: str) -> str:
    """Strip up to four leading marks of comments, quotes, lists and tables, and a pair of marks around the line."""
    for _ in range(4):
        if (pair := _PAIR.match(line)) is not None:
            line = pair["text"]
        found = _DECORATION.match(line)
        if found is None or found.end() == 0:
            break
        line = line[found.end() :]
    return line.rstrip().removesuffix("|").removesuffix("*/").rstrip()
