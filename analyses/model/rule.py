"""Rules: each has a page, limits, a voting table, and a function that judges a subject.

A rule is a file in its topic's `rules/` folder. The file name gives the name of the rule. The module's docstring is
its page, with the title in the first line and the headings of `HEADINGS`. A rule judges measured facts in plain
Python, and yields findings or reasons why it could not decide. A rule that yields nothing is clear.

    class Limits(h.Limits):
        finalization: float = h.limit(3000, "ms", "writing one small file takes milliseconds")

    def judge(job: h.Job, limits: Limits) -> h.Iterator[h.Finding]: ...

    RULE = h.Rule("CP307", judge, Limits, causes=("slow-metadata-writes",))
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Final, dataclass_transform

from flowdiag.analyses.model.finding import Finding, Inconclusive, RuleOutcome, Severity
from flowdiag.analyses.model.signals import Signal, signals_of
from flowdiag.parsers.gc_pause import gc_disabled

HEADINGS: Final = (
    "What it reports",  # english: quoted
    "Why it matters",
    "How it decides",
    "What to do",  # english: quoted
    "False alarms",
)

Thresholds = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Threshold:
    """A rule's limit with its reason.

    Args:
        name: in kebab-case; the key in `flowdiag.toml` under `[thresholds.CPnnn]`.
        value: the default.
        unit: as in `Measurement.unit`.
        why: where the value comes from, in one sentence.
    """

    name: str
    value: float
    unit: str
    why: str


def limit(value: float, unit: str, why: str) -> Any:
    """Declare a field of `Limits` that users may change in the settings.

    Args:
        value: the default.
        unit: as in `Measurement.unit`.
        why: where the value comes from, in one sentence.
    """
    return field(default=value, metadata={"unit": unit, "why": why})


@dataclass_transform(frozen_default=True, field_specifiers=(limit,))
class Limits:
    """A rule's limits. Each limit is a field, so that type checkers know its name.

    >>> class Slow(Limits):
    ...     late_ratio: float = limit(2, "ratio", "twice the expected number")
    >>> Slow(late_ratio=3).late_ratio, Slow.published()[0].name
    (3, 'late-ratio')
    """

    def __init_subclass__(cls) -> None:
        dataclass(frozen=True)(cls)

    @classmethod
    def published(cls) -> tuple[Threshold, ...]:
        """Return the limits with units and reasons, named as in settings and docs."""
        if cls is Limits:
            return ()
        return tuple(
            Threshold(
                _kebab_name(f.name), getattr(cls, f.name), f.metadata["unit"], f.metadata["why"]
            )
            for f in fields(cls)  # type: ignore[arg-type]
        )

    @classmethod
    def with_settings(cls, settings: Thresholds) -> Any:
        """Return the limits with the changes from the settings, which use the names of `published`."""
        if cls is Limits:
            return cls()
        known = {_kebab_name(f.name): f.name for f in fields(cls)}  # type: ignore[arg-type]
        return cls(**{known[name]: value for name, value in settings.items()})


def _kebab_name(field_name: str) -> str:
    """Return a field's name in kebab-case. A trailing underscore only avoids a keyword."""
    return field_name.rstrip("_").replace("_", "-")


Results = Iterator[Finding | Inconclusive]
"""The results of a rule: findings, and reasons why there is no finding."""
Judge = Callable[[Any, Any], Results]


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule with everything needed to run and document it.

    Args:
        code: stable, e.g. `CP101`.
        judge: yields findings and doubts about one subject, such as a job, an application or a process.
        limits: its thresholds.
        signals: its voting table with every possible vote. By default, this is the table for its code in `signals.toml`.
            Empty for a rule that only counts.
        severity: the highest severity of its findings.
        core: whether it may make the verdict inconclusive.
        whole: whether it judges all facts at once instead of one subject at a time.
        causes: the keys of `causes.CAUSES` that its findings may have.
        needs: the facts without which it is never clear, as a key of `Topic.required`. None: what the topic requires.
        last_resort: judges what `judge` leaves to other rules, if none of them finds anything. In the same file.
    """

    code: str
    judge: Judge
    limits: type[Limits] = Limits
    signals: tuple[Signal, ...] = ()
    severity: Severity = Severity.WARNING
    core: bool = False
    whole: bool = False
    causes: tuple[str, ...] = ()
    needs: str | None = None
    last_resort: Judge | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "signals", self.signals or signals_of(self.code))

    @property
    def name(self) -> str:
        """The name of the rule's file, in kebab-case."""
        return self.judge.__module__.rpartition(".")[2].replace("_", "-")

    @property
    def page(self) -> str:
        """The rule's documentation, which is the docstring of its module."""
        return inspect.cleandoc(sys.modules[self.judge.__module__].__doc__ or "")

    @property
    def title(self) -> str:
        """The first line of the page, without a full stop."""
        return self.page.partition("\n")[0].removesuffix(".")

    @property
    def thresholds(self) -> tuple[Threshold, ...]:
        """The rule's limits and their reasons."""
        return self.limits.published()


Failed = Callable[[Rule, Any, Exception], Inconclusive]
"""Turns a rule's exception into an inconclusive result for the subject."""


def apply(
    rules: Iterable[Rule],
    facts: Any,
    subjects: Sequence[Any] | None = None,
    settings: Mapping[str, Thresholds] | None = None,
    failed: Failed | None = None,
) -> tuple[RuleOutcome, ...]:
    """Run all rules, in order.

    Args:
        rules: rules of one topic.
        facts: all facts of the topic, for rules that judge them at once.
        subjects: the topic's jobs, applications or processes, in order, for the other rules.
        settings: values by rule code and threshold name.
        failed: turns a rule's exception into an inconclusive result, so that the rule continues with the other subjects.
            If None, exceptions are raised.
    """
    settings = settings or {}
    with gc_disabled():
        return tuple(
            _outcome(
                rule,
                (facts,) if rule.whole else subjects or (),
                settings.get(rule.code, {}),
                failed,
            )
            for rule in rules
        )


def _outcome(
    rule: Rule, subjects: Iterable[Any], settings: Thresholds, failed: Failed | None
) -> RuleOutcome:
    limits = rule.limits.with_settings(settings)
    results: list[Finding | Inconclusive] = []
    for subject in subjects:
        try:
            results.extend(rule.judge(subject, limits))  # keeps the results before a fault
        except Exception as error:
            if failed is None:
                raise
            results.append(failed(rule, subject, error))
    return RuleOutcome(
        code=rule.code,
        name=rule.name,
        title=rule.title,
        core=rule.core,
        findings=tuple(item for item in results if isinstance(item, Finding)),
        inconclusive=tuple(item for item in results if isinstance(item, Inconclusive)),
    )


def not_assessed(rule: Rule, why: str) -> RuleOutcome:
    """Return the outcome of a rule without anything to judge. `why` is one clause."""
    return RuleOutcome(
        code=rule.code, name=rule.name, title=rule.title, core=rule.core, not_assessed_reason=why
    )


def sections(text: str) -> dict[str, str]:
    """Split a rule's page at its headings. The text before the first heading has the key "".

    A heading is a line from `HEADINGS`, with or without a line of dashes below.

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
