"""Groups failures by crisis, cause and task for CP301, and writes their texts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from flowdiag.analyses.flink import helpers as h
from flowdiag.analyses.flink.advice.exception_texts import exception_measurements, option_actions
from flowdiag.analyses.flink.failures.crises import classify_incident
from flowdiag.analyses.flink.failures.linkage import linkage
from flowdiag.analyses.flink.judging import without_package
from flowdiag.analyses.knowledge.causes import CAUSES
from flowdiag.analyses.knowledge.exceptions import cause_of_class
from flowdiag.analyses.knowledge.message_advice import (
    component_step,
    frame_action,
    source_note,
    with_advice,
)
from flowdiag.parsers.components import Component, component_of, components
from flowdiag.parsers.exceptions import Classified, is_root_cause, task_named_in

# The cause, by the kind of the failure that began the crisis.
_CAUSES: Final = {
    "user-code": "task-failure",
    "unknown": "task-failure",
    "snapshot": "snapshot-exception",
    "storage": "storage-failure",
    "transaction": "task-failure",
    "network-buffers": "insufficient-network-buffers",
    "no-resource": "not-enough-slots",
}
# Only for a pasted exception or a failure of the job itself. With more records, other rules are more specific.
_WITHOUT_RECORDS: Final = {
    "jobmanager-lost": "jobmanager-lost",
    "task-stuck": "task-hangs",
    "expired": None,
}
_OF_JOBS: Final = ("exception", "job-failing", "job-failure")
# Kinds of failures in which the failed task is arbitrary, with the title of the finding and the remedies.
_ARBITRARY: Final = {
    "insufficient-network-buffers": ("Too few network buffers", ("count",)),
    "not-enough-slots": ("Not enough slots for the job", ("more-slots",)),
}
_EXPIRED: Final = (
    "The checkpoint took longer than its timeout. The exception does not name the late subtask."
)

_TEXT: Final = 400  # maximum number of characters of an exception
_OF_CODE: Final = ("task-failure", "snapshot-exception", "unreadable-record", "not-serializable")

_OF_SOFTWARE: Final = (
    "task-failure",
    "snapshot-exception",
    "coordinator-failed",
    "service-unreachable",
)

JOB_FAULTS: Final = tuple(_CAUSES.values())
"""Causes of findings about a crisis of the job itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFailure:
    """Crises of one task that have the same cause.

    Args:
        root: the failure that began the last crisis, with the subtask that its exception names.
        remedies: names of the remedies of the cause; empty for all of them.
        text: the exception that explains the failure; empty if the input contains none.
        shows_checkpoints: whether the input contains checkpoints of the job.
    """

    crises: list[h.Crisis]
    root: h.Incident
    exception: Classified | None
    cause: str | None
    remedies: tuple[str, ...]
    text: str
    shows_checkpoints: bool

    @property
    def source(self) -> Component | None:
        """The software outside the engine that threw the exception."""
        chain = [self.root.text.get("exception", ""), self.root.cause or ""]
        found = components().get(self.root.text.get("component", "")) or component_of(chain)
        return found if found is not None and found.role == "part" else None

    @property
    def names_cause(self) -> bool:
        return self.cause is not None and self.cause not in _ARBITRARY

    @property
    def name(self) -> str:
        """The name of the subtask for readers."""
        return h.subtask_name(self.root) if self.root.task is not None else "the job"

    @property
    def reason(self) -> str:
        """The task and its exception."""
        return f"{self.name}: {self.text}" if self.root.task is not None else self.text

    @property
    def restarts(self) -> int:
        """The number of separate failures. Each caused a restart."""
        return sum(crisis.bursts for crisis in self.crises)

    @property
    def task_failure_count(self) -> int:
        """How often this task failed in this way, over all crises."""
        last = self.crises[-1]
        return sum(
            failure.incident.task == last.root.incident.task and failure.kind == last.kind
            for crisis in self.crises
            for failure in crisis.failures
        )

    @property
    def signals(self) -> dict[str, str | None]:
        """The text of each signal of CP301, or None for signals that do not apply."""
        last, repeated = self.crises[-1], self.task_failure_count
        often = self.restarts > 1 and repeated * 2 > self.restarts
        return {
            "exception": self.reason if self.text else None,
            "no-exception": None if self.text else f"{self.name}: no exception in the input",
            "first-failure": "nothing failed before it" if last.failures[0] is last.root else None,
            "every-time": f"{repeated} failures of this task in {self.restarts} restarts"
            if often
            else None,
        }

    @property
    def title(self) -> str:
        """One line with the task, the number of restarts, the exception, and how the failures ended."""
        text, event = self.text, f"{self.name} failed"
        end = "; the job failed for good" if self.crises[-1].final else ""
        if self.cause in _ARBITRARY:
            event = _ARBITRARY[self.cause or ""][0]
        elif self.cause is None:
            event = "A checkpoint expired, and the exception names no subtask"
        elif self.cause == "snapshot-exception":
            event = f"{self.name} throws an exception during a snapshot"
        elif self.cause == "jvm-crashed":  # not an exception of the job's own code
            report = (self.crises[-1].root.incident.cause or text).rpartition(
                "Runtime Environment:"
            )[2]
            event, text = "A JVM crashed", " ".join(report.replace("#", " ").split())
        elif self.exception is not None and self.exception.name == "specification-refused":
            event, end = "The operator refused the specification", ""
        elif self.root.task is None:
            event, end = self._event_without_task
        times = f", {self.restarts} restarts" if self.restarts > 1 else ""
        detail = f": {h.fmt.shorten(without_package(text), _TEXT)}" if text else ""
        return f"{event}{times}{end}{detail}"

    @property
    def _event_without_task(self) -> tuple[str, str]:
        """The failure if no task is known, and how it ended. A pasted exception does not show what it ended."""
        if self.crises[-1].final:
            return "The job failed", " for good"
        pasted = self.root.kind == "exception"
        return "An exception occurred" if pasted else "The job failed", ""

    @property
    def explanation(self) -> str:
        """The effect of the cause or, if unknown, its meaning. The text includes the offset of an unreadable record
        if it is known.
        """
        explanation = _EXPIRED
        if self.cause is not None:
            meaning = CAUSES[self.cause].meaning
            explanation = h.explanation(self.cause) or f"{h.fmt.capital(meaning)}."
        values = self.exception.values if self.exception is not None else {}
        if self.exception is not None and self.exception.name == "unreadable-record":
            topic = f"{values.get('topic', 'the topic')}-{values.get('number', '?')}"
            if "offset" in values:
                place = values.get("partition") or topic
                explanation += f" The record is at offset {values['offset']} of {place}."
        if self.crises[-1].is_loop:
            between = " without a completed checkpoint in between" if self.shows_checkpoints else ""
            explanation += f" {self.crises[-1].bursts} failures{between}: a restart loop."
        is_noted = "component" in self.root.text  # `origin_note` already names the component
        note = source_note(self.source) if self.cause in _OF_SOFTWARE and not is_noted else ""
        return " ".join(filter(None, (explanation, note))) + self._other_failures

    @property
    def _other_failures(self) -> str:
        """A sentence about exceptions of the same kind in other tasks of the last crisis, or an empty string."""
        last = self.crises[-1]
        others = {
            h.exception_text(failure.incident.cause, _TEXT): h.subtask_name(failure.incident)
            for failure in last.failures
            if failure.kind == last.kind and failure.incident.cause and failure.incident.task
        }
        others.pop(h.exception_text(last.root.incident.cause, _TEXT), None)
        if self.root.task is None:
            return self._other_exceptions
        if not others:
            return ""
        listed = h.fmt.listed([f"{name}: {text}" for text, name in others.items()][:3], "; ")
        return f" Other exceptions of the same failure: {listed.rstrip('.')}."

    @property
    def _other_exceptions(self) -> str:
        """A sentence about pasted exceptions of other kinds, which may belong to other statements, or an empty string."""
        texts = {
            h.exception_text(failure.incident.cause, _TEXT): None
            for failure in self.crises[-1].failures
            if failure.incident.kind == "exception" and failure.incident.cause
        }
        texts.pop(h.exception_text(self.root.cause, _TEXT), None)
        if not texts:
            return ""
        return f" Other exceptions in the text: {h.fmt.listed([*texts][:3], '; ').rstrip('.')}."

    @property
    def measurements(self) -> tuple[h.Measurement, ...]:
        """The number of failures, and the numbers in the exception."""
        own = ("failures-of-this-task", self.task_failure_count, "times")
        return (
            h.measurement("failures", self.restarts, "times"),
            *((h.measurement(*own),) if self.root.task else ()),
            *exception_measurements(self.exception),
        )

    def actions(self, job: h.Job) -> tuple[h.Action, ...]:
        """Return the remedies of the cause, and the options that the exception itself names."""
        known = self._remedies(job)
        # A command that calculates the required value is better than the options that the exception names.
        if not any(action.command for action in known):
            known = (*known, *option_actions(self.exception, known))
        texts = (*map(self.root.text.get, ("exception", "middle")), self.root.cause)
        return with_advice(known, "\n".join(filter(None, texts)), self.text)

    def _remedies(self, job: h.Job) -> tuple[h.Action, ...]:
        """Return the remedies of the cause. For an unknown exception, return a check of its code or component."""
        frame = frame_action(self.root.text) if self.cause in _OF_CODE else ()
        vague = self.cause == "coordinator-failed" or self.remedies == ("fix-error",)
        if vague and self.cause is not None and self.source is not None and not frame:
            step = h.Action(text=component_step(self.source, self.root.cause or self.text))
            return (step, *h.remedies(self.cause, job, *self.remedies))
        if self.cause is None or self.cause != "task-failure" or self.remedies:
            return (*frame, *(h.remedies(self.cause, job, *self.remedies) if self.cause else ()))
        if frame:
            return (*frame, *h.remedies("task-failure", job, "fix-error", "divert"))
        if (source := self.source) is None:
            return h.remedies("task-failure", job, "fix-error")
        return (h.Action(text=component_step(source, self.root.cause or self.text)),)


