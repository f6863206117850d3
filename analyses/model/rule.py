"""What a rule is: a page, limits, a voting table, and one function that judges a case.

A rule is one file of its topic's `rules/`: its name is the file's, its title the first line of its
page (the module's docstring, under the headings of `HEADINGS`). It judges facts that were measured
before, in plain Python, and yields findings or why it cannot tell. Saying nothing means: clear.

    class Slow(Limits):
        finalization: float = limit(3000, "ms", "writing one small file takes milliseconds")

    def judge(job: Job, limits: Slow) -> Iterator[Finding]: ...

    RULE = Rule("CP307", judge, Slow, causes=("slow-metadata-writes",))
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Final, dataclass_transform

from flowdiag.analyses.engine.collector import paused
from flowdiag.analyses.model.finding import Finding, Inconclusive, RuleOutcome

HEADINGS: Final = (
    "What it reports",
    "Why it matters",
    "How it decides",
    "What to do",
    "False alarms",
)

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


def limit(value: float, unit: str, why: str) -> Any:
    """A field of `Limits`: a number that a rule compares with; the settings may change it.

    Args:
        value: the default.
        unit: as in `Measurement.unit`.
        why: the source or the measurement it comes from, one sentence.
    """
    return field(default=value, metadata={"unit": unit, "why": why})


@dataclass_transform(frozen_default=True, field_specifiers=(limit,))
class Limits:
    """The limits of a rule: a field each, so that their names are checked like all others.

    >>> class Slow(Limits):
    ...     late_ratio: float = limit(2, "ratio", "twice what its share explains")
    >>> Slow(late_ratio=3).late_ratio, Slow.published()[0].name
    (3, 'late-ratio')
    """

    def __init_subclass__(cls) -> None:
        """Make the subclass a frozen dataclass."""
        dataclass(frozen=True)(cls)

    @classmethod
    def published(cls) -> tuple[Threshold, ...]:
        """The limits as documents and settings name them: kebab-case, with unit and reason."""
        if cls is Limits:
            return ()
        return tuple(
            Threshold(
                _published(f.name), getattr(cls, f.name), f.metadata["unit"], f.metadata["why"]
            )
            for f in fields(cls)  # type: ignore[arg-type]
        )

    @classmethod
    def with_settings(cls, settings: Thresholds) -> Any:
        """The defaults, changed by what the settings say; keys as `published` names them."""
        if cls is Limits:
            return cls()
        known = {_published(f.name): f.name for f in fields(cls)}  # type: ignore[arg-type]
        return cls(**{known[name]: value for name, value in settings.items()})


def _published(field_name: str) -> str:
    """A field's name in kebab-case; the line at the end of `async_` is Python's business."""
    return field_name.rstrip("_").replace("_", "-")


Judge = Callable[[Any, Any], Iterator[Finding | Inconclusive]]


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule.

    Args:
        code: stable, e.g. `CP101`.
        judge: yields what it has to say of one case: a job, an application, a process.
        limits: the numbers that it compares with.
        signals: its voting table: every vote that it can cast; empty for a rule that only counts.
        core: whether it may make the verdict inconclusive.
        whole: whether it judges everything that was measured at once, and not case by case.
        causes: the words of `causes.CAUSES` that it convicts of.
    """

    code: str
    judge: Judge
    limits: type[Limits] = Limits
    signals: tuple[Signal, ...] = ()
    core: bool = False
    whole: bool = False
    causes: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The problem in kebab-case, as the file is named; reads well after "ignore …"."""
        return self.judge.__module__.rpartition(".")[2].replace("_", "-")

    @property
    def page(self) -> str:
        """The documentation: the docstring of the module that judges."""
        return inspect.cleandoc(sys.modules[self.judge.__module__].__doc__ or "")

    @property
    def title(self) -> str:
        """One line for tables, without a full stop: the first of the page."""
        return self.page.partition("\n")[0].removesuffix(".")

    @property
    def thresholds(self) -> tuple[Threshold, ...]:
        """Its numbers, with their justification."""
        return self.limits.published()


Failed = Callable[[Rule, Any, Exception], Inconclusive]
"""What is to be heard of a rule that raised something about a case."""


def apply(
    rules: Iterable[Rule],
    facts: Any,
    cases: Sequence[Any] | None = None,
    settings: Mapping[str, Thresholds] | None = None,
    failed: Failed | None = None,
) -> tuple[RuleOutcome, ...]:
    """Let every rule judge, in order.

    Args:
        rules: of one topic.
        facts: everything that the topic measured: for rules that judge the whole.
        cases: its jobs, applications or processes, in order: for the others.
        settings: values by rule code and threshold name.
        failed: told what a rule raises about a case, and says what is to be heard instead; the rule goes on with
            the other cases. None: it is raised.
    """
    settings = settings or {}
    with paused():
        return tuple(
            _outcome(
                rule, (facts,) if rule.whole else cases or (), settings.get(rule.code, {}), failed
            )
            for rule in rules
        )


def _outcome(
    rule: Rule, cases: Iterable[Any], settings: Thresholds, failed: Failed | None
) -> RuleOutcome:
    limits = rule.limits.with_settings(settings)
    said: list[Finding | Inconclusive] = []
    for case in cases:
        try:
            said.extend(rule.judge(case, limits))  # what it says before a fault stays
        except Exception as error:
            if failed is None:
                raise
            said.append(failed(rule, case, error))
    return RuleOutcome(
        code=rule.code,
        name=rule.name,
        title=rule.title,
        core=rule.core,
        findings=tuple(item for item in said if isinstance(item, Finding)),
        inconclusive=tuple(item for item in said if isinstance(item, Inconclusive)),
    )


def not_assessed(rule: Rule, why: str) -> RuleOutcome:
    """What comes of a rule that had nothing to judge.

    Args:
        rule: that did not judge.
        why: one clause.
    """
    return RuleOutcome(
        code=rule.code, name=rule.name, title=rule.title, core=rule.core, not_assessed_reason=why
    )


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
