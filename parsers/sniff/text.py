"""Determines the kind of a file from its content, never from its name or extension.

`sniff` examines the first bytes, and in large files some bytes from the middle and the end. It decodes whole JSON
documents. Any text that may be a log counts as a log, because skipping a log is worse than reading other text
for nothing. The verdict `not-read` contains a reason for the user.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from typing import Final

from flowdiag.parsers.flink.container_texts import (
    ended_containers,
    looks_like_kubectl,
    reports_killed_process,
)
from flowdiag.parsers.flink.prometheus import FLINK_METRIC
from flowdiag.parsers.flink.web_ui import contains_table
from flowdiag.parsers.kubernetes.throttling import looks_like_throttling
from flowdiag.parsers.logs.paste_patterns import engine_in
from flowdiag.parsers.logs.pastes import PASTE_BYTES, failures_in, shown_engine
from flowdiag.parsers.neighbours.kernel_log import reports_kernel_kill, without_kernel_reports
from flowdiag.parsers.neighbours.kinds import NeighbourKind, neighbour_kind
from flowdiag.parsers.sniff.bytes import binary_format, encoding_of, is_binary, to_utf8
from flowdiag.parsers.sniff.documents import (
    MANIFEST,
    sniff_export,
    sniff_json,
    sniff_printed,
    sniff_wrapped,
)
from flowdiag.parsers.sniff.kinds import kinds_of_lines, syntax_error
from flowdiag.parsers.sniff.signs import (
    SEATUNNEL,
    Signs,
    engine_lines,
    has_time,
    holds_flink_message,
    is_dated,
    log_of,
    looks_like_log,
)
from flowdiag.parsers.sniff.verdict import GC_LOG, Sample, Sniffed, not_read
from flowdiag.parsers.sources.excerpts import TEXT_BYTES as EXCERPTED_BYTES
from flowdiag.parsers.sources.excerpts import excerpts
from flowdiag.parsers.sources.printed import json_printed
from flowdiag.parsers.spark.reports import contains_report
from flowdiag.parsers.spark.web_ui import contains_batches
from flowdiag.parsers.stacks.dumps import contains_dump
from flowdiag.parsers.stacks.texts import engine_of_stacks, stack_text_of
from flowdiag.parsers.yarn.answers import looks_like_yarn

_FEW: Final = 3  # a shorter text may be an error message rather than a configuration
_UNLIKE_A_LOG: Final = "text, but it does not look like a log"
# Bytes to search for messages, in a text without signs of a log.
_DOUBTFUL_BYTES: Final = 8 * 1024 * 1024


def sniff(sample: Sample) -> Sniffed:
    """Return the verdict on a file that is not a container and is already decompressed."""
    if not sample.head:
        return not_read("empty file")
    if reason := binary_format(sample.head):
        return not_read(reason)
    encoding = encoding_of(sample.head)
    if encoding.startswith(("utf-16", "utf-32")):
        read = sample.read
        sample = replace(
            sample,
            head=to_utf8(sample.head, encoding),
            elsewhere=b"",
            read=lambda size: to_utf8(read(2 * size), encoding)[:size],
        )
    elif not sample.complete:
        # Use only whole lines, because a truncated character would look invalid.
        encoding = encoding_of(sample.head[: sample.head.rfind(b"\n") + 1] + sample.elsewhere)
    verdict = _sniff_text(sample)
    if verdict.kind == "not-read":
        verdict = _sniff_unread(sample, verdict) or verdict
    return verdict if encoding == verdict.encoding else replace(verdict, encoding=encoding)


_OTHER_JVM: Final = "crash report of a JVM that ran neither Flink nor Spark"
_TEXTS: Final = tuple(
    (re.compile(pattern, re.MULTILINE), reason)
    for pattern, reason in (
        (rb"\A\s*<(?:!DOCTYPE )?html", "HTML page"),
        (rb"\A\s*<\?xml", "XML"),
        (rb"^# (?:HELP|TYPE) \w+ ", "Prometheus metrics, but none of Flink's"),
        # A crash report without a command line may belong to Flink or Spark, so it is searched.
        (
            (
                rb"^# (?:A fatal error has been detected by|There is insufficient memory for) the Java Runtime"
                rb"(?s:.{0,30000}?)^(?:Command Line|java_command): "
            ),
            _OTHER_JVM,
        ),
        (
            (
                rb"^\[[^\]\n]{1,60}\]\[[^\n]{0,60}\bgc\b|: \[(?:Full )?GC[ (]|\[GC pause"
                rb"|^(?:Java HotSpot|OpenJDK)[^\n]{0,80} for \w+-\w+ JRE"
            ),
            GC_LOG,
        ),
    )
)
_SETTING: Final = re.compile(
    rb"\s*(?:#|!|;|//|- )"
    rb"|(?!\s*(?:TRACE|DEBUG|INFO|WARN|WARNING|ERROR|FATAL|SEVERE)\b|\s*(?i:error|exception|fatal|failure)\s?:)"
    rb"\s*(?:[\w.\-\"'*/$]+\s*[:=](?:\s|$)|[\w.\-]+=)"
)
_JSON_KEY: Final = re.compile(rb"\s*\"[^\"\n]{1,80}\"\s*:\s")
_CODE: Final = re.compile(
    rb"\A#!|^(?:package|import) [\w.*]+;?\r?$|^[ \t]*(?:public |abstract |final ){0,3}(?:class"
    rb"|interface|object|trait) \w[^\n]{0,200}\{\r?$|^[ \t]*(?:def|func) \w+\([^\n]{0,200}[:{]\r?$",
    re.MULTILINE,
)


class _Text:
    """A text and its properties, computed on demand."""

    def __init__(self, sample: Sample) -> None:
        self.sample = sample
        self.head = sample.head.removeprefix(codecs.BOM_UTF8)
        self.data = self.head + b"\n" + sample.elsewhere
        self.start = self.head.lstrip(b"\0 \t\r\n")
        self.is_json = re.match(rb'\{\s*["}]|\[\s*[\[{"\]]|\[\'', self.start) is not None

    @cached_property
    def signs(self) -> Signs:
        return Signs(self.data)

    @cached_property
    def lines(self) -> list[bytes]:
        """The non-blank lines. A long text contributes only lines from its beginning and end."""
        lines = [line for line in self.data.split(b"\n") if line.strip(b"\0 \t\r")]
        return lines[:150] + lines[-50:] if len(lines) > 200 else lines

    @cached_property
    def looks_like_log(self) -> bool:
        return looks_like_log(self.lines)


def _sniff_text(sample: Sample) -> Sniffed:
    text = _Text(sample)
    for detect in _DETECTORS:
        if (verdict := detect(text)) is not None:
            return verdict
    return _search_doubtful_text(sample, _not_a_log_reason(text))


def _not_a_log_reason(text: _Text) -> str:
    """Explain why a text is not read: where its JSON is damaged, or what kinds of lines it has."""
    if not text.is_json:
        return f"{_UNLIKE_A_LOG}: {kinds_of_lines(text.lines)}"
    place = syntax_error(text.head, complete=text.sample.complete)
    return f"damaged JSON: syntax error in {place}" if place is not None else "damaged JSON"


def _sniff_binary(text: _Text) -> Sniffed | None:
    data = text.data
    if not data.strip(b"\0 \t\r\n"):
        return not_read("nothing but NUL bytes" if b"\0" in data else "nothing but whitespace")
    # A text with Flink's messages may have more control characters than other text.
    if is_binary(data) and (is_binary(data, 0.3) or not holds_flink_message(data)):
        return not_read("binary file")
    return None


def _sniff_neighbour(text: _Text) -> Sniffed | None:
    """Return the verdict on output from tools of Kafka and databases, and on their logs."""
    kind = neighbour_kind(text.head.decode("utf-8", "replace"))
    return None if kind is None else not_read(kind.reason)


def _sniff_structured(text: _Text) -> Sniffed | None:
    if not text.is_json:
        return sniff_export(text.sample, text.start) or sniff_wrapped(text.sample, text.start)
    verdict = sniff_json(text.sample, text.start)
    # Events of Kubernetes, one per line, have a message, too.
    is_event = b'"involvedObject"' in text.start.partition(b"\n")[0]
    if verdict is not None and (verdict.kind == "not-read" or is_event):
        return _sniff_container_texts(text.start) or verdict
    return verdict


def _sniff_stacks(text: _Text) -> Sniffed | None:
    """Return the verdict on a thread dump or profile. A log that contains a dump is not one."""
    head = text.head
    if stack_text_of(head) is None and not (contains_dump(head) and not is_dated(text.data)):
        return None
    engine = engine_of_stacks(head)
    return Sniffed(kind="log", engine=engine) if engine != "unknown" else Sniffed(kind="log")


def _sniff_exposition(text: _Text) -> Sniffed | None:
    """Return the verdict on a text with Flink metrics in Prometheus' exposition format."""
    sample = text.sample
    given = text.start.split(b"\n", 400)[:400]
    if not _may_be_exposition(given):
        return None
    lines = [line.strip() for line in given if line.strip()]
    if not sample.complete or len(lines) == 400:
        lines = lines[:-1]
    exposed = sum(bool(_EXPOSED.match(line)) for line in lines)
    # Scrapes may be separated by a time or title.
    if exposed < 0.7 * len(lines) or not lines:
        return None
    data = text.start if sample.complete else sample.read(_DOUBTFUL_BYTES)
    is_exposition = any(
        FLINK_METRIC.match(line.lstrip(b' {"')) is not None
        for line in data.split(b"\n")
        if b"flink" in line and not line.startswith(b"#")
    )
    return Sniffed(kind="prometheus", engine="flink") if is_exposition else None


