"""Options shared by several commands, in the signatures that Typer reads."""

from __future__ import annotations

from inspect import signature
from typing import Annotated, Any

import pytest

from flowdiag.cli.commands import simulate
from flowdiag.cli.options.signature import with_options
from flowdiag.cli.simulations import credits, pid


def test_shared_options_come_after_a_commands_own_options() -> None:
    @with_options({"often": (Annotated[int, "how often"], 3)}, {"loud": (bool, False)})
    def command(path: Annotated[str, "what"], much: int = 1, **options: Any) -> int:
        return 0

    parameters = signature(command).parameters
    assert list(parameters) == ["path", "much", "often", "loud"]
    assert parameters["path"].default is parameters["path"].empty
    assert parameters["often"].annotation == Annotated[int, "how often"]
    assert (parameters["often"].default, parameters["loud"].default) == (3, False)


@pytest.mark.parametrize(
    ("command", "flags_class", "renamed"),
    [
        (simulate.pid, pid.PidFlags, {"shape": "as_json"}),
        (simulate.credits, credits.CreditFlags, {"shape": "as_json"}),
    ],
)
def test_the_flags_of_a_simulation_match_its_class(
    command: Any, flags_class: Any, renamed: dict[str, str]
) -> None:
    flags = {renamed.get(name, name) for name in signature(command).parameters}
    assert flags == set(flags_class.__dataclass_fields__)
