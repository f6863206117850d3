"""Flink ignores configured options or lines.

What it reports
---------------
Keys that appear more than once with different values in a flat `flink-conf.yaml`, of which Flink uses the last.
Lines that Flink skips because they have no space after the colon, a tab instead of the space, or no value. Memory
options that no longer exist in this Flink version.

Why it matters
--------------
The setting is not in effect, and Flink reports no error. The finding is a note: it does not show that the job is
unhealthy.

How it decides
--------------
The rule parses the file in the same way as Flink does. Flink 2.0 removed `numberOfBuffers`, the old heap options
and the options for the number of buffers per channel and gate. Since Flink 1.10, the start scripts ignore the
environment variables `FLINK_TM_…`.

What to do
----------
Keep one line per key, and write it as `key: value` with a space after the colon. Replace removed options with
their successors.

False alarms
------------
The rule does not report duplicate keys with equal values, because they are harmless.
"""

import re
from typing import Final

from flowdiag.analyses.memory import helpers as h
from flowdiag.analyses.memory.advice import derive_with
from flowdiag.analyses.memory.detect.removed_options import NOT_SET, ignored_in

CAUSE = "wrong-memory-options"


def judge(facts: h.MemoryFacts, limits: h.Limits) -> h.Iterator[h.Finding]:
    """Report each kind of problem in a file, and each removed option."""
    for file in facts.files:
        if file.read.dialect == "flat" and not _is_prose(file):
            yield from _misread_lines(file)
    reported: set[str] = set()
    for process in facts.processes:
        version = h.version_of(process.version)
        if version is None:
            continue
        gone = ignored_in(version)
        for key in gone:
            if key not in process.configured or key in reported:
                continue
            reported.add(key)
            yield h.process_finding(
                None,
                title=f"{key} has no effect in Flink {version[0]}.{version[1]}",
                cause=CAUSE,
                rank=h.Rank.MECHANISM,
                severity=h.Severity.INFO,
                option=key,
                explain="Flink removed the option and silently ignores it.",
                evidence=h.cite([(process.refs.get(key), None)]),
                actions=(_replacement(process, key, gone[key]),),
            )


def _is_prose(file: h.ConfigFile) -> bool:
    """Return whether most of the skipped lines are sentences, as in notes about options."""
    texts = [value for one in file.read.duplicates for value in one.values]
    texts += [line.text for line in file.read.skipped]
    sentences = [text for text in texts if len(_WORD.findall(text)) >= _SENTENCE]
    return len(sentences) * 2 > len(texts) > 0 or any(map(_ENDS_SENTENCE.search, sentences))


_WORD: Final = re.compile(r"(?<!\S)[A-Za-z][a-z]*[,.;!?]?(?!\S)")
_SENTENCE: Final = 2  # a text with more words than this is not a value
_ENDS_SENTENCE: Final = re.compile(r"[a-z][.!?]\Z")


def _misread_lines(file: h.ConfigFile) -> h.Iterator[h.Finding]:
    for duplicate in file.read.duplicates:
        if len(set(duplicate.values)) == 1:
            continue
        used = duplicate.values[-1]
        yield h.process_finding(
            None,
            title=f"{duplicate.key} is set {len(duplicate.values)} times: {used} is in effect",
            cause=CAUSE,
            rank=h.Rank.MECHANISM,
            severity=h.Severity.INFO,
            option=duplicate.key,
            explain="In flink-conf.yaml, Flink silently uses the last value. Flink 1.19 and later rejects a "
            "config.yaml in which a key appears twice.",
            evidence=h.cite([(h.Ref(file.source, duplicate.offset), None)]),
            actions=(
                h.remedy_action(
                    CAUSE,
                    "one-line",
                    option=duplicate.key,
                    current=" / ".join(duplicate.values),
                    proposed=h.accepted(duplicate.key, used),
                ),
            ),
        )
    if skipped := file.read.skipped:
        name, text = h.fmt.shorten(file.name, 50), h.fmt.shorten(skipped[0].text, 50)
        yield h.process_finding(
            None,
            title=f"Flink skips {h.fmt.plural(len(skipped), 'line')} of {name}, first line "
            f"{skipped[0].line}: {text}",
            cause=CAUSE,
            rank=h.Rank.MECHANISM,
            severity=h.Severity.INFO,
            explain="Flink reads a line only if a space follows the colon, and a value follows the space. A tab "
            "does not count as a space.",
            count=len(skipped),
            evidence=h.cite((h.Ref(file.source, line.offset), None) for line in skipped),
            actions=(h.remedy_action(CAUSE, "blank"),),
        )


def _replacement(process: h.MemoryProcess, key: str, new: str) -> h.Action:
    """Propose the replacement with the same value if Flink accepts it, otherwise removal of the option."""
    value = process.configured[key]
    if "." not in new:
        why = new.strip("()") if new != NOT_SET else "it has no replacement"
        return h.remedy_action(CAUSE, "remove", option=key, current=value, key=key, why=why)
    fits = h.accepted(new, value, h.version_of(process.version))
    takes = fits is not None and derive_with(process, {new: fits}) is not None
    return h.remedy_action(
        CAUSE,
        "replace",
        option=new,
        current=process.configured.get(new),
        proposed=fits if takes else None,
        version=process.version,
        key=new,
        old=f"{key} ({value})",
    )


RULE = h.Rule(
    "MM102", judge, whole=True, causes=(CAUSE,), needs="options", severity=h.Severity.INFO
)