def _sniff_engine_log(text: _Text) -> Sniffed | None:
    """Return the verdict on a text that an engine clearly wrote, or that is about ended containers."""
    signs, data = text.signs, text.data
    if signs.engine == "unknown" and (ended := _sniff_container_texts(text.start)) is not None:
        return ended
    if signs.is_seatunnel:
        return not_read(SEATUNNEL)
    is_log = signs.holds_flink_message and (is_dated(data) or text.looks_like_log)
    return log_of(signs) if is_log or (signs.engine == "flink" and _REPORT.search(data)) else None


def _sniff_other_formats(text: _Text) -> Sniffed | None:
    if text.signs.engine != "unknown":
        return None
    if text.sample.complete and contains_table(text.head):
        return Sniffed(kind="log", engine="flink")
    if text.sample.complete and contains_batches(text.head):
        return Sniffed(kind="log", engine="spark")
    found = (reason for pattern, reason in _TEXTS if pattern.search(text.start))
    reason = next(found, None)
    return None if reason is None else not_read(reason)


def _sniff_settings_or_code(text: _Text) -> Sniffed | None:
    if any(has_time(line) for line in text.lines):
        return None
    if 2 * sum(bool(_JSON_KEY.match(line)) for line in text.lines) > len(text.lines):
        return None  # part of a JSON document
    settings = sum(bool(_SETTING.match(line)) for line in text.lines)
    if settings > 0.8 * len(text.lines) and not text.is_json:
        return _search_doubtful_text(text.sample, _CONFIGURATION)
    if _CODE.search(text.data):
        return _search_doubtful_text(text.sample, _SOURCE_CODE)
    return None


