"""Groups rolled log files by name.

The name determines only the group, not the order in it: log4j 2 gives number 1 to the oldest file, log4j 1 and
logrotate to the newest (catalogue, section 9.1).
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


def group_of(name: str, siblings: Collection[str] = ()) -> str:
    """Return the base name of a rolled file; `name` itself if it is not rolled.

    `x.log.1`, `x.log.2.gz`, `x.log.2026-01-01` and `x-2026-01-01-3.log.gz` belong to `x.log`. A number before
    the extension (`x.1.log`) or without an extension (`x.1`) can also be the number of a process. It means a
    rolled file only if the name without the number is in `siblings`.

    >>> [group_of(name) for name in ("a/x.log.2.gz", "x-2026-01-01-3.log", "x.2.log")]
    ['a/x.log', 'x.log', 'x.2.log']
    >>> group_of("x.2.log", siblings={"x.log", "x.2.log"})
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
        if folder + slash + unnumbered in siblings:
            base = unnumbered
    return folder + slash + base
