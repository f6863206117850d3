"""Flink rejects the memory options and does not start.

What it reports
---------------
Memory options of a TaskManager or JobManager that contradict each other or cannot be parsed. The report
shows Flink's own error, the option to change, and a value with which the process starts. The rule also reports
configuration files that Flink cannot read at all.

Why it matters
--------------
The process exits before it logs anything. On Kubernetes and YARN this looks like a worker that never registers.

How it decides
--------------
The rule calculates the pools from the options in the same way as Flink's start scripts. It uses the Flink version
in the input, or the newest known version if the input shows none. Flink rejects a `config.yaml` with duplicate keys
or tabs.

What to do
----------
Set one total size (`…memory.process.size` or `…memory.flink.size`) and as few individual pools as possible. Flink
derives the other sizes.

False alarms
------------
Options from environment variables, or from `-D` arguments of a deployment script, are not in the configuration
file. The rule ignores processes that wrote a log: Flink has accepted their options, and an incomplete log may list
only some of them.
"""

from flowdiag.analyses.memory import helpers as h
from flowdiag.analyses.memory.advice import accepted_changes, option_in

CAUSE = "wrong-memory-options"


def judge(facts: h.MemoryFacts, limits: h.Limits) -> h.Iterator[h.Finding]:
    """Report each process with contradictory options and each unreadable file."""
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
                explain="Since Flink 1.19, config.yaml is YAML 1.2: keys must be unique, and indentation must not contain "
                "tabs. Flink exits immediately if the file is invalid.",
                evidence=h.cite((h.Ref(file.source, d.offset), None) for d in file.read.duplicates),
                actions=(h.remedy_action(CAUSE, "fix-file"),),
            )


def _refused_options(facts: h.MemoryFacts) -> h.Iterator[h.Finding]:
    files = {file.source for file in facts.files}
    for process in facts.processes:
        errors = process.derived.error if process.derived is not None else None
        keys = [key for key in process.configured if key in h.model.MEMORY_KEYS]
        # Options without a record come from the command line.
        logged = all(key in process.refs and process.refs[key].source not in files for key in keys)
        if not errors or process.observed or logged:
            continue  # the process runs, so Flink accepted its options, and flowdiag knows only some of them
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
            actions=tuple(accepted_changes(process, errors[0])),
        )


RULE = h.Rule(
    "MM101", judge, whole=True, causes=(CAUSE,), needs="options", severity=h.Severity.CRITICAL
)
