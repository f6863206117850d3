"""Options that commands share, as Typer sees them."""

from __future__ import annotations

from inspect import signature
from typing import Annotated, Any

import pytest

from flowdiag.cli.commands import simulate
from flowdiag.cli.options.signature import with_options
from flowdiag.cli.simulations import credits, pid


def test_shared_options_stand_behind_the_own_ones() -> None:
    @with_options({"often": (Annotated[int, "how often"], 3)}, {"loud": (bool, False)})
    def command(path: Annotated[str, "what"], much: int = 1, **given: Any) -> int:
        return 0

    found = signature(command).parameters
    assert list(found) == ["path", "much", "often", "loud"]
    assert found["path"].default is found["path"].empty
    assert found["often"].annotation == Annotated[int, "how often"]
    assert (found["often"].default, found["loud"].default) == (3, False)


@pytest.mark.parametrize(
    ("command", "wanted", "renamed"),
    [
        (simulate.pid, pid.PidFlags, {"shape": "as_json"}),
        (simulate.credits, credits.CreditFlags, {"shape": "as_json"}),
    ],
)
def test_every_flag_of_a_simulation_is_wanted(
    command: Any, wanted: Any, renamed: dict[str, str]
) -> None:
    flags = {renamed.get(name, name) for name in signature(command).parameters}
    assert flags == set(wanted.__dataclass_fields__)
