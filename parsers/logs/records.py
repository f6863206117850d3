"""Strips carriers and envelopes from log records, and recognizes their messages.

`open_record` strips carriers and JSON envelopes from a line, however they are nested. `Recognizer` finds a known
message in the rest and checks that the record itself logs it: stack frames, exceptions and other loggers quote
Flink's messages. Other engines use the same class names.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from typing import Final

import msgspec

from flowdiag.parsers.catalogue import Catalogue, Recognized
from flowdiag.parsers.envelopes.objects import unwrap_json
from flowdiag.parsers.lines import prefix
from flowdiag.parsers.lines.prefix import Prefix, simple_name
from flowdiag.parsers.lines.scan import LiteralFinder, Matcher, make_matcher
from flowdiag.parsers.logs.paste_patterns import BEHIND_OBJECT

MAX_ENVELOPES: Final = 4
"""Maximum nesting of JSON within JSON."""


@dataclass(slots=True)
class Record:
    """A log record: a line whose carriers, envelopes and header have been parsed."""

    head: Prefix
    more: list[str] | None = None  # further lines of the record, from the same JSON line
    json: bool = False
    partial: bool = (
        False  # whether the container runtime split the line, so that the next line continues it
    )


def open_record(text: str, depth: int = 0) -> Record:
    """Strip carriers and envelopes from a line, however they are nested."""
    head = prefix.parse(text)
    if (
        head.complete
        or depth == MAX_ENVELOPES
        or not head.text.startswith(prefix.JSON_BEGINS, head.inner)
    ):
        return Record(head)
    if head.text.startswith('"', head.inner):
        record = _open_string(head.text[head.inner :], depth)
    else:
        record = _open_object(head.text[head.inner :], depth)
    if record is None:
        prefix.search(head)
        return Record(head)
    record.head.process = record.head.process or head.process
    if record.head.utc_us is None:
        record.head.utc_us = head.utc_us
    if record.head.local_us is None and record.head.utc_us is None:
        # A carrier's wall clock is better than none (`aws logs tail` prints one before JSON).
        record.head.local_us, record.head.clock = head.local_us, head.clock
    # The following lines have the same carriers before their JSON.
    record.head.carriers = head.carriers
    record.json = True
    return record


def body_of(head: Prefix) -> str:
    """Return the message as printed."""
    return head.text[head.begin : head.end]


def join(above: Record, below: Record) -> Record:
    """Join a header line, possibly with the start of a message, and the line below it."""
    header = above.head.text[above.head.inner : above.head.end].rstrip()
    message = below.head.text[below.head.inner :].strip()
    joined = open_record(f"{header} {message}")
    joined.head.process = above.head.process
    joined.head.carriers = above.head.carriers
    joined.json = above.json
    if joined.head.utc_us is None:
        joined.head.utc_us = above.head.utc_us
    return joined


def _open_string(text: str, depth: int) -> Record | None:
    """Open a JSON string that is the whole line, as in an array printed line by line."""
    try:
        inner = msgspec.json.decode(text.strip().rstrip(",").encode("utf-8", "replace"), type=str)
    except msgspec.DecodeError:
        return None
    return _open_lines(inner, depth, has_logger=False)


def _open_object(text: str, depth: int) -> Record | None:
    """Open the record in a JSON object. The object's keys supply the values that the text lacks."""
    unwrapped, behind = unwrap_json(text.encode("utf-8", "surrogatepass")), ""
    if unwrapped is None and (trace := BEHIND_OBJECT.search(text)) is not None:
        behind = text[trace.end() :]
        unwrapped = unwrap_json(text[: trace.end()].rstrip().encode("utf-8", "surrogatepass"))
    if unwrapped is None:
        return None
    has_logger = bool(unwrapped.logger and unwrapped.logger.strip())
    record = _open_lines(unwrapped.text, depth, has_logger=has_logger)
    head = record.head
    head.logger = head.logger or unwrapped.logger
    head.level = head.level or level_of(unwrapped.level)
    head.thread = head.thread or unwrapped.thread
    head.process = head.process or unwrapped.process
    if head.utc_us is None:
        head.utc_us = unwrapped.timestamp_us
    if head.local_us is None:
        head.local_us = unwrapped.local_us
    record.partial = unwrapped.partial
    if unwrapped.trace:
        record.more = [*(record.more or ()), *_split_lines(unwrapped.trace)]
    if behind:
        record.more = [*(record.more or ()), *_split_lines(_TRACE_PARTS.sub("\n", behind))]
    return record


