"""Groups failures whose cause flowdiag does not know, and describes them by the facts in their text.

The parser reports every exception and error that no other record explains. Rules relate them to the outcome of the
job and report those that may have ended it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from flowdiag.analyses.knowledge.causes import CAUSES
from flowdiag.analyses.knowledge.exceptions import cause_of_class
from flowdiag.analyses.knowledge.message_advice import (
    component_step,
    frame_action,
    origin_note,
    process_in,
    with_advice,
)
from flowdiag.analyses.model import fmt
from flowdiag.analyses.model.finding import (
    Action,
    Confidence,
    Evidence,
    FindingFields,
    Measurement,
    Rank,
    Severity,
    State,
    cite,
)
from flowdiag.analyses.model.keys import Ref
from flowdiag.parsers.codes import Code, codes_in
from flowdiag.parsers.components import Component, components
from flowdiag.parsers.exceptions import option_keys_in
from flowdiag.parsers.lines.failure_lines import failure_line, is_wrapper_failure, short_failure

UNRECOGNIZED: Final = "unrecognised-failure"
GROUPS: Final = 5
"""How many kinds of failures to report. Further kinds are usually repetitions or consequences."""
_TITLE: Final = 400
_ENDS: Final = {
    "query": (Severity.CRITICAL, "The failure ended the query."),
    "jobmanager": (Severity.CRITICAL, "The failure ended the JobManager's process."),
    "application": (Severity.CRITICAL, "The failure ended the application."),
    "job": (Severity.CRITICAL, "The failure ended the job."),
    "batch": (Severity.CRITICAL, "The failure ended a batch."),
    "process": (Severity.WARNING, "The failure ended a process."),
    "task": (Severity.WARNING, "The failure ended a task."),
}
_PERSISTS: Final = 3
"""A failure that occurs this often is not over, although the process continues."""
_SURVIVED: Final = {
    "process": "It was logged below ERROR, and ordinary log lines follow: the process continued.",
    "tasks": "The tasks in this process kept running after it.",
    "stream": "No task, batch or query failed, and the log continues: the application handled it.",
}
"""Texts on what continued after a failure, by the value of `survived`."""
_MODEST: Final = (Severity.WARNING, "The text does not show whether anything ended because of it.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Occurrence:
    """One failure: its deepest exception or message, further texts from the parser, its time and its line."""

    failure: str
    text: Mapping[str, str] = field(default_factory=dict)
    time_us: int | None = None
    ref: Ref | None = None
    place: str | None = None  # the task, TaskManager or host


@dataclass(frozen=True, slots=True)
class FailureGroup:
    """Failures with the same exception and the same message, apart from numbers."""

    members: tuple[Occurrence, ...]

    @property
    def first(self) -> Occurrence:
        return self.members[0]

    @property
    def count(self) -> int:
        return sum(int(one.text.get("count") or 1) for one in self.members)

    @property
    def times(self) -> tuple[int | None, int | None]:
        """The first and the last time."""
        known = [one.time_us for one in self.members if one.time_us is not None]
        return min(known, default=None), max(known, default=None)

    @property
    def ended(self) -> str:
        """A key of `_ENDS`, or an empty string if no text shows what ended."""
        known = [one.text.get("ended", "") for one in self.members]
        return min(known, key=lambda word: [*_ENDS, ""].index(word) if word in _ENDS else 99)

    @property
    def is_survived(self) -> bool:
        """Whether the tasks handle this failure, or the process continued after each of the few failures."""
        if self.first.text.get("survived") in ("tasks", "stream"):
            return True
        return self.count < _PERSISTS and all(one.text.get("survived") for one in self.members)

    @property
    def severity(self) -> Severity:
        if self.is_survived:
            return Severity.INFO
        return _ENDS.get(self.ended, _MODEST)[0]

    @property
    def is_in_shutdown(self) -> bool:
        """Whether all failures happened in a shutdown hook, when the process was already ending."""
        only = all(one.text.get("follows") for one in self.members)
        return only and self.ended in ("", "process")

    @property
    def confidence(self) -> Confidence:
        """Low if the failure was logged below ERROR, because the job may handle it."""
        levels = {one.text.get("level") for one in self.members}
        if not levels & {None, "ERROR", "FATAL"}:
            return Confidence.LOW
        known = self.ended in ("query", "jobmanager", "application", "job", "batch")
        return Confidence.HIGH if known else Confidence.MEDIUM

    @property
    def component(self) -> Component | None:
        """The software that threw the exception."""
        return components().get(self.first.text.get("component", ""))

    @property
    def frame(self) -> str | None:
        """The first stack frame of the job's own code."""
        text = self.first.text
        return text.get("python_frame") or text.get("own_frame")

    @property
    def cause(self) -> str:
        """A key of `causes.CAUSES`."""
        return cause_of_class(self.first.text.get("class"), UNRECOGNIZED)[0]

    @property
    def remedies(self) -> tuple[str, ...]:
        """The names of the remedies that fit the cause. An empty tuple means all of them."""
        return cause_of_class(self.first.text.get("class"), UNRECOGNIZED)[1]

    @property
    def title(self) -> str:
        """The exception or the message, and its number of occurrences."""
        times = f" ({self.count} times)" if self.count > 1 else ""
        whole = _CLIENT.sub("", " ".join(self.first.failure.split()))
        failure = fmt.without_remote(_LABEL.sub("", whole))
        failure = _PACKAGE.sub("", _WRAPPER.sub("", failure))
        if (bare := _BARE.fullmatch(failure)) is not None:
            above = self.first.text.get("message")
            failure = f"{' '.join(above.split())}: {bare[1]}{bare[2] or ''}" if above else whole
        return fmt.shorten(short_failure(failure) or failure, _TITLE) + times

    @property
    def process(self) -> str | None:
        """The process in which the failures happened."""
        known = process_in(self.first.text)
        return None if known is None else known.what

    @property
    def explanation(self) -> str:
        """The component, the place, the job's own code, and the effect."""
        text, parts = self.first.text, []
        source = self.component
        if source is not None and source.role != "part" and source.what != self.process:
            parts.append(f"It comes from {source.what}.")
        parts.append(origin_note(text, self.first.place, self.first.failure))
        message = text.get("message", "")
        if (
            message
            and (
                text.get("level") not in ("INFO", "DEBUG", "TRACE")
                or failure_line(message, weak=True)
            )
            and message[:60] not in self.first.failure
            and self.first.failure[:60] not in message
        ):
            parts.append(f'The log line above it is "{fmt.shorten(message, 120)}".')
        parts += [
            f"{code.code}: {code.meaning}."
            for code in self._codes[:2]
            if code.family != "http" or self.cause == UNRECOGNIZED  # a known cause is more precise
        ]
        effect = _ENDS.get(self.ended, _MODEST)[1]
        parts.append(_SURVIVED[self.first.text["survived"]] if self.is_survived else effect)
        if self.cause == UNRECOGNIZED:
            parts.append("flowdiag has no remedy for this failure.")
        else:
            known = CAUSES[self.cause]
            parts.insert(0, known.explanation or f"{fmt.capital(known.meaning)}.")
        return " ".join(filter(None, parts))

    @property
    def actions(self) -> tuple[Action, ...]:
        """The first steps that the text suggests."""
        steps = [*frame_action(self.first.text)]
        if self.first.text.get("follows"):
            steps.append(
                Action(
                    text="Find the failure before this one. This failure is usually only a "
                    "consequence"
                )
            )
        source = self.component
        process = components().get(self.first.text.get("process", ""))
        no_records = process is not None and process.name in _NO_RECORDS
        if source is None or source.role == "engine" or (no_records and source.name in _FORMATS):
            source = process or source  # more specific
        if source is not None and source.role != "engine":
            steps.append(Action(text=component_step(source, self.first.failure)))
        steps += _option_steps(self.first.failure, steps)
        steps += [
            Action(text=code.check.rstrip("."))
            for code in self._codes[:1]
            if code.check and not steps
        ]
        if not steps:
            steps.append(
                Action(
                    text="Read the process's log around this line, starting with the first error"
                )
            )
        return tuple(steps)

    @property
    def evidence(self) -> tuple[Evidence, ...]:
        return cite((one.ref, one.time_us) for one in self.members)

    @property
    def _codes(self) -> list[Code]:
        """The error codes in the failure, or else the exit codes around it, such as in YARN's diagnostics."""
        outer = codes_in(self.first.text.get("exception", ""))
        return _specific_codes(self.first.failure) or [one for one in outer if one.family == "exit"]

    @property
    def _messages(self) -> str:
        """The exception, and the exceptions around it, whose messages may contain advice."""
        return "\n".join(filter(None, (self.first.text.get("middle"), self.first.failure)))

    def finding_fields(self, advice: Sequence[Action]) -> FindingFields:
        """Return fields for a finding about these failures.

        Args:
            advice: remedies of a known cause, listed before the steps from the text.
        """
        first_us, last_us = self.times
        place = self.first.place if self.first.text.get("named") else self.process
        critical = self.severity is Severity.CRITICAL
        proposed = {action.option for action in advice if action.option}
        steps = (step for step in self.actions if step.option not in proposed)
        return {
            "severity": self.severity,
            "state": State.ONGOING,
            "title": f"{self.title.rstrip('.')}, in {place}" if place else self.title,
            "why": self.title,
            "cause": self.cause,
            "confidence": self.confidence,
            "rank": Rank.ROOT_CAUSE if critical else Rank.SYMPTOM,
            "first_us": first_us,
            "last_us": last_us,
            "count": self.count,
            "explain": self.explanation,
            "measurements": (Measurement(name="occurrences", value=self.count, unit="times"),),
            "evidence": self.evidence,
            "actions": with_advice((*advice, *steps), self._messages, self.title),
        }


