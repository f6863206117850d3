"""Commands that share options: what Typer reads is put together from groups of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import Parameter, Signature, signature
from typing import Any, get_type_hints

Options = Mapping[str, tuple[Any, Any]]
"""By the parameter's name: its annotation (with what Typer wants to know), and its default."""


def taking(*groups: Options) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Let the `**` parameter of a command stand for these options, behind its own ones."""
    options = {name: option for group in groups for name, option in group.items()}

    def settle(command: Callable[..., int]) -> Callable[..., int]:
        hints = get_type_hints(command, include_extras=True)
        own = {
            name: (hints[name], parameter.default)
            for name, parameter in signature(command).parameters.items()
            if parameter.kind is not Parameter.VAR_KEYWORD
        }
        taken = {**own, **options}
        parameters = [
            Parameter(name, Parameter.KEYWORD_ONLY, annotation=kind, default=default)
            for name, (kind, default) in taken.items()
        ]
        command.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
        command.__annotations__ = {name: kind for name, (kind, _) in taken.items()}
        return command

    return settle
