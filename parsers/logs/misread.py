"""Corrects what text recognition misreads in screenshots."""

from __future__ import annotations

import re
from typing import Final

# Classes and packages that text recognition misreads in screenshots.
_MISREAD: Final = re.compile(rb"\blllegal(?=[A-Z])|fIink|\bjava\.Iang|\b[0O]rg\.apache")
_MISREAD_LETTER: Final = re.compile(
    rb"(?<=[a-z])1(?=[a-z])|(?<=\d)[Ol](?=[\d:)])|(?<=[\s:(])[Ol](?=\d)"
)
_SIGNS: Final = (b"lllegal", b"fIink", b"java.Iang", b"0rg.apache", b"Org.apache")  # of `_MISREAD`
_LETTERS: Final = {b"lllegal": b"Illegal", b"fIink": b"flink", b"java.Iang": b"java.lang"}


def without_misread_letters(data: bytes) -> bytes:
    """Correct letters and digits in the text of a screenshot, without changing its length.

    >>> without_misread_letters(b"java.lang.lllegalStateException: No slot avai1able (S.java:34O)")
    b'java.lang.IllegalStateException: No slot available (S.java:340)'
    >>> without_misread_letters(b"container a1b")
    b'container a1b'
    >>> without_misread_letters(b"java . lang . IllegalStateException : no price")
    b'java.lang.IllegalStateException:      no price'
    """
    if b" ." in data or b". " in data:
        data = _SPACED.sub(_join_name, data)
    if not any(letters in data for letters in _SIGNS):
        return data
    data = _MISREAD.sub(lambda found: _LETTERS.get(found[0], b"org.apache"), data)
    return _MISREAD_LETTER.sub(lambda found: {b"1": b"l", b"O": b"0", b"l": b"1"}[found[0]], data)


# The name of an exception, typed or recognized with spaces around its dots.
_SPACED: Final = re.compile(
    rb"\b(?:org|java|javax|com|io|net|scala)(?: ?\. ?[a-z]\w{0,40}){1,10} ?\. ?[A-Z]\w{2,80}(?:Exception|Error)\b(?: ?:)?"
)


def _join_name(found: re.Match[bytes]) -> bytes:
    return found[0].replace(b" ", b"").ljust(len(found[0]))