# Between the parts of a stack trace on a single line.
_TRACE_PARTS: Final = re.compile(
    r"(?:\\r)?\\n(?:\\t)?|\s{1,8}(?=(?:\\t)?at [\w.$/@]{3,300}\(|Caused by: |\.\.\. \d)"
)


def _open_lines(text: str, depth: int, *, has_logger: bool) -> Record:
    """Open the text of an envelope. If the envelope has a logger, only lines with a time start a header in the text."""
    # A message that starts with a line break (PIDRateEstimator) begins on its second line.
    first, *more = _split_lines(text.lstrip("\r\n") if has_logger else text)
    record: Record | None = None
    if not has_logger or prefix.read_stamp(first) is not None or first[:1] == "{":
        record = open_record(first, depth + 1)
    if record is None or (has_logger and not record.head.complete):
        record = Record(Prefix(first, 0, 0, len(first), complete=True, dated=True))
    if more:
        record.more = [*more, *(record.more or ())]
    return record


def _split_lines(text: str) -> list[str]:
    return text.rstrip("\r\n").replace("\r\n", "\n").split("\n")


def level_of(printed: str | None) -> str | None:
    """Return the standard name of a level; unknown levels are returned as printed."""
    if printed is None:
        return None
    return prefix.load_layouts().levels.get(printed.strip().upper(), printed)


# --- the logger of a message ----------------------------------------------------------------------

_FOREIGN: Final = frozenset(("seatunnel", "spark", "storm", "samza", "heron", "beam", "gearpump"))
_FAMILIAR: Final = re.compile(
    r"(?:^|[._-])(?:flink|kafka|hadoop|zookeeper|curator|akka|pekko|netty|rocksdb|frocksdb)",
    re.IGNORECASE,
)
# Spark's packages below `org.apache.spark`, with which loggers start in the layouts of CDH, HDP and EMR.
_SPARK_PACKAGES: Final = frozenset(
    (
        "scheduler", "streaming", "receiver", "rate", "dstream", "kafka", "kafka010", "kinesis",
        "flume", "util", "storage", "memory", "executor", "deploy", "rpc", "netty", "internal",
        "metrics", "ui", "status", "broadcast", "shuffle", "sort", "rdd", "network", "client", "server",
        "sql", "execution", "state", "continuous", "runtime", "sources", "checkpointing", "operators",
        "cluster", "k8s", "mesos", "yarn", "local", "history", "listeners", "python", "api", "security",
        "serializer", "resource", "launcher", "worker", "master",
    )
)  # fmt: skip
_DOMAINS: Final = frozenset(("com", "net", "io", "cn", "ru", "de", "edu", "gov", "c", "n"))


@functools.lru_cache(maxsize=1024)
def is_foreign(logger: str, engine: str = "flink") -> bool:
    """Return whether a logger belongs to another engine, which may use the same names and messages.

    Abbreviated packages count as well: `o.a.s.` is SeaTunnel or Spark, `o.a.f.` is Flink.

    >>> is_foreign("org.apache.seatunnel.engine.server.checkpoint.CheckpointCoordinator")
    True
    >>> [is_foreign(name) for name in ("CheckpointCoordinator", "o.a.f.r.c.CheckpointCoordinator")]
    [False, False]
    >>> [is_foreign(name, "spark") for name in ("scheduler.JobScheduler", "com.acme.JobScheduler")]
    [False, True]
    """
    package, _, _ = logger.rpartition(".")
    if not package or _FAMILIAR.search(package):
        return False
    parts = package.split(".")
    if engine == "spark":
        if "spark" in parts or parts[:3] in (["o", "a", "s"], ["org", "a", "s"]):
            return False
        # `%c{2}` and `%c{3}` drop leading packages. A name that starts with a domain is complete.
        abbreviated = parts[0] in _SPARK_PACKAGES and len(parts) <= 3
        return not abbreviated
    if _FOREIGN.intersection(parts):
        return True
    if len(parts) < 3:
        return False
    if parts[0] in ("org", "o") and parts[1] in ("apache", "a"):
        return parts[2] not in ("f", "k", "h", "z", "c", "~", "")
    return parts[0] in _DOMAINS


