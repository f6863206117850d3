"""Suggests commands that fit an input, by searching its text.

This is cheap on purpose, and parses no record. It counts words that occur only in the inputs of one topic, in the first
part of each input. Words that indicate a problem count more. An exception outside a log record is classified,
because its words could belong to many topics.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from flowdiag.analyses.topic_names import EVERYTHING, PODS

if TYPE_CHECKING:
    from flowdiag.parsers.source import Source

LOOKED_AT: Final = 4 << 20  # bytes of each input to search
ALL_BYTES: Final = 64 << 20  # bytes of all inputs to search
_MOST: Final = 50  # occurrences of a word that count; more are no stronger evidence
_TROUBLE: Final = 20  # the score of a problem word

# For each topic, ordinary words and words that indicate a problem.
_WORDS: Final[dict[str, tuple[tuple[bytes, ...], tuple[bytes, ...]]]] = {
    "checkpoints": (
        (b"Triggering checkpoint", b"Completed checkpoint", b'"latest_ack_timestamp"'),
        (
            b"expired before completing",
            b"Decline checkpoint",
            b"Checkpoint expired",
            b"checkpoint tolerable failure threshold",
            b"Could not complete snapshot",
            b" to FAILED",
        ),
    ),
    "rate": (
        (
            b"Streaming query made progress",
            b"onBatchCompleted",
            b"Total delay:",
            b"MicroBatch",
            b"triggerExecution",
        ),
        (b"is falling behind", b"Error running job streaming job", b"StreamingQueryException"),
    ),
    "queues": (
        (b"inPoolUsage", b"outPoolUsage", b"busyTimeMsPerSecond"),
        (b"backPressuredTimeMsPerSecond", b"backpressure-level", b"isBackPressured"),
    ),
    "startup": (
        (b"Requesting new worker", b"switched from DEPLOYING", b"Starting TaskManager"),
        (
            b"NoResourceAvailable",
            b"Could not acquire the minimum required resources",
            b"to RESTARTING",
            b"Could not allocate the required slot",
            b"Slot request bulk is not fulfillable",
        ),
    ),
    "memory": (
        (b"taskmanager.memory.", b"taskmanager.heap", b"Pause Young", b"Final TaskExecutor Memory"),
        (
            b"OutOfMemoryError",
            b"OOMKilled",
            b"Insufficient number of network buffers",
            b"memory limits",
        ),
    ),
}


# Exceptions that prevent a job from starting. Every other Flink exception comes from a running job.
_OF_STARTS: Final = frozenset(
    {
        "not-enough-slots",
        "submission-failed",
        "deployment-failed",
        "restore-by-hand",
        "frame-too-large",
        "invalid-options",
        "invalid-sql",
        "state-has-no-operator",
    }
)
_EXCEPTION: Final = 10 * _TROUBLE  # the score of an exception outside a record


class Fit(NamedTuple):
    """A topic and its score."""

    topic: str
    score: int


def fits(sources: Iterable[Source]) -> list[Fit]:
    """Return the topics whose words occur in the inputs, highest score first.

    Args:
        sources: all discovered sources, before a command leaves any out.
    """
    scores: Counter[str] = Counter()
    left = ALL_BYTES
    for source in sources:
        text = _head(source, min(LOOKED_AT, left))
        left -= len(text)
        if source.kind in ("spark-events", "spark-rest"):
            scores["rate"] += _TROUBLE
        for topic, (everyday, trouble) in _WORDS.items():
            if source.engine == "spark" and topic != "rate":
                continue
            scores[topic] += sum(min(text.count(word), _MOST) for word in everyday)
            scores[topic] += _TROUBLE * sum(min(text.count(word), _MOST) for word in trouble)
        for topic in _topics_of_exceptions(source, text):
            scores[topic] += _EXCEPTION
    order = list(_WORDS)
    found = [Fit(topic, score) for topic, score in scores.items() if score]
    return sorted(found, key=lambda fit: (-fit.score, order.index(fit.topic)))


def engines_of(sources: Iterable[Source]) -> tuple[tuple[Source, ...], frozenset[str]]:
    """Assign an engine to each source, and return all engines found, with `PODS` if an input is about pods.

    A source without a sign of its engine (a fragment, an export) gets the engine of the other sources. If they have no
    sign either, the words in the text decide.

    Args:
        sources: all discovered sources, before a command leaves any out.
    """
    from flowdiag.parsers.sniff.text import KUBECTL

    sources = tuple(sources)
    known = Counter(s.engine for s in sources if s.kind != "not-read" and s.engine != "unknown")
    if known:
        default = max(known, key=lambda engine: (known[engine], engine == "flink"))
        sure = True
    else:
        named = _engine_named(sources)
        ranked = [fit.topic for fit in fits(sources)] if named is None else []
        default = named or ("spark" if ranked[:1] == ["rate"] else "flink")
        sure = named is not None or default == "spark"
    assigned = tuple(
        replace(source, engine=default, guessed=not sure) if source.engine == "unknown" else source
        for source in sources
    )
    engines = frozenset(known) or frozenset({default})
    return assigned, engines | {PODS} if any(s.reason == KUBECTL for s in sources) else engines


def _engine_named(sources: Iterable[Source]) -> str | None:
    """Return the engine that short texts mention, or None if they mention none or both."""
    from flowdiag.parsers.logs.paste_patterns import engine_in
    from flowdiag.parsers.logs.pastes import PASTE_BYTES

    texts = (_head(source, PASTE_BYTES + 1) for source in sources if source.kind != "not-read")
    return engine_in(
        "\n".join(t.decode("utf-8", "replace") for t in texts if len(t) <= PASTE_BYTES)
    )


def _topics_of_exceptions(source: Source, text: bytes) -> Iterator[str]:
    """Yield the topic of each exception outside a log record."""
    if source.kind == "not-read" or not any(word in text for word in _THROWN):
        return
    from flowdiag.parsers.logs.pastes import (
        HEAD_BYTES,
        PASTE_BYTES,
        engine_and_class,
        exceptions_in,
    )

    whole = len(text) <= PASTE_BYTES
    known = source.engine if source.engine in ("flink", "spark") else None
    for one in exceptions_in(text if whole else text[:HEAD_BYTES], whole=whole):
        if one.level is not None or (one.inline and not one.frames):
            continue  # part of a record
        engine, found = engine_and_class(one, known)
        if engine == "spark":
            yield "rate"
        else:
            yield "startup" if found is not None and found.name in _OF_STARTS else "checkpoints"


_THROWN: Final = (b"Exception", b"Error", b"Throwable", b"Failure", b"Caused by")


def _head(source: Source, most: int) -> bytes:
    from flowdiag.parsers.source import open_source

    if most <= 0:
        return b""
    try:
        with open_source(source) as stream:
            parts, left = [], most
            while left > 0 and (part := stream.read(left)):
                parts.append(part)
                left -= len(part)
            return b"".join(parts)
    except (OSError, ValueError, EOFError):
        return b""


# Reasons why a command fits, for readers.
_FINDS: Final = {
    "checkpoints": "the input contains checkpoints",
    "rate": "the input is from Spark streaming",
    "queues": "the input contains metrics of queues and back pressure",
    "startup": "the input contains starts and restarts of a job",
    "memory": "the input contains memory problems or options",
}


def suggested_commands(
    command: str, sources: Sequence[Source], named: Sequence[str]
) -> list[tuple[str, str]]:
    """Return up to two other commands that fit, as (reason, command line), highest score first.

    Args:
        command: the command of this run.
        sources: all discovered sources.
        named: the inputs as given by the user.
    """
    if command == EVERYTHING:
        return []  # all topics have already run
    paths = quoted_inputs(named)
    ranked = fits(sources)
    best = ranked[0].score if ranked else 0
    return [
        (_FINDS[fit.topic], f"flowdiag {fit.topic} {paths}")
        for fit in ranked
        if fit.topic != command and fit.score * 10 >= best
    ][:2]


def quoted_inputs(named: Sequence[str]) -> str:
    """Quote the inputs for a shell command line.

    >>> quoted_inputs(["logs/", "my job.log"]), quoted_inputs([])
    ("logs/ 'my job.log'", 'PATH…')
    """
    from shlex import quote

    return " ".join(map(quote, named)) or "PATH…"
