"""`flowdiag listener`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from flowdiag.cli.options.help import HelpfulCommand, HelpfulGroup

listener = typer.Typer(
    name="listener",
    cls=HelpfulGroup,
    rich_markup_mode=None,
    help="""Record what a running Spark application knows about its batches.

    \b
    Examples:
      flowdiag listener export listener/
    """,
)


@listener.command(cls=HelpfulCommand)
def export(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="Where to write; the folder is made.")
    ],
    spark_home: Annotated[
        str | None,
        typer.Option(
            "--spark-home",
            metavar="DIR",
            help="The Spark to build the jar against (default: SPARK_HOME, else PySpark's own).",
        ),
    ] = None,
) -> int:
    """Write the listener that goes into Spark applications.

    \b
    Examples:
      flowdiag listener export listener/
      flowdiag listener export listener/ --spark-home /opt/spark-3.5.7

    Spark keeps records, delays and rates of its batches in memory only. The listener writes them to
    a file of JSON lines on the driver, which `flowdiag rate` reads. Nothing else of flowdiag has to
    be installed there.

    For Python there is one file, without dependencies, for Python 3.8 and PySpark 3.0 or later. For
    Scala and Java there is a class, and a jar of it where a JDK is found.
    """
    from flowdiag.cli.listener.export import JAR, PYTHON
    from flowdiag.cli.listener.export import export as write
    from flowdiag.cli.output.console import print_message

    exported = write(folder, spark_home=spark_home)
    for path in exported.files:
        typer.echo(str(path))
    typer.echo(f"\nPython: spark-submit --py-files {folder / PYTHON} ..., and in the application")
    typer.echo("  import flowdiag_listener")
    typer.echo('  flowdiag_listener.attach(ssc, "/path/of/a/folder/")   # or spark.streams')
    if exported.without_jar is None:
        typer.echo(f"\nScala, Java: spark-submit --jars {folder / JAR}")
        typer.echo("  --conf spark.extraListeners=FlowdiagListener")
        typer.echo("  --conf spark.flowdiag.listener.path=/path/of/a/folder/ ...")
    else:
        print_message("warning", f"no jar for Scala and Java was made: {exported.without_jar}")
    return 0
