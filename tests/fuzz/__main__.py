"""Search for inputs that break an invariant.

    python -m tests.fuzz --seconds 60 --seed 1             half of the time each
    python -m tests.fuzz --seconds 60 --seed 1 --parsers   from bytes to settled writers, without Java
    python -m tests.fuzz --seconds 60 --seed 1 --commands  whole commands over folders, with Spark
    python -m tests.fuzz --seconds 600 --guided            parsers, guided by coverage: needs flowdiag[fuzz]

The same seed tries the same inputs in the same order, up to the time limit. Each fault is minimized
and written to a folder (`--keep`) as a file or a folder, and the exit code is 1 if there is any. To
fix a fault, move its file to `tests/fuzz/regressions/`, where the tests read all of them.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--parsers", action="store_true")
    parser.add_argument("--commands", action="store_true")
    parser.add_argument("--guided", action="store_true")
    parser.add_argument(
        "--keep", type=Path, default=Path(tempfile.gettempdir()) / "flowdiag-fuzz", metavar="DIR"
    )
    args = parser.parse_args()
    if args.guided:
        from tests.fuzz.guided import search

        return search(args.keep, args.seconds, args.seed)
    both = args.parsers == args.commands
    seconds = args.seconds / 2 if both else args.seconds
    status = 0
    if both or args.parsers:
        from tests.fuzz.plain import search

        status |= search(args.keep, seconds, args.seed)
    if both or args.commands:
        from tests.fuzz.commands import search as search_commands

        status |= search_commands(args.keep, seconds, args.seed)
    return status


if __name__ == "__main__":
    raise SystemExit(main())
