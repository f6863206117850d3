"""Extracts the advice in an exception's message.

Many messages suggest a fix: an option, a statement or a next step. Reports quote it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from flowdiag.analyses.model import fmt
from flowdiag.analyses.model.finding import Action
from flowdiag.parsers.components import Component, components
from flowdiag.parsers.lines.traces import CAUSE_CHARACTERS

_READ: Final = 8000  # characters of a text to read
_QUOTE: Final = 300  # characters of quoted advice
_ERROR: Final = 160  # characters of a quoted error

_SENTENCE: Final = re.compile(r"(?<=[.!?;])\s+(?=[A-Z\"'`(]|\d\) )|\n+|(?<=\.)\s*(?=Hint:)")
_ENDS: Final = (".", "!", "?", ")", "'", '"', "`")
_FRAME: Final = re.compile(r"^\s*(?:at [\w$.]+[(]|\.\.\. \d+ more|File \")", re.MULTILINE)
# An imperative at the start of a sentence, or after an introduction: "To ignore it, set …".
_VERBS: Final = (
    r"set|increase|reduce|lower|enable|disable|specify|configure|consider|ensure|make\ sure|upgrade|downgrade"
    r"|restart(?!\ count)|retry|correct|adjust|provide|remove|use(?!\ of)|change(?!\ (?:event|stream))"
    r"|check(?!\ constraint)|add|install|delete|run|try|define|create|grant|rename(?!\ destination)|register|free"
)
_ADVICE: Final = re.compile(
    rf"""^(?:(?:hint|note|solution)\s*:\s*)?(?:{_VERBS})\s+[\w'"`(./\[]
    |,\s+(?:you\ (?:can|could|may|should|must|need\ to)\s+)?(?:{_VERBS})\s+[\w'"`(./]
    |\bplease\s+(?!note\b|check!?\s*\Z)[a-z]
    |^(?:note:\s+)?to\s+\w+\s.{1, 80}?\suse:?\s
    |^either\s+[a-z]+\s.*\sor\s
    |\byou\s+(?:can|could|should|must|need\ to|may\ (?:want|need))\s
    |\b(?:can|could|must|should)\ be\ (?:fixed|avoided|solved|resolved|increased|set|changed|enabled)\b
    |\b(?:by|try|consider)\ (?:setting|increasing|enabling|adding|specifying|disabling|restarting)\b|\b(?:try|consider)\ using\b
    |\btry_\w+
    """,
    re.IGNORECASE | re.VERBOSE,
)
# Sentences that only refer to a document or a stack trace, suggest to try again, repeat the error, apply to tables of a
# batch job, or turn off a check that protects the results.
_ELSEWHERE: Final = re.compile(
    r"stack trace below|deployment section|third-party-projects|\btry (?:the operation |it )?again\b|\bretry (?:this|the) (?:request|operation)\b|for more (?:details|information)"
    r"|^(?:please )?(?:see|refer to|visit)\b|view the Checkpoint History|error information in the logs|\b(?:refer|check)(?: to)? (?:the )?(?:complete |full |detailed )?(?:driver |executor |application )?logs?\b|with error message|'REFRESH TABLE "
    r"|^please check number and type of fields|^if you want to force running\b",
    re.IGNORECASE,
)
_CLASS: Final = re.compile(r"\.\w{1,100}(?:Exception|Error|Throwable):\s|\ACaused by: ")
# Spark wraps a query's exception in its own exception class and a description of the query.
_OF_QUERY: Final = re.compile(
    r"\A(?:[\w$.]{1,200}\.)?StreamingQueryException: |\s*=== Streaming Query ===[\s\S]*"
)
_QUOTED: Final = re.compile(r"['\"`]([\w.-]{4,80})['\"`]")
_POINTERS: Final = re.compile(
    r"the (?:error in the (?:stack trace below|deepest cause of the stack trace)"
    r"|deepest cause in the stack trace of the cited record)"
)


def advice_in(text: str) -> str:
    """Return the sentences of a message that contain advice, or an empty string.

    >>> advice_in("Detected deleted data. If you'd like to ignore deletes, set the option 'ignoreDeletes' to 'true'.")
    "If you'd like to ignore deletes, set the option 'ignoreDeletes' to 'true'."
    >>> advice_in("java.io.IOException: Too few buffers. You can increase this number with 'a.b.fraction'.")
    "You can increase this number with 'a.b.fraction'."
    >>> advice_in("Refused (Check the port.). Check the port.")
    'Check the port.'
    >>> advice_in("java.net.ConnectException: Connection refused"), advice_in("Use of closed connection")
    ('', '')
    >>> advice_in("File a.csv does not exist. You can invalidate the cache in Spark by running 'REFRESH TABLE t'.")
    ''
    """
    found: list[str] = []
    for sentence in _sentences(
        "\n".join(line for line in text[:_READ].split("\n") if not _FRAME.match(line))
    ):
        line = " ".join(_CLASS.split(sentence.strip())[-1].split())
        if line.count(")") > line.count("("):  # of a bracket that begins in another sentence
            line = line.rstrip(").") + "."
        if line and line not in found and _ADVICE.search(line) and not _ELSEWHERE.search(line):
            found.append(line)
    return fmt.shorten(" ".join(found), _QUOTE)


def _sentences(text: str) -> Iterator[str]:
    """Yield the sentences of a message, without a last sentence that the parser cut off."""
    for line in text.split("\n"):
        found = _SENTENCE.split(line)
        is_cut = len(line) >= CAUSE_CHARACTERS - 1 and not line.endswith(_ENDS)
        yield from found[:-1] if is_cut else found


OWN_CODE: Final = "the topmost frame of the job's own code"


def frame_action(fields: Mapping[str, str]) -> tuple[Action, ...]:
    """Return the advice to check the job's own code, if the stack trace contains some.

    >>> frame_action({"own_frame": "com.acme.Enrich.map(Enrich.java:7)"})[0].text
    "Check com.acme.Enrich.map(Enrich.java:7), the topmost frame of the job's own code"
    """
    frame = fields.get("python_frame") or fields.get("own_frame")
    if frame is None:
        return ()
    return (Action(text=f"Check {frame}, {OWN_CODE}"),)


def process_in(fields: Mapping[str, str]) -> Component | None:
    """Return the process in which a failure happened, based on its text, or None if unknown."""
    named = fields.get("process") or ("spark-driver" if fields.get("where") == "driver" else "")
    return components().get(named)


def origin_note(fields: Mapping[str, str], place: str | None = None, shown: str = "") -> str:
    """Return sentences about the software, the target, the process and the user code of a failure, or an empty string.

    Args:
        fields: texts of the failure.
        place: its task, TaskManager or host.
        shown: the title or the deepest exception, whose names are not repeated.
    """
    process = process_in(fields)
    place = place or fields.get("place")
    where = ", ".join(filter(None, (process and process.what, place)))
    frame = fields.get("python_frame") or fields.get("own_frame")
    language = "Python " if fields.get("python_frame") else ""
    component = components().get(fields.get("component", ""))
    source = component.what if component is not None and component.role == "part" else ""
    parts = (
        source and f"It comes from {source}.",
        target_note(fields, shown),
        where and f"It happened in {where}.",
        frame and f"The first frame of the job's own {language}code is {frame}.",
    )
    return " ".join(filter(None, parts))


def target_note(fields: Mapping[str, str], shown: str = "") -> str:
    """Return a sentence about the topic, table, path or other target that the outer exceptions name, if any.

    >>> target_note({"exception": "a.b.XException: Failed to send data to Kafka topic orders-3"})
    'An outer exception names topic orders-3.'
    """
    target = named_target(fields, shown)
    return f"An outer exception names {target}." if target else ""


def named_target(fields: Mapping[str, str], shown: str = "") -> str:
    """Return the topic, table, path or other target that the outer exceptions name, or an empty string.

    Args:
        fields: texts of the failure, with its exceptions.
        shown: a text whose names are not repeated.
    """
    outer = f"{fields.get('exception', '')}\n{fields.get('middle', '')}"
    for found in _TARGET.finditer(outer):
        name = (found["url"] or found["name"]).rstrip(".:,;")
        if name not in shown and f"/{name}" not in shown:
            kind = f"{found['kind']} " if found["kind"] else ""
            return f"{kind.lower()}{name}"
    return ""


# A URL, or a kind of object with its name, which has a digit, a mark or quotes, unlike a word of the sentence.
_TARGET: Final = re.compile(
    r"(?P<url>(?!https?:)\b[a-z][a-z0-9+.-]{1,20}://[^\s'\"`,;)\]]{3,200})"
    r"|\b(?P<kind>topic(?:-partition)?|table|index|queue|bucket|stream|collection|keyspace|exchange|channel|subject|consumer group)"
    r"(?:\s?[:=]\s?|\s)(?=['\"`\[]|\w{0,100}[\d._-])['\"`\[]?(?P<name>[\w.:-]{2,200})",
    re.IGNORECASE,
)


def component_step(source: Component, text: str = "") -> str:
    """Return the first step for checking the component that threw an exception.

    Args:
        source: the component.
        text: the exception, whose kind may have a step of its own.
    """
    return f"{source.check_for(text).rstrip('.')}. Its log: {source.log}"


def source_note(source: Component | None) -> str:
    """Name the software that threw an exception, in a sentence. Empty for an engine or unknown software."""
    return f"It comes from {source.what}." if source is not None and source.role == "part" else ""


def with_advice(actions: tuple[Action, ...], text: str, error: str = "") -> tuple[Action, ...]:
    """Add the advice in the message to the actions, and quote the error in actions that refer to it.

    Args:
        actions: actions of the finding.
        text: the exception with its message.
        error: its decisive line; the text if empty.
    """
    quoted = f'"{fmt.shorten(" ".join(_OF_QUERY.sub("", error or text).split()), _ERROR)}"'
    quoted = quoted.replace("\\", r"\\")
    known = tuple(
        replace(action, text=_POINTERS.sub(quoted, action.text)) if (error or text) else action
        for action in actions
    )
    advice = advice_in(text)
    named = {name for name in _QUOTED.findall(advice) if name not in ("true", "false")}
    if not advice or (named and named <= {action.option for action in known}):
        return known
    quote = Action(text=f'Consider the advice in the error: "{advice}"')
    counted = any(action.command for action in known)  # more precise than the message
    return (*known, quote) if counted else (quote, *known)