def failures_of(job: h.Job) -> list[TaskFailure]:
    """Return the crises whose root is an exception of the job itself, by cause and task."""
    groups: dict[tuple[str | None, str | None], list[h.Crisis]] = {}
    for crisis in job.crises:
        ended = crisis.final and crisis.kind == "jobmanager-lost"
        alone = ended or (
            crisis.kind in _WITHOUT_RECORDS
            and all(failure.incident.kind in _OF_JOBS for failure in crisis.failures)
        )
        if crisis.kind in _CAUSES or alone:
            key = (_cause_of(crisis)[0], crisis.root.incident.task)
            groups.setdefault(key, []).append(crisis)
    found = []
    for (cause, _), crises in groups.items():
        root = _with_named_task(crises[-1].root.incident)
        exception = classify_incident(root)
        found.append(
            TaskFailure(
                crises=crises,
                root=root,
                exception=exception,
                cause=cause,
                remedies=_cause_of(crises[-1])[1],
                text=_with_place(
                    h.exception_text(_explaining_exception(root, exception), _TEXT), root
                ),
                shows_checkpoints=bool(job.checkpoints),
            )
        )
    return found


def _with_place(text: str, root: h.Incident) -> str:
    """Append the throwing frame to an exception without a message."""
    frame = root.text.get("thrown_at")
    return f"{text.removesuffix(': null')} (at {frame})" if text and frame else text


