"""`flowdiag memory`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any, Final

import typer

from flowdiag.cli.diagnosing import diagnosing
from flowdiag.parsers.errors import FlowdiagError

_calculator: Final = partial(typer.Option, rich_help_panel="Calculator")

Paths = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[PATH...]",
        help="Configurations, logs, REST responses, kubectl output, GC logs; optional.",
    ),
]
ProcessSize = Annotated[
    str | None,
    _calculator("--process-size", metavar="SIZE", help="Total process memory: 1728m, 4g."),
]
FlinkSize = Annotated[
    str | None,
    _calculator(
        "--flink-size", metavar="SIZE", help="Total Flink memory, instead of --process-size."
    ),
]
Define = Annotated[
    list[str] | None,
    _calculator("-D", metavar="KEY=VALUE", help="Any Flink option; overrides files. Repeatable."),
]
FlinkVersion = Annotated[
    str | None,
    _calculator("--flink", metavar="VERSION", help="Flink version, if no input contains it: 1.20."),
]
JobManager = Annotated[
    bool,
    _calculator("--jobmanager", help="Apply these sizes to a JobManager instead of a TaskManager."),
]
Container = Annotated[
    bool | None,
    _calculator(
        "--container/--standalone",
        help="Whether the process runs on YARN or Kubernetes; for Flink up to 1.9.",
        show_default=False,
    ),
]


@diagnosing(
    paths=(Paths, None),
    inputs={
        "process_size": (ProcessSize, None),
        "flink_size": (FlinkSize, None),
        "define": (Define, None),
        "flink": (FlinkVersion, None),
        "jobmanager": (JobManager, False),
        "container": (Container, None),
    },
    job=None,
    early=False,
)
def memory(arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    """Show where a Flink job's memory goes, and which pool or buffer count is too small.

    \b
    Examples:
      flowdiag memory logs/ --process-size 4g -D taskmanager.memory.managed.fraction=0.2
      kubectl describe pod my-taskmanager-1-1 | flowdiag memory - logs/

    Pass a configuration, or sizes as options. Logs add the observed memory and killed containers.
    """
    from flowdiag.analyses.selection.options import MemoryOptions

    version = arguments["flink"]
    role = "jobmanager" if arguments["jobmanager"] else "taskmanager"
    options = parse_definitions(arguments["define"] or ())
    if arguments["process_size"] is not None:
        options[_total(role, version)] = _with_unit("--process-size", arguments["process_size"])
    if arguments["flink_size"] is not None:
        options[f"{role}.memory.flink.size"] = _with_unit("--flink-size", arguments["flink_size"])
    if version is not None and not re.match(r"v?\d+\.\d+", version):
        raise FlowdiagError(f"'{version}' is not a Flink version", hint="write 1.20 or 2.0.1")
    if not arguments["paths"] and not options:
        raise FlowdiagError(
            "no input and no option",
            hint="flowdiag memory logs/ or flowdiag memory --process-size 4g --flink 1.20",
        )
    return {
        "memory": MemoryOptions(given=options, version=version, container=arguments["container"])
    }


_FEWEST_BYTES: Final = 1 << 20


def _with_unit(option: str, size: str) -> str:
    """Return the size unchanged, or reject a number that makes sense only with a unit.

    Raises:
        FlowdiagError: the unit is missing.
    """
    number = size.strip()
    if number.isdecimal() and int(number) < _FEWEST_BYTES:
        likely = "g" if int(number) < 128 else "m"
        raise FlowdiagError(
            f"{option} {number} is {number} bytes: add a unit", hint=f"{option} {number}{likely}"
        )
    return size


def _total(role: str, flink: str | None) -> str:
    """Return the name of the option that sets the total process size in this Flink version.

    >>> _total("taskmanager", "1.9"), _total("taskmanager", None)
    ('taskmanager.heap.size', 'taskmanager.memory.process.size')
    """
    from flowdiag.parsers.units import version_of

    version = version_of(flink)
    first = (1, 11) if role == "jobmanager" else (1, 10)
    old = version is not None and version < first
    return f"{role}.heap.size" if old else f"{role}.memory.process.size"


def parse_definitions(texts: list[str] | tuple[str, ...]) -> dict[str, str]:
    """Parse options of the form `key=value`.

    Raises:
        FlowdiagError: an option has no `=`.

    >>> parse_definitions(["taskmanager.memory.process.size=4g"])
    {'taskmanager.memory.process.size': '4g'}
    """
    found = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise FlowdiagError(f"-D needs key=value, not '{text}'")
        found[key.strip()] = value.strip()
    return found
