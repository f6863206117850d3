"""The catalogue of log messages, kept as data in `formats/flink-*.toml` and `spark-*.toml`.

A template describes one wording of one message. Its *anchor* is a literal that every instance of the message
contains, raw or JSON-escaped. The scanner searches raw bytes for anchors, and only lines with an anchor reach the
catalogue. Templates ignore the layout of the *line* (time, level, logger): they find their message anywhere in it.

The pattern language is Python's `re` with `(?<name>…)` for groups, and three conveniences:
- A group with an empty body, such as `(?<job_id>)`, gets the default pattern for its name (`_GROUPS`).
- A space matches any run of whitespace, because web copies collapse it and terminals pad it.
- A pattern that starts with free text (a task or component name) matches from the start of the message.
  The caller passes that position, or the catalogue derives it from the logger.

Patterns must take linear time on hostile text: at most one lazy scan (`.*?`), followed only by strict parts. For such
patterns `re` compiles and matches three to five times faster than `regex` (measured), and none needs a timeout.
"""

from __future__ import annotations

import functools
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from flowdiag.parsers.formats import read_format
from flowdiag.parsers.messages import Values, convert
from flowdiag.parsers.plugins import Messages, error_line, messages, skip_plugin, skipped_plugins
from flowdiag.parsers.rows import Event

FILES: Final = (
    "formats/flink-checkpoints.toml",
    "formats/flink-jobs.toml",
    "formats/flink-cluster.toml",
    "formats/flink-taskmanager.toml",
    "formats/flink-memory.toml",
    "formats/flink-startup.toml",
    "formats/flink-autoscaler.toml",
)
SPARK_FILES: Final = ("formats/spark-streaming.toml",)

# Matching starts at a limited number of a message's anchors and, for each anchor, at a limited number of occurrences
# of the first word before it. A hostile line therefore costs a constant number of passes.
_MAX_ANCHORS: Final = 3
_MAX_HEADS: Final = 2

_ID = r"[0-9A-Za-z][0-9A-Za-z_-]{3,80}"
_LOCATION = (
    r"(?:[^\s@]{0,512}[ \t\xa0]{0,16}@[ \t\xa0]{0,16}[^\s()]{0,512}[ \t\xa0]{0,16}\(dataPort=[^)\s]{0,12}\)"
    r"|[Uu]nknown location|\[unassigned resource\]|\(unassigned\)|not deployed"
    r"|slot \S{1,200} on \S{1,200}?(?=[.,;]?(?:\s|\Z))"
    r"|\S{1,512}?(?=[.,;]?(?:\s|\Z)))"
)
_RESOURCE_ID = r"[^\s()]{1,512}(?:\([^()\n]{0,200}\))?"
_NUMBER = r"-?[0-9]{1,19}"

# Default pattern of each named value.
_GROUPS: Final = {
    "checkpoint": r"[0-9]{1,19}",
    "job_id": _ID,
    "vertex_id": _ID,
    "attempt_id": _ID,
    "execution_vertex": _ID,
    "epoch_ms": _NUMBER,
    "duration_ms": _NUMBER,
    "seconds": r"[0-9]{1,15}",
    "bytes": _NUMBER,
    "attempt": r"[0-9]{1,9}",
    "from_state": r"[A-Z_]{2,40}",
    "to_state": r"[A-Z_]{2,40}",
    "location": _LOCATION,
    "resource_id": _RESOURCE_ID,
    # Names can contain parentheses: `(i/n)` counts only if the words of the template follow.
    "task": r".*?\([0-9]{1,9}[ ]?/[ ]?[0-9]{1,9}\)(?:[ ]?#[0-9]{1,9})?",
    "job_name": r".*?",
    "component": r".*?",
    "cause": r".*",
}

