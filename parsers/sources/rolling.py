"""Names of rolled log files: which of them continue each other.

Only the name of the group is taken from a file's name. Which of its files comes first is not:
log4j 2 numbers the oldest file 1, log4j 1 and logrotate the newest (catalogue, section 9.1).
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final

_PACKED: Final = re.compile(r"\.(?:gz|gzip|bz2|xz|zst|zstd|lz4|snappy|sz|lzf|zip)\Z", re.IGNORECASE)
_EXTENSION = r"\.(?:log|out|err|txt|json|jsonl|ndjson)"
_DATE = r"(?:19|20)\d\d[-_.]?[01]\d[-_.]?[0-3]\d(?:[-_.T]\d{1,10}){0,4}(?:\d\d)?"
_BEHIND: Final = re.compile(
    rf"(?P<keep>.+{_EXTENSION})(?:[._-](?:{_DATE}|\d{{1,10}}|old|bak|prev(?:ious)?)){{1,3}}\Z",
    re.IGNORECASE,
)
_BEFORE: Final = re.compile(rf"(?P<keep>.+)[-_.]{_DATE}(?P<end>{_EXTENSION})\Z", re.IGNORECASE)
_NUMBERED: Final = re.compile(rf"(?P<keep>.+)[.-]\d{{1,4}}(?P<end>(?:{_EXTENSION})?)\Z")
_LONGEST: Final = 400


def group_of(name: str, beside: Collection[str] = ()) -> str:
    """The name of the file that `name` is a rolled part of; `name` itself if it is none.

    `x.log.1`, `x.log.2.gz`, `x.log.2026-01-01` and `x-2026-01-01-3.log.gz` belong to `x.log`. A
    number before the extension (`x.1.log`) or without any (`x.1`) may as well count processes:
    it is taken for a rolled part only if the unnumbered name is among `beside`.

    >>> [group_of(name) for name in ("a/x.log.2.gz", "x-2026-01-01-3.log", "x.2.log")]
    ['a/x.log', 'x.log', 'x.2.log']
    >>> group_of("x.2.log", beside={"x.log", "x.2.log"})
    'x.log'
    """
    folder, slash, base = name.rpartition("/")
    if len(base) > _LONGEST:
        return name
    base = _PACKED.sub("", base)
    if found := _BEHIND.match(base):
        base = found["keep"]
    elif found := _BEFORE.match(base):
        base = found["keep"] + found["end"]
    elif found := _NUMBERED.match(base):
        unnumbered = found["keep"] + found["end"]
        if folder + slash + unnumbered in beside:
            base = unnumbered
    return folder + slash + base
