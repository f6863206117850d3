"""The machine-readable document of a comparison: `flowdiag.comparison/1`.

Version 1 is the first version. Additional keys and values are compatible changes. Any other change increments the
version. Units, times and subjects are as in reports.
"""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Any, Final, Literal

import msgspec

from flowdiag.analyses.contract.redact import visible_json
from flowdiag.analyses.contract.report import Culprit, Input, Note, Subject, Tool
from flowdiag.analyses.model import finding as f
from flowdiag.analyses.report.pseudonyms import pseudonymize

SCHEMA: Final = "flowdiag.comparison/1"


class Change(StrEnum):
    """The change of a finding."""

    NEW = "new"
    GONE = "gone"
    WORSE = "worse"  # more severe, or ongoing now
    BETTER = "better"
    MOVED = "moved"  # the same fault in another subtask, host or stream
    UNCHANGED = "unchanged"
    NOT_COMPARABLE = "not-comparable"  # one side did not assess it


class Trend(StrEnum):
    """The change of a measure or a verdict."""

    WORSE = "worse"
    BETTER = "better"
    DIFFERENT = "different"  # a size, a rate or a setting, without a bad direction
    SAME = "same"  # no significant or no relevant difference
    UNKNOWN = "unknown"  # too few values, or values on one side only


class Side(msgspec.Struct, frozen=True, kw_only=True):
    """One of the two reports: its inputs and its result."""

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
    """A finding on one side."""

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

    `moved` is true if the subject differs, even if `change` is `worse` or `better`. `reason` explains why it is not
    comparable, worse or better. If it is `muted` by the baseline, it causes no regression.
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

    `p_value` is null if there was no test. `p_adjusted` is adjusted for all measures together (Holm). The change is
    `significant` if `p_adjusted` is at most 0.01 and the difference is relevant. `values` counts the measured values
    before and after, and `independent` the stretches that count as independent. `reason` explains an unknown change.
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
    """The root of a comparison.

    `because` lists the reasons for a regression. The comparison is not `conclusive` if a side, or a finding that is a
    warning or worse, was not assessed. `doubts` lists the reasons.
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
    """Return the document as indented JSON with a final newline."""
    document = msgspec.json.encode(comparison)
    return visible_json(msgspec.json.format(document, indent=2).decode()).encode() + b"\n"


def decode(document: bytes) -> Comparison:
    """Read a document back. Unknown keys are ignored.

    Raises:
        msgspec.MsgspecError: the input is not a comparison document.
    """
    return msgspec.json.decode(document, type=Comparison)


def redacted(comparison: Comparison) -> Comparison:
    """Return the comparison with masked hosts, users, jobs, tasks and paths."""
    document = msgspec.to_builtins(comparison, enc_hook=str.__str__)
    return msgspec.convert(pseudonymize(document), type=Comparison)


def json_schema() -> dict[str, Any]:
    """Generate the JSON Schema of the document from the types of this module."""
    schema = msgspec.json.schema(Comparison)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def schema_text() -> str:
    """Return the schema as indented JSON, for docs/comparison.schema.json."""
    return json.dumps(json_schema(), indent=2, ensure_ascii=False, sort_keys=True) + "\n"