_EMPTY_GROUP = re.compile(r"\(\?<([a-z][a-z0-9_]*)>\)")
_SPACE_RUNS: Final = {" ": r"[ \t\xa0]{1,16}", " ?": r"[ \t\xa0]{0,16}"}
_NAMED_GROUP = re.compile(r"\(\?<([a-z])")
# A character class, an escape sequence, or a space outside both.
_SPACES = re.compile(r"\\.|\[(?:\\.|[^\]\\])*\]| [?]?")
_HEAD = re.compile(r"[A-Za-z0-9_:,'-]+")
_LEVEL = re.compile(r"\b(?:TRACE|DEBUG|INFO|WARN|WARNING|ERROR|FATAL|SEVERE)\b")
_SEPARATORS = re.compile(r"[\s:\]]{0,64}(?:-\s{1,16})?")
_LEADING_TIME = re.compile(r"[\s\d:.,/TZ+\[\]-]{5,40}\s")


@dataclass(frozen=True, slots=True)
class Template:
    """One wording of one message; the module docstring describes the pattern language."""

    id: str
    event: Event
    loggers: tuple[str, ...]  # simple names of the classes that log it; any class if empty
    anchor: str
    pattern: str
    versions: str  # first and last sampled version with this wording
    levels: tuple[str, ...] = ()
    trace: bool = False  # the stack trace below the line belongs to the message
    # Possible first words, if the pattern does not start with a literal.
    begins: tuple[str, ...] = ()
    fields: tuple[tuple[str, str], ...] = ()  # constant fields implied by the message
    engine: str = "flink"


@dataclass(frozen=True, slots=True)
class Recognized:
    """A message found in a line: its position and its values (`EVENTS` columns only)."""

    template: Template
    start: int
    end: int
    values: Values


@functools.cache
def _compile(pattern: str) -> re.Pattern[str]:
    # Expand spaces first, because the default patterns contain literal spaces. Runs are bounded: after a lazy scan, a
    # line of nothing but whitespace would take quadratic time.
    expanded = _SPACES.sub(lambda m: _SPACE_RUNS.get(m[0], m[0]), pattern)
    expanded = _EMPTY_GROUP.sub(
        lambda m: (
            f"(?P<{m[1]}>{_GROUPS.get(m[1], _ID) if m[1].endswith('_id') else _GROUPS[m[1]]})"
        ),
        expanded,
    )
    expanded = _NAMED_GROUP.sub(r"(?P<\1", expanded)
    return re.compile(expanded, re.ASCII)


@functools.cache
def _logger_end(loggers: tuple[str, ...]) -> re.Pattern[str]:
    """Return a pattern for `ClassName [] - `, which precedes the message in layouts with a logger."""
    names = "|".join(map(re.escape, loggers))
    return re.compile(
        rf"(?:^|[.\s\[(<])(?:{names})(?:\$\w+)?(?::[0-9]+)?\]?\s*"
        r"(?:\[[^\]\n]{0,200}\]|\{[^}\n]{0,200}\}|[^\s-]\S{0,200})?\s*[-:|]\s+"
    )


def _past_separators(text: str, position: int) -> int:
    found = _SEPARATORS.match(text, position)
    return found.end() if found is not None else position


def _guess_message_start(text: str, loggers: tuple[str, ...]) -> int:
    """Guess where the message starts in a line of unknown layout.

    Only messages that start with a name need this. The message starts after the logger or, without one, after the
    level and its ` - `, after a leading time, or at the start of the line.
    """
    if loggers:
        found = _logger_end(loggers).search(text, 0, 4096)
        if found is not None:
            return found.end()
    level = _LEVEL.search(text, 0, 512)
    if level is not None:
        dash = text.find(" - ", level.end(), level.end() + 256)
        return _past_separators(text, dash if dash >= 0 else level.end())
    time = _LEADING_TIME.match(text)
    return _past_separators(text, time.end()) if time is not None else 0


