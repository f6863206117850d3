"""Builds the signatures that Typer reads from groups of shared options."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import Parameter, Signature, signature
from typing import Any, get_type_hints

Options = Mapping[str, tuple[Any, Any]]
"""Annotation (for Typer) and default, by the name of the parameter."""


def with_options(*groups: Options) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Replace the `**` parameter of a command with these options, after the command's own options."""
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
