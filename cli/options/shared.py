"""Options that several commands share, with the same name and help everywhere.

A help text fits one line of a terminal with 100 columns (72 characters), so that the help of a command
fits one screen.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any, Final

import typer

from flowdiag.cli.options.completion import complete_rule, complete_rules
from flowdiag.cli.options.help import DEBUG, GENERAL, INPUT, OUTPUT, SPARK, VERDICT
from flowdiag.cli.settings import FailOn, Format, Listing, MinSeverity, Settings, Warm, When

_input: Final = partial(typer.Option, rich_help_panel=INPUT)
_output: Final = partial(typer.Option, rich_help_panel=OUTPUT)
_verdict: Final = partial(typer.Option, rich_help_panel=VERDICT)
_spark: Final = partial(typer.Option, rich_help_panel=SPARK)
_general: Final = partial(typer.Option, rich_help_panel=GENERAL)

Paths = Annotated[
    list[str],
    typer.Argument(
        metavar="PATH...", help="Files, folders, globs, archives, or - for standard input."
    ),
]
Tz = Annotated[
    str | None,
    _input(
        "--tz",
        metavar="ZONE",
        help="Time zone of the logs: Asia/Shanghai, +08:00 (default: inferred).",
    ),
]
StrictInputs = Annotated[
    bool | None, _input("--strict-inputs", help="Exit with 2 if any input is missing or damaged.")
]
Since = Annotated[
    str | None,
    _input(
        "--since", metavar="WHEN", help="Start: 2026-01-31T18:43, or 2h before the last record."
    ),
]
Until = Annotated[
    str | None, _input("--until", metavar="WHEN", help="End, in the same formats as --since.")
]
Job = Annotated[
    str | None,
    _input("--job", metavar="JOB", help="Only this job: prefix of its ID, or glob of its name."),
]
Application = Annotated[
    str | None,
    _input(
        "--application",
        metavar="APP",
        help="Only this application: prefix of its ID, or glob of its name.",
    ),
]
TriggerInterval = Annotated[
    str | None,
    _input(
        "--trigger-interval",
        metavar="TIME",
        help="Trigger interval of the queries: 10s, 500ms, 1m (default: inferred).",
    ),
]
RealTime = Annotated[
    bool | None,
    _input(
        "--real-time/--no-real-time",
        help="Whether the queries run in real-time mode (default: inferred).",
    ),
]
Conf = Annotated[
    list[str] | None,
    _input(
        "--conf",
        metavar="KEY=VALUE",
        help="Spark option of the application, as for spark-submit; repeatable.",
    ),
]
Retention = Annotated[
    str | None,
    _input(
        "--retention",
        metavar="TIME",
        help="Retention of the Kafka topics: 36h, 3d (default: 7 days).",
    ),
]


def rule_argument(metavar: str, help: str) -> Any:
    """Declare the argument that names what to explain, with completion of rules."""
    return typer.Argument(metavar=metavar, help=help, autocompletion=complete_rule)


def format_option(*formats: Format) -> Any:
    """Declare `--format` with a help text that lists the formats of the command."""
    option = _output(
        "--format", "-f", metavar="FORMAT", help=f"{', '.join(formats)} (default: table)."
    )
    return Annotated[Format | None, option]


OutputFormat: Final = format_option(*Format)
Output = Annotated[
    str | None,
    _output(
        "--output",
        "-o",
        metavar="FILE",
        help="Write to a file: *.html, *.json, *.md and *.xml set the format.",
    ),
]
ListingFormat = Annotated[
    Listing,
    _output(
        "--format", "-f", metavar="FORMAT", help=f"{', '.join(Listing)} (default: {Listing.TABLE})."
    ),
]
TextOutput = Annotated[
    str | None, _output("--output", "-o", metavar="FILE", help="Write to a file.")
]
DataDir = Annotated[
    str | None,
    _output(
        "--data-dir", metavar="DIR", help="Also write complete tables as Parquet (docs/tables.md)."
    ),
]
MaxRows = Annotated[
    int | None,
    _output(
        "--max-rows",
        metavar="N",
        help=f"Maximum list length in JSON; lower for many jobs (default: {Settings().max_rows}).",
    ),
]
Redact = Annotated[
    bool | None,
    _output("--redact", help="Replace hosts, users, jobs, tasks and paths with pseudonyms."),
]
NoExcerpts = Annotated[bool | None, _output("--no-excerpts", help="Do not quote log text.")]
ColorOption = Annotated[
    When | None,
    _output(
        "--color",
        metavar="WHEN",
        help=f"{', '.join(When)} (default: auto; NO_COLOR and FORCE_COLOR apply).",
    ),
]
NoColor = Annotated[bool | None, _output("--no-color", help="Same as --color never.", hidden=True)]
Hyperlinks = Annotated[
    When | None,
    _output(
        "--hyperlinks",
        metavar="WHEN",
        help=f"Link file names: {', '.join(When)} (default: auto; FORCE_HYPERLINK).",
    ),
]
ShowTz = Annotated[
    str | None,
    _output(
        "--show-tz",
        metavar="ZONE",
        help="Time zone of the report: Europe/Berlin, local (default: the logs').",
    ),
]
MinSeverityOption = Annotated[
    MinSeverity | None,
    _output(
        "--min-severity",
        metavar="LEVEL",
        help=f"Hide findings below this level: {', '.join(MinSeverity)} (default: info).",
    ),
]
FailOnOption = Annotated[
    FailOn | None,
    _verdict(
        "--fail-on",
        metavar="LEVEL",
        help=f"Fail at or above: {', '.join(FailOn)} (default: warning).",
    ),
]
AllowInconclusive = Annotated[
    bool | None,
    _verdict("--allow-inconclusive", help="Exit with 0 instead of 3 if inconclusive."),
]
BaselineOption = Annotated[
    str | None,
    _verdict(
        "--baseline",
        metavar="FILE",
        help="Mute the known findings in FILE (see `flowdiag baseline --help`).",
    ),
]
Select = Annotated[
    list[str] | None,
    _verdict(
        "--select",
        metavar="RULE,...",
        help="Report only these rules: codes, prefixes (CP, RT4), names; repeatable.",
        autocompletion=complete_rules,
    ),
]
Ignore = Annotated[
    list[str] | None,
    _verdict(
        "--ignore",
        metavar="RULE,...",
        help="Ignore these rules; the report lists them.",
        autocompletion=complete_rules,
    ),
]
Config = Annotated[
    str | None,
    _general("--config", "-c", metavar="FILE", help="Settings file (default: flowdiag.toml)."),
]
ShowConfig = Annotated[
    bool, _general("--show-config", help="Print every setting with its source, and exit.")
]
Quiet = Annotated[
    bool | None, _general("--quiet", "-q", help="Print no progress or warnings on stderr.")
]
Verbose = Annotated[
    int | None,
    _general("--verbose", "-v", count=True, help="Show all inputs, rules, findings and evidence."),
]
Debug = Annotated[bool | None, _general("--debug", help=DEBUG)]
Master = Annotated[
    str | None,
    _spark(
        "--master",
        metavar="URL",
        help="Use a Spark cluster: spark://host:7077, yarn, k8s://… (docs/scaling.md).",
    ),
]
JavaHeap = Annotated[
    str | None,
    _spark(
        "--java-heap",
        metavar="SIZE",
        help="Java heap: 4g (default: a quarter of the memory, 512 MB to 2 GB).",
    ),
]
StayOption = Annotated[
    str | None,
    _spark(
        "--stay",
        metavar="TIME",
        help="Keep Java running for the next command: 15m, 1h (default: 0).",
    ),
]
WarmOption = Annotated[
    Warm | None,
    _spark(
        "--warm",
        metavar="WHEN",
        help="Cache Java classes after the first run: auto, never (default: auto).",
    ),
]


def flags(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a command that are settings. A setting that the user left out is None.

    Args:
        arguments: the arguments by name, as `locals()` at the start of a command.
    """
    found = {name: arguments[name] for name in Settings.__struct_fields__ if name in arguments}
    # Typer passes 0 or [] for counted and repeated options that are not given.
    return found | {name: found.get(name) or None for name in ("verbose", "select", "ignore")}
