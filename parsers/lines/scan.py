"""Searches a byte stream for relevant lines, without a Python call per line.

A multi-literal matcher runs over one reused buffer. Only lines with an *anchor* (a literal that every
relevant message contains) become Python objects. Every decision about a line depends only on the line and
its neighbors, never on where a buffer or split ends. So the candidates do not depend on how a stream is split.

All limits apply to a line:

| limit | value | beyond the limit |
|---|---|---|
| `HEAD_BYTES` | 128 KiB | an anchor further from the start of the line does not count |
| `LINE_BYTES` | 16 MiB | a candidate line is truncated and marked as such |
| `LOOKBACK_BYTES` | 4 KiB | `LineScanner.preceding` does not return a longer line |
| `FOLLOWING_LINE_BYTES` | 64 KiB | a following line is truncated, and the lines after it are not returned |
"""

from __future__ import annotations

import math
import re
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import BinaryIO, Final, NamedTuple, Protocol

from flowdiag.parsers.lines.fragments import FRAGMENT, covering_fragments, group_fragments

try:
    import ahocorasick_rs
except ImportError:  # pragma: no cover - an executor without the compiled package
    ahocorasick_rs = None  # type: ignore[assignment]

BUFFER_BYTES: Final = 256 * 1024  # a larger buffer exceeds the L2 cache and is slower
HEAD_BYTES: Final = 128 * 1024
LINE_BYTES: Final = 16 * 1024 * 1024
LOOKBACK_BYTES: Final = 4 * 1024
FOLLOWING_LINE_BYTES: Final = 64 * 1024
EDGE_BYTES: Final = 4 * 1024

# Selecting fragments takes as long as scanning this many bytes.
PATIENCE_BYTES: Final = 32 * 1024 * 1024
SAMPLE_SHARE: Final = 256  # one of this many bytes is part of the sample
LEAST_SAMPLE_BYTES: Final = 16 * 1024
_WORTHWHILE: Final = 4 * 1024  # bytes; for a smaller region, several calls do not pay off
_TRIED_EVERY: Final = 256  # number of regions between two timings
APART: Final = 4 * 1024
"""Minimum distance between two places, in bytes. Signs that are closer together count as one place."""
_SIGNS: Final = 16  # maximum places kept at each end of a range

Region = bytes | bytearray | memoryview


class Matcher(Protocol):
    """Finds all occurrences of a set of literals."""

    def find(self, region: Region) -> Sequence[tuple[int, int]]:
        """Return the (start, end) of matches in `region`, ordered by end.

        Of overlapping literals at least one is reported, so no line with a literal is missed.
        """
        ...


class AutomatonMatcher:
    """The compiled matcher, which needs one pass for any number of literals.

    Args:
        literals: at least one literal.
        leftmost: report the first of several overlapping literals. In this mode, the library can search
            for a dozen literals many bytes at a time.
    """

    def __init__(self, literals: Sequence[bytes], *, leftmost: bool = False) -> None:
        kind = ahocorasick_rs.MatchKind
        # For more than 100 literals, the library's default is a contiguous NFA, which takes 3.6 s per GB instead of
        # the DFA's 1.5 s.
        self._automaton = ahocorasick_rs.BytesAhoCorasick(
            list(literals),
            implementation=ahocorasick_rs.Implementation.DFA,
            matchkind=kind.LeftmostFirst if leftmost else kind.Standard,
        )

    def find(self, region: Region) -> Sequence[tuple[int, int]]:
        """Implement `Matcher.find`."""
        return [hit[1:] for hit in self._automaton.find_matches_as_indexes(region)]


