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
    help="""Record the batches of a running Spark application.

    \b
    Examples:
      flowdiag listener export listener/
    """,
)


@listener.command(cls=HelpfulCommand)
def export(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="Target folder, created if missing.")
    ],
    spark_home: Annotated[
        str | None,
        typer.Option(
            "--spark-home",
            metavar="DIR",
            help="Spark to build the jar against (default: SPARK_HOME, else PySpark).",
        ),
    ] = None,
) -> int:
    """Export the listener that you attach to Spark applications.

    \b
    Examples:
      flowdiag listener export listener/
      flowdiag listener export listener/ --spark-home /opt/spark-3.5.7

    Spark keeps the records, delays and rates of its batches in memory only. The listener writes them to a file of
    JSON lines on the driver, which `flowdiag rate` reads. flowdiag itself need not be installed on the cluster.

    For Python, the listener is one file without dependencies; it needs Python 3.8 and PySpark 3.0 or later. For Scala
    and Java, it is a class, and a jar if a JDK is available.
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
        print_message("warning", f"no jar for Scala and Java: {exported.without_jar}")
    return 0
