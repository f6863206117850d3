"""What `flowdiag warm` says and does of the Java that stays (`flowdiag.cli.spark.kept`)."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

from flowdiag.analyses.model.fmt import duration, size
from flowdiag.cli.options.settings import load_settings, parse_heap, parse_stay
from flowdiag.cli.spark import kept
from flowdiag.cli.spark.archive import archives
from flowdiag.cli.spark.starter import SparkStarter
from flowdiag.cli.spark.warm import rehearse
from flowdiag.parsers.cleanup import temporary_folder
from flowdiag.parsers.errors import FlowdiagError


def stay(text: str) -> str:
    """Leave Java behind, warmed up; the answer says so.

    Args:
        text: for how long after its last use.

    Raises:
        FlowdiagError: that is no time, Spark does not start, or Java cannot stay here.
    """
    idle_s = parse_stay(text)
    if not idle_s:
        raise FlowdiagError("--stay 0 leaves nothing behind", hint="flowdiag warm --stop ends it")
    if os.environ.get("CI"):
        raise FlowdiagError("Java does not stay where CI is set: jobs there leave nothing behind")
    if kept.runtime_folder() is None:
        raise FlowdiagError(
            "there is no folder that only you can enter, where Java could be found again",
            hint="set XDG_RUNTIME_DIR or FLOWDIAG_CACHE_DIR to one, mode 0700",
        )
    heap = load_settings({}).java_heap
    for place in kept.places():  # of another time, or on its way to its end
        kept.stop(place)
    with SparkStarter.begin(
        heap_bytes=parse_heap(heap) if heap else None, join=True, stay_s=idle_s
    ) as starter:
        with temporary_folder("flowdiag-") as folder:
            rehearse(starter, folder)
        if not starter.joined:
            raise FlowdiagError(
                "Java was started, but does not stay", hint="flowdiag warm --status"
            )
    return "\n".join(status())


def stopped() -> str:
    """End all Java that stays; the answer says whether there was any.

    Raises:
        FlowdiagError: one does not end.
    """
    found = [(place, place.read()) for place in kept.places()]
    for place, said in found:
        if not kept.stop(place):
            which = f" {said.java_pid}" if said else ""
            raise FlowdiagError(f"Java{which} does not end", hint="end the process by hand")
    alive = sum(said is not None for _, said in found)
    return f"ended {alive} Java" if alive else "no Java stays"


def status() -> list[str]:
    """What stays, and what it costs; a line each."""
    lines = [line for place in kept.places() for line in _line(place)]
    room = sum(path.stat().st_size for path in archives())
    return [*(lines or ["no Java stays"]), f"archives of classes: {size(room) if room else 'none'}"]


def _line(place: kept.Place) -> Iterator[str]:
    said = place.read()
    if said is None or not place.is_alive():
        return
    since = duration((time.time() - said.started_s) * 1000)
    idle = duration(said.idle_s * 1000)
    yield (
        f"Java {said.java_pid} stays, since {since}, {size(_memory(said.java_pid))} of memory; ends {idle}"
        " after its last use, or by flowdiag warm --stop"
    )


def _memory(process: int) -> int:
    """Bytes that a process takes; 0 where the system does not say."""
    try:
        pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    except (OSError, LookupError, ValueError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")
