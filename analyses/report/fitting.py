"""Which command fits an input, told by a look at its text: for those who gave it to another, or to none.

Cheap on purpose: no record is parsed. Words that only one topic's inputs hold are counted in the first part
of each, and what is the matter counts more than what is there every day. An exception that stands by itself
is classified: its words are those of many topics, and one of them convicts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from flowdiag.analyses.topics import EVERYTHING

if TYPE_CHECKING:
    from flowdiag.parsers.sources.open import Source

LOOKED_AT: Final = 4 << 20  # bytes of each input
ALL_BYTES: Final = 64 << 20  # of all inputs
_MOST: Final = 50  # of one word: repetition is no more evidence
_TROUBLE: Final = 20  # what a word of trouble counts

# Per topic: what is there every day, and what is said when something is the matter.
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


# What keeps a job from running at all; every other exception of Flink is one of a job that ran.
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
_EXCEPTION: Final = 10 * _TROUBLE  # what an exception by itself counts


class Fit(NamedTuple):
    """A command, and how much speaks for it."""

    topic: str
    score: int


def fits(sources: Iterable[Source]) -> list[Fit]:
    """The topics whose words the inputs hold, most evidence first.

    Args:
        sources: as found, before a command left any of them out.
    """
    scores: Counter[str] = Counter()
    left = ALL_BYTES
    for source in sources:
        text = _head(source, min(LOOKED_AT, left))
        left -= len(text)
        if source.kind in ("spark-events", "spark-rest"):
            scores["rate"] += _TROUBLE
        for topic, (usual, trouble) in _WORDS.items():
            if source.engine == "spark" and topic != "rate":
                continue
            scores[topic] += sum(min(text.count(word), _MOST) for word in usual)
            scores[topic] += _TROUBLE * sum(min(text.count(word), _MOST) for word in trouble)
        for topic in _judges(source, text):
            scores[topic] += _EXCEPTION
    order = list(_WORDS)
    found = [Fit(topic, score) for topic, score in scores.items() if score]
    return sorted(found, key=lambda fit: (-fit.score, order.index(fit.topic)))


def engines_of(sources: Iterable[Source]) -> tuple[tuple[Source, ...], frozenset[str]]:
    """The sources, each with the engine whose it is, and the engines that there are.

    What shows no engine (a fragment, an export) belongs to the one that others show, else to the one whose
    words it holds.

    Args:
        sources: as found, before a command left any of them out.
    """
    sources = tuple(sources)
    known = Counter(s.engine for s in sources if s.kind != "not-read" and s.engine != "unknown")
    if known:
        usual = max(known, key=lambda engine: (known[engine], engine == "flink"))
    else:
        usual = "spark" if [fit.topic for fit in fits(sources)][:1] == ["rate"] else "flink"
    engine_and_class = tuple(
        replace(source, engine=usual) if source.engine == "unknown" else source
        for source in sources
    )
    return engine_and_class, frozenset(known) or frozenset({usual})


def _judges(source: Source, text: bytes) -> Iterator[str]:
    """Who judges the exceptions of a text that stand by themselves: a topic for each."""
    if source.kind == "not-read" or not any(word in text for word in _THROWN):
        return
    from flowdiag.parsers.lines.pastes import (
        HEAD_BYTES,
        PASTE_BYTES,
        engine_and_class,
        exceptions_in,
    )

    whole = len(text) <= PASTE_BYTES
    known = source.engine if source.engine in ("flink", "spark") else None
    for one in exceptions_in(text if whole else text[:HEAD_BYTES], whole=whole):
        if one.level is not None or (one.inline and not one.frames):
            continue  # of a record
        engine, found = engine_and_class(one, known)
        if engine == "spark":
            yield "rate"
        else:
            yield "startup" if found is not None and found.name in _OF_STARTS else "checkpoints"


_THROWN: Final = (b"Exception", b"Error", b"Throwable", b"Failure", b"Caused by")


def _head(source: Source, most: int) -> bytes:
    from flowdiag.parsers.sources.open import open_source

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


# What each command finds in such inputs, for people.
_FINDS: Final = {
    "checkpoints": "it tells of checkpoints",
    "rate": "it is of Spark streaming",
    "queues": "it holds metrics that tell who waits for whom",
    "startup": "it tells of starts and restarts of a job",
    "memory": "it tells of memory",
}


def suggested(
    command: str, sources: Sequence[Source], named: Sequence[str]
) -> list[tuple[str, str]]:
    """Other commands that fit, each with why: (text, command line), most evidence first.

    Args:
        command: that was run.
        sources: as found.
        named: the inputs as the user named them.
    """
    if command == EVERYTHING:
        return []  # it ran them all
    paths = typed(named)
    ranked = fits(sources)
    best = ranked[0].score if ranked else 0
    return [
        (_FINDS[fit.topic], f"flowdiag {fit.topic} {paths}")
        for fit in ranked
        if fit.topic != command and fit.score * 10 >= best
    ][:2]


def typed(named: Sequence[str]) -> str:
    """The inputs of a command line, as a shell takes them.

    >>> typed(["logs/", "my job.log"]), typed([])
    ("logs/ 'my job.log'", 'PATH…')
    """
    return " ".join(_quoted(name) for name in named) or "PATH…"


def _quoted(name: str) -> str:
    from shlex import quote

    return quote(name)
