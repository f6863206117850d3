"""What a rule is.

A rule is one file: its module docstring is its documentation, under the headings of `HEADINGS`;
an object with the attributes of `Rule` stands in `flowdiag.analyses.rules.ALL_RULES`. It judges
facts that were measured before, in plain Python, and says findings or why it cannot tell. Saying
nothing means: clear.

    class ExpiredCheckpoints:
        code = "CP101"
        name = "expired-checkpoints"
        title = "Checkpoints expire before they complete"
        core = True
        thresholds = (Threshold("late-ratio", 2.0, "ratio", "…"),)
        signals = ()

        def judge(self, facts, thresholds):
            for job in facts.jobs: ...
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol, TypeVar

from flowdiag.analyses.engine.collector import paused
from flowdiag.analyses.finding import Finding, Inconclusive, RuleOutcome

HEADINGS: Final = (
    "What it reports",
    "Why it matters",
    "How it decides",
    "What to do",
    "False alarms",
)

Facts = TypeVar("Facts")
Facts_contra = TypeVar("Facts_contra", contravariant=True)
Thresholds = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Threshold:
    """A number that a rule compares with, and what justifies it.

    Args:
        name: kebab-case; the key in `flowdiag.toml`, under `[thresholds.CPnnn]`.
        value: the default.
        unit: as in `Measurement.unit`.
        why: the source or the measurement it comes from, one sentence.
    """

    name: str
    value: float
    unit: str
    why: str


@dataclass(frozen=True, slots=True)
class Signal:
    """One line of a rule's published voting table.

    Args:
        name: as in `Vote.signal`.
        weight: points when it speaks (1 hint, 2 indication, 3 proof); negative when it disagrees.
        why: what it is, when it speaks, when it misleads.
    """

    name: str
    weight: int
    why: str


class Rule(Protocol[Facts_contra]):
    """One rule over the facts of one command."""

    @property
    def code(self) -> str:
        """Stable, e.g. `CP101`."""

    @property
    def name(self) -> str:
        """The problem in kebab-case; reads well after "ignore …"."""

    @property
    def title(self) -> str:
        """One line for tables, without a full stop."""

    @property
    def core(self) -> bool:
        """Whether this rule may make the verdict inconclusive."""

    @property
    def thresholds(self) -> tuple[Threshold, ...]:
        """Its numbers, with their justification."""

    @property
    def signals(self) -> tuple[Signal, ...]:
        """Its voting table; empty for a rule that only counts."""

    def judge(
        self, facts: Facts_contra, thresholds: Thresholds
    ) -> Iterable[Finding | Inconclusive]:
        """Findings, or why it cannot tell; nothing when all is well.

        Args:
            facts: what was measured.
            thresholds: value by name, every name of `self.thresholds`, settings applied.
        """


def apply(
    rules: Iterable[Rule[Facts]],
    facts: Facts,
    overrides: Mapping[str, Thresholds] | None = None,
) -> tuple[RuleOutcome, ...]:
    """Let every rule judge the facts, in order.

    Args:
        rules: usually `ALL_RULES`.
        facts: what was measured.
        overrides: values by rule code and threshold name, from the settings.
    """
    with paused():
        return tuple(_outcome(rule, facts, (overrides or {}).get(rule.code, {})) for rule in rules)


def _outcome(rule: Rule[Facts], facts: Facts, overrides: Thresholds) -> RuleOutcome:
    values = {threshold.name: threshold.value for threshold in rule.thresholds} | dict(overrides)
    said = tuple(rule.judge(facts, values))
    return RuleOutcome(
        code=rule.code,
        name=rule.name,
        title=rule.title,
        core=rule.core,
        findings=tuple(item for item in said if isinstance(item, Finding)),
        inconclusive=tuple(item for item in said if isinstance(item, Inconclusive)),
    )


def page(rule: object) -> str:
    """The documentation of a rule: the docstring of the module that defines it."""
    return inspect.cleandoc(sys.modules[type(rule).__module__].__doc__ or "")


def sections(text: str) -> dict[str, str]:
    """Split a rule's page at its headings; what stands before the first has the key "".

    A heading is a line that is one of `HEADINGS`, with or without a line of dashes below.

    >>> sections("Late.\\n\\nWhat to do\\n----------\\nLook.\\n")
    {'': 'Late.', 'What to do': 'Look.'}
    """
    parts: dict[str, list[str]] = {"": []}
    current = ""
    for line in text.splitlines():
        title = line.strip()
        if title in HEADINGS:
            current = title
            parts[current] = []
        elif title and not title.strip("-"):
            continue
        else:
            parts[current].append(line)
    return {heading: "\n".join(lines).strip() for heading, lines in parts.items()}
