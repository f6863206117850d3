"""Parses the text around the message in a line: carriers, timestamps, level, thread, logger.

The patterns are data (`formats/layouts.toml`); this module defines the order in which they are tried. It strips
carriers from the left, one by one (Docker Compose, kubectl, a second timestamp, quote marks, …), until it finds a
header. It keeps no state between lines, so that the result does not depend on where a split starts.

If a line has two timestamps, the inner one is the application's and becomes `local_us`. The outer one becomes
`utc_us` if it has a zone. Their difference is the application's time zone.
"""

from __future__ import annotations

import functools
import html
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from flowdiag.parsers.formats import read_format
from flowdiag.parsers.units import days_since_1970

HEADER_CHARACTERS: Final = 16 * 1024
"""Maximum length of a header; a thread's name can be a whole SQL statement."""

MAX_CARRIERS: Final = 8
"""Maximum number of carriers stripped from a line."""

# The first layouts in the file are Flink's own, for log4j and logback.
DEFAULT_LAYOUTS: Final = 2

JSON_BEGINS: Final = ("{", '"', "[{")
"""Characters with which JSON may start after the carriers of a line."""

_SEARCH_CHARACTERS: Final = 256  # maximum length of an unknown carrier

_MICROS: Final = 1_000_000
_MONTHS: Final = {
    name: number
    for number, name in enumerate(
        ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"), 1
    )
}

_STAMP_BEGINS: Final = frozenset("0123456789[")
_LEVEL_WORDS: Final = ("INFO ", "WARN ", "ERROR ", "DEBUG ", "TRACE ", "FATAL ")

_ANSI = re.compile(
    r"\x1b(?:\[[0-9;:?]{0,32}[ -/]?[@-~]|\][^\x07\x1b]{0,512}(?:\x07|\x1b\\)|[@-Z\\^_])"
)
# Only characters that web pages escape, because other entities may be literal text.
_ESCAPED = re.compile(
    r"&(?:lt|gt|amp|quot|apos|nbsp|#(?:34|38|39|60|62|160|x2[267]|x3[ceCE]|x0?[aA]0));"
)
_AFTER_STAMP = re.compile(r"\]?[ \t]*+(?:[-:,;][ \t]++)?")
_PIECE = re.compile(r"\{([a-z][a-z_0-9]*)\}")
_NAMED_GROUP = re.compile(r"\(\?<([a-z])")


@dataclass(slots=True)
class Prefix:
    """The parsed header of a line, and the position of its message.

    Attributes:
        text: the line without color codes, but with its carriers.
        inner: start of the record in `text`, after the carriers.
        begin: start of the message in `text`.
        end: end of the message in `text`.
        complete: whether the header has a known layout, so that `begin` is exact.
        alone: whether the line is only a header, whose message is on the next line.
        dated: whether the record itself, not only a carrier, has a timestamp.
        local_us: the printed wall clock; see `EVENTS`.
        utc_us: the instant, if printed.
        clock: None, `time-of-day` or `elapsed`; see `EVENTS`.
        level: TRACE, DEBUG, INFO, WARN, ERROR or FATAL, however it is printed.
        logger: the logger as printed, with or without its package.
        thread: the thread as printed.
        process: the carrier's label for the process.
        carriers: stripped carriers, outermost first; see `strip_like`.
    """

    text: str
    inner: int
    begin: int
    end: int
    complete: bool = False
    alone: bool = False
    dated: bool = False
    local_us: int | None = None
    utc_us: int | None = None
    clock: str | None = None
    level: str | None = None
    logger: str | None = None
    thread: str | None = None
    process: str | None = None
    carriers: tuple[Carrier, ...] = ()

    @property
    def has_timestamp(self) -> bool:
        """Whether the record or one of its carriers has a timestamp."""
        return self.local_us is not None or self.utc_us is not None


class Carrier(NamedTuple):
    """A prefix that another program adds to every line.

    Attributes:
        name: name of the entry in `layouts.toml`; empty for an unknown carrier.
        pattern: matches the carrier on the first line of a record, with stricter conditions for the text after it.
        again: matches the carrier on the following lines of a record.
        after_stamp: whether the carrier comes after its own timestamp.
        literal: text of an unknown carrier.
    """

    name: str
    pattern: re.Pattern[str] | None
    again: re.Pattern[str] | None
    after_stamp: bool
    literal: str = ""


