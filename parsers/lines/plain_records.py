r"""Finds the records of a log that report no failure, so that the search for failures can skip them.

Most lines of a log are such records. The search for failures without a known message tries a hundred patterns per line,
which takes 50 µs. To find these records takes less than a microsecond per line.

The header of a plain record has one of the default layouts of Flink and Spark, with a level below ERROR. Its message
begins with a letter and contains none of `STEMS`. It can neither start nor continue a failure. If the records
before and after it are plain as well, it also is neither the heading nor the end of a failure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from itertools import chain
from typing import Final

from flowdiag.parsers.lines.scan import PlaceFinder

STEMS: Final = (
    "abort", "backoff", "beyond", "cannot", "caused by", "conflicting", "core dumped", "could not", "denied", "diagnostics:",
    "died", "during handling", "errimagepull", "error", "evicted", "exceeded", "exception", "exit", "expired", "fail", "fatal",
    "forbidden", "heap size", "impossible", "interrupt", "invalid", "kill", "konnte nicht", "level=", "loginmodule", "lost",
    "low on resource", "main class", "no such", "not found", "notcompatible", "prevented", "probe", "quarantin", "quota",
    "read-only", "receiver", "refused", "return code", "segmentation", "sigabrt", "sigbus", "sigsegv", "spark.master should",
    "submitted by", "suppressed", "t be found", "terminat", "throwable", "timed out", "traceback", "unable", "unbound",
    "unreachable", "unrecognized", "warning", "wrapped by", "\\n", "\\t", "{",
)  # fmt: skip
"""Parts of words in lower case. Each text that reports a failure contains one, except texts that begin with `[`."""

_LEVEL: Final = rb"(?:TRACE|DEBUG|INFO|WARN)"
_MESSAGE: Final = rb"(?!at |File |more )[A-Za-z][ -~]*\r?\n"
_PLAIN: Final = re.compile(
    rb"^(?:\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} " + _LEVEL + rb" {1,2}[\w.$]{3,200} {1,60}(?:\[[^\]\n]{0,100}\] )?- "
    rb"|\d\d/\d\d/\d\d \d\d:\d\d:\d\d " + _LEVEL + rb" [\w.$]{3,200}: )" + _MESSAGE,
    re.MULTILINE,
)  # fmt: skip


@cache
def _finder() -> PlaceFinder:
    return PlaceFinder([stem.encode() for stem in STEMS])


def plain_runs(data: bytes) -> Iterator[tuple[int, int]]:
    r"""Yield the beginning and the end of each run of lines that the search can skip, in order.

    The first and the last record of a series of plain records are not part of the run.

    >>> line = b"2024-01-02 03:04:05,678 INFO  org.apache.flink.A [] - Completed checkpoint %d\n"
    >>> text = b"".join(line % i for i in range(5)) + b"java.io.IOException: gone\n" + line % 5
    >>> list(plain_runs(text)) == [(len(line % 0), 4 * len(line % 0))]
    True
    """
    places = _finder().places(data.lower()).values()
    stems = iter([*sorted(chain.from_iterable(places)), len(data)])
    stem = next(stems)
    first = last = (
        end
    ) = -1  # the end of the first record, the beginning of the last one, and its end
    for found in _PLAIN.finditer(data):
        while stem < found.start():
            stem = next(stems)
        if stem < found.end():
            continue
        if found.start() != end:
            if 0 <= first < last:
                yield first, last
            first = found.end()
        last, end = found.start(), found.end()
    if 0 <= first < last:
        yield first, last
