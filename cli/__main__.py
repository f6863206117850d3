"""The command `flowdiag`, also as `python -m flowdiag.cli`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flowdiag.cli.process import run

if TYPE_CHECKING:
    from typing import NoReturn


def start() -> NoReturn:
    """Run the command line as this process."""
    run(_command_line)


def _command_line() -> int:
    from flowdiag.cli.app import main

    return main()


if __name__ == "__main__":
    start()
