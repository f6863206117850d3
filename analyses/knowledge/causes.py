"""The causes in findings, with their explanations and remedies, loaded from the `.toml` files in this folder.

The keys of `CAUSES` are the values of `summary.cause`. They are stable, but new ones may be added. A check
distinguishes causes. A remedy is one action against a cause. Rules fill in places, values and the option's key for
the version in the input.

Each file is split at its `[cause]` headers, and a cause is parsed on first use, because a run needs only a few.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Final, Generic, Literal, TypeVar

import msgspec

from flowdiag.analyses.model.option_types import Value

# In the order of docs/actions.md.
_FILES: Final = (
    "tasks",
    "code",
    "state",
    "checkpoints",
    "cluster",
    "memory",
    "connectors",
    "spark",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Remedy:
    """A single action against a cause.

    Args:
        text: what to do. Rules fill in names in braces (`{place}`, `{task}`).
        option: name of an option in `flink.options`, whose key depends on the version, or a Spark key.
            None: no option is involved.
        shows_current: whether the advice includes the current value of the option.
        only: `more` or `less`: the proposed value helps only if it is higher, or lower, than the current one.
        proposed: the value to try, unless it depends on the job, in the option's unit (milliseconds, bytes, …).
        unset: whether to remove the option from the configuration.
        measure: what to measure first, if no input shows which value helps.
        needs: names of `conditions.CONDITIONS`. If one is not met, the remedy does not apply.
        command: the flowdiag command that shows more about this fault in the same input.
        only_for: `flink` or `spark`, unless the option or the command implies it.
        risk: side effect or cost.
        restart_needed: whether the remedy takes effect only after a restart. None if there is nothing
            to restart.
        verify: how to check that it worked.
    """

    text: str
    option: str | None = None
    shows_current: bool = True
    only: Literal["more", "less"] | None = None
    proposed: Value | None = None
    unset: bool = False
    measure: str | None = None
    needs: tuple[str, ...] = ()
    command: str | None = None
    only_for: Literal["flink", "spark"] | None = None
    risk: str | None = None
    restart_needed: bool | None = None
    verify: str | None = None

    @property
    def engine(self) -> str | None:
        """`flink` or `spark`, or None for both. Only Flink options have names instead of keys."""
        if self.only_for is not None:
            return self.only_for
        if self.command is not None or (self.option is not None and "." not in self.option):
            return "flink"
        return "spark" if (self.option or "").startswith("spark.") else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """A cause and what is known about it.

    Args:
        open_question: what a finding with this cause leaves open, so that more evidence is useful.
        answered_by: signals of votes that answer the open question.
    """

    meaning: str
    explanation: str = ""
    open_question: str | None = None
    answered_by: tuple[str, ...] = ()
    checks: dict[str, tuple[str, str]] = field(default_factory=dict)
    remedies: dict[str, Remedy] = field(default_factory=dict)
    checked_by: str | None = None

    def remedy(self, name: str) -> Remedy:
        """Return the remedy with the given name, or raise KeyError."""
        return self.remedies[name]


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerSign:
    """A sign that the inputs already answer a check. A single input must match all fields that are set.

    Args:
        kind, role: of the input, as shown in the report.
        path: a regular expression for the path of a saved REST response.
        reason: part of the reason why the input is not read.
        name: part of its name.
        collected: `flink` or `spark`, for files of `flowdiag collect` or a live server.
        topic: a topic that was assessed, which means that its metrics are available.
        same: whether the input must be from the TaskManager in question, if known.
    """

    kind: str | None = None
    role: str | None = None
    path: str | None = None
    reason: str | None = None
    name: str | None = None
    collected: str | None = None
    topic: str | None = None
    same: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """A file or a command whose content distinguishes between causes.

    Args:
        what: the file or answer, as a noun phrase with placeholders in braces.
        shows: its content, as a clause that follows "it shows".
        command: how to get it, by deployment: `yarn`, `kubernetes`, or `any` for all others. `spark` precedes `any`.
        cost: 1 for a stored file or one request, 2 for some minutes, 3 for access to a host or another system, 4 for
            a restart or a large file.
        engine: `flink` or `spark`; None for both.
        given: signs that the input already contains it.
        helps: code prefixes of rules whose findings it helps to explain if they have no cause.
    """

    what: str
    shows: str
    command: dict[str, str]
    cost: int
    engine: Literal["flink", "spark"] | None = None
    given: tuple[AnswerSign, ...] = ()
    helps: tuple[str, ...] = ()


Entry = TypeVar("Entry")


class _Table(Mapping[str, Entry], Generic[Entry]):
    """The entries of several files by header. Each entry is parsed and checked on first use."""

    def __init__(self, kind: type[Entry], names: tuple[str, ...]) -> None:
        self._kind = kind
        self._names = names
        self._texts: dict[str, str] = {}
        self._entries: dict[str, Entry] = {}

    def texts(self) -> dict[str, str]:
        """Return the text of each entry, by the entry's name."""
        if not self._texts:
            for name in self._names:
                text = Path(__file__).with_name(f"{name}.toml").read_text(encoding="utf-8")
                parts = re.split(r"(?m)^\[([\w-]+)\]$", text)[1:]
                if twice := self._texts.keys() & set(parts[::2]):
                    raise KeyError(f"{name}.toml repeats {min(twice)}")
                self._texts |= dict(zip(parts[::2], parts[1::2], strict=True))
        return self._texts

    def __getitem__(self, word: str) -> Entry:
        if word not in self._entries:
            entry = tomllib.loads(f"[{word}]{self.texts()[word]}")[word]
            if "remedies" in entry:
                remedies: dict[str, Remedy] = {}
                for name, remedy in entry["remedies"].items():
                    remedies[name] = _remedy(remedy, remedies)
                entry["remedies"] = remedies
            self._entries[word] = _typed_entry(entry, self._kind)
        return self._entries[word]

    def __iter__(self) -> Iterator[str]:
        return iter(self.texts())

    def __len__(self) -> int:
        return len(self.texts())


def _remedy(entry: dict[str, Any], siblings: Mapping[str, Remedy]) -> Remedy:
    """Build a remedy. `use` names the remedy to start from: an earlier sibling, a shared remedy, or `cause.remedy`."""
    if (base := entry.pop("use", None)) is None:
        return _typed_entry(entry, Remedy)
    cause, _, name = base.rpartition(".")
    remedy = CAUSES[cause].remedy(name) if cause else siblings.get(name) or SHARED[name]
    return replace(remedy, **entry)


def _typed_entry(entry: dict[str, Any], kind: type[Entry]) -> Entry:
    if unknown := entry.keys() - {f.name for f in fields(kind)}:  # type: ignore[arg-type]
        raise KeyError(*unknown)
    return msgspec.convert(entry, kind)


CAUSES: Final[Mapping[str, Cause]] = _Table(Cause, _FILES)
SHARED: Final[Mapping[str, Remedy]] = _Table(Remedy, ("shared",))
"""Remedies that several causes or symptoms share."""
CHECKS: Final[Mapping[str, Check]] = _Table(Check, ("checks",))
"""Checks by the name that causes and rules use."""


def checking_command(cause: str | None) -> str | None:
    """Return the command that best shows whether a remedy of a cause worked, or None."""
    return CAUSES[cause].checked_by if cause is not None and cause in CAUSES else None
