"""Recognizes linkage errors in text: a class that is missing, in two versions, or compiled for a newer Java."""

from __future__ import annotations

import re
from typing import Final

_MAIN: Final = re.compile(
    r"(?:entry point class|load main class) ['\"]?(?P<name>[A-Za-z_][\w.$/]{0,300}?)['\"]?(?=\s|\Z)"
)
_MISSING: Final = re.compile(
    r"(?:ClassNotFoundException|NoClassDefFoundError|Cannot load user class)(?:: (?P<name>[\w.$/\[;-]{1,300}))?"
)
_CONFLICT: Final = re.compile(
    r"(?:NoSuchMethodError|NoSuchFieldError|AbstractMethodError|IncompatibleClassChangeError"
    r"|InvalidClassException|loader constraint violation|local class incompatible"
    r"|ClassCastException: cannot assign instance)(?:: (?P<name>[^\n]{1,300}))?"
)
_JAVA: Final = re.compile(r"UnsupportedClassVersionError(?:: (?P<name>[^\n]{1,300}))?")

_KINDS: Final = (("java", _JAVA), ("main", _MAIN), ("missing", _MISSING), ("conflict", _CONFLICT))


def linkage(text: str) -> tuple[str, str] | None:
    """Return the kind of linkage error in a text and the affected class, or None for any other text.

    >>> linkage("java.lang.NoClassDefFoundError: com/acme/Price")
    ('missing', 'com/acme/Price')
    >>> linkage("The program's entry point class 'com.acme.Job' was not found in the jar file.")
    ('main', 'com.acme.Job')
    >>> linkage("java.lang.IllegalStateException: price is negative")
    """
    for kind, pattern in _KINDS:
        found = pattern.search(text[:16_384])
        if found is not None:
            return kind, found["name"] or found[0]
    return None
