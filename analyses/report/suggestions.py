"""Suggests what to collect next: the checks that distinguish the remaining explanations, cheapest first.

A check is a file or command in `knowledge/checks.toml`. Each cause lists the checks that confirm it or rule it out. A
check is left out if the inputs already contain its answer, or if the explanation is certain.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from shlex import quote
from typing import Final

from flowdiag.analyses.contract import report as w
from flowdiag.analyses.contract.redact import clean
from flowdiag.analyses.knowledge.causes import CAUSES, CHECKS, AnswerSign, Check
from flowdiag.analyses.knowledge.message_advice import OWN_CODE
from flowdiag.analyses.model import finding as f
from flowdiag.analyses.report.stories import LinkedFindings
from flowdiag.parsers.components import components

_LIMIT: Final = 1000  # characters
_CONTAINER: Final = re.compile(r"container_(?:e\d+_)?(\d+_\d+)_\d\d_\d{6}")
_APPLICATION: Final = re.compile(r"(?<![a-z])application_\d{10,}_\d+")
_POD: Final = re.compile(r"[a-z0-9.-]+-(?:taskmanager-\d+-\d+|exec-\d+|[a-f0-9]{8,10}-[a-z0-9]{5})")
_COLLECTED: Final = {"rest": "flink", "spark-rest": "spark"}  # by kind of input
_URL: Final = re.compile(r"https?://[^!]+")
_TICK: Final = re.compile(r"(?:^|[/!])tick-\d+\.json")


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """The inputs of a report, which show what checks are already answered and how the job is deployed.

    Args:
        inputs: as in the report.
        topics: the assessed topics.
        data: the tables of the report.
    """

    inputs: Sequence[w.Input]
    topics: frozenset[str]
    data: w.Data

    def answer(self, check: Check, taskmanager: str | None) -> bool:
        """Return whether the inputs already answer a check, for a given TaskManager if there is one."""
        return any(
            sign.topic in self.topics
            if sign.topic is not None
            else any(_is_sign(sign, item, taskmanager) for item in self.inputs)
            for sign in check.given
        )

    @property
    def names(self) -> Iterator[str]:
        """The names of inputs, TaskManagers and hosts, which may reveal the deployment."""
        for item in self.inputs:
            yield item.source
            for process in item.processes:
                yield from filter(None, (process.taskmanager, process.host))

    @property
    def address(self) -> str | None:
        """The address of the live server that was read."""
        found = (_URL.match(item.source) for item in self.inputs)
        return next((hit[0].rstrip("/") for hit in found if hit), None)

    @property
    def without_kafka(self) -> bool:
        """Whether all sources are known, and none of them is Kafka."""
        queries = [query for app in self.data.applications or () for query in app.queries]
        names = [query.sources for query in queries]
        return all(names) and bool(names) and not any("kafka" in n.lower() for n in chain(*names))

    def failed_checkpoint(self, job_id: str | None) -> str | None:
        """Return the last checkpoint of a job that did not complete."""
        for job in self.data.jobs or ():
            if job_id in (None, job.job_id):
                failed = [c.id for c in job.checkpoints if c.status not in ("completed", "aborted")]
                if failed:
                    return str(failed[-1])
        return None


def _is_sign(sign: AnswerSign, item: w.Input, taskmanager: str | None) -> bool:
    """Return whether an input matches all fields of a sign."""
    roles = {item.role, *(process.role for process in item.processes)}
    known = {name for process in item.processes for name in (process.taskmanager, process.host)}
    collected = _COLLECTED.get(item.kind) if _TICK.search(item.source) else None
    required = (
        (sign.kind, lambda kind: kind == item.kind),
        (sign.role, lambda role: role in roles),
        (sign.path, lambda path: re.fullmatch(path, item.path or "") is not None),
        (sign.reason, lambda reason: reason in (item.reason or "")),
        (sign.name, lambda name: name in item.source),
        (sign.collected, lambda engine: engine == collected),
        (taskmanager if sign.same else None, lambda name: name in known),
    )
    return all(matches(value) for value, matches in required if value is not None)


_WORDS_OF: Final = {
    "kubernetes": re.compile(
        r"\bThe API gave the following|executor with id \d+ exited|OOMKilled|(?i:\bkubernetes)|\bkubelet\b|\bk8s\b"
    ),
    "yarn": re.compile(
        r"\bYARN\b|NodeManager|Container (?:killed|marked|from a bad node)|appattempt_|container_\d"
    ),
}
"""Words in messages that only one platform prints."""


@dataclass(frozen=True, slots=True)
class _Place:
    """Fills placeholders in checks with names from the finding.

    Args:
        subjects: subjects of the finding, then of its consequences.
        inputs: the inputs of the report.
        texts: titles and explanations of these findings, which may reveal the deployment.
    """

    subjects: Sequence[f.Subject]
    inputs: Inputs
    texts: Sequence[str] = ()

    def _first_value(self, name: str) -> str | None:
        return next((value for s in self.subjects if (value := getattr(s, name)) is not None), None)

    @property
    def taskmanager(self) -> str | None:
        return self._first_value("taskmanager")

    @property
    def in_one_process(self) -> bool:
        """Whether the application runs only in its driver, as with the master `local[*]`."""
        return (self._first_value("application") or "").startswith("local-")

    def deployment(self) -> str | None:
        """Return `yarn` or `kubernetes`, or None if the deployment is unknown."""
        names = [*self.inputs.names, *filter(None, map(self._first_value, _PLACES))]
        if any(_CONTAINER.search(name) or _APPLICATION.search(name) for name in names):
            return "yarn"
        is_pod = any(
            _POD.fullmatch(name) or name.startswith("spark-application-") for name in names
        )
        if is_pod or any(item.kind == "kubectl" for item in self.inputs.inputs):
            return "kubernetes"
        text = "\n".join(self.texts)
        return next((name for name, words in _WORDS_OF.items() if words.search(text)), None)

    def words(self) -> Mapping[str, str]:
        """Return the names to show to readers."""
        taskmanager, executor, task = map(self._first_value, ("taskmanager", "executor", "task"))
        checkpoint = self.inputs.failed_checkpoint(self._first_value("job_id"))
        host, stage = self._first_value("host"), self._first_value("stage")
        named = f"TaskManager {taskmanager}" if taskmanager else "the TaskManager"
        running = f"executor {executor}" if executor else "the executor"
        process = named if taskmanager else running if executor else "the process"
        return {
            "taskmanager": named,
            "executor_name": running,
            "process": process,
            "task": f"task {task}" if task else "the task",
            "host": f"host {host}" if host else "the host",
            "checkpoint_name": f"checkpoint {checkpoint}" if checkpoint else "a failed checkpoint",
            "stage_name": f"stage {stage}" if stage is not None else "the slowest stage",
        }

    def ids(self) -> Mapping[str, str]:
        """Return the IDs for commands, quoted for a shell. Unknown IDs become placeholders in capitals."""
        taskmanager, host = self.taskmanager, self._first_value("host")
        address = self.inputs.address
        container = taskmanager if taskmanager and _CONTAINER.fullmatch(taskmanager) else None
        pod = next((n for n in (taskmanager, host) if n and _POD.fullmatch(n)), None)
        partition = self._first_value("partition") or ""
        job = self._first_value("job_id")
        known = {
            "job": job,
            "vertex": self._first_value("vertex_id"),
            "checkpoint": self.inputs.failed_checkpoint(job),
            "taskmanager_id": taskmanager,
            "container": container,
            "pod": pod,
            "application": self._application(),
            "executor": self._first_value("executor"),
            "stage": self._first_value("stage"),
            "host_name": host,
            "topic": partition.rpartition("-")[0] or None,
            "flink": address,
            "spark": address,
            "jobmanager_pod": None,
            "driver_pod": None,
        }
        return {
            name: _UNKNOWN.get(name, name.upper()) if value is None else _argument(value)
            for name, value in known.items()
        }

    def _application(self) -> str | None:
        named = self._first_value("application")
        for name in filter(None, [named, self.taskmanager, *self.inputs.names]):
            if container := _CONTAINER.search(name):
                return f"application_{container[1]}"
            if application := _APPLICATION.search(name):
                return application[0]
        return named


def _argument(value: object) -> str:
    """Quote a name for a shell. If no quotes are needed, the name keeps its marks for `--redact`."""
    quoted = quote(str(value))
    return f"{value}" if quoted == value else quoted


_PLACES: Final = ("taskmanager", "host", "application")
_UNKNOWN: Final = {
    "flink": "http://JOBMANAGER:8081",
    "spark": "http://DRIVER:4040",
    "job": "JOB_ID",
    "vertex": "VERTEX_ID",
    "checkpoint": "CHECKPOINT_ID",
    "container": "CONTAINER_ID",
    "application": "APPLICATION_ID",
    "executor": "EXECUTOR_ID",
    "stage": "STAGE_ID",
    "host_name": "OTHER_HOST",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Question:
    """A question that the inputs leave open.

    Args:
        place: fills in the names.
        codes: the rules in question.
        causes: the possible causes, most probable first.
        checks: the names of checks, if a rule lists them.
        reason: why a rule is inconclusive.
        fingerprint: the fingerprint of the finding in question.
        has_stacks: whether thread dumps in the input already show its code.
    """

    place: _Place
    codes: Sequence[str]
    causes: Sequence[str] = ()
    checks: Sequence[str] = ()
    reason: str | None = None
    fingerprint: str | None = None
    has_stacks: bool = False
    has_frame: bool = True
    in_driver: bool = False

    @property
    def engine(self) -> str:
        return "spark" if self.codes[0].startswith("RT") else "flink"

    def candidates(self) -> list[tuple[str, Check, str]]:
        """Return the checks that would help, cheapest first, as (name, check, decision)."""
        deciding = self.checks or dict.fromkeys(n for c in self.causes for n in CAUSES[c].checks)
        found = self._usable_checks(deciding)
        if not found and not deciding:
            found = self._usable_checks(
                name
                for name, check in CHECKS.items()
                if any(code.startswith(check.helps) for code in self.codes if check.helps)
            )
        if not self.has_frame:  # another check is more precise
            others = [each for each in found if each[0] != "user-code"]
            found = others if others or self._is_outside_executors else found
        return sorted(found, key=lambda each: (each[1].cost, -self._decided_causes(each[0])))

    def _decided_causes(self, name: str) -> int:
        """Return how many of the possible causes a check confirms or rules out."""
        return sum(name in CAUSES[cause].checks for cause in self.causes)

    def _usable_checks(self, names: Iterable[str]) -> list[tuple[str, Check, str]]:
        inputs, taskmanager = self.place.inputs, self.place.taskmanager
        return [
            (name, check, self._decision(name, check))
            for name in names
            if (check := CHECKS[name]).engine in (None, self.engine)
            and not (self.has_stacks and name in _DUMPS)
            and not (name == "executor-log" and not self._may_be_in_executor)
            and not (name == "consumer-lag" and inputs.without_kafka)
            and not inputs.answer(check, taskmanager)
        ]

    @property
    def _may_be_in_executor(self) -> bool:
        """Whether the log of an executor may explain the question: a failed query shows its tasks' failures."""
        if self.place.in_one_process or self.in_driver:
            return False
        shown = any(_OF_EXECUTOR.search(text) for text in self.place.texts)
        return shown or "failing-batches" not in self.causes

    @property
    def _is_outside_executors(self) -> bool:
        return self.engine == "spark" and not self._may_be_in_executor

    def _decision(self, name: str, check: Check) -> str:
        clauses = [
            f"confirms {cause} if {CAUSES[cause].checks[name][0]}, and rules it out if "
            f"{CAUSES[cause].checks[name][1]}"
            for cause in self.causes
            if name in CAUSES[cause].checks
        ]
        return "; ".join(clauses) or self.reason or f"shows {check.shows}"