class Catalogue:
    """Finds messages in lines by their templates, which are indexed by anchor."""

    def __init__(
        self,
        templates: tuple[Template, ...],
        drift_loggers: tuple[str, ...],
        engine: str = "flink",
    ) -> None:
        """Index the templates; patterns compile on first use."""
        self.engine = engine
        self.templates = templates
        self.drift_loggers = drift_loggers
        by_anchor: dict[str, list[Template]] = {}
        for template in templates:
            by_anchor.setdefault(template.anchor, []).append(template)
        for name in drift_loggers:
            by_anchor.setdefault(name, [])
        self.anchors: tuple[str, ...] = tuple(by_anchor)
        self._by_anchor = tuple(tuple(group) for group in by_anchor.values())

    def recognize(
        self, text: str, anchor: int | None = None, *, begin: int | None = None
    ) -> Recognized | None:
        """Find a known message in one line.

        Args:
            text: the line without its line ending; carriers such as docker's prefix are allowed.
            anchor: index in `anchors` of a literal that the line contains. Only its templates are tried. With None,
                every anchor in the line is tried, and the message that starts first is returned.
            begin: where the message starts, if the layout shows it. This position is tried first. Messages that start
                with a name can be recognized reliably only there.
        """
        if anchor is not None:
            return self._recognize(text, anchor, begin)
        best: Recognized | None = None
        for index, literal in enumerate(self.anchors):
            if self._by_anchor[index] and literal in text:
                found = self._recognize(text, index, begin)
                if found is not None and (best is None or found.start < best.start):
                    best = found
        return best

    def _recognize(self, text: str, anchor: int, begin: int | None) -> Recognized | None:
        literal = self.anchors[anchor]
        for template in self._by_anchor[anchor]:
            match = _find(template, text, literal, begin)
            if match is not None:
                groups = {**match.groupdict(), **dict(template.fields)}
                return Recognized(template, match.start(), match.end(), convert(groups))
        return None


def _heads(template: Template) -> tuple[str, ...]:
    """Return the words that can start a message of this template, or no words if it starts with free text."""
    if template.begins:
        return template.begins
    found = _HEAD.match(template.pattern)
    if found is None:
        return ()
    # A quantifier after the literal applies only to its last character.
    quantified = template.pattern[found.end() : found.end() + 1] in ("?", "*", "{")
    return (found[0][:-1] if quantified else found[0],)


def _possible_starts(text: str, heads: tuple[str, ...], anchor: str) -> Iterator[int]:
    """Yield positions where a message with these first words and this anchor may start, most likely first."""
    position = text.find(anchor)
    tried: set[int] = set()
    for _ in range(_MAX_ANCHORS):
        if position < 0:
            return
        for head in heads:
            before = position + len(head)
            for _ in range(_MAX_HEADS):
                start = text.rfind(head, 0, before)
                if start < 0:
                    break
                if start not in tried and (start == 0 or not text[start - 1].isalnum()):
                    tried.add(start)
                    yield start
                before = start + len(head) - 1
        position = text.find(anchor, position + len(anchor))


def _find(template: Template, text: str, anchor: str, begin: int | None) -> re.Match[str] | None:
    pattern = _compile(template.pattern)
    heads = _heads(template)
    if begin is not None or not heads:
        position = text.find(anchor)
        if position < 0:
            return None
        start = begin if begin is not None else _guess_message_start(text, template.loggers)
        if start > position:
            start = 0
        while start < position and text[start].isspace():
            start += 1
        match = pattern.match(text, start)
        if match is not None or not heads:
            return match
    for start in _possible_starts(text, heads, anchor):
        match = pattern.match(text, start)
        if match is not None:
            return match
    return None


def _template(entry: dict[str, Any], engine: str) -> Template:
    return Template(
        engine=engine,
        id=entry["id"],
        event=Event(entry["event"]),
        loggers=tuple(entry["loggers"]),
        anchor=entry["anchor"],
        pattern=entry["pattern"],
        versions=entry["versions"],
        levels=tuple(entry.get("levels", ())),
        trace=entry.get("trace", False),
        begins=tuple(entry.get("begins", ())),
        fields=tuple(entry.get("fields", {}).items()),
    )