def _sniff_any_log(text: _Text) -> Sniffed | None:
    """Return the verdict on other logs, and on printed responses with times but without words of an engine."""
    if not text.looks_like_log:
        return None
    sample = text.sample
    if text.signs.engine == "unknown":
        data = sample.head if sample.complete else sample.read(_DOUBTFUL_BYTES + 1)
        printed = json_printed(data) if len(data) <= _DOUBTFUL_BYTES and b"{" in data else None
        if printed is not None and (answers := sniff_printed(printed)) is not None:
            return answers
    return log_of(text.signs)


_DETECTORS: Final[tuple[Callable[[_Text], Sniffed | None], ...]] = (
    _sniff_binary,
    _sniff_neighbour,
    _sniff_structured,
    _sniff_exposition,
    _sniff_stacks,
    _sniff_engine_log,
    _sniff_other_formats,
    _sniff_settings_or_code,
    _sniff_any_log,
)
"""Detectors in the order in which they are tried; the first verdict counts."""


# A report of the Slf4jReporter has thousands of lines without a time below one line with a time.
_REPORT: Final = re.compile(
    rb"^[^\n=]{0,200}=++ Starting metrics report =++[^=]{0,400}^[^\n=]{0,200}?-- \w{1,40} --",
    re.MULTILINE,
)


def _sniff_container_texts(start: bytes) -> Sniffed | None:
    """Return the verdict on texts about ended containers, which are not logs of Flink or Spark."""
    text = start[:65536].decode("utf-8", "replace")
    if looks_like_kubectl(text):
        return not_read(KUBECTL)
    if looks_like_yarn(text):
        return not_read(_YARN)
    if looks_like_throttling(text):
        return not_read(
            "container metrics: `flowdiag memory` reads which containers are CPU-throttled"
        )
    # The kernel's log begins with the boot, and ends with the latest kill.
    if reports_killed_process(start.decode("utf-8", "replace")):
        return not_read(_KILLED)
    return None


