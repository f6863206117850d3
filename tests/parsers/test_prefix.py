"""Tests the samples of `layouts.toml` alone and as nested prefixes."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowdiag.parsers.lines import prefix


def micros(text: str) -> int:
    whole, _, fraction = text.partition(".")
    seconds = datetime.fromisoformat(whole).replace(tzinfo=UTC).timestamp()
    return int(seconds) * 1_000_000 + int(fraction.ljust(6, "0") if fraction else 0)


def cases(*kinds: str) -> list[Any]:
    return [
        pytest.param(entry, sample, id=f"{entry['name']}-{number}")
        for number, (kind, entry, sample) in enumerate(prefix.samples())
        if kind in kinds
    ]


@pytest.mark.parametrize(("entry", "sample"), cases("stamp"))
def test_stamp_samples(entry: dict[str, Any], sample: dict[str, Any]) -> None:
    for before, behind in (("", ""), ("[", "]"), ("", " INFO"), ("", "\t")):
        if "rest" in sample and (before or behind):
            continue
        text = before + sample["text"] + behind
        stamp = prefix.read_stamp(text)
        assert stamp is not None
        assert text[stamp.end :] == sample.get("rest", behind)
        gives = sample["gives"]
        assert stamp.local_us == (micros(gives["local"]) if "local" in gives else None)
        assert stamp.utc_us == (micros(gives["utc"]) if "utc" in gives else None)
        assert stamp.clock == gives.get("clock")


@pytest.mark.parametrize(("entry", "sample"), cases("carrier"))
def test_carrier_samples(entry: dict[str, Any], sample: dict[str, Any]) -> None:
    head = prefix.parse(sample["text"])
    assert head.text[head.inner :] == sample["rest"]
    assert head.carriers[-1].name == entry["name"]
    for name, value in sample.get("gives", {}).items():
        assert getattr(head, name) == value
    assert prefix.strip_like(sample["text"], head) == sample["rest"]


@pytest.mark.parametrize(("entry", "sample"), cases("layout", "suffix"))
def test_layout_samples(entry: dict[str, Any], sample: dict[str, Any]) -> None:
    gives = sample["gives"]
    head = prefix.parse(sample["text"])
    assert head.complete
    assert head.alone == entry.get("alone", False)
    assert head.text[head.begin : head.end].rstrip() == gives["message"]
    assert head.local_us == (micros(gives["local"]) if "local" in gives else None)
    for name in ("clock", "level", "logger", "thread"):
        assert getattr(head, name) == gives.get(name), name


def test_every_entry_has_samples() -> None:
    document = prefix.read_layouts()
    for kind in ("stamp", "carrier", "layout", "suffix"):
        assert all(entry["sample"] for entry in document[kind])
        names = [entry["name"] for entry in document[kind]]
        assert len(names) == len(set(names))


def test_common_layouts_need_no_fast_path(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lines = [sample["text"] for _, _, sample in prefix.samples()]
    lines += [f"{line} - {line}" for line in lines]
    lines += [line.replace("2021-08-18", "2021-13-41") for line in lines]
    quick = [prefix.parse(line) for line in lines]
    monkeypatch.setattr(prefix, "_parse_default_layout", lambda *_: False)
    assert [prefix.parse(line) for line in lines] == quick


# Parts of lines that may begin, continue or break a header, so that most mixtures are almost valid.
PARTS = (
    *("2026-11-18 10:11:12,345 ", "2026-02-29 10:11:12,345 ", "2026-13-01 10:11:12,345 "),
    *("2026-11-18 25:11:12,345 ", "2026-11-18 10:11:12 ", "2025-01-02T03:04:05.678Z ", "4711 "),
    *(
        "INFO  ",
        "WARN ",
        "[main] ",
        "org.apache.flink.Task ",
        "o.a.f.Main$1 ",
        "[] - ",
        "- ",
        "- - ",
    ),
    *("hello ", "[x] ", "\x1b[32m", "\ufeff", "{", '"', "ERROR com.acme.A [] - ", "\r", "é"),
)
pieces = st.lists(st.sampled_from(PARTS), max_size=8).map("".join)
PLAIN = "2026-11-1{} 10:11:1{},345 INFO  org.apache.flink.Task   [] - {}"
plain = st.builds(PLAIN.format, st.sampled_from("789"), st.sampled_from("123"), pieces)


@given(line=pieces | plain)
def test_the_time_of_a_line_is_the_one_that_is_parsed(line: str) -> None:
    found = prefix.time_of_default_layout(line) if line[:1].isdigit() else None
    if found is not None:
        head = prefix.parse(line)
        assert (head.local_us, head.clock) == (found, None)


@given(texts=st.lists(pieces | plain, max_size=12))
def test_a_few_lines_give_the_first_and_last_time(texts: list[str]) -> None:
    def edges(lines: list[bytes]) -> tuple[int, int] | None:
        heads = [prefix.parse(line.decode()) for line in lines]
        times = [head.local_us for head in heads if head.local_us is not None]
        return (min(times), max(times)) if times else None

    lines = [text.encode() for text in texts]
    assert edges(prefix.lines_bounding_time(lines)) == edges(lines)


def test_flinks_default_layout_is_not_matched_line_by_line() -> None:
    lines = [PLAIN.format(day, 1, "Hello").encode() for day in "798"]
    assert prefix.lines_bounding_time(lines) == [lines[0], lines[1]]
    assert (
        prefix.time_of_default_layout(lines[0].decode()) == prefix.parse(lines[0].decode()).local_us
    )
