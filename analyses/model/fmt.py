"""Formats numbers, times, sizes and names for readers, in the same way for rules and views.

Imports almost nothing, because progress shows counts and sizes before most modules are imported.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from time import gmtime, strftime
from typing import Final

from flowdiag.analyses.model.names import keep_marked


def duration(ms: float | None) -> str:
    """Format milliseconds in at most two units.

    >>> [duration(ms) for ms in (850, 1234, 61_000, 600_000, 7_380_000, 93_600_000)]
    ['850 ms', '1.23 s', '1 min 1 s', '10 min', '2 h 3 min', '1 d 2 h']
    >>> duration(None)
    'an unknown time'
    """
    if ms is None:
        return "an unknown time"
    if ms < 0:
        return f"-{duration(-ms)}"
    if ms < 1000:
        return f"{ms:.0f} ms" if ms >= 10 or ms == int(ms) else f"{ms:.2g} ms"
    seconds = ms / 1000
    if seconds < 60:
        return f"{seconds:.3g} s" if seconds < 59.95 else "1 min"
    whole = round(seconds)
    for big, small, size, step in (("d", "h", 86_400, 3600), ("h", "min", 3600, 60)):
        if whole >= size:
            rest = whole % size // step
            return f"{whole // size} {big}" + (f" {rest} {small}" if rest else "")
    return f"{whole // 60} min" + (f" {whole % 60} s" if whole % 60 else "")


def size(count: float | None) -> str:
    """Format bytes in binary units, as Flink and Spark count them: their 4g is 4 GiB.

    >>> [size(n) for n in (0, 1000, 1536, 128 << 20, 3 << 30, None)]
    ['0 B', '1000 B', '1.5 KiB', '128 MiB', '3 GiB', 'an unknown size']
    """
    if count is None:
        return "an unknown size"
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if abs(count) < 1023.95 or unit == "TiB":
            break
        count /= 1024
    return f"{count:.{0 if unit == 'B' else 1}f}".removesuffix(".0") + f" {unit}"


def plural(count: int, noun: str, several: str | None = None) -> str:
    """Format a count with its noun.

    >>> plural(1, "input"), plural(2, "input"), plural(12_000, "record"), plural(2, "retry")
    ('1 input', '2 inputs', '12 000 records', '2 retries')
    """
    if count == 1:
        return f"1 {noun}"
    if several is None:
        several = f"{noun[:-1]}ies" if noun.endswith("try") else f"{noun}s"
    return f"{thousands(count)} {several}"


def number(value: float) -> str:
    """Format a number with three significant digits.

    >>> [number(n) for n in (3, 3.14159, 0.00042, 12345, 1e-9)]
    ['3', '3.14', '0.00042', '12 345', '1e-09']
    """
    if value == int(value) if abs(value) < 1e15 else False:
        return thousands(value)
    return thousands(value) if abs(value) >= 1000 else f"{value:.3g}"


def thousands(value: float) -> str:
    """Format an integer in groups of three digits.

    >>> thousands(1234567)
    '1 234 567'
    """
    return f"{value:,.0f}".replace(",", " ")


def clock(us: int) -> str:
    """Format microseconds since the epoch as the time of day in UTC.

    >>> clock(1_543_488_224_622_000)
    '10:43:44'
    """
    seconds = us // 1_000_000 % 86_400
    return f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"


def moment(us: float) -> str:
    """Format microseconds since the epoch as a date and a time in UTC, to the minute.

    >>> moment(1_543_488_224_622_000)
    '2018-11-29 10:43 UTC'
    """
    return strftime("%Y-%m-%d %H:%M UTC", gmtime(min(us, _MOST_US) // 1e6))


_MOST_US: Final = 4e15  # in the year 2096: a later date is no forecast


def share(value: float, *, whole: bool = False) -> str:
    """Format a share as a percentage, optionally without decimals.

    >>> share(0.125), share(1), share(0.00042), share(0.126, whole=True)
    ('12.5%', '100%', '0.042%', '13%')
    """
    if whole:
        return f"{value * 100:.0f}%"
    return f"{number(round(value * 100, 1) if value >= 0.001 else value * 100)}%"


def percent(part: float) -> str:
    """Format a share as a whole percentage for sentences.

    >>> percent(0.126), percent(1), percent(0.0042)
    ('13%', '100%', 'less than 1%')
    """
    return "less than 1%" if 0 < part < 0.005 else share(part, whole=True)


def chance(probability: float) -> str:
    """Format a p-value as a clause.

    >>> chance(0.75), chance(0.0031), chance(1e-7)
    ('by chance 3 times in 4', 'by chance 1 time in 320', 'by chance less than 1 time in 1 000 000')
    """
    if probability >= 0.995:
        return "by chance almost every time"
    if probability >= 0.095:
        times, of = min(
            ((n, d) for d in (2, 3, 4, 5, 10) for n in range(1, d)),
            key=lambda pair: abs(pair[0] / pair[1] - probability),
        )
        return f"by chance {plural(times, 'time')} in {of}"
    if probability < 1e-6:
        return f"by chance less than 1 time in {thousands(1_000_000)}"
    return f"by chance 1 time in {thousands(float(f'{1 / probability:.2g}'))}"


def rate(per_s: float | None, noun: str = "records") -> str:
    """Format a rate per second.

    >>> rate(1234.5), rate(8.25), rate(None)
    ('1 234 records/s', '8.2 records/s', 'an unknown rate')
    """
    if per_s is None:
        return "an unknown rate"
    return f"{number(round(per_s, 1 if per_s < 10 else None))} {noun}/s"


def subtask(index: int | None, parallelism: int | None) -> str:
    """Format the index of a subtask as Flink prints it, counting from 1.

    >>> subtask(2, 6), subtask(2, None)
    ('3/6', '3/?')
    """
    return "" if index is None else f"{index + 1}/{parallelism or '?'}"


def subtask_of(task: str | None, index: int | None, parallelism: int | None) -> str:
    """Format a subtask with its task, whose name may be cut.

    >>> subtask_of("enrich", 2, 6), subtask_of(None, None, None)
    ('enrich (3/6)', 'an unknown subtask')
    """
    if task is None and index is None:
        return "an unknown subtask"
    name = shorten(task) if task is not None else "an unknown task"
    return name if index is None else f"{name} ({subtask(index, parallelism)})"


def place(taskmanager: str | None, host: str | None) -> str:
    """Format a place as Flink logs it. The host is omitted if the resource ID contains it.

    >>> place("tm-3", "worker7"), place("worker7:4041-a", "worker7"), place(None, "worker7")
    ('tm-3 @ worker7', 'worker7:4041-a', 'worker7')
    """
    if not taskmanager:
        return host or "an unknown TaskManager"
    return f"{taskmanager} @ {host}" if host and host not in taskmanager else taskmanager


def without_remote(text: str) -> str:
    """Return Hadoop's exception from a server as the exception that the server threw.

    >>> without_remote("org.apache.hadoop.ipc.RemoteException(java.io.IOException): no DataNode")
    'java.io.IOException: no DataNode'
    """
    return _REMOTE.sub(r"\g<name>: ", text)


_REMOTE: Final = re.compile(r"\A(?:\w{1,60}\.){0,20}RemoteException\((?P<name>[\w.$]{3,200})\): ")


def shorten(text: str, most: int = 80) -> str:
    """Cut a text at the end, because SQL task names can fill pages.

    >>> shorten("abcdef", 4)
    'abc…'
    """
    return text if len(text) <= most else keep_marked(text, text[: most - 1] + "…")


def capital(sentence: str) -> str:
    """Capitalize the first letter of a sentence.

    >>> capital("query orders keeps up")
    'Query orders keeps up'
    """
    return sentence[:1].upper() + sentence[1:]


def abbreviate(text: str, most: int) -> str:
    """Cut a long name in the middle, where the names of chained operators repeat themselves.

    >>> abbreviate("Source: a -> Map -> Filter -> Sink: b", 20)
    'Source: a … Sink: b'
    """
    if len(text) <= most:
        return text
    half = (most - 3) // 2
    return keep_marked(
        text, f"{text[: most - 3 - half].rstrip(' ->')} … {text[-half:].lstrip(' ->')}"
    )


def listed(items: Iterable[str], between: str = ", ") -> str:
    """Join names or parts of a sentence.

    >>> listed(["enrich", "aggregate"])
    'enrich, aggregate'
    """
    return between.join(f"{item}" for item in items)
