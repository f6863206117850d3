"""Relates the attempts of one application on YARN. Each attempt has its own driver, batches and executors."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace

from flowdiag.analyses.rate.facts import ApplicationFacts


def attempt_of(application: str) -> tuple[str, int]:
    """Return the ID of the application and the number of the attempt.

    >>> attempt_of("application_1_0007/2"), attempt_of("application_1_0007")
    (('application_1_0007', 2), ('application_1_0007', 1))
    >>> attempt_of("application_1_0007/" + "2" * 5000)
    ('application_1_0007', 1)
    """
    identity, _, attempt = application.partition("/")
    return identity, int(attempt) if re.fullmatch(r"[0-9]{1,9}", attempt) else 1


def last_attempt(applications: Iterable[str]) -> str | None:
    """Return the last attempt, or None if these are different applications.

    >>> last_attempt(["application_1_0007", "application_1_0007/2"])
    'application_1_0007/2'
    """
    ordered = sorted(applications, key=attempt_of)
    return ordered[-1] if len({attempt_of(each)[0] for each in ordered}) == 1 else None


def with_repeated_failures(
    applications: tuple[ApplicationFacts, ...],
) -> tuple[ApplicationFacts, ...]:
    """Move failures of earlier attempts to the last one if it fails the same way: they have one cause."""
    by_identity: dict[str, list[ApplicationFacts]] = defaultdict(list)
    for app in applications:
        if app.application is not None:
            by_identity[attempt_of(app.application)[0]].append(app)
    joined = {
        app.key: app
        for attempts in by_identity.values()
        if len(attempts) > 1
        for app in _joined(attempts)
    }
    return tuple(joined.get(app.key, app) for app in applications)


def _joined(attempts: list[ApplicationFacts]) -> Iterator[ApplicationFacts]:
    *earlier, last = sorted(attempts, key=lambda app: attempt_of(app.application or ""))
    repeated = {record.cause for record in last.failures if record.cause}
    moved = []
    for app in earlier:
        moved += [record for record in app.failures if record.cause in repeated]
        yield replace(app, failures=tuple(r for r in app.failures if r.cause not in repeated))
    yield replace(last, failures=(*moved, *last.failures))
