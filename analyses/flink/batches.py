"""Splits many archives of a History Server into batches, and unites the facts of the batches.

Each archive contains one whole job, so no archive is needed to understand another. With 400 archives, the rows took
twenty times as much memory as the facts. Measuring 64 MiB of archives at a time keeps the rows within bounds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from flowdiag.analyses.engine.reading import ProgressCallback, Resources
from flowdiag.analyses.model.finding import RecognizedRecords
from flowdiag.analyses.topic import Measured

if TYPE_CHECKING:
    from flowdiag.parsers.source import Source

BATCH_BYTES: Final = 64 << 20
_ARCHIVE: Final = "archive"


def batches_of(sources: Sequence[Source], batch_bytes: int = BATCH_BYTES) -> list[Sequence[Source]]:
    """Divide archives into batches of at most `batch_bytes`. If there are other sources, return a single batch."""
    if not all(source.kind == _ARCHIVE or _is_rejected(source) for source in sources):
        return [sources]
    batches: list[list[Source]] = [[]]
    size = 0
    for source in sources:
        size += source.size
        if size > batch_bytes and batches[-1]:
            batches.append([])
            size = source.size
        batches[-1].append(source)
    return [*batches]


def _is_rejected(source: Source) -> bool:
    """Return whether no topic reads a source. Side inputs are `not-read` too, but have no reason."""
    return source.kind == "not-read" and source.reason is not None


def each_batch(
    batches: Sequence[Sequence[Source]], resources: Resources, progress: ProgressCallback
) -> Iterator[tuple[Sequence[Source], Resources, ProgressCallback]]:
    """Yield each batch with its own folder, and a progress callback that counts the batches."""
    if len(batches) == 1:
        yield batches[0], resources, progress
        return
    for number, batch in enumerate(batches, 1):
        folder = resources.folder and resources.folder / f"batch-{number}"

        def show(stage: str, number: int = number) -> None:
            progress(f"{stage} (batch {number} of {len(batches)})")

        yield batch, replace(resources, folder=folder), show


def combine_measures(parts: Sequence[Measured]) -> Measured | None:
    """Combine the facts of several batches. Return None if a job is in two batches, or a topic has no facts."""
    if len(parts) == 1:
        return parts[0]
    if any(part.facts.keys() != parts[0].facts.keys() for part in parts):
        return None
    facts = {name: _combine_facts([part.facts[name] for part in parts]) for name in parts[0].facts}
    if any(_has_job_twice(each.jobs) for each in facts.values()):
        return None

    def joined(name: str) -> list[Any]:
        return [*chain.from_iterable(getattr(part, name) for part in parts)]

    return Measured(
        facts=facts,
        splits=joined("splits"),
        processes=joined("processes"),
        understood=_sum_kinds(joined("understood")),
        notes=joined("notes"),
        faults=joined("faults"),
    )


def _has_job_twice(jobs: Sequence[Any]) -> bool:
    return len({_job(each).key for each in jobs}) < len(jobs)


def _sum_kinds(kinds: Sequence[RecognizedRecords]) -> list[RecognizedRecords]:
    """Add up the records of each kind, in the order of first appearance."""
    by_kind: dict[str, list[RecognizedRecords]] = {}
    for each in kinds:
        by_kind.setdefault(each.kind, []).append(each)
    found = [
        RecognizedRecords(
            kind=kind,
            count=sum(each.count for each in same),
            first_us=min(
                (each.first_us for each in same if each.first_us is not None), default=None
            ),
            last_us=max((each.last_us for each in same if each.last_us is not None), default=None),
            ref=next((each.ref for each in same if each.ref is not None), None),
        )
        for kind, same in by_kind.items()
    ]
    return sorted(found, key=lambda each: (each.first_us or 0, each.kind))


def _combine_facts(parts: Sequence[Any]) -> Any:
    """Combine facts about different jobs, field by field.

    Tuples and mappings are joined, a flag is set if any part sets it, and the largest number counts.
    """
    first = parts[0]
    if is_dataclass(first) and not isinstance(first, type):
        values = {
            each.name: _combine_facts([getattr(part, each.name) for part in parts])
            for each in fields(first)
            if each.init
        }
        if "jobs" in values:
            values["jobs"] = tuple(sorted(values["jobs"], key=_order))
        return replace(first, **values)
    if isinstance(first, tuple):
        return tuple(chain.from_iterable(parts))
    if isinstance(first, Mapping):
        return {key: value for part in parts for key, value in part.items()}
    return max((part for part in parts if part is not None), default=None)


def _job(each: Any) -> Any:
    """Return the `JobFacts` inside a topic's facts about a job."""
    return getattr(each, "job", each)


def _order(each: Any) -> tuple[int, Any]:
    job = _job(each)
    return job.first_us or 0, job.key
