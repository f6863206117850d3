"""Compares the scanner with a naive reading of the same bytes, for any split and buffer."""

from __future__ import annotations

import io
import tracemalloc
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flowdiag.parsers.lines import scan
from flowdiag.parsers.lines.scan import (
    LineScanner,
    LiteralFinder,
    PlaceFinder,
    RegexMatcher,
    make_matcher,
)

LITERALS = ("checkpoint", "check", "point a", "switched from", "é")

words = st.sampled_from([*LITERALS, "x", " ", "\t", "\0", "\r", "ckpoint", "é", "y" * 30, "�"])
lines = st.lists(words, max_size=8).map("".join)
streams = st.lists(lines, max_size=12).flatmap(
    lambda found: st.tuples(
        st.sampled_from(["\n", "\r\n"]), st.sampled_from(["", "\n", "\r\n", "\n\n"])
    ).map(lambda ends: (ends[0].join(found) + ends[1]).encode())
)


@pytest.fixture(scope="module", autouse=True)
def tiny_limits() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scan, "HEAD_BYTES", 60)
        patch.setattr(scan, "LINE_BYTES", 90)
        patch.setattr(scan, "LOOKBACK_BYTES", 24)
        patch.setattr(scan, "FOLLOWING_LINE_BYTES", 50)
        yield


def naive(data: bytes) -> list[tuple[int, bytes, bool]]:
    found = []
    offset = 0
    for line in data.split(b"\n"):
        head = line[: scan.HEAD_BYTES]
        if any(literal.encode() in head for literal in LITERALS):
            cut = len(line) > scan.LINE_BYTES
            content = line[: scan.LINE_BYTES] if cut else line.removesuffix(b"\r")
            found.append((offset, content, cut))
        offset += len(line) + 1
    return found


def scanned(data: bytes, edges: list[int], buffer_bytes: int) -> list[tuple[int, bytes, bool]]:
    matcher = make_matcher(LITERALS)
    starts = [0, *edges]
    ends = [*edges, -1]
    return [
        (line.offset, line.data, line.truncated)
        for start, end in zip(starts, ends, strict=True)
        for line in LineScanner(io.BytesIO(data), matcher, start, end, buffer_bytes=buffer_bytes)
    ]


@given(data=streams, cuts=st.lists(st.integers(0, 400), max_size=4), size=st.integers(1, 200))
@settings(max_examples=300, deadline=None)
def test_any_split_and_buffer_give_the_same_lines(data: bytes, cuts: list[int], size: int) -> None:
    edges = sorted(cut for cut in cuts if cut <= len(data))
    assert scanned(data, edges, size) == naive(data)


@given(data=streams, size=st.integers(1, 200), start=st.integers(0, 200))
@settings(max_examples=200, deadline=None)
def test_neighbours_do_not_depend_on_split_and_buffer(data: bytes, size: int, start: int) -> None:
    def neighbours(begin: int, buffer_bytes: int) -> list[object]:
        scanner = LineScanner(
            io.BytesIO(data), make_matcher(LITERALS), begin, buffer_bytes=buffer_bytes
        )
        return [
            (
                line,
                scanner.preceding(),
                list(scanner.following()),
                scanner.block(b"check", 70),
                scanner.block(b"end", 70, before=b"check"),
            )
            for line in scanner
        ]

    whole = neighbours(0, 10_000)
    assert neighbours(0, size) == whole
    begin = min(start, len(data))
    assert neighbours(begin, size) == [one for one in whole if one[0].offset >= begin]  # type: ignore[index]


@given(data=streams, cut=st.integers(0, 300), end=st.integers(0, 300))
@settings(max_examples=100, deadline=None)
def test_following_lines_are_those_of_the_stream(data: bytes, cut: int, end: int) -> None:
    scanner = LineScanner(io.BytesIO(data), make_matcher(LITERALS), 0, min(end, len(data)))
    for line in scanner:
        following = list(scanner.following())
        if line.truncated:
            assert following == []
            continue
        rest = data[line.offset :].split(b"\n")[1:]
        if rest and rest[-1] == b"":
            rest.pop()
        for shown, real in zip(following, rest, strict=False):
            assert shown.data == real[: scan.FOLLOWING_LINE_BYTES].removesuffix(b"\r") or (
                shown.truncated and shown.data == real[: scan.FOLLOWING_LINE_BYTES]
            )
            assert data[shown.offset :].startswith(shown.data)
        assert len(following) == len(rest) or following[-1].truncated


@given(data=streams)
@settings(max_examples=200, deadline=None)
def test_both_matchers_hit_the_same_lines(data: bytes) -> None:
    def hit(matcher: scan.Matcher) -> list[int]:
        return [line.offset for line in LineScanner(io.BytesIO(data), matcher)]

    assert hit(make_matcher(LITERALS)) == hit(RegexMatcher([one.encode() for one in LITERALS]))


