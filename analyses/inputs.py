"""Converts paths to inputs: finds sources, assigns engines, and checks that something can be read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from flowdiag.parsers.errors import InputError

if TYPE_CHECKING:
    from flowdiag.parsers.discover import Discovery


def inputs_of(
    command: str, paths: Sequence[str], *, strict: bool
) -> tuple[Discovery, frozenset[str]]:
    """Return the inputs of a command and their engines.

    Raises:
        InputError: see `find`.
    """
    from flowdiag.analyses.topic_names import ENGINES, EVERYTHING

    if command != EVERYTHING:
        return find(paths, strict=strict, engine=ENGINES[command]), frozenset({ENGINES[command]})
    return with_owners(find(paths, strict=strict))


def with_owners(discovery: Discovery) -> tuple[Discovery, frozenset[str]]:
    """Assign an engine to each source that could belong to either, and return all engines."""
    from flowdiag.analyses.report.fitting import engines_of

    sources, engines = engines_of(discovery.sources)
    return replace(discovery, sources=sources), engines


def find(paths: Sequence[str], *, strict: bool, engine: str | None = None) -> Discovery:
    """Find the inputs. With `engine`, inputs of the other engine are listed as not read.

    Raises:
        InputError: no input can be read, or `strict` is set and one is missing.
    """
    from flowdiag.parsers.discover import discover, limit_to_engine

    discovery = discover(paths)
    if engine is not None:
        discovery = limit_to_engine(discovery, engine)
    unreadable = [s for s in discovery.sources if (s.reason or "").startswith("unreadable")]
    missing = [*map(str, discovery.errors), *(f"{s.name}: {s.reason}" for s in unreadable)]
    none_left = len(unreadable) == len(discovery.sources)
    if missing and (none_left or strict):
        more = f" (and {len(missing) - 1} more)" if len(missing) > 1 else ""
        hint = "no input can be read" if none_left else "--strict-inputs is set"
        raise InputError(missing[0] + more, hint=hint)
    return discovery
