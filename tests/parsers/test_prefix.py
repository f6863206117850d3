"""The samples of `layouts.toml`, and how prefixes compose."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from flowdiag.parsers import prefix


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


def test_the_usual_layouts_are_read_the_same_without_the_short_cut(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lines = [sample["text"] for _, _, sample in prefix.samples()]
    lines += [f"{line} - {line}" for line in lines]
    lines += [line.replace("2021-08-18", "2021-13-41") for line in lines]
    quick = [prefix.parse(line) for line in lines]
    monkeypatch.setattr(prefix, "_usual", lambda *_: False)
    assert [prefix.parse(line) for line in lines] == quick
