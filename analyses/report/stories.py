"""Stories as other programs read them: findings by their place in the report."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from flowdiag.analyses.finding import Finding
from flowdiag.analyses.finding import Subject as Inner
from flowdiag.analyses.report.redact import clean
from flowdiag.analyses.report.wire import Consequence, Story, Subject, iso
from flowdiag.analyses.stories import Story as Told

_TOLD: int = 2_000  # characters of a story


def stories_of(
    told: Sequence[Told], findings: Sequence[Finding], subject: Callable[[Inner], Subject]
) -> list[Story]:
    """The stories of a report.

    Args:
        told: by `analyses.stories.tell`.
        findings: of the report, in its order.
        subject: makes the subject that other programs read.
    """
    places: Mapping[int, int] = {id(finding): place for place, finding in enumerate(findings)}
    return [
        Story(
            root=places[id(story.root[1])],
            cause=story.cause,
            subject=subject((story.culprit or story.root)[1].subject),
            severity=story.severity,
            state=story.state,
            confidence=(story.culprit or story.root)[1].confidence,
            first_seen=iso(story.first_us),
            last_seen=iso(story.last_us),
            told=clean(story.told, _TOLD),
            consequences=[
                Consequence(
                    finding=places[id(one.pair[1])],
                    of=places[id(one.of[1])],
                    says=one.relation.says,
                )
                for one in story.consequences
            ],
            competing=[places[id(finding)] for _, finding in story.competing],
        )
        for story in told
    ]
