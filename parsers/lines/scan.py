"""Find the lines that matter in a stream of bytes, without a Python call per line.

A multi-literal matcher runs over one reused buffer; only lines that contain an *anchor* (a
literal that every message of interest contains) become Python objects. Every decision about a
line depends on that line and on its neighbours only, never on where a buffer or a split happens
to end: any cut of a stream gives the same candidates.

Limits, all of them properties of the line itself:

| limit | value | beyond it |
|---|---|---|
| `HEAD_BYTES` | 128 KiB | an anchor that ends further from its line's start does not count |
| `LINE_BYTES` | 16 MiB | a candidate line is cut there and marked as truncated |
| `LOOKBACK_BYTES` | 4 KiB | a longer preceding line is not shown to `LineScanner.preceding` |
| `FOLLOWING_LINE_BYTES` | 64 KiB | a following line is cut there, and nothing after it is shown |
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Iterator, Sequence
from typing import BinaryIO, Final, NamedTuple, Protocol

from flowdiag.parsers.lines.fragments import FRAGMENT, covering_fragments, group_fragments

try:
    import ahocorasick_rs
except ImportError:  # pragma: no cover - executors without the compiled package
    ahocorasick_rs = None  # type: ignore[assignment]

BUFFER_BYTES: Final = 256 * 1024  # larger ones leave the second-level cache and are slower
HEAD_BYTES: Final = 128 * 1024
LINE_BYTES: Final = 16 * 1024 * 1024
LOOKBACK_BYTES: Final = 4 * 1024
FOLLOWING_LINE_BYTES: Final = 64 * 1024
EDGE_BYTES: Final = 4 * 1024

PATIENCE_BYTES: Final = 32 * 1024 * 1024  # choosing fragments takes as long as reading so much
SAMPLE_SHARE: Final = 256  # of so many bytes that pass meanwhile, one is kept as a sample
LEAST_SAMPLE_BYTES: Final = 16 * 1024
_WORTHWHILE: Final = 4 * 1024  # bytes; smaller regions are not worth more than one call
_TRIED_EVERY: Final = 256  # regions

Region = bytes | bytearray | memoryview


class Matcher(Protocol):
    """Finds every place where any of a set of literals begins."""

    def find(self, region: Region) -> Sequence[tuple[int, int]]:
        """(start, end) of matches inside `region`, in the order of their ends.

        Of literals that overlap each other at least one is reported, so that no line that
        contains a literal is missed.
        """
        ...


class AutomatonMatcher:
    """The compiled matcher: one pass whatever the number of literals."""

    def __init__(self, literals: Sequence[bytes], *, leftmost: bool = False) -> None:
        """Build the automaton of `literals` (not empty).

        Args:
            literals: what to look for.
            leftmost: of literals that overlap report the one that begins first; with that, the
                library searches for a dozen of them many bytes at a time.
        """
        kind = ahocorasick_rs.MatchKind
        # Asked for by name: beyond 100 literals the automatic choice is a contiguous NFA, which
        # needs 3.6 s per GB where the DFA needs 1.5 s.
        self._automaton = ahocorasick_rs.BytesAhoCorasick(
            list(literals),
            implementation=ahocorasick_rs.Implementation.DFA,
            matchkind=kind.LeftmostFirst if leftmost else kind.Standard,
        )

    def find(self, region: Region) -> Sequence[tuple[int, int]]:
        """See `Matcher.find`."""
        return [hit[1:] for hit in self._automaton.find_matches_as_indexes(region)]


class CoveringMatcher:
    """The same answer in a fifth of the time, where few places even look like a literal.

    The automaton of hundreds of literals goes through every byte, since the vectorised search of its
    library takes a few dozen patterns at most. So a few groups of fragments are searched for that way,
    at least one of each literal's, and the automaton looks only around what they find. Which fragments
    are rare, and which do not get in each other's way, depends on the log: they are chosen by a sample
    of it. Where they are not rare enough the automaton alone is faster; both are tried now and then,
    and the faster one goes on.
    """

    def __init__(self, literals: Sequence[bytes], *, patience: int = PATIENCE_BYTES) -> None:
        """Build the automaton of `literals` (not empty); fragments come after `patience` bytes."""
        self._literals = tuple(literals)
        self._exact = AutomatonMatcher(literals)
        self._reach = max(map(len, literals))
        self._groups: list[AutomatonMatcher] = []
        self._patience: float = patience if min(map(len, literals)) >= FRAGMENT else math.inf
        self._sample: list[bytes] = []
        self._calls = 0
        self._cost = [0.0, 0.0]  # seconds per byte: of the automaton alone, of the fragments

    def find(self, region: Region) -> Sequence[tuple[int, int]]:
        """See `Matcher.find`."""
        size = len(region)
        if size <= _WORTHWHILE:
            return self._exact.find(region)
        if not self._groups:
            self._patience -= size
            self._sample.append(bytes(region[-max(1, size // SAMPLE_SHARE) :]))
            if self._patience <= 0:
                self._sample.append(bytes(region[:LEAST_SAMPLE_BYTES]))
                self._choose(b"".join(self._sample))
                self._sample.clear()
            return self._exact.find(region)
        self._calls += 1
        covering = self._cost[1] <= self._cost[0]
        if self._calls % _TRIED_EVERY < 2:
            covering = self._calls % _TRIED_EVERY == 0
        begun = time.thread_time()
        found = self._around(region) if covering else self._exact.find(region)
        spent = (time.thread_time() - begun) / size
        before = self._cost[covering]
        self._cost[covering] = spent if not before else 0.75 * before + 0.25 * spent
        return found

    def _choose(self, sample: bytes) -> None:
        groups = group_fragments(covering_fragments(self._literals, sample), sample)
        self._groups = [AutomatonMatcher(group, leftmost=True) for group in groups]

    def _around(self, region: Region) -> Sequence[tuple[int, int]]:
        """Literals near fragments: one that holds a fragment lies within its own length of it."""
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
                found += self._within(region, begin, end)
                begin = start - self._reach
            end = max(end, stop + self._reach)
        found += self._within(region, begin, end)
        return found

    def _within(self, region: Region, begin: int, end: int) -> list[tuple[int, int]]:
        found = self._exact.find(region[begin:end])
        return [(begin + start, begin + stop) for start, stop in found]


class RegexMatcher:
    """The same answer from the standard library, for machines without the compiled package."""

    def __init__(self, literals: Sequence[bytes]) -> None:
        """Build one alternation of `literals` (not empty)."""
        # Short ones first: of two that begin alike the automaton reports the one that ends first.
        self._pattern = re.compile(b"|".join(map(re.escape, sorted(literals, key=len))))

    def find(self, region: Region) -> Sequence[tuple[int, int]]:
        """See `Matcher.find`."""
        return [match.span() for match in self._pattern.finditer(region)]


def make_matcher(literals: Sequence[str]) -> Matcher:
    """The fastest matcher that this machine has.

    Args:
        literals: at least one literal, none of them empty.
    """
    encoded = sorted({literal.encode() for literal in literals})
    if ahocorasick_rs is None:
        return RegexMatcher(encoded)
    return CoveringMatcher(encoded)


class LiteralFinder:
    """Says which of a list of literals a line of text holds."""

    def __init__(self, literals: Sequence[str]) -> None:
        """Prepare for `literals` (none of them empty); their positions are what is reported."""
        self._literals = tuple(literals)
        self._automaton = (
            ahocorasick_rs.AhoCorasick(
                list(literals), implementation=ahocorasick_rs.Implementation.DFA
            )
            if ahocorasick_rs is not None and literals
            else None
        )

    def which(self, text: str) -> list[int]:
        """Positions in the list of the literals that occur in `text`, each once, ascending."""
        if self._automaton is None:
            return [number for number, one in enumerate(self._literals) if one in text]
        hits = self._automaton.find_matches_as_indexes(text, overlapping=True)
        if len(hits) == 1:
            return [hits[0][0]]
        return sorted({hit[0] for hit in hits})


class PlaceFinder:
    """Says where each of a list of literals stands in a piece of bytes, in one pass."""

    def __init__(self, literals: Sequence[bytes]) -> None:
        """Prepare for `literals`: none of them empty, none that can overlap itself."""
        self._literals = tuple(literals)
        self._automaton = (
            ahocorasick_rs.BytesAhoCorasick(
                list(literals), implementation=ahocorasick_rs.Implementation.DFA
            )
            if ahocorasick_rs is not None and literals
            else None
        )

    def places(self, data: bytes) -> dict[int, list[int]]:
        """Where the literals begin, ascending, by their position in the list; others are absent.

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
    """One line of the stream, without its line end.

    Attributes:
        offset: of its first byte in the decoded stream.
        data: its bytes; no `\\n`, and no `\\r` before it.
        truncated: the line goes on, but the limit was reached.
    """

    offset: int
    data: bytes
    truncated: bool


