"""Removes sensitive text from reports: always secrets, and names on request.

Sentences of rules contain marked names (`flowdiag.analyses.model.names`). In log text, names are searched for.
Log text is untrusted: it contains logged passwords, terminal escapes, and characters that reorder the visible text.
`clean` is applied to all log text that enters a report.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, Final, TypeVar

import msgspec

from flowdiag.analyses.model.fmt import shorten
from flowdiag.analyses.model.names import MARKED, unmarked
from flowdiag.parsers.secrets import mask_secrets

__all__ = ["clean", "cleaned", "mask_secrets", "printable", "pseudonymise", "visible_json"]

_TERMINAL = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])|\x9b[0-?]*[ -/]*[@-~]"
)
# The last two of every plane, and 32 more: XML 1.0 does not allow some of them, and HTML none.
_NONCHARACTERS: Final = "\ufdd0-\ufdef" + "".join(
    chr(plane << 16 | last) for plane in range(17) for last in (0xFFFE, 0xFFFF)
)
# DEL, C1; zero-width and bidirectional marks, line separators, byte order mark, surrogates, tags
_INVISIBLE: Final = (
    "\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    f"\ud800-\udfff\U000e0000-\U000e007f{_NONCHARACTERS}"
)
_CONTROL = re.compile(f"[\x00-\x08\x0a-\x1f{_INVISIBLE}]")
_IN_JSON = re.compile(f"[{_INVISIBLE}]")


def printable(text: str) -> str:
    r"""Drop terminal sequences; show every other control or reordering character as an escape.

    >>> printable("\x1b[31mred\x1b[0m \u202eevil\x00\tend")
    'red \\u202eevil\\x00 end'
    """
    text = _TERMINAL.sub("", text).replace("\t", " ")
    return _CONTROL.sub(lambda hit: _escape(hit.group()), text)


def _escape(character: str) -> str:
    code = ord(character)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def visible_json(document: str) -> str:
    r"""Escape the invisible characters of a JSON document, so that it is safe to display.

    >>> visible_json('{"a":"\u202eb"}')
    '{"a":"\\u202eb"}'
    """
    return _IN_JSON.sub(lambda hit: json.dumps(hit.group())[1:-1], document)


def clean(text: str, limit: int = 500) -> str:
    """Mask secrets and control characters in log text, and cut it to `limit` characters."""
    # Keep the lines until secrets are masked: the value of a key may be on the next line.
    text = "\n".join(printable(line) for line in text.split("\n"))
    end = _enough(text)
    if end is not None:
        masked = printable(mask_secrets(text[:end])).strip()
        if len(masked) > limit:
            return shorten(masked, limit)
    return shorten(printable(mask_secrets(text)).strip(), limit)


Struct = TypeVar("Struct", bound=msgspec.Struct)


def cleaned(struct: Struct, *fields: str) -> Struct:
    """Return a copy of a struct with the text of some fields cleaned."""
    values = {name: getattr(struct, name) for name in fields}
    changes = {name: clean(text) for name, text in values.items() if isinstance(text, str)}
    return msgspec.structs.replace(struct, **changes) if changes else struct


# A REST response is one line of many kilobytes. Searching all of it for secrets takes longer than the rest of its
# citation.
_LONG: Final = 2048


def _enough(text: str) -> int | None:
    """Return where a long text can be cut without changing how its start is masked, or None.

    A secret ends at a comma, or is recognised without its end (in quotes, a private key). Only credentials in a URL
    depend on later text: an `@`, which may be far away, but with no space before it.
    """
    if len(text) <= _LONG:
        return None
    marks = " " if "@" in text and "://" in text[:_LONG] else " ,"
    end = max(text.rfind(mark, _LONG // 2, _LONG) for mark in marks)
    return end if end > 0 else None


# The kind of name in each key of the report. `pseudonymise` changes only these: never the words of the contract
# (codes, verdicts, units, option keys), even if a task has such a name.
_NAMES: Final = {
    "host": "host",
    "taskmanager": "taskmanager",
    "executor": "executor",
    "task": "task",
    "operator": "task",
    "job_name": "job",
    "application": "application",
    "query": "query",
    "receiver": "receiver",
    "partition": "partition",
    "cluster": "cluster",
    "source": "input",
    "label": "process",
}
_NAMES_BELOW: Final = {
    ("jobs", "name"): "job",
    ("applications", "name"): "job",
    ("queries", "name"): "query",
    ("streams", "name"): "receiver",
    ("slow_parts", "name"): "stage",
    ("vertices", "name"): "task",
    ("inputs", "upstream"): "task",
    ("tasks", "job"): "job",
    ("before", "jobs"): "job",  # of a comparison
    ("after", "jobs"): "job",
}
_TEXTS: Final = frozenset(
    {"title", "narrative", "why", "because", "explain", "population", "value", "what"}
    | {"excerpt", "example", "reason", "samples", "message", "hint", "error"}
    | {"text", "current", "proposed", "risk", "verify", "measure", "doubts"}
)
_TEXTS_BELOW: Final = frozenset({("suggestions", "command"), ("attempts", "cause")})
# The texts among these that rules write, in contrast to log text.
_PROSE: Final = frozenset(
    {
        "title",
        "narrative",
        "why",
        "because",
        "explain",
        "population",
        "text",
        "risk",
        "verify",
    }
)
_WORD = re.compile("[a-z]+")
_PATTERNS: Final = (
    ("user", re.compile(r"(?i)(?<=\buser[=:])\s*\w[\w.-]*|(?<=/home/)[\w.-]+|(?<=/Users/)[\w.-]+")),
    ("url", re.compile(r"(?i)\b[a-z][a-z0-9+.-]*://[^\s\"'<>)\],;]+")),
    ("host", re.compile(r"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?![\w.])")),
    (
        "host",
        # not org.apache.…: a package starts with the domain, a host ends with it
        re.compile(
            r"(?i)(?<![\w.-])(?!(?:org|com|io|net|java|javax)\.)[a-z0-9-]+(?:\.[a-z0-9-]+)*"
            r"\.(?:internal|local|lan|corp|intra|com|net|org|cloud|svc)(?![\w-])"
        ),
    ),
    ("path", re.compile(r"(?<![\w/.:*])(?:~|\.{1,2})?(?:/[\w.+@=~-]+){2,}/?")),
)


def pseudonymise(document: Any) -> Any:
    """Consistently replace hosts, users, job and task names and paths by `host-1`, `task-2`, ….

    Args:
        document: a report as plain builtins (`msgspec.to_builtins`).

    Log text is searched for the names in the report, and for text with the shape of an address, a user or a path.
    Names that appear only in log text, in another form, cannot be recognised. In sentences of rules, a name that is
    also a common word is replaced only if it is marked.
    """
    names = _Pseudonyms()
    names.collect(document)
    return names.replace(document)


class _Pseudonyms:
    def __init__(self) -> None:
        self._known: dict[str, str] = {}
        self._counts: dict[str, int] = {}
        self._pattern: re.Pattern[str] | None = None

    def name(self, kind: str, real: str) -> str:
        if not real or real == "-":
            return real
        if real not in self._known:
            self._counts[kind] = self._counts.get(kind, 0) + 1
            self._known[real] = f"{kind}-{self._counts[kind]}"
        return self._known[real]

    def collect(self, node: Any) -> None:
        for kind, real in _named(node):
            self.name(kind, real)
        longest_first = sorted(self._known, key=len, reverse=True)
        # A one-letter task name would turn every "a" of a sentence into a pseudonym.
        words = [re.escape(real) for real in longest_first if len(real) > 2]
        self._pattern = re.compile(rf"(?<!\w)(?:{'|'.join(words)})(?!\w)") if words else None

    def text(self, text: str, *, prose: bool = False) -> str:
        """Replace the names in a text. `prose` is a rule's sentence, in which names are marked."""
        parts = MARKED.split(text)
        return "".join(
            self._marked(part) if number % 2 else self._searched(part, prose=prose)
            for number, part in enumerate(parts)
        )

    def _searched(self, text: str, *, prose: bool) -> str:
        def known(hit: re.Match[str]) -> str:
            name = hit.group()
            return name if prose and name in _own_words() else self._known[name]

        text = unmarked(text)
        if self._pattern:
            text = self._pattern.sub(known, text)
        for kind, pattern in _PATTERNS:
            text = pattern.sub(lambda hit, kind=kind: self.name(kind, hit.group()), text)  # type: ignore[misc]
        return text

    def _marked(self, name: str) -> str:
        """The pseudonym of a name that may have been cut."""
        head, _, tail = name.partition("…")
        for real, other in self._known.items():
            if real == name or (
                "…" in name and real.startswith(head.strip()) and real.endswith(tail.strip())
            ):
                return other
        return self.name("name", name)

    def replace(self, node: Any, key: str = "", parent: str = "") -> Any:
        if isinstance(node, Mapping):
            return {k: self.replace(v, k, key) for k, v in node.items()}
        if isinstance(node, list):
            return [self.replace(item, key, parent) for item in node]
        if not isinstance(node, str):
            return node
        kind = _kind(key, parent)
        if kind:
            return self.name(kind, unmarked(node))
        if key in _TEXTS or (parent, key) in _TEXTS_BELOW:
            return self.text(node, prose=key in _PROSE)
        return unmarked(node)


@cache
def _own_words() -> frozenset[str]:
    """Common words of our own sentences, which may also be names of tasks."""
    from flowdiag.analyses.knowledge.causes import CAUSES

    texts = [text for cause in CAUSES.values() for text in (cause.meaning, cause.explanation)]
    for cause in CAUSES.values():
        for remedy in cause.remedies.values():
            texts += [text for text in (remedy.text, remedy.risk, remedy.verify) if text]
    return frozenset(_WORD.findall(" ".join(texts)))


def _kind(key: str, parent: str) -> str | None:
    return _NAMES_BELOW.get((parent, key)) or _NAMES.get(key)


def _named(node: Any, key: str = "", parent: str = "") -> Iterable[tuple[str, str]]:
    if isinstance(node, Mapping):
        for k, v in node.items():
            yield from _named(v, k, key)
    elif isinstance(node, list):
        for item in node:
            yield from _named(item, key, parent)
    elif isinstance(node, str):
        kind = _kind(key, parent)
        if kind:
            yield kind, unmarked(node)