class Stamp(NamedTuple):
    """A timestamp in a line."""

    end: int
    local_us: int | None
    utc_us: int | None
    clock: str | None


class _StampShape(NamedTuple):
    name: str
    pattern: re.Pattern[str]
    groups: tuple[str, ...]


class _Layout(NamedTuple):
    name: str
    pattern: re.Pattern[str]
    needs_stamp: bool
    alone: bool
    # Numbers of the groups; 0 if the layout has no such group.
    level: int
    logger: int
    context: int
    threads: tuple[int, ...]  # the first group that matches counts


@dataclass(frozen=True, slots=True)
class Layouts:
    """The compiled content of `layouts.toml`."""

    levels: dict[str, str]
    zones: dict[str, int | None]
    digit_stamps: tuple[_StampShape, ...]
    letter_stamps: tuple[_StampShape, ...]
    carriers: tuple[Carrier, ...]
    after_stamp: tuple[Carrier, ...]
    strict: tuple[_Layout, ...]
    loose: tuple[_Layout, ...]
    suffixes: tuple[_Layout, ...]
    # Each combines the default timestamp and a default layout in one pattern. They match the same lines as
    # the first attempts of `parse`, in a third of the time.
    default_layouts: tuple[tuple[re.Pattern[str], _Layout], ...]
    stampish: re.Pattern[str]
    headerish: re.Pattern[str]
    leading_level: re.Pattern[str]


def read_layouts() -> dict[str, Any]:
    """Load the raw entries of `layouts.toml`. On an executor, the file may be in a zip archive."""
    return read_format("formats/layouts.toml")


class _Pieces:
    """Compiles the patterns of `layouts.toml`, which are built from named pieces."""

    def __init__(self, pieces: dict[str, str]) -> None:
        self._pieces = pieces

    def expand(self, pattern: str) -> str:
        for _ in range(4):  # a piece can contain other pieces
            pattern = _PIECE.sub(lambda found: self._pieces[found[1]], pattern)
        return _NAMED_GROUP.sub(r"(?P<\1", pattern)

    def compiled(self, pattern: str) -> re.Pattern[str]:
        return re.compile(self.expand(pattern))

    def layout(self, entry: dict[str, Any]) -> _Layout:
        pattern = self.compiled(entry["pattern"])
        index = pattern.groupindex
        return _Layout(
            entry["name"],
            pattern,
            entry.get("stamp") == "required",
            entry.get("alone", False),
            level=index.get("level", 0),
            logger=index.get("logger", 0),
            context=index.get("context", 0),
            threads=tuple(index[name] for name in ("thread", "thread2") if name in index),
        )

    def carrier(self, entry: dict[str, Any]) -> Carrier:
        again = self.expand(entry["pattern"])
        # JSON after a carrier is a record as well.
        ahead = r"(?={stampish}|\{[ \t]*\"|\[\""
        if entry.get("after") != "stamp":  # after a timestamp it would match the name of a thread
            ahead += "|{headerish}"
        ahead = self.expand(ahead + ")") if "before" in entry else ""
        return Carrier(
            entry["name"],
            re.compile(again + ahead),
            re.compile(again),
            entry.get("after") == "stamp",
        )

    def default_layouts(self, stamp: str, entry: dict[str, Any]) -> tuple[re.Pattern[str], _Layout]:
        shape = self.layout({**entry, "pattern": stamp + _AFTER_STAMP.pattern + entry["pattern"]})
        return shape.pattern, shape


