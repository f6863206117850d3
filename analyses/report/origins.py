"""Identifies the component that threw a finding's exception, and the error codes in its text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from flowdiag.analyses.contract import report as w
from flowdiag.parsers.codes import codes_in
from flowdiag.parsers.components import component_of

_ABOVE: Final = re.compile(r'(?:Caused by: |Exception in thread "[^"]{0,200}" )')


def component_in(texts: Sequence[str]) -> w.Component | None:
    """Return the component that threw the first of these exceptions whose origin is known, or None.

    Args:
        texts: exception classes with messages, or log lines that begin with them.
    """
    for text in texts:
        found = component_of([_ABOVE.sub("", text, count=1).strip()])
        if found is not None and found.role == "part":
            return w.Component(name=found.name, what=found.what, check=found.check, log=found.log)
    return None


def codes_of(texts: Sequence[str]) -> list[w.FailureCode]:
    """Return the codes in a finding's texts without repetitions."""
    return [
        w.FailureCode(
            code=one.code,
            family=one.family,
            meaning=one.meaning,
            check=one.check,
            retriable=one.retriable,
        )
        for one in codes_in("\n".join(texts))
    ]
