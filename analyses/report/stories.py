"""Links findings into stories: a root finding and its consequences. Start with `link_findings`.

A finding is a consequence of another one if a row of `relations.RELATIONS` relates them, they share the subject that
the row requires, and their times overlap. A finding without an explanation starts its own story. No finding is
dropped or explained twice. If two stories could explain the same finding, each lists the other as competing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from flowdiag.analyses.fleets import affected_subjects
from flowdiag.analyses.knowledge.relations import RELATIONS, Relation, SharedProperty
from flowdiag.analyses.model.finding import Finding, Rank, RuleOutcome, Severity, State

Pair = tuple[RuleOutcome, Finding]

_SECOND: Final = 1_000_000  # microseconds
# Fields that identify a subject, apart from its TaskManager or executor.
_NAMES: Final = (
    "task",
    "query",
    "receiver",
    "stream_id",
    "output_operation",
    "partition",
    "option",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Consequence:
    """A finding that follows from another finding.

    Args:
        pair: the finding and its rule.
        of: its direct explanation, which is the root of the story or another consequence.
        relation: the row that links them.
    """

    pair: Pair
    of: Pair
    relation: Relation


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkedFindings:
    """One story: a root finding with all its consequences.

    Args:
        root: the finding without an explanation.
        consequences: in the order of findings, closest to the root first.
        competing: roots of other stories that could also explain some of the consequences.
    """

    root: Pair
    consequences: tuple[Consequence, ...] = ()
    competing: tuple[Pair, ...] = ()

    @property
    def pairs(self) -> tuple[Pair, ...]:
        """The root, then its consequences."""
        return (self.root, *(each.pair for each in self.consequences))

    @property
    def cause(self) -> str | None:
        """The root's cause. If the root has none or only a vague one, the cause of the closest consequence, or None."""
        known = self.root[1].cause
        more = (
            each.pair[1].cause
            for each in self.consequences
            if each.of[1].cause == known and known in each.relation.replaces
        )
        first = next((finding.cause for _, finding in self.pairs if finding.cause), None)
        return next(filter(None, more), first)

    @property
    def culprit(self) -> Pair | None:
        """The root if it names a culprit. Otherwise the closest consequence of the same cause that does, or None."""
        causes = (None, self.cause, self.root[1].cause)
        return next((pair for pair in self.pairs if pair[1].why and pair[1].cause in causes), None)

    @property
    def state(self) -> State:
        """Ongoing while any of its findings is ongoing."""
        ongoing = any(finding.state is State.ONGOING for _, finding in self.pairs)
        return State.ONGOING if ongoing else State.RECOVERED

    @property
    def narrative(self) -> str:
        """The story in one paragraph: the root, followed by the consequences of each relation."""
        parts = [self.root[1].title]
        by_clause: dict[str, list[str]] = {}
        for each in self.consequences:
            by_clause.setdefault(each.relation.clause, []).append(each.pair[1].title)
        parts += [f"{clause}: {'; '.join(titles)}" for clause, titles in by_clause.items()]
        parts = [part.removesuffix(".") for part in parts]
        return ". ".join(part[:1].upper() + part[1:] if n else part for n, part in enumerate(parts))

    @property
    def severity(self) -> Severity:
        """The worst severity of its findings."""
        return max((finding.severity for _, finding in self.pairs), key=lambda each: each.weight)

    @property
    def checkpoints(self) -> int:
        """The number of failed checkpoints, if a finding counts them."""
        return max((x.count or 0 for o, x in self.pairs if o.code in _COUNT_CHECKPOINTS), default=0)

    @property
    def first_us(self) -> int | None:
        """The first time of any of its findings."""
        times = (x.first_us for _, x in self.pairs if x.first_us is not None)
        return min(times, default=None)

    @property
    def last_us(self) -> int | None:
        """The last time of any of its findings."""
        times = (x.last_us for _, x in self.pairs if x.last_us is not None)
        return max(times, default=None)


_COUNT_CHECKPOINTS: Final = frozenset({"CP101", "CP103", "CP201"})
"""Rules whose findings count the checkpoints that did not complete."""


def link_findings(
    pairs: Iterable[Pair],
    order: Callable[[Pair], Any],
    relations: Sequence[Relation] = RELATIONS,
) -> tuple[LinkedFindings, ...]:
    """Link findings into stories.

    Args:
        pairs: all findings that count, with their outcomes.
        order: sort key of findings, closest to the root first, as for the list of culprits.
        relations: the table of relations.

    Returns:
        the stories, worst ongoing one first. Every finding is in exactly one story.
    """
    ranked = sorted(pairs, key=order)
    explained = _explanations(ranked, relations)
    parents = _without_cycles(ranked, explained)
    roots = {n: _root(n, parents) for n in range(len(ranked))}
    members: defaultdict[int, list[int]] = defaultdict(list)
    for number, root in roots.items():
        if number != root:
            members[root].append(number)
    competing = _competing_roots(explained, roots)
    stories = [
        LinkedFindings(
            root=ranked[root],
            consequences=tuple(
                Consequence(
                    pair=ranked[n], of=ranked[parents[n]], relation=explained[n][parents[n]]
                )
                for n in members[root]
            ),
            competing=tuple(ranked[other] for other in sorted(competing[root])),
        )
        for root in sorted(set(roots.values()))
    ]
    return _most_harm_first(sorted(stories, key=lambda story: _place(story, order)), order)


