"""The section about stories: each culprit with its proof, its consequences, and the remedies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from flowdiag.analyses.contract.report import Finding, Story
from flowdiag.cli.render.html.context import Context, Section
from flowdiag.cli.text import words

_SHOWN: Final = 30
_CONSEQUENCES: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class _StoryView:
    """The variables of a story in the template; a link is a title and an HTML id."""

    story: Story
    root: Finding
    anchor: str
    when: str
    about: str
    consequences: list[tuple[str, list[tuple[str, str]]]]
    more: int
    competing: list[tuple[str, str]]
    actions: list[tuple[str, list[str]]]


def section(context: Context) -> Section | None:
    """Return the stories, the most important first, or None for a report without stories."""
    if not context.stories:
        return None
    views = [_view(context, story) for story in context.stories[:_SHOWN]]
    return Section(
        title="What happened",
        count=str(len(context.stories)),
        shown={"stories": views, "more": len(context.stories) - len(views)},
    )


def _view(context: Context, story: Story) -> _StoryView:
    root, anchor = context.findings[story.findings[0]]
    consequences: dict[str, list[tuple[str, str]]] = {}
    for link in story.because[:_CONSEQUENCES]:
        consequences.setdefault(link.text, []).append(_link(context, link.fingerprint))
    return _StoryView(
        story=story,
        root=root,
        anchor=anchor,
        when=words.period(story, context.clock),
        about=words.subject_name(story.subject, most=200),
        consequences=list(consequences.items()),
        more=max(0, len(story.because) - _CONSEQUENCES),
        competing=[_link(context, fingerprint) for fingerprint in story.competing],
        actions=[words.action_lines(action) for action in root.actions],
    )


def _link(context: Context, fingerprint: str) -> tuple[str, str]:
    finding, anchor = context.findings[fingerprint]
    return words.compact(finding.title), anchor
