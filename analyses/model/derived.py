"""Caches values derived from facts, so that rules share them.

Facts do not change, and most rules need the same derived values, such as episodes, the timeout and the placement of
subtasks. A bad week has thousands of checkpoints, and a session cluster thousands of jobs. Each value is cached
with its facts and freed with them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Protocol, TypeVar


class DerivedValues(dict[Any, Any]):
    """Cached values by function. They are not pickled with the facts, because another process may run other code."""

    def __reduce__(self) -> tuple[type[DerivedValues], tuple[()]]:
        return DerivedValues, ()


class CachingFacts(Protocol):
    """Facts that carry a cache. `dataclasses.replace` does not copy the cache."""

    @property
    def derived(self) -> dict[Any, Any]:
        """Cached values by function."""


Facts = TypeVar("Facts", bound=CachingFacts)
Value = TypeVar("Value")


def once(function: Callable[[Facts], Value]) -> Callable[[Facts], Value]:
    """Decorate a function so that it runs once per facts object.

    All callers share the result, so it must be immutable.
    """

    @wraps(function)
    def remembered(facts: Facts) -> Value:
        known = facts.derived
        if function not in known:
            known[function] = function(facts)
        value: Value = known[function]
        return value

    return remembered
