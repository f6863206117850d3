"""Derives verdicts, causes and culprits from the outcomes of rules, for all jobs, one job or a topic."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, TypeVar

import msgspec

from flowdiag.analyses.contract.redact import clean
from flowdiag.analyses.contract.report import Culprit, Topic, TopicStatus, iso
from flowdiag.analyses.fleets import magnitude
from flowdiag.analyses.model import finding as f
from flowdiag.analyses.model.keys import JobKey
from flowdiag.analyses.report.stories import LinkedFindings, Pair, link_findings
from flowdiag.analyses.topic_names import ENGINES

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """The verdict, cause and culprits of one job or of all jobs."""

    verdict: f.Verdict
    cause: str | None
    culprits: tuple[Culprit, ...]


def judge(outcomes: Iterable[f.RuleOutcome], job: JobKey | None = None) -> Judgement:
    """Judge all jobs or, with `job`, a single job.

    An ongoing critical finding means failing. Any other finding at warning or above means degraded. Otherwise
    an inconclusive core rule makes the verdict inconclusive: not assessed is never healthy.
    """
    outcomes = tuple(outcomes)
    pairs = [p for p in pairs_of(outcomes) if job is None or p[1].job is None or p[1].job == job]
    unsure = any(
        outcome.core and (job is None or item.job is None or item.job == job)
        for outcome in outcomes
        for item in outcome.inconclusive
    )
    return _judgement(pairs, unsure)


def judge_each(
    outcomes: Iterable[f.RuleOutcome], jobs: Iterable[JobKey]
) -> dict[JobKey, Judgement]:
    """Judge many jobs in one pass over the findings."""
    outcomes = tuple(outcomes)
    found: defaultdict[JobKey | None, list[tuple[int, Pair]]] = defaultdict(list)
    for number, pair in enumerate(pairs_of(outcomes)):
        found[pair[1].job].append((number, pair))
    unsure = {item.job for o in outcomes if o.core for item in o.inconclusive}
    return {
        job: _judgement(
            [pair for _, pair in sorted([*found[job], *found[None]], key=itemgetter(0))],
            job in unsure or None in unsure,
        )
        for job in jobs
    }


def _judgement(pairs: Iterable[Pair], unsure: bool) -> Judgement:
    stories = stories_of(pairs)
    found = [finding for story in stories for _, finding in story.pairs]
    if any(x.severity is f.Severity.CRITICAL and not _is_over(x) for x in found):
        verdict = f.Verdict.FAILING
    elif found:
        verdict = f.Verdict.DEGRADED
    else:
        verdict = f.Verdict.INCONCLUSIVE if unsure else f.Verdict.HEALTHY
    return Judgement(
        verdict=verdict,
        cause=_cause_of(stories),
        culprits=_culprits_of(stories),
    )


def _cause_of(stories: Sequence[LinkedFindings]) -> str | None:
    """Return the cause of the first story that has one. If the first is ongoing, recovered ones do not count."""
    alike = (story for story in stories if story.state is stories[0].state)
    return next((story.cause for story in alike if story.cause), None)


def final_verdict(verdict: f.Verdict, *, doubted: bool, calculated: bool) -> f.Verdict:
    """Replace healthy with inconclusive if there are doubts, or with calculated if nothing was running."""
    if verdict is not f.Verdict.HEALTHY:
        return verdict
    if doubted:
        return f.Verdict.INCONCLUSIVE
    return f.Verdict.CALCULATED if calculated else verdict


def reasons_for_doubt(outcomes: Sequence[f.RuleOutcome], *, assessed: bool) -> list[str]:
    """Return why rules are inconclusive, core rules first."""
    active = [outcome for outcome in outcomes if outcome.ignored is None]
    core = [item.reason for o in active if o.core for item in o.inconclusive]
    missing = [o.not_assessed_reason for o in outcomes if o.not_assessed_reason]
    ignored = [item.reason for o in outcomes if o.ignored for item in o.inconclusive]
    return [*core, *(() if assessed else missing), *ignored]


def topic_of(
    name: str,
    outcomes: Sequence[f.RuleOutcome],
    *,
    assessed: bool,
    calculated: bool,
    failed: bool = False,
) -> Topic:
    """Return the status and verdict of one topic.

    Args:
        name: the topic.
        outcomes: outcomes of its rules.
        assessed: whether the input held anything that the topic judges.
        calculated: whether all facts are derived from a planned configuration.
        failed: whether a fault prevented any part from being judged.
    """
    reasons = reasons_for_doubt(outcomes, assessed=assessed)
    if failed:
        reasons = [item.reason for o in outcomes for item in o.inconclusive] or reasons
    nothing = not failed and not assessed and not any(outcome.findings for outcome in outcomes)
    verdict = final_verdict(
        judge(outcomes).verdict, doubted=failed or not assessed, calculated=calculated
    )
    unsure = nothing or verdict is f.Verdict.INCONCLUSIVE
    status = TopicStatus.INCONCLUSIVE if unsure else TopicStatus.ASSESSED
    return Topic(
        topic=name,
        status=TopicStatus.NOTHING if nothing else status,
        verdict=f.Verdict.INCONCLUSIVE if nothing else verdict,
        reason=clean(reasons[0]) if unsure and reasons else None,
    )


def topic_without_input(name: str) -> Topic:
    return Topic(
        topic=name,
        status=TopicStatus.NOTHING,
        verdict=f.Verdict.INCONCLUSIVE,
        reason=f"no input is from {ENGINES[name].capitalize()}",
    )


# -- order ------------------------------------------------------------------------------------------


def pairs_of(outcomes: Iterable[f.RuleOutcome]) -> list[Pair]:
    """Return all findings, each with its outcome."""
    return [(outcome, finding) for outcome in outcomes for finding in outcome.findings]


def serious_findings(pairs: Iterable[Pair]) -> list[Pair]:
    """Return the findings above `info`, which count for the verdict."""
    return [(o, x) for o, x in pairs if x.severity is not f.Severity.INFO]


def link_ranked(ranked: Sequence[Pair]) -> tuple[LinkedFindings, ...]:
    """Link findings that are already ranked."""
    places = {id(finding): place for place, (_, finding) in enumerate(ranked)}
    return link_findings(ranked, lambda pair: places[id(pair[1])])


def rank_findings(pairs: Iterable[Pair]) -> list[Pair]:
    """Sort the findings that count, closest to the root first.

    If two findings name different culprits and neither explains the other, the finding that cost more checkpoints
    comes first.
    """
    ranked = latest_first(sorted(serious_findings(pairs), key=_culprit_order), lambda pair: pair)
    harm = {id(each.root[1]): each.checkpoints for each in link_ranked(ranked) if each.root[1].why}
    groups: defaultdict[tuple[Any, ...], list[int]] = defaultdict(list)
    for place, (_, x) in enumerate(ranked):
        if harm.get(id(x)) and x.job is not None and not _is_over(x):
            groups[x.job, x.severity, x.confidence].append(place)
    result = [*ranked]
    for group in groups.values():
        most = sorted((ranked[place] for place in group), key=lambda pair: -harm[id(pair[1])])
        for place, pair in zip(group, most, strict=True):
            result[place] = pair
    return result


def latest_first(items: Sequence[Item], pair_of: Callable[[Item], Pair | None]) -> list[Item]:
    """Move the latest culprit to the front if the culprit moved, and keep the order otherwise.

    A culprit moved if one rule names several subjects of the same kind, in the same job and task and for the same
    cause. Votes of low confidence do not prove a move.

    Args:
        items: findings or linked findings, ranked.
        pair_of: returns the finding that names a culprit in an item, with its outcome, or None.
    """
    moves: defaultdict[tuple[Any, ...], list[tuple[int, f.Finding]]] = defaultdict(list)
    for place, item in enumerate(items):
        outcome, x = pair_of(item) or (None, None)
        if outcome and x and x.why and x.last_us and x.confidence is not f.Confidence.LOW:
            about = x.subject
            key = (outcome.code, x.job, x.cause, about.kind, about.task, about.query)
            moves[key].append((place, x))
    ordered = list(items)
    for moved in moves.values():
        latest = sorted(moved, key=lambda move: (_is_over(move[1]), -(move[1].last_us or 0)))
        for (place, _), (other, _) in zip(moved, latest, strict=True):
            ordered[place] = items[other]
    return ordered


def stories_of(pairs: Iterable[Pair]) -> list[LinkedFindings]:
    """Link the findings that count into stories, the most important first. If a culprit moved, the latest comes first."""
    return latest_first(link_ranked(rank_findings(pairs)), lambda each: each.culprit)


def _culprits_of(stories: Iterable[LinkedFindings]) -> tuple[Culprit, ...]:
    """Return the culprit of each story, each once."""
    culprits: dict[f.Subject, Culprit] = {}
    for story in stories:
        if story.culprit:
            outcome, finding = story.culprit
            culprits.setdefault(finding.subject, culprit_of(outcome, finding))
    return tuple(culprits.values())


def culprit_of(outcome: f.RuleOutcome, finding: f.Finding) -> Culprit:
    return Culprit(
        subject=finding.subject,
        job_id=finding.subject.job_id,
        job_name=finding.subject.job_name,
        code=outcome.code,
        cause=finding.cause,
        why=clean(finding.why or ""),
        confidence=finding.confidence,
        state=finding.state,
        first_seen=iso(finding.first_us),
        last_seen=iso(finding.last_us),
    )


def _is_over(finding: f.Finding) -> bool:
    return finding.state is not f.State.ONGOING


def _culprit_order(pair: Pair) -> tuple[Any, ...]:
    """Return the sort key: ongoing before recovered, root before consequence, then severity and confidence.

    A finding of low confidence never outranks a proven one, however severe it is.
    """
    outcome, x = pair
    return (
        _is_over(x),
        x.rank,
        x.confidence is f.Confidence.LOW,
        -x.severity.weight,
        -x.confidence.weight,
        x.cause is None,
        -x.count,
        *_tie_break(outcome, x),
    )


def report_order(pair: Pair) -> tuple[Any, ...]:
    """Return the sort key of findings in a report: severity, ongoing before recovered, root before consequence."""
    outcome, x = pair
    return (-x.severity.weight, _is_over(x), x.rank, *_tie_break(outcome, x))


def _tie_break(outcome: f.RuleOutcome, finding: f.Finding) -> tuple[Any, ...]:
    return (
        outcome.code,
        finding.job or ("", ""),
        *(-size for size in magnitude(finding)),
        finding.first_us if finding.first_us is not None else -1,
        msgspec.json.encode(finding.subject, enc_hook=str.__str__),
        finding.title,
    )