def _option_steps(failure: str, steps: Sequence[Action]) -> list[Action]:
    """Return a step for each option in the message that no other step covers."""
    known = " ".join(step.text for step in steps)
    keys = (key for key in option_keys_in(failure) if key not in known)
    measure = "the value that the message mentions"
    return [
        Action(text=f"Check {key}, which the message names", option=key, measure=measure)
        for key in keys
    ]


_FORMATS: Final = ("json", "csv", "xml", "avro", "protobuf", "kryo")
_NO_RECORDS: Final = (
    "flink-jobmanager", "flink-client", "flink-main", "flink-history-server", "flink-kubernetes-operator",
)  # fmt: skip
"""Processes that read configurations and archives, but no records."""
_OF_YARN: Final = re.compile(
    r"\A(?:Application diagnostics message: )?User class threw exception: "
)
_CLASS: Final = re.compile(r"\A(?:\w{1,100}(?:Exception|Error|Throwable): ?)+")
_LONG: Final = 600  # characters of a text in which another one is searched
_COMPARABLE: Final = 20  # minimum characters of a message without its class
_PACKAGE: Final = re.compile(r"\A(?:[a-z_][\w$]{0,60}\.){1,20}(?=[A-Z][\w$]{0,120}(?::|\Z|\s))")
_LABEL: Final = re.compile(r"\A(?:Error: |diagnostics: |\W{0,4}errors?\W{2,6}(?=[a-z]+\.))")
_CLIENT: Final = re.compile(r"\A\[\w{1,40} clientId=[^\]]{1,300}\] ")  # prefix of Kafka's clients
# Exceptions whose message is only another exception.
_WRAPPER: Final = re.compile(
    r"\A(?:(?:[a-z_][\w$]{0,60}\.){1,20}[A-Z][\w$]{0,120}: ){1,8}"
    r"(?=(?:[a-z_][\w$]{0,60}\.){2,20}[A-Z][\w$]{0,120}(?:Exception|Error): )"
)
_BARE: Final = re.compile(
    r"([A-Z][\w$]{2,120})(?:: ?(?:null)?)?( \(at [^()]{1,200}\([^()]{1,120}\)\))?"
)
_SHAPE: Final = re.compile(r"[0-9a-f]{8,}|\d+")


