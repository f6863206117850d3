"""The options that commands share, so that they are called and explained the same everywhere."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from flowdiag.cli.options.completion import rule_words
from flowdiag.cli.options.help import DEBUG
from flowdiag.cli.options.settings import FailOn, Format, MinSeverity, Settings, Warm, When

_INPUT = "Input"
_SELECTION = "Selection"
_OUTPUT = "Output"
_VERDICT = "Verdict"
_GENERAL = "General"

Paths = Annotated[
    list[str],
    typer.Argument(
        metavar="PATH...",
        help="Files, directories, globs, or - for standard input; gz, bz2, xz, zst, lz4, zip"
        " and tar are read as they are.",
    ),
]
Tz = Annotated[
    str | None,
    typer.Option(
        "--tz",
        metavar="ZONE",
        help="Zone of the log's times, where it cannot be inferred: Asia/Shanghai, UTC, +08:00.",
        rich_help_panel=_INPUT,
    ),
]
StrictInputs = Annotated[
    bool | None,
    typer.Option(
        "--strict-inputs",
        help="Fail with exit code 2 if any input is missing, unreadable or damaged.",
        rich_help_panel=_INPUT,
    ),
]
Since = Annotated[
    str | None,
    typer.Option(
        "--since",
        metavar="WHEN",
        help="Judge from here on: 2026-01-31T18:43, or 2h before the end of the input. Names and"
        " places are still taken from everything.",
        rich_help_panel=_SELECTION,
    ),
]
Until = Annotated[
    str | None,
    typer.Option("--until", metavar="WHEN", help="Judge up to here.", rich_help_panel=_SELECTION),
]
Job = Annotated[
    str | None,
    typer.Option(
        "--job",
        metavar="JOB",
        help="Judge only this job: the beginning of its id, or a glob of its name, in any case.",
        rich_help_panel=_SELECTION,
    ),
]
Application = Annotated[
    str | None,
    typer.Option(
        "--application",
        metavar="APP",
        help="Judge only this application: the beginning of its id, or a glob of its name, in any"
        " case.",
        rich_help_panel=_SELECTION,
    ),
]
TriggerInterval = Annotated[
    str | None,
    typer.Option(
        "--trigger-interval",
        metavar="TIME",
        help="Of the queries' triggers, which Spark writes nowhere: 10s, 500ms, 1m. Without it, it"
        " is taken from what the triggers show.",
        rich_help_panel=_INPUT,
    ),
]
RealTime = Annotated[
    bool | None,
    typer.Option(
        "--real-time/--no-real-time",
        help="Whether the queries run in real-time mode, where a trigger lasts as long as it is told"
        " to. Without it, it is taken from the configuration and the driver's log.",
        rich_help_panel=_INPUT,
    ),
]
Conf = Annotated[
    list[str] | None,
    typer.Option(
        "--conf",
        metavar="KEY=VALUE",
        help="An option of the application that no input tells, as for spark-submit; repeatable.",
        rich_help_panel=_INPUT,
    ),
]
Retention = Annotated[
    str | None,
    typer.Option(
        "--retention",
        metavar="TIME",
        help="How long the topics keep their records: 36h, 3d (default: Kafka's seven days).",
        rich_help_panel=_INPUT,
    ),
]
OutputFormat = Annotated[
    Format | None,
    typer.Option(
        "--format",
        "-f",
        metavar="FORMAT",
        help=f"How the report is written: {', '.join(Format)} (default: table).",
        rich_help_panel=_OUTPUT,
    ),
]
Output = Annotated[
    str | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE",
        help="Write the report to a file, which appears only when it is complete; as a web page if"
        " it is called *.html.",
        rich_help_panel=_OUTPUT,
    ),
]
DataDir = Annotated[
    str | None,
    typer.Option(
        "--data-dir",
        metavar="DIR",
        help="Also write the complete tables there, as Parquet (docs/tables.md): checkpoints, late"
        " acknowledgements, batches, metrics, …; the folder appears when they are complete.",
        rich_help_panel=_OUTPUT,
    ),
]
MaxRows = Annotated[
    int | None,
    typer.Option(
        "--max-rows",
        metavar="N",
        help="Longest list in the report's data; the sick are kept first (default: 10000).",
        rich_help_panel=_OUTPUT,
    ),
]
Redact = Annotated[
    bool | None,
    typer.Option(
        "--redact",
        help="Replace hosts, users, job and task names and paths by pseudonyms. Secrets are always"
        " masked.",
        rich_help_panel=_OUTPUT,
    ),
]
NoExcerpts = Annotated[
    bool | None,
    typer.Option("--no-excerpts", help="Quote no log text.", rich_help_panel=_OUTPUT),
]
ColorOption = Annotated[
    When | None,
    typer.Option(
        "--color",
        metavar="WHEN",
        help=f"Colour: {', '.join(When)} (default: auto, on a terminal, unless NO_COLOR is set;"
        " FORCE_COLOR: off one too).",
        rich_help_panel=_OUTPUT,
    ),
]
NoColor = Annotated[
    bool | None,
    typer.Option("--no-color", help="The same as --color never.", rich_help_panel=_OUTPUT),
]
Hyperlinks = Annotated[
    When | None,
    typer.Option(
        "--hyperlinks",
        metavar="WHEN",
        help=f"Places in files as links: {', '.join(When)} (default: auto, on a terminal that is known to"
        " open them; FORCE_HYPERLINK: on others too).",
        rich_help_panel=_OUTPUT,
    ),
]
ShowTz = Annotated[
    str | None,
    typer.Option(
        "--show-tz",
        metavar="ZONE",
        help="Zone in which times are shown to people: Europe/Berlin, UTC, +02:00, local (default:"
        " that of the JobManager's or driver's log). JSON is always in UTC.",
        rich_help_panel=_OUTPUT,
    ),
]
Select = Annotated[
    list[str] | None,
    typer.Option(
        "--select",
        metavar="RULE,...",
        help="Hear only these rules: by code, beginning of it (CP, RT4) or name; repeatable.",
        rich_help_panel=_VERDICT,
        autocompletion=rule_words,
    ),
]
Ignore = Annotated[
    list[str] | None,
    typer.Option(
        "--ignore",
        metavar="RULE,...",
        help="Do not hear these rules. The report names them, and is not called healthy where one"
        " of them found something.",
        rich_help_panel=_VERDICT,
        autocompletion=rule_words,
    ),
]
MinSeverityOption = Annotated[
    MinSeverity | None,
    typer.Option(
        "--min-severity",
        metavar="SEVERITY",
        help=f"Show findings from here on: {', '.join(MinSeverity)} (default: info). Verdict and exit"
        " code are of all.",
        rich_help_panel=_OUTPUT,
    ),
]
ShowConfig = Annotated[
    bool,
    typer.Option(
        "--show-config",
        help="Show every setting with where it comes from, and do nothing else.",
        rich_help_panel=_GENERAL,
    ),
]
FailOnOption = Annotated[
    FailOn | None,
    typer.Option(
        "--fail-on",
        metavar="SEVERITY",
        help=f"Exit with 1 from here on: {', '.join(FailOn)} (default: warning).",
        rich_help_panel=_VERDICT,
    ),
]
AllowInconclusive = Annotated[
    bool | None,
    typer.Option(
        "--allow-inconclusive",
        help="Exit with 0 where the input does not tell, instead of 3.",
        rich_help_panel=_VERDICT,
    ),
]
BaselineOption = Annotated[
    str | None,
    typer.Option(
        "--baseline",
        metavar="FILE",
        help="Mute the known findings of this file, each until its day: they count for the verdict, not"
        " for the exit code. `flowdiag baseline` writes it.",
        rich_help_panel=_VERDICT,
    ),
]
Master = Annotated[
    str | None,
    typer.Option(
        "--master",
        metavar="URL",
        help="Parse and measure on a Spark cluster: spark://host:7077, yarn, k8s://https://host:443."
        " Its executors must reach the inputs: s3://, gs://, abfs://, hdfs://, https://, or file://"
        " for a path that all of them share.",
        rich_help_panel=_GENERAL,
    ),
]
JavaHeap = Annotated[
    str | None,
    typer.Option(
        "--java-heap",
        metavar="SIZE",
        help="Most memory for Java's heap: 4g, 1500m (default: a quarter of the memory, at least 512 MB"
        " and at most 2 GB).",
        rich_help_panel=_GENERAL,
    ),
]
StayOption = Annotated[
    str | None,
    typer.Option(
        "--stay",
        metavar="TIME",
        help="Leave Java running for so long after its last use, for the next command, which answers in"
        " less than half of the time: 15m, 1h (default: 0; never where CI is set). `flowdiag warm --stop`"
        " ends it.",
        rich_help_panel=_GENERAL,
    ),
]
WarmOption = Annotated[
    Warm | None,
    typer.Option(
        "--warm",
        metavar="WHEN",
        help="auto: after a run on a terminal, a process in the background keeps what Java loaded, once,"
        " so that later runs start faster (170 MB, see `flowdiag warm`); never: nothing runs in the"
        " background (default: auto).",
        rich_help_panel=_GENERAL,
    ),
]
Config = Annotated[
    str | None,
    typer.Option(
        "--config",
        "-c",
        metavar="FILE",
        help="Settings and thresholds (default: flowdiag.toml, if there is one).",
        rich_help_panel=_GENERAL,
    ),
]
Quiet = Annotated[
    bool | None,
    typer.Option(
        "--quiet", "-q", help="No progress and no warnings on stderr.", rich_help_panel=_GENERAL
    ),
]
Verbose = Annotated[
    int | None,
    typer.Option(
        "--verbose",
        "-v",
        count=True,
        help="Show everything: all inputs, rules and evidence.",
        rich_help_panel=_GENERAL,
    ),
]
Debug = Annotated[
    bool | None,
    typer.Option("--debug", help=DEBUG, rich_help_panel=_GENERAL),
]


def flags(given: Mapping[str, Any]) -> dict[str, Any]:
    """Those of a command's arguments that are settings; None where one was not given.

    Args:
        given: the arguments by name, which is what `locals()` is at the start of a command.
    """
    found = {name: given[name] for name in Settings.__struct_fields__ if name in given}
    # Typer has no None for options that are counted or repeated.
    return found | {name: found.get(name) or None for name in ("verbose", "select", "ignore")}
