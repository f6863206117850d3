"""Coverage-guided search: Atheris (libFuzzer) keeps inputs that reach new code.

It starts from the same seeds, applies the same mutations in addition to its own, and checks the
same invariants. Inputs that libFuzzer itself stops at or finds slow (ten seconds) are in the same
folder: `slow-unit-*`, `timeout-*`. Atheris has wheels for Linux only: `pip install
'flowdiag[fuzz]'`.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path
from random import Random
from typing import Any, Final

from tests.fuzz.found import Found

TIMEOUT_S: Final = 120
SLOW_S: Final = 10


def by_libfuzzer(folder: Path) -> list[Path]:
    """Return the inputs that libFuzzer keeps in a folder."""
    return [path for kind in ("slow-unit", "timeout", "crash") for path in folder.glob(f"{kind}-*")]


def search(folder: Path, seconds: float, seed: int) -> int:
    """Try inputs up to the time limit, and return the exit code.

    Args:
        folder: the folder for faults.
        seconds: the time limit.
        seed: the seed for Atheris.
    """
    try:
        import atheris
    except ImportError:
        print("this needs Atheris: pip install 'flowdiag[fuzz]'", file=sys.stderr)
        return 2
    # All other parser modules must be imported inside this block.
    with atheris.instrument_imports(include=["flowdiag.parsers"]):
        from tests.fuzz import plain
    from tests.fuzz.mutations import MOST, mutated
    from tests.fuzz.seeds import seeds

    folder.mkdir(parents=True, exist_ok=True)
    known = set(by_libfuzzer(folder))
    found, began = Found(folder), time.monotonic()
    others = [each.data for each in seeds()]
    with tempfile.TemporaryDirectory(dir=plain.quick_place()) as place:
        corpus = Path(place) / "corpus"
        corpus.mkdir()
        for number, each in enumerate(seeds()):
            (corpus / f"{number:04}").write_bytes(each.data)

        def try_one(data: bytes) -> None:
            number = sum(found.tried.values())
            kind = plain.try_input(data, Path(place), "input.json", number, found)
            found.counts("guided", kind, data)
            if time.monotonic() > began + seconds:
                # libFuzzer ends the process when it ends.
                status = found.print_summary(time.monotonic() - began)
                for path in sorted(set(by_libfuzzer(folder)) - known):
                    print(f"slow, or never done: {path}", file=sys.stderr)
                    status = 1
                sys.stdout.flush()
                sys.stderr.flush()
                _remove(Path(place))
                os._exit(status)

        def change(data: bytes, most: int, number: int) -> Any:
            chance = Random(number)
            if chance.random() < 0.5:
                return atheris.Mutate(data, most)
            return mutated(data, chance, others)[:most]

        options = [
            f"-seed={seed}",
            f"-max_len={MOST}",
            "-verbosity=0",
            f"-timeout={TIMEOUT_S}",
            f"-report_slow_units={SLOW_S}",
            f"-artifact_prefix={folder}/",
            "-rss_limit_mb=0",
        ]
        atheris.Setup([sys.argv[0], *options, str(corpus)], try_one, custom_mutator=change)
        atheris.Fuzz()
    return 0


def _remove(folder: Path) -> None:
    import shutil

    shutil.rmtree(folder, ignore_errors=True)
