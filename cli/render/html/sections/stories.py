"""Stories: each culprit with what proves it, what followed from it, and what to do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from flowdiag.analyses.report.wire import Finding, Story
from flowdiag.cli.render.html.context import Context, Section
from flowdiag.cli.text import words

_SHOWN: Final = 30
_CONSEQUENCES: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class _Told:
    """A story as the template shows it."""

    story: Story
    root: Finding
    anchor: str
    when: str
    about: str
    followed: list[tuple[str, list[tuple[str, str]]]]
    more: int
    competing: list[tuple[str, str]]
    actions: list[tuple[str, list[str]]]


def section(context: Context) -> Section | None:
    """The stories, the one that matters most first; None where there is none."""
    if not context.stories:
        return None
    told = [_told(context, story) for story in context.stories[:_SHOWN]]
    return Section(
        title="What happened",
        count=str(len(context.stories)),
        shown={"stories": told, "more": len(context.stories) - len(told)},
    )


def _told(context: Context, story: Story) -> _Told:
    root, anchor = context.found[story.findings[0]]
    followed: dict[str, list[tuple[str, str]]] = {}
    for one in story.because[:_CONSEQUENCES]:
        followed.setdefault(one.text, []).append(_linked(context, one.fingerprint))
    return _Told(
        story=story,
        root=root,
        anchor=anchor,
        when=words.period(story, context.clock),
        about=words.subject_name(story.subject, most=200),
        followed=list(followed.items()),
        more=max(0, len(story.because) - _CONSEQUENCES),
        competing=[_linked(context, fingerprint) for fingerprint in story.competing],
        actions=[words.action_lines(action) for action in root.actions],
    )


def _linked(context: Context, fingerprint: str) -> tuple[str, str]:
    """What a finding is called, and where it stands."""
    finding, anchor = context.found[fingerprint]
    return words.compact(finding.title), anchor
