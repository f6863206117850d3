"""What flowdiag tells the user when it cannot go on."""

from __future__ import annotations

from collections.abc import Iterable


def nearest(word: str, known: Iterable[str]) -> str:
    """A hint for a word that nobody knows: a near miss, or everything there is.

    >>> nearest("fail-onn", ["format", "fail-on"])
    "did you mean 'fail-on'?"
    """
    from difflib import get_close_matches  # only where something is wrong

    known = list(known)
    near = get_close_matches(word, known, n=1)
    return f"did you mean '{near[0]}'?" if near else f"there are: {', '.join(known) or 'none'}"


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
