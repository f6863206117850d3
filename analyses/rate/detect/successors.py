"""Later applications of the same name."""

from __future__ import annotations

from flowdiag.analyses.rate import helpers as h


def successor_of(assessed: h.AssessedApplication) -> h.ApplicationFacts | None:
    """Return the next application of the same name."""
    app = assessed.app
    if app.name is None or app.last_us is None:
        return None
    later = (o for o in assessed.others if o.name == app.name and (o.started_us or 0) > app.last_us)
    return min(later, key=lambda other: other.started_us or 0, default=None)