@given(data=streams)
@settings(max_examples=200, deadline=None)
def test_fragments_find_the_same_lines(data: bytes) -> None:
    # Long literals with much in common, and some that begin or end alike.
    literals = [b"checkpoint", b"ckpoint a", b"switched from", b"point acheck", b"\tcheckpoint\t"]
    exact = scan.AutomatonMatcher(literals)
    covering = scan.CoveringMatcher(literals, patience=0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scan, "_WORTHWHILE", 0)
        covering.find(data[: len(data) // 2])  # the sample
        for region in (data, memoryview(data), data * 3):
            # The same lines, regardless of the number of reported hits.
            ends = [bytes(region)[:start].count(b"\n") for start, _ in covering.find(region)]
            assert ends == sorted(ends)
            assert sorted({*ends}) == sorted(
                {bytes(region)[:start].count(b"\n") for start, _ in exact.find(region)}
            )


def test_the_faster_search_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    matcher = scan.CoveringMatcher([b"checkpoint", b"switched"], patience=0)
    quiet, busy = b"nothing here to be seen\n" * 4000, b"a checkpoint is switched\n" * 4000
    matcher.find(quiet)
    taken: list[str] = []

    def note(way: str) -> list[tuple[int, int]]:
        taken.append(way)
        return []

    monkeypatch.setattr(matcher, "_matches_around", lambda region: note("around"))
    monkeypatch.setattr(matcher._exact, "find", lambda region: note("exact"))
    clock = iter(range(10_000))
    prices = {"around": 1.0, "exact": 5.0}
    spent = [0.0]

    def thread_time() -> float:
        # Called before and after each search.
        if next(clock) % 2:
            spent[0] += prices[taken[-1]]
        return spent[0]

    monkeypatch.setattr("time.thread_time", thread_time)
    for _ in range(200):
        matcher.find(quiet)
    assert taken[20:] == ["around"] * 180
    prices["around"] = 50.0
    for _ in range(200):
        matcher.find(busy)
    assert taken[-150:].count("around") == 1  # tried again


@given(text=lines)
def test_finder_agrees_with_the_operator(text: str) -> None:
    expected = [number for number, one in enumerate(LITERALS) if one in text]
    assert LiteralFinder(LITERALS).indices_in(text) == expected
    without = LiteralFinder(LITERALS)
    without._automaton = None
    assert without.indices_in(text) == expected


@given(data=st.binary(max_size=40) | lines.map(str.encode))
def test_places_match_those_of_each_literal_alone(data: bytes) -> None:
    words = [b"\0", *(literal.encode() for literal in LITERALS)]
    expected = {
        number: places
        for number, word in enumerate(words)
        if (places := [at for at in range(len(data)) if data.startswith(word, at)])
    }
    finder = PlaceFinder(words)
    assert finder.places(data) == expected
    finder._automaton = None
    assert finder.places(data) == expected


def test_blocks_are_contiguous() -> None:
    data = b"check 1\na\nb\nanother check 2\nend\n"
    scanner = LineScanner(io.BytesIO(data), make_matcher(LITERALS))
    blocks = [scanner.block(b"end", 100, before=b"check") for _ in scanner]
    assert blocks == [b"a\nb\n", b"end\n"]


class Raising(io.BytesIO):
    """A stream that fails after its first bytes, as a damaged archive does."""

    def readinto(self, buffer: Any) -> int:
        if self.tell() >= 20:
            raise EOFError("cut short")
        return super().readinto(memoryview(buffer)[:20])


def test_a_failing_stream_is_read_up_to_the_failure() -> None:
    scanner = LineScanner(Raising(b"check 1\ncheck 2\ncheck 3\ncheck 4\n"), make_matcher(LITERALS))
    assert [line.data for line in scanner] == [b"check 1", b"check 2", b"chec"][:2]
    assert scanner.error == "EOFError: cut short"


class Endless(io.RawIOBase):
    """A stream of one line of `size` bytes, generated on demand."""

    def __init__(self, size: int, head: bytes = b"") -> None:
        self.left = size
        self.head = head

    def readinto(self, buffer: object) -> int:
        view = memoryview(buffer)  # type: ignore[arg-type]
        count = min(len(view), self.left)
        view[:count] = b"x" * count
        view[: len(self.head)] = self.head[:count]
        self.head = b""
        self.left -= count
        return count


@pytest.mark.parametrize("head", [b"", b"check "])
def test_memory_stays_flat_on_one_long_line(head: bytes) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scan, "HEAD_BYTES", 128 * 1024)
        patch.setattr(scan, "LINE_BYTES", 1024 * 1024)
        scanner = LineScanner(Endless(100_000_000, head), make_matcher(LITERALS))  # type: ignore[arg-type]
        tracemalloc.start()
        found = [len(line.data) for line in scanner]
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert found == ([1024 * 1024] if head else [])
    assert scanner.truncated_lines == len(found)
    assert peak < 12_000_000
    assert scanner.bytes_read == 100_000_000