_IN_DRIVER: Final = f"It happened in {components()['spark-driver'].what}"
_OF_EXECUTOR: Final = re.compile(
    r"(?i)\btasks? (?:[\d.]+ )?(?:failed|in stage)|\bexecutors?\b|Python worker|\breceiver"
)
_DUMPS: Final = ("thread-dump", "executor-threads", "driver-threads")


def suggestions_for(
    linked: Sequence[LinkedFindings],
    outcomes: Sequence[f.RuleOutcome],
    inputs: Inputs,
    fingerprint_of: Mapping[int, str],
    *,
    undecided: bool,
) -> list[w.Suggestion]:
    """Return the checks that distinguish the remaining explanations.

    Args:
        linked: the stories, ranked.
        outcomes: the outcomes of all rules.
        inputs: the inputs of the report.
        fingerprint_of: the fingerprint of each finding, by its identity.
        undecided: whether the verdict is inconclusive.
    """
    questions = [_question(each, inputs, fingerprint_of) for each in linked if not is_certain(each)]
    found: dict[str, w.Suggestion] = {}
    for question in [*questions, *(_rule_questions(outcomes, inputs) if undecided else ())]:
        for name, check, decision in question.candidates():
            found.setdefault(name, _suggestion(question, name, check, decision))
    return [*found.values(), *(_options(outcomes) if undecided else ())]


