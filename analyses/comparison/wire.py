"""The document of a comparison that other programs read: `flowdiag.comparison/1`.

History of the number: 1, the first. Added keys and added words are not breaking; anything else raises it.
Units, instants and subjects are those of reports.
"""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Any, Final, Literal

import msgspec

from flowdiag.analyses.model import finding as f
from flowdiag.analyses.report.redact import pseudonymise, visible_json
from flowdiag.analyses.report.wire import Culprit, Input, Note, Subject, Tool

SCHEMA: Final = "flowdiag.comparison/1"


class Change(StrEnum):
    """What became of a finding."""

    NEW = "new"
    GONE = "gone"
    WORSE = "worse"  # more severe, or it lasts now
    BETTER = "better"
    MOVED = "moved"  # the same sickness at another subtask, machine, stream
    UNCHANGED = "unchanged"
    NOT_COMPARABLE = "not-comparable"  # one side did not assess it


class Trend(StrEnum):
    """What became of a measure, or of a verdict."""

    WORSE = "worse"
    BETTER = "better"
    DIFFERENT = "different"  # neither is worse by itself: a size, a rate, a setting
    SAME = "same"  # no difference that chance does not explain, or none that matters
    UNKNOWN = "unknown"  # too few values, or only one side has any


class Side(msgspec.Struct, frozen=True, kw_only=True):
    """One of the two reports: what it read, and what it came to."""

    source: str
    command: str
    version: str
    jobs: list[str]
    first: str | None
    last: str | None
    verdict: f.Verdict
    assessed: bool
    cause: str | None
    culprits: list[Culprit]
    inputs: list[Input]


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """A finding as one side has it."""

    severity: f.Severity
    state: f.State
    confidence: f.Confidence
    subject: Subject
    cause: str | None
    title: str
    why: str | None
    count: int
    first_seen: str | None
    last_seen: str | None


class FindingChange(msgspec.Struct, frozen=True, kw_only=True):
    """A finding of either side, or of both.

    `moved` also where it became worse or better, too. `reason` says why it cannot be compared, or what makes
    it worse or better; `muted` by the baseline: it makes no regression.
    """

    fingerprint: str
    code: str
    name: str
    change: Change
    moved: bool
    before: Seen | None
    after: Seen | None
    reason: str | None
    muted: bool = False


class Measure(msgspec.Struct, frozen=True, kw_only=True):
    """A quantity on both sides: medians, or shares of the time.

    `p_value` is how often chance alone makes such a difference, null where that was not tested; `p_adjusted` the
    same for all measures together (Holm). `significant`: it is at most 0.01 and the difference matters. `values`
    counts what was measured, `independent` into how many stretches they were cut, before and after. `reason` says
    why nothing can be told.
    """

    name: str
    unit: str
    subject: Subject
    before: float | None
    after: float | None
    ratio: float | None
    p_value: float | None
    p_adjusted: float | None
    significant: bool
    change: Trend
    values: tuple[int, int]
    independent: tuple[int, int] | None
    matters: str
    reason: str | None


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """The document.

    `because` says in a line each what makes it a regression. It is not `conclusive` where a side, or something
    that was found at warning or above, was not assessed: `doubts` says why.
    """

    schema: Literal["flowdiag.comparison/1"]
    tool: Tool
    before: Side
    after: Side
    verdict: Trend
    findings: list[FindingChange]
    measures: list[Measure]
    regression: bool
    because: list[str]
    conclusive: bool
    doubts: list[str]
    warnings: list[Note]


def encode(comparison: Comparison) -> bytes:
    """The document as indented JSON, ending with a line feed."""
    document = msgspec.json.encode(comparison)
    return visible_json(msgspec.json.format(document, indent=2).decode()).encode() + b"\n"


def decode(document: bytes) -> Comparison:
    """Read a document back. Unknown keys are ignored.

    Raises:
        msgspec.MsgspecError: it is no such document.
    """
    return msgspec.json.decode(document, type=Comparison)


def redacted(comparison: Comparison) -> Comparison:
    """The same comparison with hosts, users, jobs, tasks and paths under other names."""
    document = msgspec.to_builtins(comparison, enc_hook=str.__str__)
    return msgspec.convert(pseudonymise(document), type=Comparison)


def json_schema() -> dict[str, Any]:
    """The JSON Schema of the document, generated from the types of this module."""
    schema = msgspec.json.schema(Comparison)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def schema_text() -> str:
    """The same as indented JSON: docs/comparison.schema.json."""
    return json.dumps(json_schema(), indent=2, ensure_ascii=False, sort_keys=True) + "\n"
