"""Internal faults: bugs in flowdiag that are caught so that the rest of the run can continue.

A fault is an unexpected exception while flowdiag handles an input. Errors of the user or the host are not faults
(`is_internal_fault`); they end the run with a message. A parser reports its fault in the `split` row of the source,
from any process or host. `flowdiag.analyses.faults` presents faults to the user.
"""

from __future__ import annotations

import hashlib
import traceback
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

import msgspec

from flowdiag.parsers.errors import FlowdiagError, error_text, is_disk_full, is_out_of_resources

_FRAMES: Final = 3  # number of flowdiag's innermost frames in a fingerprint
_PACKAGE: Final = "flowdiag."

Item = TypeVar("Item")
Result = TypeVar("Result")


class InternalFault(msgspec.Struct, frozen=True, kw_only=True):
    """An unexpected exception.

    `fingerprint` combines the exception type and flowdiag's innermost functions in the stack. It is the same for
    every input that triggers this fault, and contains no data from the input.
    """

    what: str
    fingerprint: str
    # Flowdiag's modules in the stack, outermost first, without the prefix `flowdiag.`.
    modules: tuple[str, ...] = ()
    trace: str = ""
    source: int | None = None
    split: int | None = None  # start of the part that was being read
    line: int | None = None
    offset: int | None = None
    bug: bool = True  # false if another program killed the process


def is_internal_fault(error: BaseException) -> bool:
    """Return whether an exception is a bug in flowdiag rather than an error of the user or the host.

    >>> [is_internal_fault(error) for error in (KeyError("x"), MemoryError(), OSError(28, "No space left"))]
    [True, False, False]
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
    """Describe an exception and its traceback as a fault.

    Args:
        error: the exception.
        source: index of the input.
        split: first byte of the part that was being read.
        line, offset: position of the record that was being read.
    """
    kind = type(error).__name__
    codes = (frame for frame, _ in traceback.walk_tb(error.__traceback__))
    named = ((code.f_globals.get("__name__") or "", code.f_code.co_qualname) for code in codes)
    frames = [
        (module.removeprefix(_PACKAGE), function)
        for module, function in named
        if module.startswith(_PACKAGE)
    ]
    text = error_text(error)
    innermost = (f"{module}:{function}" for module, function in frames[-_FRAMES:])
    return InternalFault(
        what=f"{kind}: {text}" if text else kind,
        fingerprint=hashlib.sha256("\0".join((kind, *innermost)).encode()).hexdigest()[:16],
        modules=tuple(module for module, _ in frames),
        trace="".join(traceback.format_exception(error)),
        source=source,
        split=split,
        line=line,
        offset=offset,
    )


def encode_fault(found: InternalFault) -> str:
    """Encode a fault as text, for a field of a row."""
    return msgspec.json.encode(found).decode()


def decode_fault(text: str) -> InternalFault:
    """Decode the text of `encode_fault`."""
    return msgspec.json.decode(text, type=InternalFault)


def run_skipping_failures(
    items: Sequence[Item],
    step: Callable[[Sequence[Item]], Result],
    blame: Callable[[Item, Exception], object],
) -> Result:
    """Run a step over all items, but skip the items that cause a fault.

    Normally one call of the step handles all items. If it fails, bisection finds the culprits: one among thousands
    costs a dozen more calls.

    Args:
        items: sources or jobs.
        step: does the work for some of the items, in order.
        blame: is called with each skipped item and its error.

    Raises:
        Exception: the error of the step if it fails without items, or is not internal (`is_internal_fault`).

    >>> blamed = []
    >>> run_skipping_failures(
    ...     [1, 0, 5], lambda some: [10 // n for n in some], lambda item, error: blamed.append(item)
    ... )
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