def is_certain(story: LinkedFindings) -> bool:
    """Return whether a story's cause is certain: high confidence, no competing story, and no open question."""
    head = (story.culprit or story.root)[1]
    cause = CAUSES.get(story.cause or "")
    sure = head.confidence is f.Confidence.HIGH and not story.competing
    if not sure or cause is None:
        return False
    return cause.open_question is None or any(v.signal in cause.answered_by for v in head.votes)


def phrase_of(check: str) -> str:
    """Return what a check examines, as a noun phrase without names."""
    return CHECKS[check].what.format_map(_Place((), _NOTHING).words())


def command_of(check: str) -> str:
    """Return the command of a check for an unknown deployment, with placeholders in capitals."""
    return CHECKS[check].command["any"].format_map(_Place((), _NOTHING).ids())


_NOTHING: Final = Inputs(inputs=(), topics=frozenset(), data=w.Data())


def _question(
    story: LinkedFindings, inputs: Inputs, fingerprint_of: Mapping[int, str]
) -> _Question:
    pairs = [*filter(None, [story.culprit]), *story.pairs]
    causes = [story.cause, *(finding.cause for _, finding in story.competing)]
    return _Question(
        place=_Place(
            [finding.subject for _, finding in pairs],
            inputs,
            [f"{finding.title} {finding.explain or ''}" for _, finding in pairs],
        ),
        codes=[outcome.code for outcome, _ in story.pairs],
        causes=[*dict.fromkeys(cause for cause in causes if cause is not None and cause in CAUSES)],
        fingerprint=fingerprint_of[id(story.root[1])],
        in_driver=any(_IN_DRIVER in (x.explain or "") for _, x in pairs),
        has_frame=any(OWN_CODE in action.text for _, x in pairs for action in x.actions),
        has_stacks=any(m.name == "stack-samples" for _, x in pairs for m in x.measurements),
    )


