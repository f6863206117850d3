"""What flowdiag tells the user when it cannot go on."""

from __future__ import annotations


class FlowdiagError(Exception):
    """An error that is the user's to mend: one sentence, and what to do about it.

    Args:
        message: lower-case first word, no full stop, names the file or the value.
        hint: one action that helps, or None.
    """

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        """Keep the sentence and the hint apart, since they are shown apart."""
        super().__init__(message)
        self.message = message
        self.hint = hint


class InputError(FlowdiagError):
    """No input can be read at all (exit code 2)."""
