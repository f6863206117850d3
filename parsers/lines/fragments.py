"""Which short pieces of many literals a vectorised search looks for, and which of them together.

The library's search for several patterns at once (Teddy: crate aho-corasick 1.1, `packed/teddy`) puts
them into eight buckets, by their numbers in turn, and compares the halves of bytes: a bucket takes
every byte whose low half and whose high half occur in the same place of any of its patterns, not
necessarily of the same one. What it takes is then compared in full, which costs as much as reading a
thousand bytes. So it matters little how many patterns there are, and much which of them share a
bucket: those whose halves, mixed, make nothing that occurs in the text.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_
from typing import Final

FRAGMENT: Final = 4  # bytes: what a vectorised search compares at once

_BUCKETS: Final = 8
_SLIM: Final = 32  # patterns; with more there are sixteen buckets, filled half as fast
_FAT: Final = 64  # patterns; more are not searched for that way at all
_CANDIDATE: Final = 1300  # bytes read in the time in which one candidate is compared in full
_MOST_GROUPS: Final = 8
_SAMPLE: Final = 32 * 1024  # bytes, of sixty fragments; of more of them less is looked at
_LEAST_SAMPLE: Final = 8 * 1024
_FEW: Final = 60


def covering_fragments(literals: Sequence[bytes], sample: bytes) -> list[bytes]:
    """Few fragments, rare in a sample, of which every literal holds at least one.

    Args:
        literals: each at least `FRAGMENT` bytes long.
        sample: of the text that will be searched.

    >>> covering_fragments([b"Checkpoint", b"checkpoint 7"], b"a point, a pointer, points")
    [b'ckpo']
    """
    size = FRAGMENT
    seen = Counter(sample[at : at + size] for at in range(len(sample) - size + 1))
    holders: dict[bytes, int] = {}  # fragment -> the literals that hold it, as bits
    for number, literal in enumerate(literals):
        for at in range(len(literal) - size + 1):
            fragment = literal[at : at + size]
            holders[fragment] = holders.get(fragment, 0) | 1 << number
    left = (1 << len(literals)) - 1

    def worth(fragment: bytes) -> float:
        return -(holders[fragment] & left).bit_count() / (1 + 3 * seen[fragment])

    heap = [(worth(fragment), fragment) for fragment in holders]
    heapq.heapify(heap)
    chosen = []
    while left:
        worth_then, fragment = heapq.heappop(heap)
        now = worth(fragment)
        if now > worth_then:  # others cover some of it meanwhile
            heapq.heappush(heap, (now, fragment))
            continue
        chosen.append(fragment)
        left &= ~holders[fragment]
    return chosen


@dataclass(slots=True)
class _Bucket:
    """Fragments that share a bucket.

    Args:
        fragments: at least one.
        places: per place in a fragment, for the low halves of its bytes and for the high ones:
            where in the sample one of them stands, as bits.
        taken: how often the bucket would take something of the sample.
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
    """Fragments in the groups, and each group in the order, in which searching costs least.

    Starts with a bucket for each and joins again and again the two that lose least by it. Fragments
    may stand in a group more than once, so that the ones behind them get the bucket meant for them.

    Args:
        fragments: different ones, `FRAGMENT` bytes long.
        sample: of the text that will be searched, pieces of all of it: a long stretch may be odd.
    """
    sample = _thinned(sample, max(_LEAST_SAMPLE, int(_SAMPLE * (_FEW / len(fragments)) ** 2)))
    buckets = dict(enumerate(_alone(fragments, sample)))
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
            groups = _dealt(list(buckets.values()))
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
    """Of searching for a group through text that has none of it; 1 is what a slim one costs."""
    if len(group) <= _SLIM:
        return 1.0
    return 1.6 if len(group) <= _FAT else 25.0


def _thinned(sample: bytes, size: int) -> bytes:
    """So many bytes, at most, from all over the sample."""
    pieces = 64
    step = len(sample) // pieces
    if step * pieces <= size:
        return sample
    return b"".join(sample[at : at + size // pieces] for at in range(0, step * pieces, step))


def _alone(fragments: Sequence[bytes], sample: bytes) -> list[_Bucket]:
    """A bucket for each fragment."""
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


def _places(sample: bytes, wanted: Sequence[bool]) -> int:
    """Where a sample has one of the wanted bytes; the lowest bit is its first place."""
    digits = sample.translate(bytes(b"01"[is_wanted] for is_wanted in wanted))
    return int(digits[::-1] or b"0", 2)


def _dealt(buckets: list[_Bucket]) -> list[list[bytes]]:
    """Groups of eight buckets, each in an order that fills the buckets as they are."""
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
                elif turn < rounds - 1:  # it goes where the same one is already
                    group.append(of_group[0][0])
        groups.append(group)
    return groups