def _cause_of(crisis: h.Crisis) -> tuple[str | None, tuple[str, ...]]:
    """Return the cause of a crisis and the names of the remedies that fit it. An empty tuple means all remedies."""
    kind = crisis.kind
    word = _CAUSES[kind] if kind in _CAUSES else _WITHOUT_RECORDS.get(kind)
    if word is None or word in _ARBITRARY:
        return word, _ARBITRARY[word][1] if word is not None else ()
    exception = classify_incident(crisis.root.incident)
    if exception is not None and exception.name == "class-loading":
        root = crisis.root.incident
        error = linkage("\n".join(filter(None, (root.text.get("exception"), root.cause))))
        return "class-loading", (error[0],) if error is not None else ()
    return cause_of_class(exception.name if exception is not None else None, word)


def _with_named_task(root: h.Incident) -> h.Incident:
    """Return a failure of the job with the subtask that its exception names, if any."""
    if root.task is not None or root.kind == "task-failure":
        return root
    name = task_named_in((root.text.get("exception", ""), root.cause or ""))
    if name is None:
        return root
    return replace(
        root, task=name.task, subtask_index=name.subtask_index, parallelism=name.parallelism
    )


def _explaining_exception(root: h.Incident, exception: Classified | None) -> str | None:
    """Return the exception that best explains the failure: usually the deepest, unless it is only a detail."""
    outer = root.text.get("exception")
    if exception is not None and outer and root.kind != "exception" and exception.link == 0:
        if outer.endswith(" due to"):  # the message ends where the cause should follow
            return f"{outer} {root.cause}" if root.cause else outer
        return outer if is_root_cause(exception.name) else root.cause or outer
    return root.cause or outer
