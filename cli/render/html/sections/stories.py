"""Stories: each culprit with what proves it, what followed from it, and what to do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from flowdiag.analyses.report.wire import Finding, Story
from flowdiag.cli import words
from flowdiag.cli.render.html.context import Context, Section

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
        name="stories",
        title="What happened",
        count=str(len(context.stories)),
        shown={"stories": told, "more": len(context.stories) - len(told)},
    )


def _told(context: Context, story: Story) -> _Told:
    findings = context.report.findings
    root = findings[story.root]
    followed: dict[str, list[tuple[str, str]]] = {}
    for one in story.consequences[:_CONSEQUENCES]:
        found = findings[one.finding]
        followed.setdefault(one.says, []).append((words.brief(found.title), context.anchor(found)))
    return _Told(
        story=story,
        root=root,
        anchor=context.anchor(root),
        when=words.seen(story, context.clock),
        about=words.who(story.subject, most=200),
        followed=list(followed.items()),
        more=max(0, len(story.consequences) - _CONSEQUENCES),
        competing=[
            (words.brief(findings[n].title), context.anchor(findings[n])) for n in story.competing
        ],
        actions=[words.action(action) for action in root.actions],
    )
