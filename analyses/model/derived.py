"""What follows from facts, worked out once however many rules ask for it.

Facts do not change, and most rules begin with the same questions: which episodes there were, what the
timeout is, who ran where. A sick week has thousands of checkpoints, and a session cluster thousands
of jobs, so that each answer is kept with the facts that it follows from and goes when they go.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Protocol, TypeVar


class Answers(dict[Any, Any]):
    """Answers by question. Facts that are kept in a file leave them behind: other code may answer otherwise."""

    def __reduce__(self) -> tuple[type[Answers], tuple[()]]:
        """Nothing of them is pickled."""
        return Answers, ()


class Remembering(Protocol):
    """Facts with a place for what follows from them; `dataclasses.replace` begins with an empty one."""

    @property
    def derived(self) -> dict[Any, Any]:
        """Answers by question."""


Facts = TypeVar("Facts", bound=Remembering)
Answer = TypeVar("Answer")


def once(function: Callable[[Facts], Answer]) -> Callable[[Facts], Answer]:
    """Call a function of facts once for each, and remember its answer with them.

    The answer is shared by all who ask: let it be a tuple, or something that nobody changes.
    """

    @wraps(function)
    def remembered(facts: Facts) -> Answer:
        known = facts.derived
        if function not in known:
            known[function] = function(facts)
        answer: Answer = known[function]
        return answer

    return remembered
