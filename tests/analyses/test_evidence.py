"""Line numbers are right for every record, and no failure prevents the report."""

from __future__ import annotations

import io
from typing import Any, BinaryIO

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flowdiag.analyses.model.finding import Evidence
from flowdiag.analyses.model.keys import Process
from flowdiag.analyses.report import evidence
from flowdiag.analyses.report.build import clocks_ahead
from flowdiag.analyses.report.evidence import LocatedRecord, excerpt, locate
from flowdiag.parsers.notes import InputNote, Kind


class Dribble(io.BytesIO):
    """A stream that returns less than requested, like decoders."""

    def readinto(self, buffer: Any, /) -> int:
        return super().readinto(memoryview(buffer)[:7])


@settings(max_examples=60, deadline=None)
@given(st.lists(st.text("ab \t{é", max_size=12), max_size=30), st.booleans())
def test_lines_and_excerpts(texts: list[str], crlf: bool) -> None:
    end = "\r\n" if crlf else "\n"
    lines = [f"{text}{end}".encode() for text in texts]
    offsets = [sum(map(len, lines[:number])) for number in range(len(lines))]
    found, problems = locate(
        [Evidence(0, offset) for offset in reversed(offsets)], lambda _: Dribble(b"".join(lines))
    )
    assert problems == []
    assert [found[0, offset, None].line for offset in offsets] == list(range(1, len(lines) + 1))
    for offset, text in zip(offsets, texts, strict=True):
        if not text.lstrip().startswith("{"):
            assert found[0, offset, None].excerpt.split() == text.split()


def test_across_chunks(monkeypatch: object) -> None:
    line = b"x" * 999 + b"\n"
    stream = line * 3000
    found, _ = locate(
        [Evidence(0, 0), Evidence(0, 1_048_000), Evidence(0, 2_999_000)],
        lambda _: io.BytesIO(stream),
    )
    assert [place.line for place in found.values()] == [1, 1049, 3000]


def test_a_missing_source_is_a_warning_not_an_error() -> None:
    def open_stream(source: int) -> BinaryIO:
        if source == 1:
            raise OSError("gone")
        return io.BytesIO(b"first\nsecond\n")

    found, problems = locate([Evidence(0, 6), Evidence(1, 0)], open_stream)
    assert found == {(0, 6, None): LocatedRecord(2, "second")}
    message = "cannot be read again for line numbers: gone"
    assert problems == [(1, InputNote(Kind.CHANGED, message))]


def test_a_record_beyond_the_end_is_left_out() -> None:
    assert locate([Evidence(0, 100)], lambda _: io.BytesIO(b"short\n")) == ({}, [])


def test_excerpts_are_short_and_clean() -> None:
    text = excerpt(b"\x1b[31mERROR\x1b[0m password=hunter2 \x00" + b"y" * 900)
    assert text.startswith(r"ERROR password=*** \x00yyy")
    assert len(text) == evidence.EXCERPT_CHARACTERS and text.endswith("…")


def test_a_json_line_shows_its_message() -> None:
    line = (
        b'{"@timestamp":"2026-01-31T18:43:04Z","message":"Checkpoint 7 expired","log.level":"INFO"}'
    )
    assert "Checkpoint 7 expired" in excerpt(line)


@pytest.mark.parametrize(
    ("line", "zone_ms", "time_us"),
    [
        (b"2026-01-31 18:43:01,500 INFO  o.a.f.Some [] - it did", 8 * 3_600_000, 1769856181500000),
        (b"2026-01-31T18:43:01.500Z INFO  o.a.f.Some [] - it did", 0, 1769884981500000),
        (b'{"@timestamp":"2026-01-31T18:43:01.500Z","message":"it did"}', None, 1769884981500000),
        (b"2026-01-31 18:43:01,500 INFO  o.a.f.Some [] - it did", None, None),
        (b"18:43:01,500 INFO  o.a.f.Some [] - it did", 0, None),
        (b"it did", 0, None),
    ],
)
def test_the_time_of_a_record(line: bytes, zone_ms: int | None, time_us: int | None) -> None:
    zones = {} if zone_ms is None else {0: zone_ms}
    found, _ = locate([Evidence(0, 0)], lambda _: io.BytesIO(line + b"\n"), zones)
    assert found[0, 0, None].time_us == time_us


def test_a_clock_must_be_the_same_for_a_whole_file() -> None:
    def process(source: int, zone_ms: int | None, drift_ms: int = 0, **more: Any) -> Process:
        return Process(
            source=source,
            label=None,
            role="taskmanager",
            cluster="",
            zone_offset_ms=zone_ms,
            clock_offset_ms=drift_ms,
            **more,
        )

    ahead = clocks_ahead(
        [
            process(0, 0),
            process(0, 3_600_000),
            process(1, 0, 40_000, zone_from="transitions"),
            process(2, 0, 40_000, zone_from="trigger-timestamps"),
            process(3, 0, 3, zone_from="transitions"),
            process(4, None),
            process(5, 0, zone_changes=True),
        ]
    )
    assert ahead == {1: 40_000, 2: 0, 3: 0}
