"""How numbers, times, sizes and names are said to people: one vocabulary for rules and views.

Imports nothing: progress says counts and sizes before much is imported.
"""

from __future__ import annotations


def duration(ms: float) -> str:
    """Milliseconds in the two units that matter.

    >>> [duration(ms) for ms in (850, 1234, 61_000, 600_000, 7_380_000, 93_600_000)]
    ['850 ms', '1.23 s', '1 min 1 s', '10 min', '2 h 3 min', '1 d 2 h']
    """
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


def size(count: float) -> str:
    """Bytes with a decimal prefix.

    >>> [size(n) for n in (0, 999, 1000, 3_200_000, 3_245_000_000)]
    ['0 B', '999 B', '1 kB', '3.2 MB', '3.2 GB']
    """
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if abs(count) < 999.5 or unit == "TB":
            break
        count /= 1000
    text = (
        f"{count:.0f}" if unit == "B" or abs(count) >= 99.5 else f"{count:.1f}".removesuffix(".0")
    )
    return f"{text} {unit}"


def plural(count: int, noun: str) -> str:
    """A count with its noun.

    >>> plural(1, "input"), plural(2, "input"), plural(12_000, "record"), plural(2, "retry")
    ('1 input', '2 inputs', '12 000 records', '2 retries')
    """
    if count == 1:
        return f"1 {noun}"
    plural_form = f"{noun[:-1]}ies" if noun.endswith("try") else f"{noun}s"
    return f"{thousands(count)} {plural_form}"


def number(value: float) -> str:
    """A number with as many digits as a reader can use.

    >>> [number(n) for n in (3, 3.14159, 0.00042, 12345, 1e-9)]
    ['3', '3.14', '0.00042', '12 345', '1e-09']
    """
    if value == int(value) if abs(value) < 1e15 else False:
        return thousands(value)
    return thousands(value) if abs(value) >= 1000 else f"{value:.3g}"


def thousands(value: float) -> str:
    """An integer in groups of three.

    >>> thousands(1234567)
    '1 234 567'
    """
    return f"{value:,.0f}".replace(",", " ")


def share(value: float) -> str:
    """A part of a whole.

    >>> share(0.125), share(1), share(0.00042)
    ('12.5 %', '100 %', '0.042 %')
    """
    return f"{number(round(value * 100, 1) if value >= 0.001 else value * 100)} %"


def rate(per_s: float, noun: str = "records") -> str:
    """So many a second.

    >>> rate(1234.5), rate(8.25)
    ('1 234 records/s', '8.2 records/s')
    """
    return f"{number(round(per_s, 1 if per_s < 1000 else None))} {noun}/s"


def subtask(index: int | None, parallelism: int | None) -> str:
    """1-based, as Flink prints it.

    >>> subtask(2, 6), subtask(2, None)
    ('3/6', '3/?')
    """
    return "" if index is None else f"{index + 1}/{parallelism or '?'}"


def place(taskmanager: str | None, host: str | None) -> str:
    """Where something runs: resource id and host, the host only where the id does not name it.

    >>> place("tm-3", "worker7"), place("worker7:4041-a", "worker7"), place(None, "worker7")
    ('tm-3 @ worker7', 'worker7:4041-a', 'worker7')
    """
    if not taskmanager:
        return host or ""
    return f"{taskmanager} @ {host}" if host and host not in taskmanager else taskmanager


def shorten(text: str, most: int = 80) -> str:
    """The beginning of what is too long; names of SQL tasks fill pages.

    >>> shorten("abcdef", 4)
    'abc…'
    """
    return text if len(text) <= most else text[: most - 1] + "…"


def abbreviate(text: str, most: int) -> str:
    """Cut a long name in the middle, where chained operators repeat themselves.

    >>> abbreviate("Source: a -> Map -> Filter -> Sink: b", 20)
    'Source: a … Sink: b'
    """
    if len(text) <= most:
        return text
    half = (most - 3) // 2
    return f"{text[: most - 3 - half].rstrip(' ->')} … {text[-half:].lstrip(' ->')}"
