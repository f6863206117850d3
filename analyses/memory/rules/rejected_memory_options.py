"""Flink refuses these memory options.

What it reports
---------------
Options of a TaskManager or JobManager that contradict each other or cannot be parsed: Flink's own error, the
option to change, and a value with which the process starts. Also configuration files that Flink cannot read
at all.

Why it matters
--------------
The process ends before it logs anything. On Kubernetes and YARN that looks like a worker that never
registers.

How it decides
--------------
The options are checked with the same arithmetic as in Flink's start scripts, for the version in the input
(the newest known version if there is none). `config.yaml` is refused for duplicate keys and for tabs.

What to do
----------
Set one total (`…memory.process.size`, or `…memory.flink.size`) and as few parts as possible. Flink derives
the rest.

False alarms
------------
A configuration file does not show options that are set in other ways (environment variables, `-D` of a
deployment script). A process that writes a log has passed this check, and a fragment of its log lists only
some of its options. Such processes are not judged.
"""

from __future__ import annotations

from flowdiag.analyses.memory import helpers as h
from flowdiag.analyses.memory.advice import option_in, options_that_start

CAUSE = "wrong-memory-options"


def judge(facts: h.MemoryFacts, limits: h.Limits) -> h.Iterator[h.Finding]:
    """One finding per process whose options do not fit, and per file that cannot be read."""
    yield from _unreadable_files(facts)
    yield from _refused_options(facts)


def _unreadable_files(facts: h.MemoryFacts) -> h.Iterator[h.Finding]:
    for file in facts.files:
        if (error := file.read.error) is not None:
            yield h.process_finding(
                None,
                severity=h.Severity.CRITICAL,
                title=f"Flink cannot read {h.fmt.shorten(file.name, 60)}: {h.fmt.shorten(error, 90)}",
                why=f"the file is not a valid configuration: {h.fmt.shorten(error, 120)}",
                cause=CAUSE,
                rank=h.Rank.ROOT_CAUSE,
                explain="Since 1.19 config.yaml is YAML 1.2: keys must not appear twice, and tabs must not "
                "indent. Flink exits immediately with such a file.",
                evidence=h.cite((h.Ref(file.source, d.offset), None) for d in file.read.duplicates),
                actions=(h.remedy_action(CAUSE, "fix-file"),),
            )


def _refused_options(facts: h.MemoryFacts) -> h.Iterator[h.Finding]:
    files = {file.source for file in facts.files}
    for process in facts.processes:
        errors = process.derived.error if process.derived is not None else None
        keys = [key for key in process.configured if key in h.model.MEMORY_KEYS]
        # Options without a reference come from the command line.
        logged = all(key in process.refs and process.refs[key].source not in files for key in keys)
        if not errors or process.observed or logged:
            continue  # a running process was not refused: only some of its options are known
        sizes = tuple(h.measurement(key, process.configured[key]) for key in sorted(keys))
        yield h.process_finding(
            process,
            severity=h.Severity.CRITICAL,
            title=f"{h.process_text(process)} cannot start: {h.fmt.shorten(errors[0], 110)}",
            why=h.fmt.shorten(errors[-1], 160),
            cause=CAUSE,
            rank=h.Rank.ROOT_CAUSE,
            option=option_in(errors[0]),
            explain=" ".join(dict.fromkeys(errors)),
            measurements=sizes[:12],
            evidence=h.cite((process.refs.get(key), None) for key in keys),
            actions=tuple(options_that_start(process, errors[0])),
        )


RULE = h.Rule("MM101", judge, whole=True, causes=(CAUSE,))