def _most_harm_first(
    stories: Sequence[LinkedFindings], order: Callable[[Pair], Any]
) -> tuple[LinkedFindings, ...]:
    """Sort ongoing stories of the same job and severity by the number of failed checkpoints.

    These stories swap positions only among themselves. Stories without failed checkpoints keep their position.
    """
    groups: defaultdict[Any, list[int]] = defaultdict(list)
    for place, story in enumerate(stories):
        job = story.root[1].job
        if job is not None and story.checkpoints and story.state is State.ONGOING:
            groups[job, story.severity, _place(story, order)[0]].append(place)
    result = [*stories]
    for places in groups.values():
        ranked = sorted((stories[place] for place in places), key=lambda s: -s.checkpoints)
        for place, story in zip(places, ranked, strict=True):
            result[place] = story
    return tuple(result)


def _place(story: LinkedFindings, order: Callable[[Pair], Any]) -> Any:
    """Return the sort key: ongoing before recovered, then severity, then the position of the first finding.

    Stories about a setting or without any time come last unless they are critical.
    """
    no_time = story.last_us is None or story.root[1].subject.kind == "option"
    a_setting = story.first_us is None and no_time and story.severity is not Severity.CRITICAL
    return (
        a_setting,
        story.state is not State.ONGOING,
        -story.severity.weight,
        min(order(pair) for pair in story.pairs),
    )


Explained = Mapping[int, Mapping[int, Relation]]
"""For each finding, the indices of the findings that could explain it, closest to the root first."""


def _explanations(ranked: Sequence[Pair], relations: Sequence[Relation]) -> Explained:
    rows: defaultdict[str, list[Relation]] = defaultdict(list)
    for relation in relations:
        for code in relation.explain:
            rows[code].append(relation)
    near = _by_job(ranked)
    found: dict[int, dict[int, Relation]] = {}
    for number, (outcome, finding) in enumerate(ranked):
        for other in near(finding):
            if other == number:
                continue
            row = next((r for r in rows[outcome.code] if _fits(r, ranked[other], finding)), None)
            if row is not None:
                found.setdefault(number, {})[other] = row
    return found


def _by_job(ranked: Sequence[Pair]) -> Callable[[Finding], Sequence[int]]:
    """Group findings by job, because only findings of the same job or without a job can explain a finding.

    This keeps the search fast for a cluster with hundreds of jobs.
    """
    by_job: defaultdict[Any, list[int]] = defaultdict(list)
    for number, (_, finding) in enumerate(ranked):
        by_job[finding.job].append(number)

    def near(finding: Finding) -> Sequence[int]:
        if finding.job is None:
            return range(len(ranked))
        return sorted([*by_job[finding.job], *by_job[None]])

    return near


def _fits(relation: Relation, by: Pair, finding: Finding) -> bool:
    """Return whether a relation allows one finding to explain the other."""
    outcome, cause = by
    if relation.rules and outcome.code not in relation.rules:
        return False
    if relation.causes and cause.cause not in relation.causes:
        return False
    if cause.cause in relation.without:
        return False
    if relation.symptoms and finding.rank < Rank.SYMPTOM:
        return False
    if relation.only and finding.cause not in (None, *relation.only):
        return False
    if relation.same_cause and finding.cause not in (None, cause.cause):
        return False
    return _shares(relation.shared, cause, finding) and _meets(relation, cause, finding)


def _shares(shared: SharedProperty, cause: Finding, finding: Finding) -> bool:
    if cause.job is not None and finding.job is not None and cause.job != finding.job:
        return False
    if shared is SharedProperty.JOB:
        # Without a job, only the TaskManager, executor or cause can relate them.
        both = cause.job is not None and finding.job is not None
        return both or _same_machine(cause, finding) or _same_cause(cause, finding)
    if shared is SharedProperty.MACHINE:
        return _same_machine(cause, finding)
    names = [
        (getattr(cause.subject, name), getattr(finding.subject, name))
        for name in (*_NAMES, "subtask_index")
    ]
    known = [(one, other) for one, other in names if one is not None or other is not None]
    return all(one == other for one, other in known) if known else _same_machine(cause, finding)


def _same_cause(cause: Finding, finding: Finding) -> bool:
    return cause.cause is not None and cause.cause == finding.cause


def _same_machine(cause: Finding, finding: Finding) -> bool:
    return any(
        one is not None and one in {getattr(other, name) for other in affected_subjects(finding)}
        for name in ("taskmanager", "executor")
        for one in {getattr(subject, name) for subject in affected_subjects(cause)}
    )


def _meets(relation: Relation, cause: Finding, finding: Finding) -> bool:
    """Return whether the cause was seen during the finding or shortly before it. Unknown times count as overlapping."""
    slack = relation.within_s * _SECOND
    begins = cause.first_us is None or finding.last_us is None
    ends = cause.last_us is None or finding.first_us is None
    return (begins or cause.first_us - slack <= finding.last_us) and (  # type: ignore[operator]
        ends or finding.first_us <= cause.last_us + slack  # type: ignore[operator]
    )


def _without_cycles(ranked: Sequence[Pair], explained: Explained) -> dict[int, int]:
    """Choose one explanation per finding, as close to the root as possible, avoiding cycles."""
    parents: dict[int, int] = {}
    for number in range(len(ranked)):
        for other in explained.get(number, {}):
            if _root(other, parents) != number:
                parents[number] = other
                break
    return parents


def _root(number: int, parents: Mapping[int, int]) -> int:
    while number in parents:
        number = parents[number]
    return number


def _competing_roots(explained: Explained, roots: Mapping[int, int]) -> Mapping[int, set[int]]:
    """Return, for each root, the roots of other stories that could explain one of its consequences, or the reverse."""
    found: defaultdict[int, set[int]] = defaultdict(set)
    for number, by in explained.items():
        root = roots[number]
        if root == number:
            continue
        for other in {roots[other] for other in by} - {root}:
            found[root].add(other)
            found[other].add(root)
    return found
