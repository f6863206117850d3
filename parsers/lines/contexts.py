"""Adds context from the rest of a chain to its decisive exception, if that is not understandable on its own.

"Connection refused" does not show the server, but the exception around it does. "Failed to construct kafka consumer"
does not show the reason, but the exception below it does.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from flowdiag.parsers.exceptions import classify, is_wrapper

_TEXT: Final = 2000
_MOST: Final = 240  # maximum characters of the added context
_VAGUE: Final = 60  # a shorter message has no details
_CLASS: Final = re.compile(
    r"\A(?:[\w$]{1,120}\.){0,20}[A-Z][\w$]{2,160}(?:\([\w.$]{3,200}\))?(?::\s|\s*\Z)"
)
# A number, a path, an address, or a quoted or bracketed name.
_SPECIFIC: Final = re.compile(r"\d|[/\\\"`\[{=@]|'\S|\w[.:]\w")
# Messages that only repeat what their class already shows.
_EMPTY: Final = re.compile(
    r"|None\.get|(?:head|last|next|max|min|reduce) (?:of|on) (?:an )?empty \w{1,20}|empty(?:\.\w{1,30})?|No value present|-?\d{1,19}"
)
# The numbers in these messages show neither the record nor the operation.
_OF_INDEXES: Final = re.compile(
    r"\A(?:java\.lang\.)?(?:\w{0,20}IndexOutOfBounds|NegativeArraySize|Arithmetic)Exception\b"
)
# A path or a quoted name, which even the message of a wrapper may add.
_NAMES: Final = re.compile(r"'[^']*[\w/][^']*'|\"[^\"]*\w[^\"]*\"|\w:/{1,3}\w")
_ERRNO: Final = re.compile(r"\[Errno -?\d{1,6}\] ")
# Messages of wrappers, which only state that something failed.
_WRAPPERS: Final = re.compile(
    r"Could not forward element|Job execution failed|Job failed|Recovery is suppressed|One or more fetchers|SplitFetcher thread"
    r"|Job aborted|Error received from SDK|An error occurred while calling|Could not (?:perform|complete|materialize) "
    r"|main method caused an error|Task failed while writing rows|Writing job aborted|terminated with (?:exception|error)"
    r"|Caught exception|Unhandled exception|Failed to execute job|Failed to submit|Could not submit|Exception in "
    r"|User (?:class|application) threw|Lost task |unexpected exception|Application diagnostics|Uncaught|encountered (?:an )?exception|exit(?:ed)?[ _]?[cC]ode"
)


def with_context(
    chain: Sequence[str], link: int, above: str = "", frame: str | None = None, after: str = ""
) -> str:
    """Return the decisive exception. If it is too vague, add the reason below it or the message around it.

    Args:
        chain: exceptions as class and message, outermost first.
        link: index of the decisive exception.
        above: the message of the record above the chain.
        frame: the first stack frame of the job's own code, for an exception without a message.
        after: the message of the record below the chain. It shows the address of a failed connection if it repeats
            the exception.

    >>> with_context(["a.IOException: Could not connect to BlobServer at jm:6124", "java.net.ConnectException: Connection refused"], 1)
    'java.net.ConnectException: Connection refused (Could not connect to BlobServer at jm:6124)'
    >>> with_context(["a.KafkaException: Failed to construct kafka consumer", "a.b.IllegalArgumentException: No JAAS entry 'K'"], 0)
    "a.KafkaException: Failed to construct kafka consumer (caused by IllegalArgumentException: No JAAS entry 'K')"
    >>> with_context(["a.IOException: DestHost:destPort rm2:8032", "b.SaslException: GSS initiate failed [7 - LOOKING_UP_SERVER]"], 1)
    'b.SaslException: GSS initiate failed [7 - LOOKING_UP_SERVER] (address rm2:8032)'
    """
    decisive = chain[link]
    below = _reason_below(chain, link)
    around = below or _words_around(chain, link, above)
    own = message_of(chain[-1])
    address = _address_around(
        chain,
        len(chain) - 1 if below else link,
        f"{decisive} {around}",
        (above, after if own and own in after else ""),
    )
    more = "; ".join(filter(None, (around, address)))
    if not more and frame is not None and _EMPTY.fullmatch(message_of(decisive)) is not None:
        decisive, more = decisive.removesuffix(": null"), f"at {frame}"
    return f"{decisive[: 500 - len(more) - 3]} ({more})" if more else decisive


def is_vague(text: str) -> bool:
    """Return whether an exception has no message, or only numbers without a meaning for the reader.

    >>> is_vague("java.lang.StringIndexOutOfBoundsException: begin 0, end -1, length 8"), is_vague("a.B: x")
    (True, False)
    """
    return not message_of(text) or _OF_INDEXES.match(text) is not None


def _reason_below(chain: Sequence[str], link: int) -> str:
    """Return the deepest exception below the decisive one, unless the decisive one already contains its message."""
    deepest = " ".join(chain[-1][:_TEXT].split())
    message = message_of(deepest)
    if link in (-1, len(chain) - 1) or len(message) < 4 or message[:80] in chain[link]:
        return ""
    below, own = classify([deepest]), classify([chain[link]])
    if below is not None and own is not None and below.name == own.name:
        return ""
    name = _CLASS.match(deepest)
    package = (
        deepest.rfind(".", 0, name.end() - 1) + 1 if name is not None and "(" not in name[0] else 0
    )
    return f"caused by {_truncate(deepest[package:])}"


def _words_around(chain: Sequence[str], link: int, above: str) -> str:
    """Return the nearest informative message around a decisive exception that is too vague."""
    own = _ERRNO.sub("", message_of(chain[link]))
    if not is_vague(chain[link]) and (len(own) > _VAGUE or _SPECIFIC.search(own) is not None):
        return ""
    # Not the record above if the class has no message: the failure is then named after that record.
    for text in (*reversed(chain[: link % len(chain)]), above if own else ""):
        message = message_of(text)
        more = _without(own, message)
        if more and message[:80] not in chain[link] and _is_informative(text, more):
            return _truncate(more)
    return ""


# A failure of a connection or of its authentication.
_OF_CONNECTION: Final = re.compile(
    r"(?i)connect|timed out|route to host|unreachable|refused|handshake|\bSSL|\bGSS|\bSASL|authenticat|broken pipe"
)
_ADDRESS: Final = re.compile(
    r"\b(?!(?:localhost|127\.0\.0\.1)\b)(?:[a-z][a-z+.]{1,20}://[^\s\]\[(){}\"',]{4,200}"
    r"|(?:[A-Za-z][\w-]{0,62}(?:\.[\w-]{1,63}){0,8}|\d{1,3}(?:\.\d{1,3}){3})(?:/(?:\d{1,3}\.){3}\d{1,3})?:(?!0\b)\d{2,5}\b)"
)


def _address_around(chain: Sequence[str], link: int, known: str, records: Sequence[str]) -> str:
    """Return the nearest address around a failed connection, unless the known text has an address."""
    if _OF_CONNECTION.search(chain[link]) is None or _ADDRESS.search(known) is not None:
        return ""
    for text in (*reversed(chain[: link % len(chain)]), *records):
        if (found := _ADDRESS.search(message_of(text))) is not None:
            return f"address {found[0].rstrip('.:;')}"
    return ""


def _without(known: str, message: str) -> str:
    """Return what a message adds to the decisive exception's message, which it may repeat.

    >>> _without("Read timed out", "Failed to create marker a.marker Read timed out")
    'Failed to create marker a.marker'
    >>> _without("Connection refused", "java.net.ConnectException: Connection refused")
    ''
    """
    if not known or known not in message:
        return message
    return message_of(message.replace(known, "").strip(" :;,.-"))


def _is_informative(text: str, message: str) -> bool:
    """Return whether a message adds information. The message of a mere wrapper adds none."""
    if len(message.split()) < 3 and _SPECIFIC.search(message) is None:
        return False
    known = classify([text])
    wraps = _WRAPPERS.search(message[:200]) is not None
    names = known is not None and is_wrapper(known.name) and _NAMES.search(message) is None
    return not wraps and not names


def _truncate(text: str) -> str:
    return text if len(text) <= _MOST else f"{text[: _MOST - 1].rstrip()}…"


def message_of(text: str) -> str:
    """Return the message of an exception without its class. Empty if it has none.

    >>> message_of("a.b.CException: x 7"), message_of("a.BError"), message_of("Job aborted."), message_of("a.BError: null")
    ('x 7', '', 'Job aborted.', '')
    """
    text = " ".join(text[:_TEXT].split())
    found = _CLASS.match(text)
    message = text[found.end() :].strip() if found is not None else text
    return "" if message == "null" else message
