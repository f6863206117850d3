"""Collects faults: errors in one input, job or rule, which a report lists while the rest is diagnosed."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeVar

from flowdiag.analyses.contract.redact import clean, mask_secrets, printable
from flowdiag.analyses.contract.report import Fault, Where
from flowdiag.parsers import faults
from flowdiag.parsers.errors import FlowdiagError
from flowdiag.parsers.faults import InternalFault, describe_fault, is_internal_fault

if TYPE_CHECKING:
    from flowdiag.parsers.source import Source

REPORT_IT: Final = "please report it, and include the command line; --debug shows the traceback"

# The step to which a module belongs. The innermost matching frame decides.
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
    """Collects faults so that the run can continue.

    Attributes:
        found: the faults in order, without repetitions.
        explained: converts a failure of the environment (Java is gone, a disk is full) to the error that ends the run,
            because every later step would fail the same way.
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
        """Record an exception as a fault.

        Args:
            where: the step that failed. By default, it is derived from the stack frames.
            source: the input that failed.
            about: the job, rule or section that failed.

        Raises:
            Exception: `error` itself if it is not a fault of flowdiag or its inputs.
            FlowdiagError: the failure of the environment that caused it.
        """
        if not is_internal_fault(error):
            raise error
        explanation = self.explained(error)
        if explanation is not None:
            raise explanation from error
        return self.add_fault(fault_of(error, where=where, source=source, about=about))

    def add_fault(self, fault: Fault) -> Fault:
        """Record a fault found by another step, unless it is already recorded."""
        if fault not in self.found:
            self.found.append(fault)
        return fault

    @contextmanager
    def catch(self, where: Where, about: str | None = None) -> Iterator[None]:
        """Record an exception from the block, and continue after the block."""
        try:
            yield
        except Exception as error:  # noqa: BLE001 - any exception is a fault
            self.add(error, where, about=about)

    def run_or_default(
        self,
        act: Callable[[], Result],
        default: Result,
        where: Where | None = None,
        *,
        about: str | None = None,
    ) -> Result:
        """Return `act()`, or `default` if it raises."""
        try:
            return act()
        except Exception as error:  # noqa: BLE001 - any exception is a fault
            self.add(error, where, about=about)
            return default

    def run_skipping_failures(
        self,
        items: Sequence[Item],
        step: Callable[[Sequence[Item]], Result],
        where: Where,
        *,
        source: Callable[[Item], str | None] = lambda item: None,
        about: Callable[[Item], str | None] = lambda item: None,
    ) -> tuple[Result, list[Item]]:
        """Run a step on all items, skipping items that make it fail.

        Return its result and the skipped items.
        """
        skipped: list[Item] = []

        def skip(item: Item, error: Exception) -> None:
            self.add(error, where, source=source(item), about=about(item))
            skipped.append(item)

        return faults.run_skipping_failures(items, step, skip), skipped


def fault_of(
    error: BaseException,
    *,
    where: Where | None = None,
    source: str | None = None,
    about: str | None = None,
) -> Fault:
    """Describe an unexpected exception for the report. See `Faults.add` for the arguments."""
    return _fault(describe_fault(error), where, source, about)


def faults_of(found: Iterable[InternalFault], sources: Sequence[Source]) -> list[Fault]:
    """Return the faults of discovery, each with the index of its source."""
    return [
        _fault(one, None, None if one.source is None else printable(sources[one.source].name), None)
        for one in found
    ]


def faults_in(splits: Iterable[Mapping[str, Any]], sources: Sequence[Source]) -> list[Fault]:
    """Return the parser faults without duplicates.

    Args:
        splits: `split` rows with the keys `source` and `fields`.
        sources: all discovered sources, by index.
    """
    found = Faults()
    for row in splits:
        text = dict(row["fields"] or {}).get("fault")
        if text is not None:
            name = printable(sources[row["source"]].name)
            found.add_fault(_fault(faults.decode_fault(text), None, name, None))
    return found.found


def _fault(
    found: InternalFault, where: Where | None, source: str | None, about: str | None
) -> Fault:
    what = clean(found.what)
    _log.debug("%s", "\n".join([*filter(None, (source, about)), *masked_traceback(found.trace)]))
    subject = f"{clean(about)}: " if about else ""
    return Fault(
        source=source,
        split=found.split,
        line=found.line,
        offset=found.offset,
        what=what,
        where=where or _step(found.modules),
        bug=found.bug,
        fingerprint=found.fingerprint or None,
        message=f"{subject}this is a bug in flowdiag: {what}" if found.bug else f"{subject}{what}",
        hint=REPORT_IT if found.bug else None,
    )


def masked_traceback(trace: str) -> Iterator[str]:
    """Yield the lines of a traceback without secrets, because exception texts may quote an input."""
    for line in (
        mask_secrets(trace).rstrip().split("\n")
    ):  # masked as a whole, because keys span several lines
        yield f"{' ' * (len(line) - len(line.lstrip()))}{clean(line)}"


def _step(modules: Sequence[str]) -> Where:
    for module in reversed(modules):
        if ".rules." in module:
            return Where.RULE
        for part, step in _STEPS:
            if f"{module}.".startswith(f"{part}."):
                return step
    return Where.MEASURE