def load_catalogue(engine: str = "flink") -> Catalogue:
    """Return the catalogue of an engine (`flink` or `spark`), including the messages of plug-ins; cached."""
    return _catalogue(engine, messages())


@functools.cache
def _catalogue(engine: str, added: tuple[Messages, ...]) -> Catalogue:
    templates: list[Template] = []
    drift: list[str] = []
    for name in SPARK_FILES if engine == "spark" else FILES:
        document = read_format(name, samples=False)
        drift.extend(document.get("drift_loggers", ()))
        templates.extend(_template(entry, engine) for entry in document.get("message", ()))
    known = {template.id for template in templates}
    for plugin in added:
        own = _plugin_catalogue(plugin)
        if own is None or own.engine != engine:
            continue
        taken = known & {template.id for template in own.templates}
        if taken:
            skip_plugin(plugin.package, f"the id of message '{min(taken)}' is already in use")
            continue
        known |= {template.id for template in own.templates}
        templates += own.templates
        drift += own.drift_loggers
    return Catalogue(tuple(templates), tuple(dict.fromkeys(drift)), engine)


# -- messages of plug-ins ----------------------------------------------------------------------------

# An anchor must be long enough to be rare, and JSON escaping must not change it.
_ANCHOR = re.compile(r"[A-Za-z0-9 .,:_-]{8,}")
_ENTRY_KEYS: Final = frozenset(
    {
        *("id", "event", "loggers", "anchor", "pattern", "versions", "sample"),
        *("levels", "trace", "begins", "fields"),
    }
)


def unusable_plugins() -> tuple[str, ...]:
    """Return one sentence per plug-in that cannot be used. This loads all message plug-ins, but no rule plug-ins."""
    if messages():
        for engine in ("flink", "spark"):
            load_catalogue(engine)
    return skipped_plugins()


@functools.cache
def _plugin_catalogue(plugin: Messages) -> Catalogue | None:
    """Return the catalogue of a plug-in, with every template checked by its samples, or None if it is skipped."""
    place = "its catalogue"
    try:
        document = tomllib.loads(plugin.text)
        unknown = document.keys() - {"engine", "drift_loggers", "message"}
        if unknown:
            raise ValueError(f"unknown key '{min(unknown)}'")
        engine = document.get("engine", "flink")
        if engine not in ("flink", "spark"):
            raise ValueError(f"the engine is '{engine}' instead of flink or spark")
        templates = []
        for entry in document.get("message", ()):
            place = f"message '{entry.get('id', '?')}'"
            templates.append(_checked_template(entry, engine))
        place = "its catalogue"
        ids = [template.id for template in templates]
        if len(set(ids)) < len(ids):
            raise ValueError("two messages have the same ID")
        drift = tuple(map(str, document.get("drift_loggers", ())))
    except Exception as error:  # noqa: BLE001 - errors in a plug-in affect only that plug-in
        missing = f"the key '{error.args[0]}' is missing" if isinstance(error, KeyError) else None
        skip_plugin(plugin.package, f"{place}: {missing or error_line(error)}")
        return None
    return Catalogue(tuple(templates), drift, engine)


def _checked_template(entry: dict[str, Any], engine: str) -> Template:
    """Build a plug-in's template and run the checks that our tests run on built-in templates.

    Raises:
        Exception: any exception, if the entry is not a valid template.
    """
    unknown = entry.keys() - _ENTRY_KEYS
    if unknown:
        raise ValueError(f"unknown key '{min(unknown)}'")
    template = _template({"loggers": (), "versions": "", **entry}, engine)
    if not _ANCHOR.fullmatch(template.anchor):
        raise ValueError("the anchor is not eight or more letters, digits, spaces or .,:_-")
    samples = [sample["text"] for sample in entry["sample"]]
    if not samples:
        raise ValueError("the entry has no sample")
    alone = Catalogue((template,), (), engine)
    for text in samples:
        if alone.recognize(text) is None:
            raise ValueError(f"the sample is not recognized: {text[:80]}")
    return template
