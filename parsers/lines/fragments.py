"""Selects and groups short fragments of many literals for a vectorized search.

The multi-pattern search of the library (Teddy: crate aho-corasick 1.1, `packed/teddy`) distributes patterns
over eight buckets in turn and compares half bytes. A bucket accepts a byte if its low half and its high half
both occur at that position in patterns of the bucket, but not necessarily in the same pattern. Each accepted position
is then compared in full, which takes as long as reading a thousand bytes. So the number of patterns matters little,
but their grouping matters a lot: combining halves of different patterns in a bucket should not match anything in the
text.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_
from typing import Final

FRAGMENT: Final = 4  # bytes that the vectorized search compares at once

_BUCKETS: Final = 8
_SLIM: Final = 32  # maximum patterns for eight buckets; for more, the library uses sixteen buckets at half the speed
_FAT: Final = 64  # maximum patterns for which the library vectorizes the search
_CANDIDATE: Final = 1300  # bytes that are read in the time of one full comparison
_MOST_GROUPS: Final = 8
# Bytes of the sample for up to sixty fragments; smaller for more fragments.
_SAMPLE: Final = 32 * 1024
_LEAST_SAMPLE: Final = 8 * 1024
_FEW: Final = 60


def covering_fragments(literals: Sequence[bytes], sample: bytes) -> list[bytes]:
    """Return a few fragments, rare in the sample, such that every literal contains at least one of them.

    Args:
        literals: strings of at least `FRAGMENT` bytes.
        sample: a sample of the text to search.

    >>> covering_fragments([b"Checkpoint", b"checkpoint 7"], b"a point, a pointer, points")
    [b'ckpo']
    """
    size = FRAGMENT
    seen = Counter(sample[at : at + size] for at in range(len(sample) - size + 1))
    holders: dict[bytes, int] = {}  # fragment -> bit set of the literals that contain it
    for number, literal in enumerate(literals):
        for at in range(len(literal) - size + 1):
            fragment = literal[at : at + size]
            holders[fragment] = holders.get(fragment, 0) | 1 << number
    left = (1 << len(literals)) - 1

    def score(fragment: bytes) -> float:
        return -(holders[fragment] & left).bit_count() / (1 + 3 * seen[fragment])

    heap = [(score(fragment), fragment) for fragment in holders]
    heapq.heapify(heap)
    chosen = []
    while left:
        score_then, fragment = heapq.heappop(heap)
        now = score(fragment)
        if now > score_then:  # the fragments chosen so far already cover some of its literals
            heapq.heappush(heap, (now, fragment))
            continue
        chosen.append(fragment)
        left &= ~holders[fragment]
    return chosen


@dataclass(slots=True)
class _Bucket:
    """Fragments that share a bucket.

    Args:
        fragments: one or more fragments.
        places: bit sets of the sample's positions with a matching half byte. Each position in a fragment has one for
            the low halves and one for the high halves.
        taken: number of positions in the sample that the bucket accepts.
    """

    fragments: list[bytes]
    places: tuple[int, ...]
    taken: int

    @classmethod
    def of(cls, fragments: list[bytes], places: tuple[int, ...]) -> _Bucket:
        return cls(fragments, places, reduce(and_, places).bit_count())

    def joined(self, other: _Bucket) -> _Bucket:
        places = tuple(one | two for one, two in zip(self.places, other.places, strict=True))
        return self.of(self.fragments + other.fragments, places)


def group_fragments(fragments: Sequence[bytes], sample: bytes) -> list[list[bytes]]:
    """Divide fragments into groups, and order each group, so that the search is as cheap as possible.

    The algorithm starts with one bucket per fragment and repeatedly joins the two buckets whose union costs least.
    A fragment can occur twice in a group, so that the fragments after it fall into the intended buckets.

    Args:
        fragments: distinct fragments of `FRAGMENT` bytes.
        sample: pieces from all parts of the text to search, because a single part may be atypical.
    """
    sample = _thin_out(sample, max(_LEAST_SAMPLE, int(_SAMPLE * (_FEW / len(fragments)) ** 2)))
    buckets = dict(enumerate(_single_buckets(fragments, sample)))
    heap = []
    for one, bucket in buckets.items():
        for two in range(one):
            joined = bucket.joined(buckets[two])
            loss = joined.taken - bucket.taken - buckets[two].taken
            heap.append((loss, len(joined.fragments), two, one))
    heapq.heapify(heap)
    best, least = [list(fragments)], float("inf")
    while True:
        if len(buckets) <= _MOST_GROUPS * _BUCKETS:
            groups = _arrange_groups(list(buckets.values()))
            taken = sum(bucket.taken for bucket in buckets.values()) / max(1, len(sample))
            cost = sum(map(_cost, groups)) + taken * _CANDIDATE
            if cost < least:
                best, least = groups, cost
        if len(buckets) <= _BUCKETS:
            return best
        while True:
            _, _, one, two = heapq.heappop(heap)
            if one in buckets and two in buckets:
                break
        joined = buckets.pop(one).joined(buckets.pop(two))
        number = max(two, max(buckets)) + 1
        for other, bucket in buckets.items():
            both = joined.joined(bucket)
            loss = both.taken - joined.taken - bucket.taken
            heapq.heappush(heap, (loss, len(both.fragments), other, number))
        buckets[number] = joined


def _cost(group: Sequence[bytes]) -> float:
    """Return the cost of a search without hits, in units of the cost for a slim group."""
    if len(group) <= _SLIM:
        return 1.0
    return 1.6 if len(group) <= _FAT else 25.0


def _thin_out(sample: bytes, size: int) -> bytes:
    """Reduce a sample to at most `size` bytes, taken evenly from all of its parts."""
    pieces = 64
    step = len(sample) // pieces
    if step * pieces <= size:
        return sample
    return b"".join(sample[at : at + size // pieces] for at in range(0, step * pieces, step))


def _single_buckets(fragments: Sequence[bytes], sample: bytes) -> list[_Bucket]:
    low = [_places(sample, [byte & 15 == half for byte in range(256)]) for half in range(16)]
    high = [_places(sample, [byte >> 4 == half for byte in range(256)]) for half in range(16)]
    return [
        _Bucket.of(
            [fragment],
            tuple(
                places >> at
                for at, byte in enumerate(fragment)
                for places in (low[byte & 15], high[byte >> 4])
            ),
        )
        for fragment in fragments
    ]


def _places(sample: bytes, matches: Sequence[bool]) -> int:
    """Return the bit set of positions with a matching byte; the lowest bit is the first position."""
    digits = sample.translate(bytes(b"01"[is_match] for is_match in matches))
    return int(digits[::-1] or b"0", 2)


def _arrange_groups(buckets: list[_Bucket]) -> list[list[bytes]]:
    """Arrange buckets in groups of eight, each in the order that fills the library's buckets as intended."""
    buckets = sorted(buckets, key=lambda bucket: -len(bucket.fragments))
    groups = []
    for begin in range(0, len(buckets), _BUCKETS):
        of_group = [bucket.fragments for bucket in buckets[begin : begin + _BUCKETS]]
        rounds = len(of_group[0])
        group = []
        for turn in range(rounds):
            for number in range(_BUCKETS):
                has_one = number < len(of_group) and turn < len(of_group[number])
                if has_one:
                    group.append(of_group[number][turn])
                elif turn < rounds - 1:  # repeating a fragment does not change its bucket
                    group.append(of_group[0][0])
        groups.append(group)
    return groups
