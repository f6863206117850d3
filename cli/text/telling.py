"""A report as somebody tells it: for each sickness one paragraph, one line of proof, one thing to do.

Where a report has stories they are told, else its findings, each on its own. What is told here is shared by
all renderers that tell; this is the one place that knows how a story refers to findings.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from flowdiag.analyses.knowledge.relations import SAME
from flowdiag.analyses.report.wire import Action, Evidence, Finding, Report, Story
from flowdiag.cli.text import words

# How titles of ours begin that speak of no name.
_OURS: Final = re.compile(r"(?:The|Too|No|Nobody|Batches|Back pressure|Network pools)\b")


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """One sickness.

    Args:
        head: the story, or the finding where there are no stories: when, how sure, how bad.
        root: what nothing else explains.
        followed: what followed from it, by how; not what only says the same again.
        competing: numbers, from 1, of other stories that could explain some of it.
        proof: a record of the input that proves it, and how many more there are.
        step: what to do.
    """

    head: Story | Finding
    root: Finding
    followed: tuple[tuple[str, tuple[Finding, ...]], ...] = ()
    competing: tuple[int, ...] = ()
    proof: tuple[Evidence, int] | None = None
    step: Action | None = None

    @property
    def word(self) -> str:
        """The cause, or the problem where nobody knows the cause."""
        return self.head.cause or self.root.name


def told_of(report: Report) -> list[Told]:
    """What a report has to tell, the most important first."""
    by_code = _by_code(report.findings)
    if not report.summary.stories:
        return [
            Told(head=one, root=one, proof=_proof([one]), step=_step([one], by_code))
            for one in report.findings
        ]
    known = {found.fingerprint: found for found in report.findings}
    return [_told(report, story, known, by_code) for story in report.summary.stories]


def beside(report: Report) -> list[Finding]:
    """Findings that belong to no story, of a report that has stories."""
    stories = report.summary.stories
    told = {mark for story in stories for mark in story.findings}
    return [found for found in report.findings if stories and found.fingerprint not in told]


def _told(
    report: Report,
    story: Story,
    known: Mapping[str, Finding],
    by_code: Mapping[str, Sequence[Finding]],
) -> Told:
    stories, first = report.summary.stories, report.summary.first_action
    members = [known[mark] for mark in story.findings]
    followed: dict[str, list[Finding]] = {}
    for one in story.because:
        if one.relation != SAME:  # what says the same again is no news
            followed.setdefault(one.text, []).append(known[one.fingerprint])
    here = first is not None and any(first.code == found.code for found in members)
    mine = first.action if first is not None and here and story is stories[0] else None
    return Told(
        head=story,
        root=members[0],
        followed=tuple((says, tuple(some)) for says, some in followed.items()),
        competing=tuple(
            number
            for number, other in enumerate(stories, 1)
            if other.findings[0] in story.competing
        ),
        proof=_proof(members),
        step=mine or _step(members, by_code),
    )


def _by_code(findings: Sequence[Finding]) -> Mapping[str, Sequence[Finding]]:
    found: dict[str, list[Finding]] = {}
    for finding in findings:
        found.setdefault(finding.code, []).append(finding)
    return found


def _proof(findings: Sequence[Finding]) -> tuple[Evidence, int] | None:
    """The first record of the first that has one: of a metric the sample, of an event its line."""
    for finding in findings:
        if finding.evidence:
            return finding.evidence[0], max(finding.evidence_total, len(finding.evidence)) - 1
    return None


def _step(findings: Sequence[Finding], others: Mapping[str, Sequence[Finding]]) -> Action | None:
    """The first remedy: it may stand at a finding that another one refers to (`see`)."""
    for finding in findings:
        if finding.actions:
            return finding.actions[0]
        for code in finding.see:
            for other in others.get(code, ()):
                if other.actions and other.subject.job_id == finding.subject.job_id:
                    return other.actions[0]
    return None


def title(finding: Finding) -> str:
    """What a finding says, without its cause where that is said beside it, and without packages."""
    return words.brief(finding.title.removesuffix(f" ({finding.cause})"))


def paragraph(told: Told, *, most: int | None = None, characters: int = 160) -> str:
    """A sickness in sentences: what it is, and what followed from it.

    Args:
        told: the sickness.
        most: findings that followed and are named; None: all.
        characters: of each.
    """
    return " ".join(sentences(told, most=most, characters=characters))


def sentences(told: Told, *, most: int | None = None, characters: int = 160) -> Iterator[str]:
    """The sentences of a `paragraph`; arguments as there."""
    yield _ended(words.cut(title(told.root), max(characters, 200)))
    followed = [(says, found) for says, some in told.followed for found in some]
    shown = followed if most is None else followed[:most]
    by_clause: dict[str, list[str]] = {}
    known = _exceptions(title(told.root))
    for says, found in shown:
        by_clause.setdefault(says, []).append(_inside(found, characters, known))
    for says, titles in by_clause.items():
        yield _ended(f"{says[:1].upper()}{says[1:]}: {'; '.join(titles)}")
    if len(shown) < len(followed):
        yield f"And {len(followed) - len(shown)} more."
    if told.competing:
        word = "story" if len(told.competing) == 1 else "stories"
        numbers = " and ".join(map(str, told.competing))
        yield f"Part of it may come from {word} {numbers}."


_EXCEPTION: Final = re.compile(r": ((?:[A-Z]\w+(?:Exception|Error)\b|[A-Z]\w+ ).{16})")


def _exceptions(text: str) -> list[str]:
    """How what an exception says begins, in a title."""
    return [hit[1] for hit in _EXCEPTION.finditer(text)]


def _inside(finding: Finding, characters: int, known: list[str]) -> str:
    """A title within a sentence.

    Args:
        finding: whose title.
        characters: at most.
        known: beginnings of what exceptions say that was said before, and need not be again; its own
            are added.
    """
    whole = title(finding)
    first, *others = whole.split("; ")
    again = [part for part in known if part in first]
    if again:
        first = first.partition(f": {again[0]}")[0]
    kept = [part for part in others if not any(one in part for one in known)]
    said = words.cut("; ".join([first, *kept]), characters)
    known += _exceptions(whole)
    named = finding.subject.task or ""
    if _OURS.match(said) and not said.startswith(named or "\0"):
        return said[:1].lower() + said[1:]
    return said


def _ended(sentence: str) -> str:
    return sentence if sentence.endswith((".", "…", "!", "?")) else f"{sentence}."
