"""The plain search: mutates seeds of every format, one input after the other."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from random import Random

from tests.fuzz.found import Found
from tests.fuzz.minimising import minimised
from tests.fuzz.mutations import mutated
from tests.fuzz.parsing import Broken, check
from tests.fuzz.seeds import Seed, seeds

MINIMISING_S = 60


def search(folder: Path, seconds: float, seed: int) -> int:
    """Try inputs up to the time limit, and return the exit code.

    Args:
        folder: the folder for faults.
        seconds: time limit, not including minimizing.
        seed: the seed of the random choices.
    """
    found, began, until = Found(folder), time.monotonic(), time.monotonic() + seconds
    others = [each.data for each in seeds()]
    with tempfile.TemporaryDirectory(dir=quick_place()) as place:
        number = 0
        while time.monotonic() < until:
            chance = Random(f"{seed} {number}")
            number += 1
            chosen = by_format(chance)
            data = mutated(chosen.data, chance, others)
            kind = try_input(data, Path(place), chosen.name, number, found)
            found.counts(chosen.format, kind, data)
    return found.print_summary(time.monotonic() - began)


def by_format(chance: Random) -> Seed:
    """Return a seed, with all formats equally likely."""
    formats = sorted({each.format for each in seeds()})
    format = chance.choice(formats)
    return chance.choice([each for each in seeds() if each.format == format])


def try_input(data: bytes, place: Path, name: str, number: int, found: Found) -> str:
    """Try an input, and return its detected kind. If the input shows a new fault, save a minimized input.

    Args:
        place: the folder of the file.
        name: the name of the file.
        number: the number of the input, which seeds the places where the input is split.
        found: collects the faults.
    """
    what, more, kind = fault(data, place / name, number)
    if what is not None and found.is_new(what):
        small = minimised(
            data, lambda less: fault(less, place / name, number)[0] == what, MINIMISING_S
        )
        target = found.place(what)
        target.write_bytes(small)
        target.with_name(target.name + ".txt").write_text(f"{name} {number}\n{more}")
    return kind


def fault(data: bytes, path: Path, number: int) -> tuple[str | None, str, str]:
    """Return the fault of an input (None: no fault), details, and the detected kind."""
    try:
        read = check(data, path, Random(number))
    except Broken as broken:
        return broken.what, str(broken), "broken"
    finally:
        path.unlink(missing_ok=True)
    return None, "", read.kind


def quick_place() -> str | None:
    """Return a folder in memory, if available."""
    return "/dev/shm" if Path("/dev/shm").is_dir() else None
