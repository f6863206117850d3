"""Condenses a report into stories: each a paragraph, the record that proves it, and one action.

A report without stories gets one story for each finding. The terminal, the brief and the MCP server use these views.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from flowdiag.analyses.contract.report import Action, Evidence, Finding, Report, Story
from flowdiag.analyses.knowledge.relations import SAME
from flowdiag.cli.text import words

# First words of our own titles; they begin with a lower-case letter in the middle of a sentence.
_LOWERED: Final = re.compile(r"(?:The|Too|No|Nobody|Batches|Back pressure|Network pools)\b")
_TITLE: Final = 400  # characters of the root's title: an error is only useful as a whole
_EXCEPTION: Final = re.compile(r": ((?:[A-Z]\w+(?:Exception|Error)\b|[A-Z]\w+ ).{16})")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoryView:
    """A root finding with its consequences.

    Args:
        head: the story, or the finding in a report without stories: its severity, state, confidence and period.
        root: the finding that no other finding explains.
        consequences: the findings that follow from the root, by clause, without repetitions of the root.
        competing: the numbers, from 1, of other stories that could explain some of these consequences.
        proof: an input record that proves the story, and the number of further records.
        action: the first remedy.
    """

    head: Story | Finding
    root: Finding
    consequences: tuple[tuple[str, tuple[Finding, ...]], ...] = ()
    competing: tuple[int, ...] = ()
    proof: tuple[Evidence, int] | None = None
    action: Action | None = None

    @property
    def cause(self) -> str:
        """The cause, or the name of the root's rule if the cause is unknown."""
        return self.head.cause or self.root.name


def story_views(report: Report) -> list[StoryView]:
    """Return the stories of a report or, without stories, its findings, the most important first."""
    by_code: dict[str, list[Finding]] = {}
    for finding in report.findings:
        by_code.setdefault(finding.code, []).append(finding)
    if not report.summary.stories:
        return [
            StoryView(head=each, root=each, proof=_proof([each]), action=_action([each], by_code))
            for each in report.findings
        ]
    found = {finding.fingerprint: finding for finding in report.findings}
    return [_view(report, story, found, by_code) for story in report.summary.stories]


def unrelated_findings(report: Report) -> list[Finding]:
    """Return the findings outside of all stories; none for a report without stories."""
    stories = report.summary.stories
    members = {fingerprint for story in stories for fingerprint in story.findings}
    return [each for each in report.findings if stories and each.fingerprint not in members]


def _view(
    report: Report,
    story: Story,
    found: Mapping[str, Finding],
    by_code: Mapping[str, Sequence[Finding]],
) -> StoryView:
    stories, first = report.summary.stories, report.summary.first_action
    members = [found[fingerprint] for fingerprint in story.findings]
    consequences: dict[str, list[Finding]] = {}
    for link in story.because:
        if link.relation != SAME:
            consequences.setdefault(link.text, []).append(found[link.fingerprint])
    leads = first is not None and any(first.code == member.code for member in members)
    action = first.action if first is not None and leads and story is stories[0] else None
    return StoryView(
        head=story,
        root=members[0],
        consequences=tuple((clause, tuple(some)) for clause, some in consequences.items()),
        competing=tuple(
            number
            for number, other in enumerate(stories, 1)
            if other.findings[0] in story.competing
        ),
        proof=_proof(members),
        action=action or _action(members, by_code),
    )


def _proof(findings: Sequence[Finding]) -> tuple[Evidence, int] | None:
    """Return the first record of the first finding that has evidence, and the number of further records."""
    for finding in findings:
        if finding.evidence:
            return finding.evidence[0], max(finding.evidence_total, len(finding.evidence)) - 1
    return None


def _action(findings: Sequence[Finding], by_code: Mapping[str, Sequence[Finding]]) -> Action | None:
    """Return the first remedy of these findings or of the findings that they refer to (`see`)."""
    for finding in findings:
        if finding.actions:
            return finding.actions[0]
        for code in finding.see:
            for other in by_code.get(code, ()):
                if other.actions and other.subject.job_id == finding.subject.job_id:
                    return other.actions[0]
    return None


def finding_title(finding: Finding) -> str:
    """Return the title without the cause, which the story's heading shows, and without Java packages."""
    return words.compact(finding.title.removesuffix(f" ({finding.cause})"))


def story_paragraph(view: StoryView, *, most: int | None = None, characters: int = 160) -> str:
    """Describe a story in sentences: its root, its consequences, and the competing stories.

    Args:
        view: the story.
        most: how many consequences to name; None for all.
        characters: the length of each.
    """
    sentences = [_sentence(words.truncate(finding_title(view.root), max(characters, _TITLE)))]
    consequences = [(clause, found) for clause, some in view.consequences for found in some]
    shown = consequences if most is None else consequences[:most]
    by_clause: dict[str, list[str]] = {}
    root_title = finding_title(view.root)
    exceptions = _exceptions(root_title)
    for clause, found in shown:
        title = _consequence(found, characters, exceptions, root_title)
        event = clause.removesuffix(" because of it")
        title = title.removeprefix(f"{event}: ") if title.lower().startswith(event) else title
        by_clause.setdefault(clause, []).append(title)
    for clause, titles in by_clause.items():
        sentences.append(_sentence(f"{clause[:1].upper()}{clause[1:]}: {'; '.join(titles)}"))
    if len(shown) < len(consequences):
        sentences.append(f"And {len(consequences) - len(shown)} more.")
    if view.competing:
        word = "Incident" if len(view.competing) == 1 else "Incidents"
        numbers = " and ".join(map(str, view.competing))
        sentences.append(f"{word} {numbers} may explain part of it.")
    return " ".join(sentences)


def _exceptions(text: str) -> list[str]:
    """Return the beginning of each exception message in a title."""
    return [hit[1] for hit in _EXCEPTION.finditer(text)]


def _consequence(finding: Finding, characters: int, exceptions: list[str], root_title: str) -> str:
    """Return a consequence's title, worded for the middle of a sentence.

    Args:
        finding: the consequence.
        characters: the most characters.
        exceptions: the exception messages that the paragraph contains already: they are not repeated. Those of
            this title are added.
        root_title: the root's title. Parts of its message are not repeated, whole or truncated.
    """
    title = finding_title(finding)
    first, *others = title.split("; ")
    repeated = [text for text in exceptions if text in first]
    if repeated:
        first = first.partition(f": {repeated[0]}")[0]
    kept = [
        part
        for part in others
        if part.rstrip("…") not in root_title and not any(text in part for text in exceptions)
    ]
    clause = words.truncate("; ".join([first, *kept]), characters)
    exceptions += _exceptions(title)
    task = finding.subject.task
    if _LOWERED.match(clause) and not (task and clause.startswith(task)):
        return clause[:1].lower() + clause[1:]
    return clause


def _sentence(text: str) -> str:
    return text if text.endswith((".", "…", "!", "?")) else f"{text}."