_SEPARATED = re.compile(r"(?:^|- |-|: |\] ?|\| ?|[\t;,#=]|[\"'`(]|[-—>~:] )\s*\Z")
_THROWN = re.compile(r"(?:Exception|Error|Throwable)[\w$]*: ?\Z|Caused by: \Z")
# A member of a JSON body that a record quotes. Its text reports an event elsewhere.
_IN_BODY = re.compile(
    r"[{,]\s{0,8}\\{0,4}\"[\w .@/-]{1,80}\\{0,4}\"\s{0,8}:\s{0,8}\\{0,4}\"\s{0,8}\Z"
)
_CLASS_BEFORE = re.compile(r"(?<![\w$.])(?:[\w$]+\.)+[A-Z][\w$]*(?::\d+)?\]?\s*(?:[-:|]\s*)?\Z")
_LEVEL_WORD = re.compile(r"(?<![\w.])(TRACE|DEBUG|INFO|WARN(?:ING)?|ERROR|FATAL|SEVERE)(?![\w.])")
_BRACKETS = re.compile(r"\[([^\[\]\n]{1,512})\]")
# Separators between the parts of a header, and parts that contain no words.
_FILLER = re.compile(
    r"(?:[\s\-:|;,#~>=»*—/\"'`\])}]++|\[[^\[\]\n]*+\]|\([^()\n]*+\)|\{[^{}\n]*+\}|<[^<>\n]*+>"
    r"|(?:TRACE|DEBUG|INFO|WARN|WARNING|ERROR|FATAL|SEVERE)(?![\w.])|(?:msg|message|log)(?==))*+"
)
_KEY = re.compile(r"\b(?:msg|message|log)=[\"']")
_HEADER_CHARACTERS: Final = 4096
_NEAR_CHARACTERS: Final = 512


