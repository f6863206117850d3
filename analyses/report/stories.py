"""Stories as other programs read them: findings by their fingerprints."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from flowdiag.analyses.model.finding import Finding, RuleOutcome
from flowdiag.analyses.model.finding import Subject as Inner
from flowdiag.analyses.report.redact import clean
from flowdiag.analyses.report.wire import Because, Culprit, Story, Subject, iso
from flowdiag.analyses.stories import Story as Told

_TOLD: int = 2_000  # characters of a story


def stories_of(
    told: Sequence[Told],
    fingerprints: Mapping[int, str],
    subject: Callable[[Inner], Subject],
    culprit: Callable[[RuleOutcome, Finding], Culprit],
) -> list[Story]:
    """The stories of a report.

    Args:
        told: by `analyses.stories.tell`.
        fingerprints: of the findings, by `id`.
        subject, culprit: make what other programs read.
    """

    def mark(pair: tuple[RuleOutcome, Finding]) -> str:
        return fingerprints[id(pair[1])]

    return [
        Story(
            title=clean(story.root[1].title),
            cause=story.cause,
            culprit=culprit(*story.culprit) if story.culprit else None,
            subject=subject((story.culprit or story.root)[1].subject),
            severity=story.severity,
            state=story.state,
            confidence=(story.culprit or story.root)[1].confidence,
            first_seen=iso(story.first_us),
            last_seen=iso(story.last_us),
            narrative=clean(story.told, _TOLD),
            findings=[mark(pair) for pair in story.pairs],
            because=[
                Because(
                    fingerprint=mark(one.pair),
                    relation=one.relation.name,
                    of=mark(one.of),
                    text=one.relation.clause,
                )
                for one in story.consequences
            ],
            competing=[mark(pair) for pair in story.competing],
        )
        for story in told
    ]
