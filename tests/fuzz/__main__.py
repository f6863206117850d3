"""Search for inputs that break what must hold of every one.

    python -m tests.fuzz --seconds 60 --seed 1             half of the time each
    python -m tests.fuzz --seconds 60 --seed 1 --parsers   from bytes to settled writers, without Java
    python -m tests.fuzz --seconds 60 --seed 1 --commands  whole commands over folders, with Spark
    python -m tests.fuzz --seconds 600 --guided            parsers, led by coverage: needs flowdiag[fuzz]

The same seed tries the same inputs in the same order, as many as there is time for. What is found is made small
and left in a folder (`--keep`), a file or a folder each; it ends with 1 if there is any. To repair one, move it to
`tests/fuzz/regressions/`: the tests read all that lie there.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path


def main() -> int:
    """The command line."""
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
    asked = parser.parse_args()
    if asked.guided:
        from tests.fuzz.guided import search

        return search(asked.keep, asked.seconds, asked.seed)
    both = asked.parsers == asked.commands
    seconds = asked.seconds / 2 if both else asked.seconds
    status = 0
    if both or asked.parsers:
        from tests.fuzz.plain import search

        status |= search(asked.keep, seconds, asked.seed)
    if both or asked.commands:
        from tests.fuzz.commands import search as search_commands

        status |= search_commands(asked.keep, seconds, asked.seed)
    return status


if __name__ == "__main__":
    raise SystemExit(main())
