"""A fault of flowdiag's own as the report tells it: what went wrong, at which step, and what to report of it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeVar

from flowdiag.analyses.report.redact import clean, mask_secrets, printable
from flowdiag.analyses.report.wire import Fault, Where
from flowdiag.parsers import faults
from flowdiag.parsers.errors import FlowdiagError
from flowdiag.parsers.faults import Caught, caught, is_ours

if TYPE_CHECKING:
    from flowdiag.parsers.sources.open import Source

REPORT_IT: Final = "please report it with the command line; --debug shows the traceback"

# By the part of the house that it came from, the innermost that says something.
_STEPS: Final = (
    ("cli.render", Where.RENDER),
    ("cli.views", Where.RENDER),
    ("analyses.report", Where.RENDER),
    ("analyses.flink.clocks", Where.RESOLVE),
    ("parsers.flink.marks", Where.RESOLVE),
    ("parsers", Where.PARSER),
)

_log: Final = logging.getLogger("flowdiag")

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(slots=True)
class Faults:
    """What went wrong on the way to a report, and how the way goes on.

    Attributes:
        found: in order, each kind about the same thing once.
        explained: what a failure comes down to where the machine is to blame (Java is gone, a disk is full):
            that ends the run, since the rest would only meet the same.
    """

    explained: Callable[[Exception], FlowdiagError | None] = lambda error: None
    found: list[Fault] = field(default_factory=list)

    def add(
        self,
        error: Exception,
        where: Where | None = None,
        *,
        source: str | None = None,
        about: str | None = None,
    ) -> Fault:
        """Take up a fault.

        Args:
            error: that was raised.
            where: the step; None: as its frames tell.
            source: the input that it is about.
            about: the job, rule or section that it is about.

        Raises:
            Exception: the error itself, where it is none of ours; FlowdiagError: what it comes down to.
        """
        if not is_ours(error):
            raise error
        told = self.explained(error)
        if told is not None:
            raise told from error
        return self.put(fault_of(error, where=where, source=source, about=about))

    def put(self, fault: Fault) -> Fault:
        """Take up what another step found, unless the same is known of the same thing."""
        if fault not in self.found:
            self.found.append(fault)
        return fault

    @contextmanager
    def kept(self, where: Where, about: str | None = None) -> Iterator[None]:
        """What goes wrong in the block stays there."""
        try:
            yield
        except Exception as error:  # noqa: BLE001 - whatever it is
            self.add(error, where, about=about)

    def or_else(
        self,
        act: Callable[[], Result],
        instead: Result,
        where: Where | None = None,
        *,
        about: str | None = None,
    ) -> Result:
        """What `act` returns, or `instead` where it meets a fault."""
        try:
            return act()
        except Exception as error:  # noqa: BLE001 - whatever it is
            self.add(error, where, about=about)
            return instead

    def spared(
        self,
        items: Sequence[Item],
        step: Callable[[Sequence[Item]], Result],
        where: Where,
        *,
        source: Callable[[Item], str | None] = lambda item: None,
        about: Callable[[Item], str | None] = lambda item: None,
    ) -> tuple[Result, list[Item]]:
        """A step over as many items as it takes without a fault (`parsers.faults.spared`), and which are left out."""
        left: list[Item] = []

        def blame(item: Item, error: Exception) -> None:
            self.add(error, where, source=source(item), about=about(item))
            left.append(item)

        return faults.spared(items, step, blame), left


def fault_of(
    error: BaseException,
    *,
    where: Where | None = None,
    source: str | None = None,
    about: str | None = None,
) -> Fault:
    """What the report says of an exception that nobody expected.

    Args:
        error: that was raised.
        where: the step that was on its way; None: as the frames tell.
        source: the input that it is about, where it is about one.
        about: the job, rule or section that it is about.
    """
    return _fault(caught(error), where, source, about)


def faults_of(found: Iterable[Caught], sources: Sequence[Source]) -> list[Fault]:
    """What was met where the inputs were looked at, each with the index of its source."""
    return [
        _fault(one, None, None if one.source is None else printable(sources[one.source].name), None)
        for one in found
    ]


def faults_in(splits: Iterable[Mapping[str, Any]], sources: Sequence[Source]) -> list[Fault]:
    """What parsers met, as the `split` rows tell.

    Args:
        splits: with the keys `source` and `fields`.
        sources: everything that was found, by index.
    """
    found = []
    for row in splits:
        text = dict(row["fields"] or {}).get("fault")
        if text is not None:
            name = printable(sources[row["source"]].name)
            fault = _fault(faults.from_text(text), None, name, None)
            if fault not in found:
                found.append(fault)
    return found


def _fault(found: Caught, where: Where | None, source: str | None, about: str | None) -> Fault:
    what = clean(found.what)
    _log.debug("%s", "\n".join([*filter(None, (source, about)), *traced(found.trace)]))
    said = f"this is a bug in flowdiag: {what}" if found.bug else what
    subject = f"{clean(about)}: " if about else ""
    return Fault(
        source=source,
        split=found.split,
        line=found.line,
        offset=found.offset,
        what=what,
        where=where or _where(found.modules),
        bug=found.bug,
        fingerprint=found.fingerprint or None,
        message=f"{subject}{said}",
        hint=REPORT_IT if found.bug else None,
    )


def traced(trace: str) -> Iterator[str]:
    """The lines of a traceback as they may be shown: what an exception says may come from an input."""
    for line in mask_secrets(trace).rstrip().split("\n"):  # as a whole: keys have several lines
        yield f"{' ' * (len(line) - len(line.lstrip()))}{clean(line)}"


def _where(modules: Sequence[str]) -> Where:
    for module in reversed(modules):
        if ".rules." in module:
            return Where.RULE
        for part, step in _STEPS:
            if f"{module}.".startswith(f"{part}."):
                return step
    return Where.MEASURE
