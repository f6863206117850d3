"""Running on a Spark cluster: what it cannot read is told before anything is parsed there."""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from flowdiag.analyses.engine import reading
from flowdiag.parsers.errors import FlowdiagError, InputError
from flowdiag.parsers.sources.containers import is_private
from flowdiag.parsers.sources.discover import STDIN, Discovery
from flowdiag.parsers.sources.remote import is_url

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXECUTORS_WITHIN_S: Final = 300.0
"""An executor that has not taken a task by then never will (clusters that grow take minutes)."""

REACHED_WITHIN_S: Final = 10.0

_LOCAL: Final = re.compile(r"local(?:\[.*\])?", re.IGNORECASE)
_MASTER: Final = re.compile(r"(?:spark|k8s|mesos)://.+|yarn", re.IGNORECASE)
_GUIDE: Final = "see docs/scaling.md"


def is_remote(master: str | None) -> bool:
    """Whether Spark's tasks run on other machines.

    >>> is_remote("spark://head:7077"), is_remote("local[4]"), is_remote(None)
    (True, False, False)
    """
    return master is not None and _LOCAL.fullmatch(master) is None


def check_inputs_of(master: str | None, paths: Sequence[str]) -> None:
    """Refuse what cannot work, before a cluster is asked for anything.

    Raises:
        FlowdiagError: `master` is none that Spark would understand.
        InputError: it is a cluster's, and one of the paths is local.
    """
    if master is None or not is_remote(master):
        return
    if _MASTER.fullmatch(master) is None:
        raise FlowdiagError(
            f"--master: '{master}' is no Spark cluster",
            hint="write spark://host:7077, yarn or k8s://https://host:443",
        )
    _refuse_local(paths, master)
    _reach(master)


def _reach(master: str) -> None:
    """Ask whether anybody listens: Spark itself would try for a minute and more."""
    places = re.findall(r"([^/,:\[\]]+|\[[^\]]+\]):(\d+)", master)
    if not master.lower().startswith("spark://") or not places:
        return
    why = ""
    for host, port in places:
        try:
            socket.create_connection(
                (host.strip("[]"), int(port)), timeout=REACHED_WITHIN_S
            ).close()
        except (OSError, OverflowError) as error:
            why = error.strerror or str(error) if isinstance(error, OSError) else "no such port"
        else:
            return
    raise FlowdiagError(f"no Spark master listens at {master}: {why[:1].lower()}{why[1:]}")


def _refuse_local(paths: Sequence[str], master: str) -> None:
    """Refuse paths of this machine: another one may have other files there, or none."""
    local = [path for path in paths if path != STDIN and not is_url(path)]
    if local:
        more = f" (and {len(local) - 1} more)" if len(local) > 1 else ""
        raise InputError(
            f"{local[0]}{more}: a local path, which the executors of {master} cannot be told to read",
            hint="give a URL (s3://, gs://, abfs://, hdfs://, https://); or file:///path, where every"
            f" worker has the same files there; {_GUIDE}",
        )


def checked_session(
    session: Callable[[], SparkSession], paths: Sequence[str], discovery: Discovery
) -> Callable[[], SparkSession]:
    """The session, once it is known that its executors can parse these inputs.

    Where Spark runs on this machine, and where the inputs are so small that they are parsed here,
    there is nothing to check.

    Args:
        session: waits for Spark.
        paths: as given by the user.
        discovery: what was found below them.
    """
    checked: list[SparkSession] = []

    def get() -> SparkSession:
        spark = session()
        if not checked:
            master = spark.sparkContext.master or ""
            if is_remote(master):
                _refuse_local(paths, master)
                if reading.cost(discovery.sources) > reading.DRIVER_BYTES:
                    _check(spark, master, discovery)
            checked.append(spark)
        return spark

    return get


def _check(spark: SparkSession, master: str, discovery: Discovery) -> None:
    read = [source for source in discovery.sources if source.kind != "not-read"]
    unpacked = [source.name for source in read if is_private(source.path)]
    if unpacked:
        raise InputError(
            f"{unpacked[0]}: unpacked on this machine, where the executors of {master} cannot read it",
            hint="unpack it to where they can, or leave out --master",
        )
    from flowdiag.parsers.spark.frame import check_executors

    shared = {source.path: source.size for source in read if not is_url(source.path)}
    late = threading.Event()

    def give_up() -> None:
        late.set()
        spark.sparkContext.cancelAllJobs()

    timer = threading.Timer(EXECUTORS_WITHIN_S, give_up)
    timer.daemon = True
    timer.start()
    try:
        problems = check_executors(spark, shared, tasks=2 * spark.sparkContext.defaultParallelism)
    except Exception as error:  # noqa: BLE001 - py4j and Spark raise what they like
        if late.is_set():
            raise FlowdiagError(
                f"no executor of {master} took a task within {EXECUTORS_WITHIN_S:.0f} s",
                hint="are there workers with free cores and memory?",
            ) from None
        raise FlowdiagError(
            f"the executors of {master} cannot run Python tasks: {_gist(error)}",
            hint="they need the same version of Python as this machine (PYSPARK_PYTHON says which),"
            f" with flowdiag's dependencies; {_GUIDE}",
        ) from None
    finally:
        timer.cancel()
    if problems:
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        raise FlowdiagError(
            f"the executors of {master} cannot parse these inputs: {problems[0]}{more}",
            hint=f"ship flowdiag's dependencies, and put the files where all of them are; {_GUIDE}",
        )


def _gist(error: Exception) -> str:
    """The line of an exception out of a task that says what happened."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    telling = [line for line in lines if re.match(r"[\w.]*(?:Error|Exception|\[[A-Z_]+\]).*", line)]
    return (telling or lines or [type(error).__name__])[-1 if telling else 0][:300]