class LineScanner:
    """Iterates over the candidate lines of one byte range, with access to their neighbours.

    The range owns the lines whose first byte lies in it. While a candidate is being looked at,
    `following()` and `preceding()` show the lines around it, across the end of the range.

    Args:
        stream: decoded bytes; must be seekable if `start` is not 0.
        matcher: finds the anchors.
        start: first byte of the range.
        end: first byte behind the range; -1 for the end of the stream.
        buffer_bytes: size of the window (tests make it tiny; results do not depend on it).
    """

    def __init__(
        self,
        stream: BinaryIO,
        matcher: Matcher,
        start: int = 0,
        end: int = -1,
        *,
        buffer_bytes: int = BUFFER_BYTES,
    ) -> None:
        """Place the scanner in front of the range; nothing is read yet."""
        self._stream = stream
        self._readinto: Callable[[memoryview], int | None] | None = getattr(
            stream, "readinto", None
        )
        self._matcher = matcher
        self._start = start
        self._end = end if end >= 0 else None
        self._chunk = buffer_bytes
        self._buffer = bytearray(buffer_bytes)
        self._base = max(0, start - LOOKBACK_BYTES - 1)  # stream offset of the window's first byte
        self._fill = 0  # valid bytes in the window
        self._eof = False
        self._line_start = 0  # window position of the current candidate
        self._line_end = 0  # window position where its content ends, at its line end if not cut
        self.first_bytes = b""  # a little from both ends of the range, for its times
        self.last_bytes = b""
        self.error: str | None = None  # why reading stopped early, one clause
        self.truncated_lines = 0  # candidates that were cut at LINE_BYTES

    @property
    def at(self) -> int:
        """Where the line that is being looked at begins in the decoded stream."""
        return self._base + self._line_start

    # -- the window -------------------------------------------------------------------------

    def _read_more(self) -> bool:
        """Append bytes to the window, which grows if it is full; False at the end."""
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
        # A codec may raise anything on a damaged file; what was read so far still counts.
        except Exception as error:  # noqa: BLE001
            self.error = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
            count = 0
        if count == 0:
            self._eof = True
            return False
        self._fill += count
        return True

    def _drop_before(self, position: int) -> int:
        """Forget the window up to `position`, save for the lookback; the new position."""
        cut = position - LOOKBACK_BYTES - 1
        if cut <= 0:
            return position
        rest = self._fill - cut
        if len(self._buffer) > 4 * self._chunk and rest <= self._chunk:
            # One huge record must not keep its memory until the end of the split.
            smaller = bytearray(2 * self._chunk)
            smaller[:rest] = self._buffer[cut : self._fill]
            self._buffer = smaller
        else:
            self._buffer[:rest] = self._buffer[cut : self._fill]
        self._base += cut
        self._fill = rest
        return position - cut

    def _first_line(self) -> int | None:
        """Window position of the first line that begins at or behind `start`."""
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
        """Window position behind the next line end at or after `position`, reading on for it."""
        while True:
            found = self._buffer.find(b"\n", position, self._fill)
            if found >= 0:
                return found + 1
            if self._end is not None and self._base + self._fill >= self._end:
                return None  # the next line belongs to somebody else
            position = self._drop_before(self._fill)
            if not self._read_more():
                return None

    # -- candidates -------------------------------------------------------------------------

    def __iter__(self) -> Iterator[Line]:
        """The lines of the range that contain an anchor, in their order."""
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
                    stop = self._fill  # the last line has no line end
                else:
                    line = self._long_line(scanned)
                    if line is not None:
                        yield line
                    scanned = self._after_newline(self._line_end)
                    continue
            self._note_edges(scanned, stop)
            yield from self._lines_of(scanned, stop)
            if self._eof and self._fill == stop:
                return
            scanned = self._drop_before(stop)

    def _note_edges(self, start: int, stop: int) -> None:
        if self._end is not None:
            stop = min(stop, max(start, self._end - self._base))
        if not self.first_bytes:
            self.first_bytes = bytes(self._buffer[start : min(stop, start + EDGE_BYTES)])
        self.last_bytes = bytes(self._buffer[max(start, stop - EDGE_BYTES) : stop])

    def _lines_of(self, scanned: int, stop: int) -> Iterator[Line]:
        """Candidates among the complete lines in window positions [scanned, stop)."""
        with memoryview(self._buffer) as view, view[scanned:stop] as region:
            hits = self._matcher.find(region)
        line_end = scanned - 1
        for hit_start, hit_end in hits:
            if scanned + hit_start < line_end:
                continue  # the line of the previous hit
            # Looked up anew each time: the window may have grown while the caller read ahead.
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
        """The line at window position `start`, known to be longer than `HEAD_BYTES`."""
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
        """The bytes of a line whose line end is at `end`, without the `\\r` of a CRLF."""
        if end > start and self._buffer[end - 1] == 13:
            end -= 1
        return bytes(self._buffer[start:end])

    # -- neighbours of the current candidate --------------------------------------------------

    def following(self) -> Iterator[Line]:
        """The lines behind the current candidate, however far; the caller stops when it likes.

        Behind a truncated line nothing is shown.
        """
        if not self._ended():
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

    def _ended(self) -> bool:
        """Whether the current line has a line end: not if it was cut, not at the very end."""
        if self._line_end == self._fill and not self._read_more():
            return False
        return self._buffer[self._line_end] == 10

    def preceding(self) -> Line | None:
        """The line before the current candidate; None if there is none or it is very long."""
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
        """The lines above the current candidate, nearest first, as far as they are surely at hand."""
        least = max(0, self._line_start - LOOKBACK_BYTES)
        end = self._line_start - 1
        while end > least:
            begin = self._buffer.rfind(b"\n", least, end) + 1
            if begin == 0 and (self._base > 0 or least > 0):
                return
            yield Line(self._base + begin, self._content(begin, end), False)
            end = begin - 1

    def block(self, terminator: bytes, limit: int, *, before: bytes | None = None) -> bytes:
        """The bytes behind the current line, to the end of the line that holds `terminator`.

        To the end of the stream, or `limit` bytes, where no terminator comes before that; and not into a line that
        holds `before`, with which the next block begins.
        """
        if not self._ended():
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
        """Bytes of the range that were read so far, not those behind its end."""
        reached = self._base + self._fill
        if self._end is not None:
            reached = min(reached, self._end)
        return max(0, reached - self._start)