def _rule_questions(outcomes: Sequence[f.RuleOutcome], inputs: Inputs) -> Iterator[_Question]:
    """Yield a question for the data that each inconclusive core rule lacks. Without such rules, include all rules."""
    active = [outcome for outcome in outcomes if outcome.ignored is None]
    ranked = sorted(active, key=lambda outcome: not outcome.core)
    listed = False
    for outcome in ranked:
        for item in outcome.inconclusive:
            listed = listed or bool(item.checks or item.remedy)
            job = item.job.job_id if item.job is not None else None
            if item.checks:
                yield _Question(
                    place=_Place([f.Subject(kind="job", job_id=job or None)], inputs),
                    codes=[outcome.code],
                    checks=item.checks,
                    reason=item.reason,
                )
    if not listed:
        for engine in (True, False):
            codes = [o.code for o in active if o.code.startswith("RT") is engine]
            if codes:
                yield _Question(place=_Place((), inputs), codes=codes)


def _options(outcomes: Sequence[f.RuleOutcome]) -> list[w.Suggestion]:
    """Return the flowdiag options that would help inconclusive rules."""
    wants = dict.fromkeys(
        (item.remedy, item.reason)
        for outcome in outcomes
        for item in outcome.inconclusive
        if item.remedy
    )
    return [
        w.Suggestion(text=clean(reason), command=None, wants=clean(remedy))
        for remedy, reason in wants
    ]


def _suggestion(question: _Question, name: str, check: Check, decision: str) -> w.Suggestion:
    place = question.place
    what = check.what.format_map(place.words())
    keys = (place.deployment(), question.engine, "any")
    command = next(check.command[key] for key in keys if key in check.command)
    return w.Suggestion(
        text=clean(f"get {what}. This shows {check.shows}", _LIMIT),
        command=clean(command.format_map(place.ids()), _LIMIT),
        wants=clean(what, _LIMIT),
        decides=clean(decision, _LIMIT),
        check=name,
        cost=check.cost,
        finding=question.fingerprint,
    )
