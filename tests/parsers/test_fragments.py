"""Tests the choice of fragments, and their distribution over the buckets of the search library."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flowdiag.parsers.catalogue import load_catalogue
from flowdiag.parsers.lines.fragments import FRAGMENT, covering_fragments, group_fragments


def test_every_anchor_is_covered_by_few_fragments() -> None:
    anchors = [anchor.encode() for anchor in load_catalogue("flink").anchors]
    sample = b"".join(b"INFO org.apache.kafka - Checkpoint of offsets %d\n" % n for n in range(900))
    fragments = covering_fragments(anchors, sample)
    assert all(any(fragment in anchor for fragment in fragments) for anchor in anchors)
    assert len(fragments) < len(anchors) / 4
    assert not any(fragment in sample for fragment in fragments[:20])
    assert fragments == covering_fragments(anchors, sample)


def buckets_of(group: Sequence[bytes]) -> list[list[bytes]]:
    """Return the buckets that the library assigns: round robin, except that equal low halves
    share a bucket.
    """
    buckets: list[list[bytes]] = [[] for _ in range(8)]
    by_low: dict[bytes, int] = {}
    for number, pattern in enumerate(group):
        low = bytes(byte & 15 for byte in pattern)
        buckets[by_low.setdefault(low, number % 8)].append(pattern)
    return buckets


def hit_rate(group: Sequence[bytes], sample: bytes) -> int:
    """Return the hit rate of a bucket in the sample."""
    return sum(
        all(
            any(byte & 15 == one[at] & 15 for one in bucket)
            and any(byte >> 4 == one[at] >> 4 for one in bucket)
            for at, byte in enumerate(sample[begin : begin + FRAGMENT])
        )
        for bucket in map(set, buckets_of(group))
        for begin in range(len(sample) - FRAGMENT + 1)
        if bucket
    )


@given(
    fragments=st.lists(
        st.text("abqr \xe9", min_size=4, max_size=4).map(lambda text: text.encode()[:4]),
        min_size=1,
        max_size=60,
        unique=True,
    ),
    sample=st.binary(max_size=50) | st.text("abqr ", max_size=200).map(str.encode),
)
@settings(max_examples=100, deadline=None)
def test_every_fragment_is_in_a_group_and_few_are_in_its_bucket(
    fragments: list[bytes], sample: bytes
) -> None:
    groups = group_fragments(fragments, sample)
    assert sorted({fragment for group in groups for fragment in group}) == sorted(fragments)
    assert groups == group_fragments(fragments, sample)
    for group in groups:
        alike = len(group) - len({bytes(byte & 15 for byte in one) for one in group})
        shared = max(len(set(bucket)) for bucket in buckets_of(group))
        assert shared <= -(-len(group) // 8) + alike


def test_shared_buckets_rarely_match() -> None:
    anchors = [anchor.encode() for anchor in load_catalogue("flink").anchors]
    words = "order customer manager slot request heartbeat resource leader session stream fetch"
    sample = b"".join(
        b"2026-11-18 10:%02d:%02d,%03d INFO  org.apache.kafka.%s [] - %s\n"
        % (n % 60, n * 7 % 60, n * 13 % 1000, word.encode().title(), words[n:].encode())
        for n, word in enumerate(words.split() * 5)
    )
    fragments = covering_fragments(anchors, sample)
    groups = group_fragments(fragments, sample)
    assert len(groups) < -(-len(fragments) // 16)
    in_turn = [fragments[number :: len(groups)] for number in range(len(groups))]
    chosen, naive = (sum(hit_rate(group, sample) for group in some) for some in (groups, in_turn))
    assert 5 * chosen < naive


@pytest.mark.parametrize("count", [1, 7, 8, 9])
def test_few_fragments_are_one_group_or_two(count: int) -> None:
    fragments = [b"abc%d" % number for number in range(count)]
    groups = group_fragments(fragments, b"abc1 and abc2")
    assert len(groups) <= 1 + count // 8
    assert {fragment for group in groups for fragment in group} == set(fragments)
