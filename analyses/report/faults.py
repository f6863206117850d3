"""A fault of flowdiag's own as the report tells it: what went wrong, at which step, and what to report of it.

The fingerprint is made of the exception's type and of the functions of ours that it came through, so that the same
fault has the same one whatever the input, and none of the input is in it.
"""

from __future__ import annotations

import hashlib
import traceback
from typing import Final

from flowdiag.analyses.report.redact import clean
from flowdiag.analyses.report.wire import Fault, Where
from flowdiag.parsers.errors import text_of

REPORT_IT: Final = "please report it with the command line; --debug shows the traceback"

_FRAMES: Final = 3  # of ours, the innermost
_OURS: Final = "flowdiag."
# By the part of the house that it came from, the innermost that says something.
_STEPS: Final = (
    ("cli.render", Where.RENDER),
    ("cli.views", Where.RENDER),
    ("analyses.report", Where.RENDER),
    ("analyses.flink.clocks", Where.RESOLVE),
    ("parsers", Where.PARSER),
)


def fault_of(
    error: BaseException, *, where: Where | None = None, source: str | None = None
) -> Fault:
    """What the report says of an exception that nobody expected.

    Args:
        error: that was raised.
        where: the step that was on its way; None: as the frames tell.
        source: the input that it is about, where it is about one.
    """
    frames = _own_frames(error)
    what = clean(f"{type(error).__name__}: {text_of(error)}")
    return Fault(
        source=source,
        what=what,
        where=where or _where(frames),
        bug=True,
        fingerprint=_fingerprint(type(error).__name__, frames),
        message=f"this is a bug in flowdiag: {what}",
        hint=REPORT_IT,
    )


def _own_frames(error: BaseException) -> list[tuple[str, str]]:
    """Module (without `flowdiag.`) and function of each frame of ours, the outermost first."""
    frames = (frame for frame, _ in traceback.walk_tb(error.__traceback__))
    named = ((frame.f_globals.get("__name__") or "", frame.f_code.co_qualname) for frame in frames)
    return [
        (module.removeprefix(_OURS), function)
        for module, function in named
        if module.startswith(_OURS)
    ]


def _where(frames: list[tuple[str, str]]) -> Where:
    for module, _ in reversed(frames):
        if ".rules." in module:
            return Where.RULE
        for part, step in _STEPS:
            if f"{module}.".startswith(f"{part}."):
                return step
    return Where.MEASURE


def _fingerprint(kind: str, frames: list[tuple[str, str]]) -> str:
    parts = [kind, *(f"{module}:{function}" for module, function in frames[-_FRAMES:])]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]
