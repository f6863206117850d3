"""What a secret looks like, in configurations and in free text.

Collectors mask secrets before an answer reaches the disk, reports before an excerpt reaches a reader:
the patterns stand here once for both.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import regex

MASK: Final = "***"
WITHHELD: Final = "*** (withheld: not searched for secrets in time)"
# A piece of log text takes microseconds; only text made to be slow comes near.
TIMEOUT_S: Final = 0.5

_KEYS = (
    r"pass(?:word|wd|phrase)|pwd|secret|token|credentials?|authorization|jaas\.config"
    r"|(?:api|access|account|private|shared|encryption|storage)[-_. ]?key"
    r"|(?<![a-z])sig(?:nature)?(?![a-z])"
)
# A value ends where the log's own punctuation ends it; a quoted one may be cut off by the excerpt.
_VALUE = r"""\\?"(?:[^"\\]|\\.)*"?|'[^']*'?|[^\s,;&"'<>)\]}]+"""
# What to look for, what takes its place, and the literals (in lower case) of which it holds one.
_SECRETS: Final = (
    (
        r"(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*-----|\Z)",
        MASK,
        ("private key-----",),
    ),
    (r"(?i)\b(bearer|basic)\s+[\w.~+/=-]{8,}", rf"\1 {MASK}", ("bearer", "basic")),
    (
        # Not the class of an exception: its message follows.
        rf"""(?i)((?![\w.$]*(?:Exception|Error):\s)[\w.-]*(?:{_KEYS})[\w.-]*)(\\?["']?\s*(?:[=:]|=>)\s*)(?:{_VALUE})""",
        rf"\1\2{MASK}",
        ("pass", "pwd", "secret", "token", "credential", "authorization", "jaas", "key", "sig"),
    ),
    # user:password@ before a host; a password may hold slashes (S3 keys do)
    (r"(?i)\b([a-z][a-z0-9+.-]*://)[^\s@:/]+:[^\s@]+@", rf"\1{MASK}@", ("://",)),
    (r"(?i)\b([a-z][a-z0-9+.-]*://)[^\s@:/]{16,}@", rf"\1{MASK}@", ("://",)),
    (r"\beyJ[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]*)?", MASK, ("eyj",)),  # JSON web token
    (
        (
            r"\b(?:(?:AKIA|ASIA)[A-Z0-9]{16}|gh[pousr]_\w{20,}|github_pat_\w{20,}|glpat-[\w-]{20,}"
            r"|xox[abposr]-[\w-]{10,}|AIza[\w-]{35}|ya29\.[\w-]{20,}|sk-[\w-]{20,})"
        ),
        MASK,
        ("akia", "asia", "gh", "github_pat_", "glpat-", "xox", "aiza", "ya29.", "sk-"),
    ),
)

# Keys whose values are secrets, whatever they look like: those of Flink's own
# `GlobalConfiguration.SENSITIVE_KEYS` (1.9 to 2.3), of `spark.redaction.regex`, and what they miss.
_SECRET_KEY = re.compile(
    r"pass(?:word|wd|phrase)|pwd|secret|token|credential|api[-_.]?key|auth-params|service-key|basic-auth"
    r"|jaas|http-headers|private|account\.key|access[-_.]?key|encryption[-_.]?key|fs\.\w+\.key",
    re.IGNORECASE,
)


def is_secret_key(key: str) -> bool:
    """Whether the value of an option is to be masked whatever it is.

    >>> is_secret_key("s3.secret-key"), is_secret_key("state.backend.type")
    (True, False)
    """
    return _SECRET_KEY.search(key) is not None


@functools.cache
def _searches() -> tuple[tuple[regex.Pattern[str], str, tuple[str, ...]], ...]:
    # Not the standard `re`: these searches cannot be linear, and only this one takes a time-out.
    # Not at the top: help and rules need none of it.
    import regex

    return tuple((regex.compile(pattern), mask, literals) for pattern, mask, literals in _SECRETS)


def _masked(text: str, numbers: Iterable[int]) -> str:
    """Apply some of the searches; those for which the text lacks every literal cannot find anything.

    Looking for literals first takes a fiftieth of the time. Outside of ASCII that is no proof: other
    letters count as the same where case does not matter (the Kelvin sign is a k).
    """
    lowered = text.lower() if text.isascii() else None
    try:
        for number in numbers:
            pattern, mask, literals = _searches()[number]
            if lowered is None or any(literal in lowered for literal in literals):
                text = pattern.sub(mask, text, timeout=TIMEOUT_S)
    except TimeoutError:
        return WITHHELD
    return text


def mask_secrets(text: str) -> str:
    """Replace what looks like a secret by `***`: keys, tokens, passwords, credentials in URLs.

    >>> mask_secrets("jdbc:mysql://root:hunter2@db:3306/x?useSSL=false, api.key = 'abc'")
    'jdbc:mysql://***@db:3306/x?useSSL=false, api.key = ***'
    """
    return _masked(text, range(len(_SECRETS)))


_BY_SHAPE: Final = (0, *range(3, len(_SECRETS)))


def mask_credentials(text: str) -> str:
    """The same for texts that are names, where `token: Writer` is no secret: only what has the shape of one.

    >>> mask_credentials("tokens: Writer of https://ann:hunter2@host/")
    'tokens: Writer of https://***@host/'
    """
    return _masked(text, _BY_SHAPE)