@functools.cache
def load_layouts() -> Layouts:
    """Load and compile the layouts; cached."""
    document = read_layouts()
    pieces = _Pieces(document["pieces"])
    stamps: dict[str, list[_StampShape]] = {"digit": [], "letter": []}
    for entry in document["stamp"]:
        pattern = pieces.compiled(entry["pattern"])
        stamps[entry["first"]].append(
            _StampShape(entry["name"], pattern, tuple(pattern.groupindex))
        )
    carriers = [pieces.carrier(entry) for entry in document["carrier"]]
    return Layouts(
        levels=document["levels"],
        zones={
            name: None if offset == "ambiguous" else offset
            for name, offset in document["zones"].items()
        },
        digit_stamps=tuple(stamps["digit"]),
        letter_stamps=tuple(stamps["letter"]),
        carriers=tuple(carrier for carrier in carriers if not carrier.after_stamp),
        after_stamp=tuple(carrier for carrier in carriers if carrier.after_stamp),
        strict=tuple(
            pieces.layout(entry) for entry in document["layout"] if not entry.get("loose")
        ),
        loose=tuple(pieces.layout(entry) for entry in document["layout"] if entry.get("loose")),
        suffixes=tuple(pieces.layout(entry) for entry in document["suffix"]),
        default_layouts=tuple(
            pieces.default_layouts(document["stamp"][0]["pattern"], entry)
            for entry in document["layout"][:DEFAULT_LAYOUTS]
        ),
        stampish=pieces.compiled("{stampish}"),
        headerish=pieces.compiled("{headerish}"),
        leading_level=pieces.compiled("{lvl}(?:[:|]?{s}|[:|]?$)(?:[-:|]{s})?"),
    )


# --- timestamps ---------------------------------------------------------------------------------


@functools.lru_cache(maxsize=4096)
def _day_us(year: str, month: str, day: str) -> int | None:
    """Return the microseconds from 1970 to a printed date, or None for an invalid date."""
    number = _MONTHS.get(month) or (int(month) if month.isdecimal() else 0)
    days = days_since_1970(int(year), number, int(day))
    return None if days is None else days * 86_400 * _MICROS


def _fraction_us(digits: str) -> int:
    return int(digits[:6].ljust(6, "0"))


def _offset_minutes(zone: str, zones: dict[str, int | None]) -> int | None:
    if zone[-1].isdigit():
        zone = zone.removeprefix("GMT").removeprefix("UTC")
    else:
        return zones.get(zone)
    digits = zone[1:].replace(":", "")
    minutes = int(digits[:2]) * 60 + int(digits[2:] or 0)
    return -minutes if zone[0] == "-" else minutes


def read_stamp(text: str, position: int = 0) -> Stamp | None:
    """Parse a timestamp in any known format at `position`; an invalid time (month 13) does not match."""
    if position >= len(text):
        return None
    layouts = load_layouts()
    first = text[position]
    if first == "[":
        position += 1
        first = text[position : position + 1]
    if "0" <= first <= "9":
        shapes = layouts.digit_stamps
    elif "A" <= first <= "Z":
        shapes = layouts.letter_stamps
    else:
        return None
    for shape in shapes:
        found = shape.pattern.match(text, position)
        if found is not None:
            stamp = _convert(shape, found, layouts.zones)
            if stamp is not None:
                return stamp
    return None


def _convert(
    shape: _StampShape, found: re.Match[str], zones: dict[str, int | None]
) -> Stamp | None:
    values = dict(zip(shape.groups, found.groups(), strict=True))
    end = found.end()
    if "hour" not in values:
        return _convert_number(values, end)
    hour, minute, second = int(values["hour"]), int(values["minute"]), int(values["second"])
    half = values.get("half")
    if half:
        hour = hour % 12 + (12 if half[0] in "Pp" else 0)
    if hour > 23 or minute > 59 or second > 60:
        return None
    local = (hour * 3600 + minute * 60 + second) * _MICROS
    fraction = values.get("fraction")
    if fraction:
        local += _fraction_us(fraction)
    if "day" not in values or ("year" not in values and "year2" not in values):
        return Stamp(end, local, None, "time-of-day")
    year = values["year"] if "year" in values else "20" + values["year2"]
    day = _day_us(year, values["month"], values["day"])
    if day is None:
        return None
    local += day
    zone = values.get("zone")
    if zone is None:
        return Stamp(end, local, None, None)
    offset = _offset_minutes(zone, zones)
    return Stamp(end, local, None if offset is None else local - offset * 60 * _MICROS, None)


