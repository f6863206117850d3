"""`flowdiag memory`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from flowdiag.cli.diagnosing import diagnosing
from flowdiag.parsers.errors import FlowdiagError

_CALCULATOR = "Calculator"

Paths = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[PATH...]",
        help="Configuration files (flink-conf.yaml, config.yaml, a ConfigMap, a FlinkDeployment),"
        " logs, saved answers of the REST interface, kubectl describe, GC logs; or nothing.",
    ),
]
ProcessSize = Annotated[
    str | None,
    typer.Option(
        "--process-size",
        metavar="SIZE",
        help="Total process memory: 1728m, 4g.",
        rich_help_panel=_CALCULATOR,
    ),
]
FlinkSize = Annotated[
    str | None,
    typer.Option(
        "--flink-size",
        metavar="SIZE",
        help="Total Flink memory, instead of the process's.",
        rich_help_panel=_CALCULATOR,
    ),
]
Define = Annotated[
    list[str] | None,
    typer.Option(
        "-D",
        metavar="KEY=VALUE",
        help="Any option, as Flink takes it; wins over files. Repeatable.",
        rich_help_panel=_CALCULATOR,
    ),
]
FlinkVersion = Annotated[
    str | None,
    typer.Option(
        "--flink",
        metavar="VERSION",
        help="Version of Flink, where the input does not say: 1.20.",
        rich_help_panel=_CALCULATOR,
    ),
]
JobManager = Annotated[
    bool,
    typer.Option(
        "--jobmanager", help="The sizes above are a JobManager's.", rich_help_panel=_CALCULATOR
    ),
]
Container = Annotated[
    bool | None,
    typer.Option(
        "--container/--standalone",
        help="On YARN or Kubernetes, or not; matters for options of Flink 1.9 and older.",
        rich_help_panel=_CALCULATOR,
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
def memory(given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Can the memory and the network buffers carry the job, and where does the memory go?

    \b
    Examples:
      flowdiag memory --process-size 4g --flink 1.20
      flowdiag memory --process-size 4g -D taskmanager.memory.managed.fraction=0.2
      flowdiag memory conf/flink-conf.yaml --flink 1.17
      flowdiag memory logs/ rest/
      kubectl describe pod my-taskmanager-1-1 | flowdiag memory - logs/

    The arithmetic is Flink's own, to the byte, for the version seen. With logs it compares what was
    configured with what runs, counts the network buffers that the job needs, and explains kills.
    """
    from flowdiag.analyses.model.options import MemoryOptions

    version = given["flink"]
    role = "jobmanager" if given["jobmanager"] else "taskmanager"
    options = defined(given["define"] or ())
    if given["process_size"] is not None:
        options[_total(role, version)] = given["process_size"]
    if given["flink_size"] is not None:
        options[f"{role}.memory.flink.size"] = given["flink_size"]
    if version is not None and not re.match(r"v?\d+\.\d+", version):
        raise FlowdiagError(f"'{version}' is no version of Flink", hint="write 1.20 or 2.0.1")
    if not given["paths"] and not options:
        raise FlowdiagError(
            "nothing to look at: no input and no option",
            hint="flowdiag memory logs/ or flowdiag memory --process-size 4g --flink 1.20",
        )
    return {"memory": MemoryOptions(given=options, version=version, container=given["container"])}


def _total(role: str, flink: str | None) -> str:
    """The option for the size of the whole process, by its name in that version.

    >>> _total("taskmanager", "1.9"), _total("taskmanager", None)
    ('taskmanager.heap.size', 'taskmanager.memory.process.size')
    """
    from flowdiag.analyses.flink.options import version_of

    version = version_of(flink)
    first = (1, 11) if role == "jobmanager" else (1, 10)
    old = version is not None and version < first
    return f"{role}.heap.size" if old else f"{role}.memory.process.size"


def defined(texts: list[str] | tuple[str, ...]) -> dict[str, str]:
    """Options of the form `key=value`.

    Raises:
        FlowdiagError: there is no `=`.

    >>> defined(["taskmanager.memory.process.size=4g"])
    {'taskmanager.memory.process.size': '4g'}
    """
    found = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise FlowdiagError(f"-D needs key=value, not '{text}'")
        found[key.strip()] = value.strip()
    return found
