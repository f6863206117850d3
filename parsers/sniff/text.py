"""What a file is, judged by its content: never by its name or extension.

`sniff` looks at the first bytes, at a few from the middle and the end of large files, and decodes
whole JSON documents. Whatever may be a log is called one, since a log that is skipped is worse
than a text that is read in vain: `not-read` needs a reason that can be told to the user.
"""

from __future__ import annotations

import codecs
import re
from dataclasses import replace
from typing import Final

from flowdiag.parsers.flink.container_texts import looks_like_kubectl, reports_killed_process
from flowdiag.parsers.flink.prometheus import FLINK_METRIC
from flowdiag.parsers.flink.web_ui import contains_table
from flowdiag.parsers.lines.pastes import PASTE_BYTES, engine_and_class, exceptions_in
from flowdiag.parsers.sniff.bytes import binary_format, encoding_of, is_binary, to_utf8
from flowdiag.parsers.sniff.documents import sniff_export, sniff_json, sniff_printed, sniff_wrapped
from flowdiag.parsers.sniff.signs import (
    BORROWED,
    Signs,
    engine_lines,
    has_time,
    holds_flink_message,
    is_dated,
    log_of,
    looks_like_log,
)
from flowdiag.parsers.sniff.verdict import GC_LOG, Sample, Sniffed, not_read
from flowdiag.parsers.sources.printed import json_printed
from flowdiag.parsers.spark.reports import contains_report

_DOUBTFUL_BYTES: Final = 8 * 1024 * 1024  # of a text without a sign of a log, searched for messages


def sniff(sample: Sample) -> Sniffed:
    """Judge one file that is no container and not compressed any more."""
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
        # Whole lines: a character that is cut is not a wrong one.
        encoding = encoding_of(sample.head[: sample.head.rfind(b"\n") + 1] + sample.elsewhere)
    verdict = _sniff_text(sample)
    if verdict.kind == "not-read" and sample.complete and verdict.reason not in _FINAL:
        verdict = _exceptions(sample) or _reports(sample) or verdict
    return verdict if encoding == verdict.encoding else replace(verdict, encoding=encoding)