class CoveringMatcher:
    """Finds the same matches in a fifth of the time, if little of the text resembles a literal.

    With hundreds of literals, the automaton visits every byte, because the library's vectorized search accepts
    only a few dozen patterns. This matcher runs the vectorized search for a few groups of fragments, with at least
    one fragment per literal, and the automaton only around their hits. The best fragments depend on the log,
    so a sample of the log determines them. If they are not rare enough, the automaton alone is faster.
    The matcher times both methods from time to time, and continues with the faster method.

    Args:
        literals: at least one literal.
        patience: number of bytes to scan before fragments are selected.
    """

    def __init__(self, literals: Sequence[bytes], *, patience: int = PATIENCE_BYTES) -> None:
        self._literals = tuple(literals)
        self._exact = AutomatonMatcher(literals)
        self._reach = max(map(len, literals))
        self._groups: list[AutomatonMatcher] = []
        self._patience: float = patience if min(map(len, literals)) >= FRAGMENT else math.inf
        self._sample: list[bytes] = []
        self._calls = 0
        self._cost = [0.0, 0.0]  # seconds per byte: for the automaton alone, and with fragments

    def find(self, region: Region) -> Sequence[tuple[int, int]]:
        """Implement `Matcher.find`."""
        size = len(region)
        if size <= _WORTHWHILE:
            return self._exact.find(region)
        if not self._groups:
            self._patience -= size
            self._sample.append(bytes(region[-max(1, size // SAMPLE_SHARE) :]))
            if self._patience <= 0:
                self._sample.append(bytes(region[:LEAST_SAMPLE_BYTES]))
                sample = b"".join(self._sample)
                groups = group_fragments(covering_fragments(self._literals, sample), sample)
                self._groups = [AutomatonMatcher(group, leftmost=True) for group in groups]
                self._sample.clear()
            return self._exact.find(region)
        self._calls += 1
        covering = self._cost[1] <= self._cost[0]
        if self._calls % _TRIED_EVERY < 2:
            covering = self._calls % _TRIED_EVERY == 0
        begun = time.thread_time()
        found = self._matches_around(region) if covering else self._exact.find(region)
        spent = (time.thread_time() - begun) / size
        before = self._cost[covering]
        self._cost[covering] = spent if not before else 0.75 * before + 0.25 * spent
        return found

    def _matches_around(self, region: Region) -> Sequence[tuple[int, int]]:
        """Return the matches that lie within the length of a literal around a fragment."""
        places: list[tuple[int, int]] = []
        for group in self._groups:
            places += group.find(region)
        if not places:
            return places
        places.sort()
        found: list[tuple[int, int]] = []
        begin, end = max(0, places[0][0] - self._reach), 0
        for start, stop in places:
            if start - self._reach > end > 0:
                found += self._matches_within(region, begin, end)
                begin = start - self._reach
            end = max(end, stop + self._reach)
        found += self._matches_within(region, begin, end)
        return found

    def _matches_within(self, region: Region, begin: int, end: int) -> list[tuple[int, int]]:
        found = self._exact.find(region[begin:end])
        return [(begin + start, begin + stop) for start, stop in found]


class RegexMatcher:
    """Finds the same matches with the standard library, for hosts without the compiled package."""

    def __init__(self, literals: Sequence[bytes]) -> None:
        # Shortest first: of literals with the same start, the automaton reports the one that ends first.
        self._pattern = re.compile(b"|".join(map(re.escape, sorted(literals, key=len))))

    def find(self, region: Region) -> Sequence[tuple[int, int]]:
        """Implement `Matcher.find`."""
        return [match.span() for match in self._pattern.finditer(region)]


def make_matcher(literals: Sequence[str]) -> Matcher:
    """Return the fastest matcher available on this host. `literals` must not be empty."""
    encoded = sorted({literal.encode() for literal in literals})
    if ahocorasick_rs is None:
        return RegexMatcher(encoded)
    return CoveringMatcher(encoded)


class LiteralFinder:
    """Determines which of several non-empty literals occur in a line of text."""

    def __init__(self, literals: Sequence[str]) -> None:
        self._literals = tuple(literals)
        self._automaton = (
            ahocorasick_rs.AhoCorasick(
                list(literals), implementation=ahocorasick_rs.Implementation.DFA
            )
            if ahocorasick_rs is not None and literals
            else None
        )

    def indices_in(self, text: str) -> list[int]:
        """Return the indices of the literals in `text`, ascending, without duplicates."""
        if self._automaton is None:
            return [number for number, literal in enumerate(self._literals) if literal in text]
        hits = self._automaton.find_matches_as_indexes(text, overlapping=True)
        if len(hits) == 1:
            return [hits[0][0]]
        return sorted({hit[0] for hit in hits})


class PlaceFinder:
    """Finds the positions of several non-empty literals in one pass. No literal may be able to overlap itself."""

    def __init__(self, literals: Sequence[bytes]) -> None:
        self._literals = tuple(literals)
        self._automaton = (
            ahocorasick_rs.BytesAhoCorasick(
                list(literals), implementation=ahocorasick_rs.Implementation.DFA
            )
            if ahocorasick_rs is not None and literals
            else None
        )

    def places(self, data: bytes) -> dict[int, list[int]]:
        """Return the start positions of each literal, ascending, by the literal's index; absent literals are omitted.

        >>> PlaceFinder([b"ab", b"b", b"c"]).places(b"ab, ab")
        {0: [0, 4], 1: [1, 5]}
        """
        found: dict[int, list[int]] = {}
        if self._automaton is None:
            for number, literal in enumerate(self._literals):
                at = data.find(literal)
                while at >= 0:
                    found.setdefault(number, []).append(at)
                    at = data.find(literal, at + len(literal))
            return found
        for number, begin, _ in self._automaton.find_matches_as_indexes(data, overlapping=True):
            found.setdefault(number, []).append(begin)
        return found


class Line(NamedTuple):
    """One line of the stream.

    Attributes:
        offset: offset of the first byte in the decoded stream.
        data: its bytes without `\\n` or `\\r\\n`.
        truncated: whether the line is longer than the limit.
    """

    offset: int
    data: bytes
    truncated: bool


class SignFinder:
    """Remembers only the first and the last positions of a few literals."""

    def __init__(self, literals: Sequence[bytes]) -> None:
        self.first: list[int] = []
        self.last: deque[int] = deque(maxlen=_SIGNS)
        self._matcher: Matcher = (
            RegexMatcher(literals)
            if ahocorasick_rs is None
            else AutomatonMatcher(literals, leftmost=True)
        )

    def search(self, region: Region, offset: int, end: int | None) -> None:
        """Add the positions in a part of the stream.

        Args:
            region: the part.
            offset: offset of the part in the stream.
            end: end of the range, in the stream; places after it are ignored. None for no end.
        """
        latest = self.last[-1] if self.last else self.first[-1] if self.first else -APART
        for start, _ in self._matcher.find(region):
            at = offset + start
            if end is not None and at >= end:
                return
            if at - latest < APART:
                continue
            latest = at
            (self.first if len(self.first) < _SIGNS else self.last).append(at)

    @property
    def places(self) -> list[int]:
        """The positions, ascending."""
        return [*self.first, *self.last]


class LineScanner:
    """Iterates over the candidate lines of a byte range, with access to their neighbors.

    A line belongs to the range that contains its first byte. For the current candidate, `following()` and
    `preceding()` return neighboring lines, even outside the range.

    Args:
        stream: decoded bytes; must be seekable if `start` is not 0.
        matcher: finds the anchors.
        start: first byte of the range.
        end: first byte after the range; -1 for the end of the stream.
        buffer_bytes: size of the window. Results do not depend on it; tests use tiny windows.
        signs: searches the lines of the range as well; None for no second search.
    """

    def __init__(
        self,
        stream: BinaryIO,
        matcher: Matcher,
        start: int = 0,
        end: int = -1,
        *,
        buffer_bytes: int = BUFFER_BYTES,
        signs: SignFinder | None = None,
    ) -> None:
        """Set up the scanner at the start of the range, without reading."""
        self._stream = stream
        self._readinto: Callable[[memoryview], int | None] | None = getattr(
            stream, "readinto", None
        )
        self._matcher = matcher
        self.signs = signs
        self._start = start
        self._end = end if end >= 0 else None
        self._chunk = buffer_bytes
        self._buffer = bytearray(buffer_bytes)
        self._base = max(0, start - LOOKBACK_BYTES - 1)  # stream offset of the window's first byte
        self._fill = 0  # valid bytes in the window
        self._eof = False
        self._line_start = 0  # window position of the current candidate
        # Window position of the end of its content: its line end if not truncated.
        self._line_end = 0
        self.first_bytes = b""  # bytes from both ends of the range, for its first and last time
        self.last_bytes = b""
        self.error: str | None = None  # one clause that explains why reading ended early
        self.truncated_lines = 0  # candidates truncated at LINE_BYTES

    @property
    def at(self) -> int:
        """Offset of the current line in the decoded stream."""
        return self._base + self._line_start

    # -- the window -------------------------------------------------------------------------

    def _read_more(self) -> bool:
        """Append bytes to the window, enlarging it if it is full; return False at the end of the stream."""
        if self._eof:
            return False
        if self._fill == len(self._buffer):
            self._buffer.extend(bytes(max(self._chunk, len(self._buffer))))
        try:
            if self._readinto is not None:
                with memoryview(self._buffer) as view, view[self._fill :] as free:
                    count = self._readinto(free) or 0
            else:
                data = self._stream.read(len(self._buffer) - self._fill)
                count = len(data)
                self._buffer[self._fill : self._fill + count] = data
        # A codec can raise anything for a damaged file; the data read so far is valid.
        except Exception as error:  # noqa: BLE001
            self.error = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
            count = 0
        if count == 0:
            self._eof = True
            return False
        self._fill += count
        return True

    def _drop_before(self, position: int) -> int:
        """Discard the window before `position`, except for the lookback; return the new position."""
        cut = position - LOOKBACK_BYTES - 1
        if cut <= 0:
            return position
        rest = self._fill - cut
        if len(self._buffer) > 4 * self._chunk and rest <= self._chunk:
            # Free the memory of a huge record before the split ends.
            smaller = bytearray(2 * self._chunk)
            smaller[:rest] = self._buffer[cut : self._fill]
            self._buffer = smaller
        else:
            self._buffer[:rest] = self._buffer[cut : self._fill]
        self._base += cut
        self._fill = rest
        return position - cut

    def _first_line(self) -> int | None:
        """Return the window position of the first line at or after `start`."""
        if self._start == 0:
            return 0
        position = self._start - 1 - self._base
        try:
            self._stream.seek(self._base)
        except (OSError, ValueError) as error:
            self.error = f"cannot seek: {error}"
            return None
        while self._fill <= position:
            if not self._read_more():
                return None
        return self._after_newline(position)

    def _after_newline(self, position: int) -> int | None:
        """Return the window position after the next newline at or after `position`; read more if necessary."""
        while True:
            found = self._buffer.find(b"\n", position, self._fill)
            if found >= 0:
                return found + 1
            if self._end is not None and self._base + self._fill >= self._end:
                return None  # the next line belongs to another range
            position = self._drop_before(self._fill)
            if not self._read_more():
                return None

    # -- candidates -------------------------------------------------------------------------

    def __iter__(self) -> Iterator[Line]:
        """Yield the lines of the range that contain an anchor, in order."""
        scanned = self._first_line()
        while scanned is not None:
            if self._end is not None and self._base + scanned >= self._end:
                return
            stop = self._buffer.rfind(b"\n", scanned, self._fill) + 1
            if stop == 0:
                if self._fill - scanned <= HEAD_BYTES:
                    scanned = self._drop_before(scanned)
                    if self._read_more():
                        continue
                    if self._fill == scanned:
                        return
                    stop = self._fill  # the last line has no newline
                else:
                    line = self._long_line(scanned)
                    if line is not None:
                        yield line
                    scanned = self._after_newline(self._line_end)
                    continue
            last = stop if self._end is None else min(stop, max(scanned, self._end - self._base))
            if not self.first_bytes:
                self.first_bytes = bytes(self._buffer[scanned : min(last, scanned + EDGE_BYTES)])
            self.last_bytes = bytes(self._buffer[max(scanned, last - EDGE_BYTES) : last])
            yield from self._lines_of(scanned, stop)
            if self._eof and self._fill == stop:
                return
            scanned = self._drop_before(stop)

    def _lines_of(self, scanned: int, stop: int) -> Iterator[Line]:
        """Yield the candidates among the complete lines at window positions [scanned, stop)."""
        with memoryview(self._buffer) as view, view[scanned:stop] as region:
            hits = self._matcher.find(region)
            if self.signs is not None:
                self.signs.search(region, self._base + scanned, self._end)
        line_end = scanned - 1
        for hit_start, hit_end in hits:
            if scanned + hit_start < line_end:
                continue  # the line of the previous hit
            # Read the attribute every time, because the window can grow while the caller reads ahead.
            buffer = self._buffer
            line_start = max(buffer.rfind(b"\n", line_end + 1, scanned + hit_start), line_end) + 1
            line_end = buffer.find(b"\n", scanned + hit_end, stop)
            if line_end < 0:
                line_end = stop
            offset = self._base + line_start
            if self._end is not None and offset >= self._end:
                return
            if scanned + hit_end - line_start > HEAD_BYTES:
                continue
            self._line_start = line_start
            if line_end - line_start > LINE_BYTES:
                self._line_end = line_start + LINE_BYTES
                self.truncated_lines += 1
                yield Line(offset, bytes(buffer[line_start : self._line_end]), True)
                continue
            self._line_end = line_end
            yield Line(offset, self._content(line_start, line_end), False)

    def _long_line(self, start: int) -> Line | None:
        """Return the line at window position `start`, which is longer than `HEAD_BYTES`, if it is a candidate."""
        self._line_start = start
        self._line_end = start + HEAD_BYTES
        with memoryview(self._buffer) as view, view[start : start + HEAD_BYTES] as region:
            hits = self._matcher.find(region)
        offset = self._base + start
        if not hits:
            return None
        position, limit = start + HEAD_BYTES, start + LINE_BYTES
        while True:
            found = self._buffer.find(b"\n", position, min(self._fill, limit + 1))
            if found >= 0:
                self._line_end = found
                return Line(offset, self._content(start, found), False)
            if self._fill > limit:
                self._line_end = limit
                self.truncated_lines += 1
                return Line(offset, bytes(self._buffer[start:limit]), True)
            position = self._fill
            if not self._read_more():
                self._line_end = self._fill
                return Line(offset, self._content(start, self._fill), False)

    def _content(self, start: int, end: int) -> bytes:
        """Return the bytes of a line whose newline is at `end`, without the `\\r` of a CRLF."""
        if end > start and self._buffer[end - 1] == 13:
            end -= 1
        return bytes(self._buffer[start:end])

    # -- neighbors of the current candidate --------------------------------------------------

    def following(self) -> Iterator[Line]:
        """Yield the lines after the current candidate until the end of the stream or a truncated line."""
        if not self._has_line_end():
            return
        position = self._line_end + 1
        while True:
            scanned = position
            while (end := self._buffer.find(b"\n", scanned, self._fill)) < 0:
                scanned = self._fill
                if self._fill - position > FOLLOWING_LINE_BYTES or not self._read_more():
                    break
            last = end < 0
            if last:
                end = self._fill
                if end == position:
                    return
            offset = self._base + position
            if end - position > FOLLOWING_LINE_BYTES:
                yield Line(offset, self._content(position, position + FOLLOWING_LINE_BYTES), True)
                return
            yield Line(offset, self._content(position, end), False)
            if last:
                return
            position = end + 1

    def _has_line_end(self) -> bool:
        """Return whether the current line ends with a newline. It does not if it is truncated or the stream ends."""
        if self._line_end == self._fill and not self._read_more():
            return False
        return self._buffer[self._line_end] == 10

    def preceding(self) -> Line | None:
        """Return the line before the current candidate, or None if there is none or it is very long."""
        end = self._line_start - 1
        if end < 0:
            return None
        begin = self._buffer.rfind(b"\n", max(0, end - LOOKBACK_BYTES), end) + 1
        if begin == 0 and (self._base > 0 or end > LOOKBACK_BYTES):
            return None
        if end - begin >= LOOKBACK_BYTES:
            return None
        return Line(self._base + begin, self._content(begin, end), False)

    def above(self) -> Iterator[Line]:
        """Yield the lines above the current candidate, nearest first, within the guaranteed lookback."""
        least = max(0, self._line_start - LOOKBACK_BYTES)
        end = self._line_start - 1
        while end > least:
            begin = self._buffer.rfind(b"\n", least, end) + 1
            if begin == 0 and (self._base > 0 or least > 0):
                return
            yield Line(self._base + begin, self._content(begin, end), False)
            end = begin - 1

    def block(self, terminator: bytes, limit: int, *, before: bytes | None = None) -> bytes:
        """Return the bytes after the current line, up to the end of the line that contains `terminator`.

        If there is none, the block ends after `limit` bytes or at the end of the stream. It also ends before a line
        that contains `before`, which starts the next block.
        """
        if not self._has_line_end():
            return b""
        start = self._line_end + 1
        position = start
        longest = max(len(terminator), len(before or b""))
        while True:
            reach = min(self._fill, start + limit)
            found = self._buffer.find(terminator, position, reach)
            other = (
                self._buffer.find(before, position, reach if found < 0 else found) if before else -1
            )
            if other >= 0:
                begin = self._buffer.rfind(b"\n", start, other) + 1
                return bytes(self._buffer[start : max(start, begin)])
            if found >= 0:
                end = self._buffer.find(b"\n", found, reach)
                if end >= 0:
                    return bytes(self._buffer[start : end + 1])
            if self._fill >= start + limit:
                return bytes(self._buffer[start : start + limit])
            position = found if found >= 0 else max(start, self._fill - longest)
            if not self._read_more():
                return bytes(self._buffer[start : self._fill])

    @property
    def bytes_read(self) -> int:
        """Number of bytes of the range read so far, without bytes after its end."""
        reached = self._base + self._fill
        if self._end is not None:
            reached = min(reached, self._end)
        return max(0, reached - self._start)