class Recognizer:
    """Recognizes the messages of a catalogue, and checks their positions in the line.

    Args:
        catalogue: messages and classes to find.
        structure: further literals that make a line a candidate.

    Attributes:
        catalogue: the given catalogue.
        matcher: finds lines with any anchor: of a message, a class, or in `structure`.
        drift: simple names of the classes whose every message flowdiag should recognize.
    """

    def __init__(self, catalogue: Catalogue, structure: tuple[str, ...] = ()) -> None:
        self.catalogue = catalogue
        self.matcher: Matcher = make_matcher((*catalogue.anchors, *structure))
        self.drift = frozenset(catalogue.drift_loggers)
        known = {template.anchor for template in catalogue.templates}
        numbers = [number for number, anchor in enumerate(catalogue.anchors) if anchor in known]
        self._numbers = tuple(numbers)
        self._finder = LiteralFinder([catalogue.anchors[number] for number in numbers])
        names = {name for template in catalogue.templates for name in template.loggers}
        self._loggers = re.compile(
            r"(?<![\w$.])(?:[\w$]+\.)*(?:"
            + "|".join(map(re.escape, sorted(names, key=len, reverse=True)))
            + r")(?:\$\w+)?(?![\w$])(?:[:.]\d+|\.\w+\([\w.$:]*\)|\.\w+:\d+)?"
        )

    def holds_message(self, text: str) -> bool:
        """Return whether the text contains the anchor of any message."""
        return bool(self._finder.indices_in(text))

    def is_candidate(self, line: bytes) -> bool:
        """Return whether a scanner with this matcher would yield the line."""
        return bool(self.matcher.find(line))

    def recognize(self, head: Prefix) -> Recognized | None:
        """Find the message of a record, if it is known and its position is plausible.

        If the header has an unknown layout, fill in its level, logger and thread as well.
        """
        text = head.text if head.end == len(head.text) else head.text[: head.end]
        indices_in = self._finder.indices_in(text)
        if not indices_in:
            return None
        anchors = [self._numbers[number] for number in indices_in]
        if head.complete:
            best = self._find_after_header(head, text, anchors)
            if best is not None:
                return best
        return self._find_further_right(head, text, anchors)

    def _find_after_header(self, head: Prefix, text: str, anchors: list[int]) -> Recognized | None:
        """Return the longest message that starts at the end of the header."""
        best: Recognized | None = None
        begin = head.begin
        for anchor in anchors:
            found = self.catalogue.recognize(text, anchor, begin=begin)
            if found is None or (best is not None and found.end <= best.end):
                continue
            if found.start != begin and text[begin : found.start].strip(" \t\"'"):
                continue
            if head.logger and not _is_logged_by(head.logger, found):
                continue
            best = found
        return best

    def _find_further_right(self, head: Prefix, text: str, anchors: list[int]) -> Recognized | None:
        """Return a message after unknown text, unless that text names a logger that does not log the message."""
        begin = head.begin
        if head.complete and head.dated and (stamp := prefix.read_stamp(text, head.inner)):
            begin = stamp.end
        logger = self._loggers.search(text, begin, begin + _HEADER_CHARACTERS)
        key = _KEY.search(text, begin, begin + _HEADER_CHARACTERS)
        if key is not None:
            guess = key.end()
        else:
            filler = _FILLER.match(text, logger.end() if logger is not None else begin)
            guess = filler.end() if filler is not None else begin
        best: Recognized | None = None
        for anchor in anchors:
            found = self.catalogue.recognize(text, anchor, begin=guess)
            if found is None or found.start < begin:
                continue
            if best is not None and found.start >= best.start:
                continue
            if self._is_plausible(head, text, found, begin, logger):
                best = found
        if best is not None and not head.complete:
            _fill_header(head, text[begin : best.start], logger, best)
            prefix.drop_time_within(head, best.start, best.end)
        return best

    @staticmethod
    def _is_plausible(
        head: Prefix, text: str, found: Recognized, begin: int, logger: re.Match[str] | None
    ) -> bool:
        before = text[begin : found.start]
        # All these patterns end at the message. The limit guards against endless whitespace.
        near = max(0, len(before) - _NEAR_CHARACTERS)
        if _THROWN.search(before, near) or (head.complete and _IN_BODY.search(before, near)):
            return False
        loggers = found.template.loggers
        if head.complete and head.logger and "." in head.logger:
            # The header is unambiguous, so its logger must match the template.
            start, is_own = None, bool(loggers) and _is_logged_by(head.logger, found)
        elif logger is not None and logger.end() <= found.start:
            start, is_own = logger.end(), _is_logger_of(logger[0], found)
        else:
            # If another class name is in front of the message, that class logs it.
            start, is_own = begin, not (loggers and _CLASS_BEFORE.search(before, near))
        if not is_own:
            return False
        filler = None if start is None else _FILLER.match(text, start, found.start)
        if filler is not None and filler.end() == found.start:
            return True
        return _SEPARATED.search(before, near) is not None


def _is_logger_of(printed: str, found: Recognized) -> bool:
    """Return whether a printed class, possibly with method or line number, may log the message."""
    loggers = found.template.loggers
    name = printed.split("(")[0].split(":")[0]
    own = not loggers or any(part in loggers for part in name.split("."))
    return own and not is_foreign(name, found.template.engine)


def _is_logged_by(logger: str, found: Recognized) -> bool:
    loggers = found.template.loggers
    return not loggers or (
        simple_name(logger) in loggers and not is_foreign(logger, found.template.engine)
    )


def _fill_header(
    head: Prefix, before: str, logger: re.Match[str] | None, found: Recognized
) -> None:
    """Fill in the level, logger and thread from a header with an unknown layout."""
    level = _LEVEL_WORD.search(before)
    if level is not None and head.level is None:
        head.level = level_of(level[1])
    if logger is not None and logger.end() <= found.start and head.logger is None:
        head.logger = re.split(r"[:(]|\.(?=[a-z]\w*[:(])", logger[0])[0]
    for thread in _BRACKETS.finditer(before):
        name = thread[1].strip()
        if head.thread is not None or not name or _LEVEL_WORD.fullmatch(name):
            continue
        if head.logger is None or not name.endswith(simple_name(head.logger)):
            head.thread = name
