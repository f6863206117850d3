"""Spark at the first moment of a command, and all that is set for the process while a command runs."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from flowdiag.cli.settings import Settings, load_settings, parse_heap, parse_stay
from flowdiag.cli.spark import tricks
from flowdiag.cli.spark.lean import without_unused
from flowdiag.cli.spark.tricks import Trick, used
from flowdiag.parsers.errors import FlowdiagError

if TYPE_CHECKING:
    from flowdiag.cli.spark.starter import SparkStarter


# Commands that always need Spark.
_COMMANDS: Final = frozenset({"diagnose", "checkpoints", "queues", "rate", "startup"})
# Options that decide how Spark is started, or that it is not.
_DECIDING: Final = (
    "-h",
    "--help",
    "--show-config",
    "--master",
    "--java-heap",
    "--stay",
    "--data-dir",
    "-c",
    "--config",
)


@dataclass(slots=True)
class _Ahead:
    """Spark on its way before the command line is understood, and what is set for the process."""

    stack: ExitStack = field(default_factory=ExitStack)
    starter: SparkStarter | None = None


_ahead: Final = _Ahead()


@contextmanager
def spark_ahead(arguments: Sequence[str]) -> Iterator[None]:
    """Begin to start Spark for a command line that looks as if it needs it; for processes of our own.

    To understand a command line takes a tenth of a second, most of it for imports, and Java is what
    a small diagnosis waits for. If the guess was wrong (a mistake in the command line, a cluster)
    Java ends before it has done anything.

    Args:
        arguments: the command line without the program's name.
    """
    settings = _foreseen(arguments)
    if settings is None:
        yield
        return
    with _ahead.stack:
        _ahead.starter = _begin(_ahead.stack, settings)
        try:
            yield
        finally:
            _ahead.starter = None


def _foreseen(arguments: Sequence[str]) -> Settings | None:
    """The settings of a session of our own on this machine, if it looks as if one will be wanted.

    >>> _foreseen(["checkpoints", "logs/"]) is None, _foreseen(["rate", "--help"]) is None
    (False, True)
    """
    if (
        len(arguments) < 2
        or arguments[0] not in _COMMANDS
        or any(each.startswith(_DECIDING) for each in arguments)
        or "PYSPARK_GATEWAY_PORT" in os.environ
        or not used(Trick.AHEAD)
    ):
        return None
    try:
        tricks.check()
        settings = load_settings({})
    except FlowdiagError:
        return None  # told when the command line is understood
    return settings if settings.master is None else None


@contextmanager
def spark_for(settings: Settings, paths: Sequence[str]) -> Iterator[SparkStarter]:
    """Begin to start Spark, for a `with` statement around all the rest of a command.

    Args:
        settings: of all layers.
        paths: as given: a cluster cannot read every one.

    Raises:
        FlowdiagError: the master or a path is refused, or what shall be left out is unknown.
    """
    tricks.check()
    if settings.master is None and _ahead.starter is not None:
        yield _ahead.starter
        return
    _ahead.stack.close()
    if settings.master is not None:
        from flowdiag.cli.spark.cluster import check_inputs_of

        check_inputs_of(settings.master, paths)
    with ExitStack() as stack:
        yield _begin(stack, settings)


def _begin(stack: ExitStack, settings: Settings) -> SparkStarter:
    from flowdiag.cli.spark.starter import SparkStarter, runs_here

    master, heap = settings.master, settings.java_heap

    # Before the first import of pyarrow or pyspark; to write tables takes Python tasks, and these pandas.
    if runs_here(master) and settings.data_dir is None and used(Trick.LEAN_IMPORTS):
        stack.enter_context(without_unused())
    heap_bytes = parse_heap(heap) if heap else None
    stay_s = parse_stay(settings.stay) if settings.stay else 0
    return stack.enter_context(
        SparkStarter.begin(
            master=master,
            heap_bytes=heap_bytes,
            join=not os.environ.get("CI") and settings.data_dir is None,
            stay_s=stay_s or None,
        )
    )