def _specific_codes(text: str) -> list[Code]:
    """Return the error codes in a text. A vendor's code replaces general codes next to it."""
    codes = codes_in(text)
    own = [code for code in codes if code.family not in ("http", "sqlstate")]
    return own or [code for code in codes if not (code.family == "http" and "Error Code:" in text)]


def failure_groups(
    occurrences: Iterable[Occurrence], reported: Sequence[str] = ()
) -> list[FailureGroup]:
    """Group the failures that nothing else reports by exception and message, in order of first occurrence.

    A launcher or an exit code only shows that a process ended. It is left out if another failure explains it, and
    that failure then counts as the reason why the process ended.

    Args:
        occurrences: the failures in order.
        reported: texts of failures that other rules report.
    """
    known = [_shape(text, _LONG) for text in reported if text]
    groups: dict[str, list[Occurrence]] = {}
    for one in occurrences:
        shape = _shape(one.failure)
        whole = _shape(one.failure, _LONG)
        if not any(shape in text or _message(text) in whole for text in known):
            members = groups.setdefault(shape, [])
            if one.ref is None or all(one.ref != other.ref for other in members):
                members.append(one)
    found = [FailureGroup(tuple(members)) for members in groups.values()]
    return _without_wrappers(found, reported)


def _without_wrappers(found: list[FailureGroup], reported: Sequence[str]) -> list[FailureGroup]:
    """Drop launchers and exit codes that other failures explain."""
    causes = [group for group in found if not is_wrapper_failure(group.first.failure)]
    if not causes:
        return [group for group in found[:1] if not _is_repeated(group, reported)]
    if len(causes) == len(found) or causes[0].ended:
        return causes
    ended = min((one.ended for one in found), key=lambda word: [*_ENDS, ""].index(word))
    first = replace(causes[0].first, text={**causes[0].first.text, "ended": ended})
    return [FailureGroup((first, *causes[0].members[1:])), *causes[1:]]


def _is_repeated(group: FailureGroup, reported: Sequence[str]) -> bool:
    """Return whether another rule already reports the failure behind a launcher or an exit code."""
    codes = re.findall(r"\b\d{3,5}\b", group.first.failure)
    return any(all(code in text for code in codes) for text in reported if text)


def _shape(text: str, length: int = 120) -> str:
    """Reduce a text to its wording for comparison: without packages, numbers and YARN's introduction."""
    bare = _PACKAGE.sub("", _OF_YARN.sub("", " ".join(text.split())))
    return _SHAPE.sub("#", bare).rstrip(".")[:length]


def _message(shape: str) -> str:
    """Return the start of a reported message without its class, or all of it if the rest is too short to compare."""
    message = _CLASS.sub("", shape)
    return (message if len(message) >= _COMPARABLE else shape)[:120]
