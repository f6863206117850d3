"""The fields of a finding about a culprit."""

from __future__ import annotations

from typing import Unpack

from flowdiag.analyses.checkpoints import culprit
from flowdiag.analyses.flink import helpers as h
from flowdiag.analyses.flink.suspects import NamedCulprit, culprit_measurements
from flowdiag.analyses.flink.suspects.remedies import remedies_for
from flowdiag.analyses.model.finding import MAX_CITED


def culprit_fields(
    job: h.Job, found: NamedCulprit, what: str, **overrides: Unpack[h.FindingFields]
) -> h.FindingFields:
    """Return the fields of a finding about a culprit; `what` follows the name in its title."""
    size = found.subject.parallelism
    # Subtasks with the same problem at the same time.
    more = [h.fmt.subtask_of("", one.subtask_index, size).strip() for one in found.others[:3]]
    name = h.fmt.listed([culprit.name_of(found), *more], " and ")
    weights = [vote.weight for vote in found.votes]
    cited = h.cite((ref, None) for ref in found.refs)
    fields: h.FindingFields = {
        "title": f"{name} {what}" + (f" ({found.cause})" if found.cause else ""),
        "why": found.why,
        "cause": found.cause,
        "confidence": found.confidence,
        "rank": h.Rank.MECHANISM,
        "measurements": (
            *culprit_measurements(found),
            h.measurement("points-for", sum(w for w in weights if w > 0), "points"),
            h.measurement("points-against", -sum(w for w in weights if w < 0), "points"),
        ),
        "evidence": cited[:MAX_CITED],
        "evidence_total": len(cited),
        "actions": remedies_for(job, found),
        "votes": found.votes,
    }
    fields.update(overrides)
    return fields