def _convert_number(values: dict[str, str | Any], end: int) -> Stamp:
    if values.get("elapsed"):
        return Stamp(end, int(values["elapsed"]) * 1000, None, "elapsed")
    if values["nanos"]:
        return Stamp(end, None, int(values["nanos"]) // 1000, None)
    if values["micros"]:
        return Stamp(end, None, int(values["micros"]), None)
    if values["millis"]:
        return Stamp(end, None, int(values["millis"]) * 1000, None)
    micros = _fraction_us(values["fraction"] or "")
    return Stamp(end, None, int(values["seconds"]) * _MICROS + micros, None)


# --- lines --------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=4096)
def simple_name(logger: str) -> str:
    """Return the name of a logger's class without its package and nested classes.

    >>> simple_name("o.a.f.r.c.CheckpointCoordinator$CheckpointCanceller")
    'CheckpointCoordinator'
    """
    name = logger[logger.rfind(".") + 1 :]
    return name.partition("$")[0] or name


def strip_colors(line: str) -> str:
    """Remove terminal codes and the byte-order mark from a line, and unescape HTML.

    >>> strip_colors("\x1b[32mSource -&gt; Sink, checkpoint &#x27;7&#x27;\x1b[0m")
    "Source -> Sink, checkpoint '7'"
    """
    if "\x1b" in line:
        line = _ANSI.sub("", line)
    if ";" in line and "&" in line:
        line = _ESCAPED.sub(lambda found: html.unescape(found[0]), line)
    return line.removeprefix("\ufeff")


def strip_progress_bar(line: str) -> str:
    """Remove the progress bar that Spark's console draws before a record.

    >>> strip_progress_bar("[Stage 0:>      (0 + 1) / 1]26/11/26 18:49:35 WARN A: x")
    '26/11/26 18:49:35 WARN A: x'
    """
    bar = next(carrier for carrier in load_layouts().carriers if carrier.name == "progress-bar")
    found = bar.pattern.match(line) if bar.pattern is not None else None
    return line[found.end() :] if found is not None else line


def parse(line: str) -> Prefix:
    """Parse the header of a line.

    Never raises. For a line with an unknown layout, `complete` is false and `begin` is after the recognized part.
    """
    line = strip_colors(line)
    layouts = load_layouts()
    head = Prefix(line, 0, 0, len(line))
    if "0" <= line[:1] <= "9" and _parse_default_layout(head, layouts):
        return head
    position = 0
    taken: list[Carrier] = []
    outer: Stamp | None = None
    while True:
        stamp = read_stamp(line, position)
        after, layouts_left, step = position, layouts.strict, None
        if stamp is not None:
            after = _position_after_stamp(line, stamp.end)
            if _apply_layouts(head, layouts.strict, after, stamp, outer, layouts):
                break
            layouts_left = layouts.loose
            if stamp.clock == "elapsed":
                if _apply_layouts(head, layouts_left, after, stamp, outer, layouts):
                    break
                # A number is a time only if a header follows.
                stamp, after, layouts_left = None, position, ()
            else:
                closed = stamp.end + line.startswith("]", stamp.end)
                step = _carrier(layouts.after_stamp, line, closed)
        elif not line.startswith(JSON_BEGINS, position):
            step = _carrier(layouts.carriers, line, position)
        if step is not None and len(taken) < MAX_CARRIERS and step[1].end() > position:
            taken.append(step[0])
            position = step[1].end()
            outer = _pass_carrier(head, step[1], stamp, outer, layouts)
            continue
        if not _apply_layouts(head, layouts_left, after, stamp, outer, layouts):
            _set_time(head, stamp, outer)
            head.dated = stamp is not None
            head.begin = after
        break
    head.inner = position
    head.carriers = tuple(taken)
    if head.complete:
        _parse_nested_header(head, layouts)
    elif not line.startswith(JSON_BEGINS, position):
        search(head)
    return head


_EXCEPTION: Final = re.compile(
    r"(?:[a-z_][\w$]{0,80}\.){1,20}[A-Z][\w$]{0,120}(?:Exception|Error|Throwable): "
)

# A strict version of Flink's default layout. The first default layout matches all of these lines, and sorting their
# bytes sorts them by time. Days that some months lack, and messages that may be records themselves, do not match.
_PLAIN: Final = re.compile(
    rb"[12][0-9]{3}-(?:0[1-9]|1[0-2])-(?:0[1-9]|1[0-9]|2[0-8])"
    rb" (?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9],[0-9]{3} (?:TRACE|DEBUG|INFO|WARN|ERROR) +"
    rb"(?:[A-Za-z_][A-Za-z0-9_$]*\.)*[A-Za-z_][A-Za-z0-9_$]* *\[\] - "
    rb"(?!(?:TRACE|DEBUG|INFO|WARN|ERROR|FATAL) )[A-Za-z]"
)


def lines_bounding_time(lines: Iterable[bytes]) -> list[bytes]:
    """Reduce lines in any order to a few that still include the earliest and the latest time."""
    plain: list[bytes] = []
    others: list[bytes] = []
    for line in lines:
        is_plain = _PLAIN.match(line) is not None and b"\x1b" not in line
        (plain if is_plain else others).append(line)
    return [*others, min(plain), max(plain)] if plain else others


def time_of_default_layout(line: str) -> int | None:
    """Return the wall clock of a line in one of Flink's own layouts, as `parse` would.

    Return None if the line needs a full parse or has no time.
    """
    layouts = load_layouts()
    for pattern, _ in layouts.default_layouts:
        found = pattern.match(line, 0, HEADER_CHARACTERS)
        if found is None:
            continue
        begin = found.end()
        if line[begin : begin + 1] in _STAMP_BEGINS or line.startswith(_LEVEL_WORDS, begin):
            return None  # the message may start with a second header
        return None if "\x1b" in line else _default_layout_time_us(found)
    return None


def _default_layout_time_us(found: re.Match[str]) -> int | None:
    """Return the wall clock from a match of a default layout, or None for an invalid time."""
    year, month, day, hour, minute, second, fraction = found.group(1, 2, 3, 4, 5, 6, 7)
    midnight = _day_us(year, month, day)
    hours, minutes, seconds = int(hour), int(minute), int(second)
    if midnight is None or hours > 23 or minutes > 59 or seconds > 60:
        return None
    local = midnight + (hours * 3600 + minutes * 60 + seconds) * _MICROS
    if fraction is not None:
        local += int(fraction) * 1000 if len(fraction) == 3 else _fraction_us(fraction)
    return local


def _parse_default_layout(head: Prefix, layouts: Layouts) -> bool:
    """Parse a line in one of Flink's own layouts, which nearly all logs use. Return whether it has one."""
    line = head.text
    limit = min(len(line), HEADER_CHARACTERS)
    for pattern, shape in layouts.default_layouts:
        found = pattern.match(line, 0, limit)
        if found is None:
            continue
        local = _default_layout_time_us(found)
        if local is None:
            return False
        head.local_us = local
        zone = found[8]
        if zone is not None and (offset := _offset_minutes(zone, layouts.zones)) is not None:
            head.utc_us = local - offset * 60 * _MICROS
        head.dated = True
        _fill(head, shape, found, layouts)
        _parse_nested_header(head, layouts)
        return True
    return False


def search(head: Prefix) -> None:
    """Search for a header further right or at the end of the line, if none was recognized at its start.

    `parse` does this automatically, except for lines that may be JSON.
    """
    layouts = load_layouts()
    _search(head, head.inner, layouts)
    if not head.complete:
        _parse_suffix(head, layouts)


def _parse_nested_header(head: Prefix, layouts: Layouts) -> None:
    """Parse a second header at the start of the message, because programs log the output of other programs."""
    line, begin = head.text, head.begin
    first = line[begin : begin + 1]
    if ("0" <= first <= "9" or first == "[") and layouts.stampish.match(line, begin):
        stamp = read_stamp(line, begin)
        if stamp is None or stamp.clock == "elapsed":
            return
        position = _position_after_stamp(line, stamp.end)
    elif line.startswith(_LEVEL_WORDS, begin) and layouts.headerish.match(line, begin):
        stamp, position = None, begin
    else:
        return
    outer = Stamp(0, head.local_us, head.utc_us, head.clock)
    logger, thread = head.logger, head.thread
    head.logger = head.thread = None
    if _apply_layouts(head, layouts.strict, position, stamp, outer, layouts):
        head.carriers = (*head.carriers, Carrier("header", None, None, False))
        head.inner = begin
    else:
        head.logger, head.thread = logger, thread


def strip_like(line: str, head: Prefix) -> str:
    """Strip from a continuation line the carriers that the record's first line had. The line may lack some of them."""
    line = strip_colors(line)
    if not head.carriers:
        return line
    position = 0
    for carrier in head.carriers:
        if carrier.again is None:
            if carrier.name == "header":
                header = parse(line[position:])
                if header.complete:
                    position += header.begin
            elif line.startswith(carrier.literal, position):
                position += len(carrier.literal)
            continue
        begin = position
        if carrier.after_stamp:
            stamp = read_stamp(line, position)
            if stamp is None:
                continue
            begin = stamp.end + line.startswith("]", stamp.end)
            if carrier.name == "second-stamp":
                # One space after the carrier belongs to it; the rest is indentation.
                position = begin + (line[begin : begin + 1] in (" ", "\t"))
                continue
        found = carrier.again.match(line, begin)
        if found is not None:
            if carrier.name == "indent":
                width = len(head.text) - len(head.text.lstrip())
                position = min(found.end(), begin + width)
            else:
                position = found.end()
    return line[position:]


def process_of(line: str, head: Prefix) -> str | None:
    """Return the process label of another line with the same carriers, or None if they have no label."""
    position = 0
    line = strip_colors(line)
    for carrier in head.carriers:
        if carrier.again is None:
            return None
        if carrier.after_stamp:
            stamp = read_stamp(line, position)
            if stamp is None:
                return None
            position = stamp.end + line.startswith("]", stamp.end)
        found = carrier.again.match(line, position)
        if found is None:
            return None
        if "process" in carrier.again.groupindex:
            return found["process"]
        position = found.end()
    return None


def _position_after_stamp(line: str, position: int) -> int:
    found = _AFTER_STAMP.match(line, position)
    return found.end() if found is not None else position


def _carrier(
    carriers: tuple[Carrier, ...], line: str, position: int
) -> tuple[Carrier, re.Match[str]] | None:
    for carrier in carriers:
        assert carrier.pattern is not None
        found = carrier.pattern.match(line, position)
        if found is not None:
            # A class may look like a file name.
            return None if _EXCEPTION.match(line, position) is not None else (carrier, found)
    return None


def _pass_carrier(
    head: Prefix, found: re.Match[str], stamp: Stamp | None, outer: Stamp | None, layouts: Layouts
) -> Stamp | None:
    """Move past a carrier and keep its labels. Return the outermost timestamp, or the first that has a time zone."""
    groups = found.groupdict()
    if groups.get("process"):
        head.process = groups["process"]
    if groups.get("level"):
        head.level = layouts.levels.get(groups["level"].upper())
    if outer is None:
        return stamp
    return (
        stamp if stamp is not None and outer.utc_us is None and stamp.utc_us is not None else outer
    )


def _set_time(head: Prefix, stamp: Stamp | None, outer: Stamp | None) -> None:
    if stamp is None:
        stamp, outer = outer, None
    if stamp is None:
        return
    head.local_us, head.utc_us, head.clock = stamp.local_us, stamp.utc_us, stamp.clock
    if head.utc_us is None and outer is not None:
        head.utc_us = outer.utc_us


def _apply_layouts(
    head: Prefix,
    shapes: tuple[_Layout, ...],
    position: int,
    stamp: Stamp | None,
    outer: Stamp | None,
    layouts: Layouts,
) -> bool:
    """Try the layouts at `position`. If one matches, fill the prefix and return True."""
    line = head.text
    limit = min(len(line), position + HEADER_CHARACTERS)
    for shape in shapes:
        if shape.needs_stamp and stamp is None:
            continue
        found = shape.pattern.match(line, position, limit)
        if found is None:
            continue
        _fill(head, shape, found, layouts)
        _set_time(head, stamp, outer)
        head.dated = stamp is not None
        return True
    return False


def _fill(head: Prefix, shape: _Layout, found: re.Match[str], layouts: Layouts) -> None:
    """Copy the groups of a matched layout to the prefix."""
    if shape.level:
        level = found[shape.level]
        if level is not None:
            head.level = layouts.levels.get(level.upper())
    if shape.logger:
        logger = found[shape.logger]
        dot = logger.rfind(".")
        # `CheckpointCoordinator.abort` is a method; class names start with a capital letter.
        if logger[dot + 1 :].islower() and simple_name(logger[:dot])[:1].isupper():
            logger = logger[:dot]
        head.logger = logger
    thread = None
    for group in shape.threads:
        thread = found[group]
        if thread is not None:
            break
    if (
        thread is None
        and shape.context
        and _THREAD_NAME.match(head.text, *found.span(shape.context))
    ):
        thread = found[shape.context]
    if thread:
        thread = thread.strip()
        if head.logger is None and _CLASS.match(thread):
            head.logger = thread
        else:
            head.thread = thread or None
    head.begin = found.end()
    head.complete = True
    head.alone = shape.alone


_CLASS = re.compile(r"(?:[\w$]+\.)+[A-Z][\w$]*$")
# Instead of a thread, there can be a diagnostic context: key=value pairs or a job ID.
_THREAD_NAME = re.compile(r"(?!\s*[0-9a-f]{32}\s*$)[^=]+\Z")


def _search(head: Prefix, position: int, layouts: Layouts) -> None:
    """Search for a complete header further right, after unknown text."""
    line = head.text
    first: Stamp | None = None
    for found in layouts.stampish.finditer(line, position + 1, position + _SEARCH_CHARACTERS):
        begin = found.start()
        stamp = read_stamp(line, begin)
        if stamp is None or stamp.clock == "elapsed":
            continue
        outer = None
        if head.has_timestamp:
            outer = Stamp(0, head.local_us, head.utc_us, head.clock)
        elif first is None:
            first = stamp
        if _apply_layouts(
            head, layouts.strict, _position_after_stamp(line, stamp.end), stamp, outer, layouts
        ):
            literal = line[head.inner : begin]
            head.carriers = (*head.carriers, Carrier("", None, None, False, literal))
            head.inner = begin
            return
    if first is not None:
        # In `key=value` lines and the like, at least the time is known.
        _set_time(head, first, None)


def drop_time_within(head: Prefix, start: int, end: int) -> None:
    """Remove the time of a line without a header if the time is part of the message, at [start, end).

    Such a time is not the record's: Flink prints its build date at startup, and exceptions contain lease times and
    deadlines.
    """
    if head.dated or head.local_us is None:
        return
    for found in load_layouts().stampish.finditer(head.text, start, end):
        stamp = read_stamp(head.text, found.start())
        if stamp is not None and stamp.local_us == head.local_us:
            head.local_us = head.utc_us = head.clock = None
            return


def with_message_first(head: Prefix) -> Prefix | None:
    """Reparse a line with a header as a layout that puts the message first; return None if that fails.

    `DEBUG Map (1/2) - finished … [StreamTask main]`: `Map` looks like a logger.
    """
    if not head.dated or not head.text.endswith("]"):
        return None
    stamp = read_stamp(head.text, head.inner)
    if stamp is None:
        return None
    begin = _position_after_stamp(head.text, stamp.end)
    other = replace(
        head, begin=begin, complete=False, level=None, logger=None, thread=None, alone=False
    )
    _parse_suffix(other, load_layouts())
    return other if other.complete else None


def _parse_suffix(head: Prefix, layouts: Layouts) -> None:
    """Parse a logger at the end of the line. The message then starts right after the level."""
    line = head.text
    last = line.rfind(" [", max(head.begin, len(line) - 512))
    if last < 0 or not head.dated:
        return  # without a time, a bracket at the end of the line is not a logger
    for shape in layouts.suffixes:
        found = shape.pattern.match(line, last)
        if found is None:
            continue
        begin = layouts.leading_level.match(line, head.begin)
        if begin is not None:
            head.level = layouts.levels.get(begin["level"].upper())
            head.begin = begin.end()
        head.logger = found[shape.logger]
        thread = found[shape.threads[0]] if shape.threads else None
        head.thread = thread.strip() or None if thread else None
        head.end = found.start()
        head.complete = True
        return


def samples() -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    """Yield every sample of `layouts.toml` as (kind, entry, sample)."""
    document = read_layouts()
    for kind in ("stamp", "carrier", "layout", "suffix"):
        for entry in document[kind]:
            for sample in entry["sample"]:
                yield kind, entry, sample