_TEXTS: Final = tuple(
    (re.compile(pattern, re.MULTILINE), reason)
    for pattern, reason in (
        (rb"\A\s*<(?:!DOCTYPE )?html", "HTML page"),
        (rb"\A\s*<\?xml", "XML"),
        (rb"^# (?:HELP|TYPE) \w+ ", "Prometheus metrics, but none of Flink's"),
        # One that ends before the command line may be anybody's: it is looked through.
        (
            (
                rb"^# (?:A fatal error has been detected by|There is insufficient memory for) the Java Runtime"
                rb"(?s:.{0,30000}?)^(?:Command Line|java_command): "
            ),
            "crash report of a JVM that is none of Flink's or Spark's",
        ),
        (rb"^Full thread dump ", "thread dump"),
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
    rb"|(?!\s*(?:TRACE|DEBUG|INFO|WARN|WARNING|ERROR|FATAL|SEVERE)\b)"
    rb"\s*(?:[\w.\-\"'*/$]+\s*[:=](?:\s|$)|[\w.\-]+=)"
)
_CODE: Final = re.compile(
    rb"\A#!|^(?:package|import) [\w.*]+;?\r?$|^[ \t]*(?:public |abstract |final ){0,3}(?:class"
    rb"|interface|object|trait) \w[^\n]{0,200}\{\r?$|^[ \t]*(?:def|func) \w+\([^\n]{0,200}[:{]\r?$",
    re.MULTILINE,
)


def _sniff_text(sample: Sample) -> Sniffed:
    head = sample.head.removeprefix(codecs.BOM_UTF8)
    data = head + b"\n" + sample.elsewhere
    if not data.strip(b"\0 \t\r\n"):
        return not_read("nothing but NUL bytes" if b"\0" in data else "nothing but blanks")
    # What says something may hold more than other texts.
    if is_binary(data) and (is_binary(data, 0.3) or not holds_flink_message(data)):
        return not_read("binary file")
    start = head.lstrip(b"\0 \t\r\n")
    is_json = re.match(rb'\{\s*["}]|\[\s*[\[{"\]]|\[\'', start)
    if is_json:
        verdict = sniff_json(sample, start)
    else:
        verdict = sniff_export(sample, start) or sniff_wrapped(sample, start)
    if verdict is not None:
        of_pods = is_json and verdict.kind == "not-read" and b'"containerStatuses"' in start
        return (_of_containers(start) if of_pods else None) or verdict
    if _is_exposition(sample, start):
        return Sniffed(kind="prometheus", engine="flink")
    signs = Signs(data)
    if signs.engine == "unknown" and (ended := _of_containers(start)) is not None:
        return ended
    if signs.is_seatunnel:
        return not_read(BORROWED)
    says = signs.holds_flink_message
    if says and is_dated(data):
        return log_of(signs)
    lines = [line for line in data.split(b"\n") if line.strip(b"\0 \t\r")]
    lines = lines[:150] + lines[-50:] if len(lines) > 200 else lines
    like_a_log = looks_like_log(lines)
    if (says and like_a_log) or (signs.engine == "flink" and _REPORT.search(data)):
        return log_of(signs)
    if signs.engine == "unknown" and sample.complete and contains_table(head):
        return Sniffed(kind="log", engine="flink")
    for pattern, reason in _TEXTS:
        if signs.engine == "unknown" and pattern.search(start):
            return not_read(reason)
    if not any(has_time(line) for line in lines):
        settings = sum(bool(_SETTING.match(line)) for line in lines)
        if settings > 0.8 * len(lines) and not is_json:
            return _doubtful(sample, "looks like a configuration file")
        if _CODE.search(data):
            return _doubtful(sample, "looks like source code")
    if like_a_log:
        return (_printed(sample) if signs.engine == "unknown" else None) or log_of(signs)
    return _doubtful(sample, "damaged JSON" if is_json else "text, but it does not look like a log")


# What the Slf4jReporter prints: thousands of lines without a time, below one with it.
_REPORT: Final = re.compile(
    rb"^[^\n=]{0,200}=++ Starting metrics report =++[^=]{0,400}^[^\n=]{0,200}?-- \w{1,40} --",
    re.MULTILINE,
)


def _of_containers(start: bytes) -> Sniffed | None:
    """What says which containers ended, and is no log of Flink's or Spark's."""
    text = start[:65536].decode("utf-8", "replace")
    if looks_like_kubectl(text):
        return not_read(
            "what kubectl prints: `flowdiag memory` reads which containers ended and why"
        )
    if reports_killed_process(text):
        return not_read("what the system killed for its memory: `flowdiag memory` reads it")
    return None


_EXPOSED: Final = re.compile(
    rb"# (?:HELP|TYPE|UNIT) [\w:]+|# EOF|[a-zA-Z_:][\w:]*+(?:\s*+\{.*\})?\s++[-+]?[\d.INin]|\{\s*\"[\w.:]+\""
)


def _is_exposition(sample: Sample, start: bytes) -> bool:
    """Whether it is what Prometheus scrapes, with metrics of Flink among it."""
    given = start.split(b"\n", 400)[:400]
    odd, most = 0, 0.3 * len(given) + 2
    for line in given:  # hardly any text gets behind this loop
        if line[:1] != b"2":  # the year, in most lines of most logs
            stripped = line.strip()
            if not stripped or _EXPOSED.match(stripped):
                continue
        odd += 1
        if odd > most:
            return False
    lines = [line.strip() for line in given if line.strip()]
    if not sample.complete or len(lines) == 400:
        lines = lines[:-1]
    exposed = sum(bool(_EXPOSED.match(line)) for line in lines)
    # Between the scrapes of a loop may stand a time, or a title.
    if exposed < 0.7 * len(lines) or not lines:
        return False
    data = start if sample.complete else sample.read(_DOUBTFUL_BYTES)
    return any(
        FLINK_METRIC.match(line.lstrip(b' {"')) is not None
        for line in data.split(b"\n")
        if b"flink" in line and not line.startswith(b"#")
    )


def _printed(sample: Sample) -> Sniffed | None:
    """A text of times that no engine wrote: an answer on a screen, reports of a listener, or neither."""
    data = sample.head if sample.complete else sample.read(_DOUBTFUL_BYTES + 1)
    if len(data) > _DOUBTFUL_BYTES or b"{" not in data:
        return None
    printed = json_printed(data)
    return None if printed is None else sniff_printed(printed)


_FINAL: Final = frozenset({BORROWED, "binary file"})


def _exceptions(sample: Sample) -> Sniffed | None:
    """A text that is not read otherwise, and holds an exception: in a comment, a page, an array."""
    if len(sample.head) > PASTE_BYTES:
        return None
    found = next(exceptions_in(sample.head), None)
    if found is None:
        return None
    verdict = log_of(Signs(sample.head))
    return (
        verdict
        if verdict.engine != "unknown"
        else replace(verdict, engine=engine_and_class(found, None)[0])
    )


def _reports(sample: Sample) -> Sniffed | None:
    """A text that is not read otherwise, and holds a report of a query as Python shows it."""
    if not contains_report(sample.head):
        return None
    return replace(log_of(Signs(sample.head)), engine="spark", role="driver")


def _doubtful(sample: Sample, reason: str) -> Sniffed:
    """Search a text without a sign of a log for known messages, before it is put aside."""
    data = sample.head if sample.complete else sample.read(_DOUBTFUL_BYTES + 1)
    if len(data) > _DOUBTFUL_BYTES:
        return log_of(Signs(sample.head + sample.elsewhere))
    printed = json_printed(data)
    answers = None if printed is None else sniff_printed(printed)
    from flowdiag.parsers.catalogue import load_catalogue

    # What an answer quotes is no line of a log.
    text = printed.around if printed is not None and answers else data
    for engine, line in engine_lines(text):
        if load_catalogue(engine).recognise(line.decode("utf-8", "replace")) is not None:
            return log_of(Signs(data))
    return answers or not_read(reason)
