"""Faults of flowdiag's own, caught where they happen, so that the rest goes on.

A fault is what nobody expected an input to set off. What the user or the machine is to blame for is none
(`is_ours`): it ends the run with a line that says so. A fault that a parser meets travels in the `split` row of
its source, whatever process or machine it was on; `flowdiag.analyses.report.faults` tells it to people.
"""

from __future__ import annotations

import hashlib
import traceback
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

import msgspec

from flowdiag.parsers.errors import FlowdiagError, error_text, is_disk_full, is_out_of_resources

_FRAMES: Final = 3  # of ours, the innermost
_OURS: Final = "flowdiag."

Item = TypeVar("Item")
Result = TypeVar("Result")


class InternalFault(msgspec.Struct, frozen=True, kw_only=True):
    """An exception that nobody expected.

    `fingerprint` is made of its type and of our functions that it came through, the innermost: the same fault has
    the same one whatever the input, and nothing of the input is in it.
    """

    what: str
    fingerprint: str
    modules: tuple[str, ...] = ()  # of ours, without `flowdiag.`, the outermost first
    trace: str = ""
    source: int | None = None
    split: int | None = None  # where the part begins that was being read
    line: int | None = None
    offset: int | None = None
    bug: bool = True  # not where a process was killed from outside


def is_internal_fault(error: BaseException) -> bool:
    """Whether an exception is a fault of flowdiag, and neither the user's nor the machine's.

    >>> is_ours(KeyError("x")), is_ours(MemoryError()), is_ours(OSError(28, "No space left on device"))
    (True, False, False)
    """
    if is_out_of_resources(error) or (isinstance(error, OSError) and is_disk_full(error)):
        return False
    return isinstance(error, Exception) and not isinstance(error, FlowdiagError)


def describe_fault(
    error: BaseException,
    *,
    source: int | None = None,
    split: int | None = None,
    line: int | None = None,
    offset: int | None = None,
) -> InternalFault:
    """What there is to say about an exception.

    Args:
        error: that was raised, with its traceback.
        source: index of the input that it is about.
        split: first byte of the part of it that was being read.
        line, offset: of the record that was being read.
    """
    kind = type(error).__name__
    frames = _own_frames(error)
    said = error_text(error)
    return InternalFault(
        what=f"{kind}: {said}" if said else kind,
        fingerprint=_fingerprint(kind, frames),
        modules=tuple(module for module, _ in frames),
        trace="".join(traceback.format_exception(error)),
        source=source,
        split=split,
        line=line,
        offset=offset,
    )


def encode_fault(found: InternalFault) -> str:
    """A fault as a field of a row."""
    return msgspec.json.encode(found).decode()


def decode_fault(text: str) -> InternalFault:
    """The fault of `as_text`."""
    return msgspec.json.decode(text, type=InternalFault)


def run_skipping_failures(
    items: Sequence[Item],
    step: Callable[[Sequence[Item]], Result],
    blame: Callable[[Item, Exception], object],
) -> Result:
    """A step over as many of the items as it takes without a fault: all of them, as a rule.

    Items that set off a fault are found by halves, so that one among thousands costs a dozen more steps.

    Args:
        items: sources, jobs: what can be left out one by one.
        step: does the work for some of the items, in their order.
        blame: told each item that is left out, and what it set off.

    Raises:
        Exception: that of the step, where it fails without any item; or one that is not ours (`is_ours`).

    >>> blamed = []
    >>> spared([1, 0, 5], lambda some: [10 // n for n in some], lambda item, error: blamed.append(item))
    [10, 2]
    >>> blamed
    [0]
    """
    try:
        return step(items)
    except Exception as error:
        if not is_internal_fault(error):
            raise
    good: list[Item] = []
    result = step(good)
    waiting = [list(items)]
    while waiting:
        some = waiting.pop()
        try:
            result = step([*good, *some])
            good += some
        except Exception as error:
            if not is_internal_fault(error):
                raise
            if len(some) == 1:
                blame(some[0], error)
            elif some:
                middle = len(some) // 2
                waiting += [some[middle:], some[:middle]]
    return result


def _own_frames(error: BaseException) -> list[tuple[str, str]]:
    """Module (without `flowdiag.`) and function of each frame of ours, the outermost first."""
    frames = (frame for frame, _ in traceback.walk_tb(error.__traceback__))
    named = ((frame.f_globals.get("__name__") or "", frame.f_code.co_qualname) for frame in frames)
    return [
        (module.removeprefix(_OURS), function)
        for module, function in named
        if module.startswith(_OURS)
    ]


def _fingerprint(kind: str, frames: Sequence[tuple[str, str]]) -> str:
    parts = [kind, *(f"{module}:{function}" for module, function in frames[-_FRAMES:])]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]