_EXPOSED: Final = re.compile(
    rb"# (?:HELP|TYPE|UNIT) [\w:]+|# EOF|[a-zA-Z_:][\w:]*+(?:\s*+\{.*\})?\s++[-+]?[\d.INin]|\{\s*\"[\w.:]+\""
)


def _may_be_exposition(lines: list[bytes]) -> bool:
    """Return whether fewer than 30% of the lines have another format. For most other texts, a few lines are enough."""
    others, most = 0, 0.3 * len(lines) + 2
    for line in lines:
        if line[:1] != b"2":  # a year: most lines of most logs start with it
            stripped = line.strip()
            if not stripped or _EXPOSED.match(stripped):
                continue
        others += 1
        if others > most:
            return False
    return True


_CONFIGURATION: Final = "looks like a configuration file"
_SOURCE_CODE: Final = "looks like source code"
_UNLIKE_LOGS: Final = frozenset({_CONFIGURATION, _SOURCE_CODE})
"""Texts in which words for failures are merely names of options or classes."""
KUBECTL: Final = "kubectl output: `flowdiag memory` reads which containers ended and why"
_KILLED: Final = "a message about an OOM-killed process: read by `flowdiag memory`"
_YARN: Final = "a YARN response: `flowdiag memory` reads which containers ended and why"
_FINAL: Final = frozenset(
    {
        KUBECTL,
        MANIFEST,
        SEATUNNEL,
        _OTHER_JVM,
        "binary file",
        *(kind.reason for kind in NeighbourKind),
    }
)


def _sniff_unread(sample: Sample, verdict: Sniffed) -> Sniffed | None:
    """Return the verdict on a text without signs of a log that contains failures or progress reports."""
    reason = verdict.reason or ""
    if not sample.complete:
        data = sample.read(EXCERPTED_BYTES + 1) if reason.startswith(_UNLIKE_A_LOG) else b""
        if len(data) > EXCERPTED_BYTES:
            return None
        return _sniff_failures(excerpts(data).data, vague=False)
    head = sample.head.decode("utf-8", "replace")
    if reason == KUBECTL and next(ended_containers(head), None) is None:
        return _sniff_failures(sample.head, vague=False)
    if reason in _FINAL:
        return None
    if reason == _KILLED and reports_kernel_kill(head):
        return _sniff_failures(without_kernel_reports(head).encode(), vague=False)
    sentence = reason == _CONFIGURATION and sample.head.strip().count(b"\n") < _FEW
    vague = sentence or reason not in _UNLIKE_LOGS
    if (found := _sniff_failures(sample.head, vague=vague)) is not None:
        return found
    if contains_report(sample.head):
        return replace(log_of(Signs(sample.head)), engine="spark", role="driver")
    return None


def _sniff_failures(data: bytes, *, vague: bool) -> Sniffed | None:
    """Return the verdict on any other text with a failure, such as a comment, a web page or an array."""
    found = next(failures_in(data, vague=vague), None) if len(data) <= PASTE_BYTES else None
    if found is None:
        return None
    verdict = log_of(Signs(data))
    if verdict.engine != "unknown":
        return verdict
    engine = shown_engine(found) or engine_in(data.decode("utf-8", "replace"))
    return replace(verdict, engine=engine or "unknown")


def _search_doubtful_text(sample: Sample, reason: str) -> Sniffed:
    """Reject a text without signs of a log, unless it contains known messages."""
    data = sample.head if sample.complete else sample.read(_DOUBTFUL_BYTES + 1)
    if len(data) > _DOUBTFUL_BYTES:
        return log_of(Signs(sample.head + sample.elsewhere))
    printed = json_printed(data)
    answers = None if printed is None else sniff_printed(printed)
    from flowdiag.parsers.catalogue import load_catalogue

    # A text that is quoted in a response is not a log line.
    text = printed.around if printed is not None and answers else data
    for engine, line in engine_lines(text):
        if load_catalogue(engine).recognize(line.decode("utf-8", "replace")) is not None:
            return log_of(Signs(data))
    return answers or not_read(reason)
