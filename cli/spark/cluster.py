"""Checks that a Spark cluster can read the inputs before flowdiag parses them there."""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from flowdiag.analyses.engine import reading
from flowdiag.cli.spark.settings import is_remote
from flowdiag.parsers.discover import STDIN, Discovery
from flowdiag.parsers.errors import FlowdiagError, InputError
from flowdiag.parsers.sources.containers import is_private
from flowdiag.parsers.sources.remote import is_url

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXECUTOR_TIMEOUT_S: Final = 300.0
"""Maximum time until an executor takes a task. Clusters that scale up need minutes."""

CONNECT_TIMEOUT_S: Final = 10.0

_MASTER: Final = re.compile(r"(?:spark|k8s|mesos)://.+|yarn", re.IGNORECASE)
_GUIDE: Final = "see docs/scaling.md"


def check_paths(master: str | None, paths: Sequence[str]) -> None:
    """Reject a master or paths that cannot work, before the cluster is used.

    Raises:
        FlowdiagError: Spark does not support this `master`, or no Spark master responds there.
        InputError: a path is local, but the master is a cluster's.
    """
    if master is None or not is_remote(master):
        return
    if _MASTER.fullmatch(master) is None:
        raise FlowdiagError(
            f"--master: '{master}' is not a Spark cluster",
            hint="use spark://host:7077, yarn or k8s://https://host:443",
        )
    _reject_local_paths(paths, master)
    _check_connection(master)


def _check_connection(master: str) -> None:
    """Check that a standalone master listens: Spark itself would retry for more than a minute."""
    addresses = re.findall(r"([^/,:\[\]]+|\[[^\]]+\]):(\d+)", master)
    if not master.lower().startswith("spark://") or not addresses:
        return
    reason = ""
    for host, port in addresses:
        try:
            socket.create_connection(
                (host.strip("[]"), int(port)), timeout=CONNECT_TIMEOUT_S
            ).close()
        except OSError as error:
            reason = error.strerror or str(error)
        except OverflowError:
            reason = "no such port"
        else:
            return
    raise FlowdiagError(f"no Spark master listens at {master}: {reason[:1].lower()}{reason[1:]}")


def _reject_local_paths(paths: Sequence[str], master: str) -> None:
    """Reject local paths, because the cluster's hosts may have other files there, or none."""
    local = [path for path in paths if path != STDIN and not is_url(path)]
    if local:
        raise InputError(
            f"{_first_problem(local)}: a local path, which the executors of {master} cannot read",
            hint="use a URL (s3://, gs://, abfs://, hdfs://, https://), or file:///path if every worker"
            f" has the same files there; {_GUIDE}",
        )


def session_after_checks(
    session: Callable[[], SparkSession], paths: Sequence[str], discovery: Discovery
) -> Callable[[], SparkSession]:
    """Wrap `session` so that it first checks whether its executors can parse these inputs.

    No check is necessary if Spark runs on this host, or if the inputs are small enough to parse here.

    Args:
        session: waits for Spark.
        paths: the paths from the command line.
        discovery: the files under these paths.
    """
    checked: list[SparkSession] = []

    def checked_session() -> SparkSession:
        spark = session()
        if not checked:
            master = spark.sparkContext.master or ""
            if is_remote(master):
                _reject_local_paths(paths, master)
                if reading.cost(discovery.sources) > reading.DRIVER_BYTES:
                    _check_executors(spark, master, discovery)
            checked.append(spark)
        return spark

    return checked_session


def _check_executors(spark: SparkSession, master: str, discovery: Discovery) -> None:
    sources = [source for source in discovery.sources if source.kind != "not-read"]
    unpacked = [source.name for source in sources if is_private(source.path)]
    if unpacked:
        raise InputError(
            f"{unpacked[0]}: unpacked on this host, where the executors of {master} cannot read it",
            hint="unpack it in a place that the executors can read, or omit --master",
        )
    from flowdiag.parsers.on_spark.frame import check_executors

    shared = {source.path: source.size for source in sources if not is_url(source.path)}
    timed_out = threading.Event()

    def give_up() -> None:
        timed_out.set()
        spark.sparkContext.cancelAllJobs()

    timer = threading.Timer(EXECUTOR_TIMEOUT_S, give_up)
    timer.daemon = True
    timer.start()
    try:
        problems = check_executors(spark, shared, tasks=2 * spark.sparkContext.defaultParallelism)
    except Exception as error:  # noqa: BLE001 - py4j and Spark raise any exception
        if timed_out.is_set():
            raise FlowdiagError(
                f"no executor of {master} took a task within {EXECUTOR_TIMEOUT_S:.0f} s",
                hint="check that workers have free cores and memory",
            ) from None
        raise FlowdiagError(
            f"the executors of {master} cannot run Python tasks: {_task_error(error)}",
            hint="install the same Python version as on this host (set PYSPARK_PYTHON to its path),"
            f" with flowdiag's dependencies; {_GUIDE}",
        ) from None
    finally:
        timer.cancel()
    if problems:
        raise FlowdiagError(
            f"the executors of {master} cannot parse these inputs: {_first_problem(problems)}",
            hint="install flowdiag's dependencies on the executors, and put the files where all of them can"
            f" read them; {_GUIDE}",
        )


def _first_problem(items: Sequence[str]) -> str:
    return items[0] + (f" (and {len(items) - 1} more)" if len(items) > 1 else "")


def _task_error(error: Exception) -> str:
    """Return the line that names the error, from the exception that a failed task raised."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    errors = [line for line in lines if re.match(r"[\w.]*(?:Error|Exception|\[[A-Z_]+\]).*", line)]
    if errors:
        return errors[-1][:300]
    return lines[0][:300] if lines else type(error).__name__
