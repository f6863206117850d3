"""Replaces names of hosts, users, jobs, tasks and paths in reports.

| step | result |
|---|---|
| collect | the names under known keys of the report, and texts with the shape of an address, a path, … |
| spell | a name is a sequence of words, so that punctuation and case do not matter (`worker-2.acme`, `WORKER_2_acme`) |
| replace | the longest known sequence of words at each position of each text |

All strings in a report are texts, except the words of the contract (`_CONTRACT`). Names are marked in sentences of rules
(`flowdiag.analyses.model.names`), and searched for in log text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final

from flowdiag.analyses.model.names import MARKED, without_marks

# The kind of name in each key of the report.
_NAMES: Final = {
    "host": "host",
    "taskmanager": "taskmanager",
    "executor": "executor",
    "task": "task",
    "operator": "task",
    "job_name": "job",
    "application": "application",
    "query": "query",
    "receiver": "receiver",
    "partition": "partition",
    "cluster": "cluster",
    "source": "input",
    "label": "process",
}
_NAMES_BELOW: Final = {
    ("jobs", "name"): "job",
    ("applications", "name"): "job",
    ("queries", "name"): "query",
    ("streams", "name"): "receiver",
    ("slow_parts", "name"): "stage",
    ("vertices", "name"): "task",
    ("inputs", "upstream"): "task",
    ("tasks", "job"): "job",
    ("before", "jobs"): "job",  # in comparisons
    ("after", "jobs"): "job",
}
# The words of the contract are never names, even if a task has the same name. Every other string is text.
_CONTRACT: Final = frozenset(
    {"code", "name", "fingerprint", "findings", "competing", "see", "of", "relation", "signal"}
    | {"verdict", "status", "severity", "state", "confidence", "stability", "outcome", "change"}
    | {"schema", "topic", "kind", "role", "type", "cause", "option", "unit", "step", "slowest"}
    | {"version", "flink_version", "spark_version", "zone", "zone_from", "graph_from", "matters"}
    | {"job_id", "attempt_id", "vertex_id", "run_id", "id", "runs", "seen_in", "missing", "date"}
    | {"current_from", "batch_interval_from", "trigger_interval_from", "real_time_from", "limit"}
    | {"scheduler", "scheduling_strategy", "failover_strategy", "restart_strategy", "until"}
)
_CONTRACT_BELOW: Final = frozenset(
    {("tool", "command"), ("before", "command"), ("after", "command"), ("suggestions", "check")}
)
_TEXTS_BELOW: Final = frozenset({("attempts", "cause")})
# Texts written by rules, as opposed to log text.
_PROSE: Final = frozenset(
    {"title", "narrative", "why", "because", "explain", "population", "text", "risk", "verify"}
    | {"wants", "decides"}
)
_COMMANDS: Final = frozenset({"run", "command"})  # command lines of flowdiag
# Options whose value is a name, by the end of the key.
_OPTIONS: Final = (
    ("host", r"(?:address|host|hostname|servers|quorum)"),
    ("user", r"(?:user|username|user\.name|principal|owner)"),
    ("job", r"(?:app\.name|pipeline\.name|job-name|cluster-id)"),
    ("topic", r"topics?"),
)
# Names found in every installation, which reveal nothing.
_COMMON: Final = frozenset(
    [
        "admin",
        "appuser",
        "cluster",
        "container",
        "default",
        "docker",
        "driver",
        "executor",
        "false",
        "flink",
        "hadoop",
        "hdfs",
        "historyserver",
        "host",
        "java",
        "jobmanager",
        "jovyan",
        "kafka",
        "kubernetes",
        "localhost",
        "main",
        "master",
        "mesos",
        "nobody",
        "node",
        "none",
        "null",
        "opt",
        "org",
        "root",
        "runner",
        "server",
        "spark",
        "standalone",
        "standalonesession",
        "taskexecutor",
        "taskmanager",
        "tmp",
        "true",
        "ubuntu",
        "unknown",
        "user",
        "var",
        "worker",
        "www",
        "yarn",
        "zookeeper",
    ]
)
_TOP_LEVEL: Final = "internal|local|lan|corp|intra|com|net|org|cloud|svc|io|example|test|home"
_FILES: Final = (
    "class|conf|cpp|csv|gz|jar|java|js|json|kt|log|md|out|parquet|properties|py|rs|scala|sh|so|sql|sst|txt|xml"
    "|yaml|yml|zst"
)
_USER: Final = r"(?:\w[\w.-]*\\{1,2})?\w[\w.-]*"  # also ACME\\jdoe, as text or in JSON
_LABELS: Final = r"[a-z0-9-]+(?:\.[a-z0-9-]+)*"
_NO_PACKAGE: Final = r"(?!(?:org|com|io|net|java|javax|scala|sun|jdk)\.)"
# Texts that look like names. The name is the group or, without a group, the whole text.
_SHAPES: Final = tuple(
    (kind, re.compile(shape))
    for kind, shape in (
        ("user", rf"(?i)\b(?:user|owner)(?:[=:]\s*|[\"']\s?:\s?[\"'])({_USER})"),
        ("user", rf"(?:\bcurrent user: | permissions: | acls to: )({_USER})"),
        ("user", r"(?:/home/|/Users/|\\Users\\|/user/)(\w[\w.-]*)"),
        (
            "user",
            r"\bflink-([a-z][\w.]*)-(?:taskexecutor|standalonesession|client|historyserver)\b",
        ),
        ("user", r"(?<![\w.@/:-])[\w.+-]+(?:/[\w.-]+)?@[A-Za-z][\w-]*(?:\.[\w-]+)+"),
        # An address in capitals is a placeholder: http://JOBMANAGER:8081.
        (
            "url",
            r"(?i)\b(?:jdbc:)?(?!\w+://(?-i:[A-Z_]+)[:/])[a-z][a-z0-9+.-]*://[^\s\"'<>)\],;|]+",
        ),
        ("url", r"\bjdbc:[\w:]+:@[^\s\"'<>)\],;|]+"),
        ("bucket", r"(?i)\b(?:s3[an]?|gs|oss|cosn?|abfss?|wasbs?)://(?:[^@/\s]+@)?([\w.-]+)"),
        (
            "database",
            r"(?i)\b(?:jdbc:\w+|mongodb(?:\+srv)?|postgres(?:ql)?|mysql)://[^\s/]+/(\w[\w-]*)",
        ),
        ("topic", r"(?i)\bkafka://[^\s/]+/(\w[\w.-]*)"),
        ("host", rf"(?i)\w://(?:[^@/\s]*@)?({_LABELS})(?=[:/]|$)"),
        ("host", r"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?![\w.])"),
        ("host", r"\bip-\d{1,3}(?:-\d{1,3}){3}\b"),
        # A package starts with the domain (org.apache.…), while a host ends with it.
        (
            "host",
            rf"(?i)(?<![\w.-]){_NO_PACKAGE}{_LABELS}\.(?:{_TOP_LEVEL})(?![\w-])",
        ),
        ("host", rf"(?<![\w.$-]){_LABELS}\.(?!(?:{_FILES}):)[a-z][a-z0-9-]*(?=:\d{{2,5}}\b)"),
        ("host", r"(?<![\w.$-])[a-z]+(?:-[a-z0-9]+)+(?=:\d{4,5}\b)"),  # kafka-1:9092
        # Java prints a host with its address: worker-1/10.0.0.1:8081.
        ("host", rf"(?i)(?<![\w.$-]){_LABELS}(?=/\d{{1,3}}(?:\.\d{{1,3}}){{3}}:\d)"),
        # The scope of a metric: worker-1_acme_com.taskmanager.tm-1.orders.enrich.0.numRecordsIn
        (
            "host",
            r"(?<![\w.$/-])(?!(?:localhost|kubernetes|yarn|flink)\b)(\w[\w-]{2,})(?=\.(?:task|job)manager\.\w)",
        ),
        ("pod", r"\bpod(?:/| [\"']?)([a-z0-9][a-z0-9.-]*-[a-z0-9.-]*)"),
        ("pod", r"\b[a-z][a-z0-9-]*-[a-f0-9]{7,10}-[a-z0-9]{5}\b"),
        ("pod", r"\b[a-z][a-z0-9-]*-taskmanager-\d+(?:-\d+)?\b"),
        ("pod", r"\b[a-z0-9-]+-[0-9a-f]{16}-(?:driver|exec-\d+)\b"),
        ("path", r"(?<![\w/.:*])(?:~|\.{1,2})?(?:/[\w.+@=~-]+){2,}/?"),
        ("path", r"\b(?:file|hdfs|viewfs|dbfs|maprfs):((?:/[\w.+@=~-]+){2,}/?)"),  # Hadoop's form
        ("path", r"\b[A-Z]:\\[^\s\"'<>|,;]+"),
        *(
            (kind, rf"(?:\b[\w.-]*[.-]{key}[\"']?\s?[=:,]\s?|\b{key}=)[\"'\[]?(\w[^\s\"',;\]}}]*)")
            for kind, key in _OPTIONS
        ),
        ("topic", r"(?i)\btopic [\"']?(\w+[._-][\w.-]+)"),
        ("topic", r"\bSubscribe(?:Pattern)?\[([^\]]+)\]"),  # of Spark's Kafka source
    )
)
_SUBTASK: Final = re.compile(r" \(\d+/\d+\)")
_ID: Final = re.compile(r"[0-9a-f]{16,}", re.IGNORECASE)
_WORD: Final = re.compile(r"[^\W_]+")
_SHORTEST: Final = 3
"""Minimum length of names to search for. Otherwise, a task `a` would change every "a" in a sentence."""
_SHORTEST_CUT: Final = 4
"""Minimum length of the visible part of a truncated name."""


def pseudonymize(document: Any) -> Any:
    """Consistently replace hosts, users, paths, and names of jobs and tasks with `host-1`, `task-2`, ….

    Args:
        document: a report as plain builtins (`msgspec.to_builtins`).

    Texts are searched for all spellings of the names in the report, and for text that looks like an address, a user
    or a path. In sentences of rules, a name that is also a common word is replaced only if it is marked.
    """
    names = _Pseudonyms()
    names.collect(document)
    return names.replace(document)


class _Node(dict[str, "_Node"]):
    """The words that may follow a sequence of words (a trie).

    Args:
        pseudonym: the pseudonym of the name that ends here.
        spaced: whether that name contains a space.
    """

    pseudonym: str | None = None
    spaced: bool = False


class _Pseudonyms:
    def __init__(self) -> None:
        self._known: dict[tuple[str, ...], str] = {}
        self._counts: dict[str, int] = {}
        self._root = _Node()

    def collect(self, document: Any) -> None:
        """Learn all names in a document, complete host names before their short forms."""
        found = [*names_in(document)]
        for kind, real in sorted(found, key=lambda each: (each[0] != "host", "." not in each[1])):
            self.name(kind, real)
        for text in dict.fromkeys(without_marks(text) for text in _texts(document)):
            for kind, real in _shaped_names(text):
                self.name(kind, real)

    def name(self, kind: str, real: str) -> str:
        """Return the pseudonym of a name. Create one if no spelling of the name is known."""
        if not real or real == "-":
            return real
        words = _words_of(real)
        if words not in self._known:
            self._counts[kind] = self._counts.get(kind, 0) + 1
            pseudonym = f"{kind}-{self._counts[kind]}"
            self._learn(real, pseudonym)
            for other in _short_forms(kind, real):
                self._learn(other, pseudonym)
        return self._known[words]

    def _learn(self, real: str, pseudonym: str) -> None:
        words = _words_of(real)
        if words in self._known:
            return
        self._known[words] = pseudonym
        if len("".join(words)) >= _SHORTEST:
            node = self._root
            for word in words:
                node = node.setdefault(word, _Node())
            node.pseudonym, node.spaced = pseudonym, bool(re.search(r"\s", real.strip()))

    def replace(self, node: Any, key: str = "", parent: str = "") -> Any:
        """Return a part of a document with pseudonyms in place of names."""
        if isinstance(node, Mapping):
            return {k: self.replace(v, k, key) for k, v in node.items()}
        if isinstance(node, list):
            return [self.replace(item, key, parent) for item in node]
        if not isinstance(node, str):
            return node
        kind = _kind(key, parent)
        if kind:
            return self.name(kind, without_marks(node))
        if key in _COMMANDS:
            node = _without_paths(node)
        return (
            self.text(node, prose=key in _PROSE) if _is_text(key, parent) else without_marks(node)
        )

    def text(self, text: str, *, prose: bool = False) -> str:
        """Replace the names in a text. `prose`: whether the text is a rule's sentence, in which names are marked."""
        return "".join(
            self._pseudonym_of_name(part)
            if number % 2
            else self._replace_in_text(without_marks(part), prose=prose)
            for number, part in enumerate(MARKED.split(text))
        )

    def _pseudonym_of_name(self, name: str) -> str:
        """Return the pseudonym of a name that may be truncated."""
        head, cut, tail = name.partition("…")
        if cut:
            first, last = " ".join(_words_of(head)), " ".join(_words_of(tail))
            for words, pseudonym in self._known.items():
                whole = " ".join(words)
                if whole.startswith(first) and whole.endswith(last):
                    return pseudonym
        return self.name("name", name)

    def _replace_in_text(self, text: str, *, prose: bool) -> str:
        words = [*_WORD.finditer(text)]
        pieces, place, number = [], 0, 0
        while number < len(words):
            pseudonym, end = self._longest(text, words, number)
            if pseudonym is None or (prose and _is_prose(text, words[number:end])):
                number += 1
                continue
            pieces += [text[place : words[number].start()], pseudonym]
            place, number = words[end - 1].end(), end
        return "".join([*pieces, text[place:]])

    def _longest(self, text: str, words: list[re.Match[str]], first: int) -> tuple[str | None, int]:
        """Return the pseudonym of the longest name that starts at a word, and the index after its last word."""
        found: tuple[str | None, int] = (None, first)
        node, spaced = self._root, False
        for place in range(first, len(words)):
            word = words[place]
            spaced = spaced or (place > first and _has_space(text, words[place - 1], word))
            following = node.get(word[0].casefold())
            if following is None:
                if text.startswith("…", word.end()):
                    cut = _first_name(node, word[0].casefold(), complete=place > first)
                    return (cut, place + 1) if cut else found
                return found
            node = following
            if node.pseudonym and (node.spaced or not spaced):
                found = (node.pseudonym, place + 1)
        if node is not self._root and not node.pseudonym and text.endswith("…"):
            return _first_name(node, "", complete=True), len(words)
        return found


def _without_paths(command: str) -> str:
    """Replace the inputs in a command line of flowdiag. The commands of suggestions have none.

    >>> _without_paths("flowdiag queues '/srv/my logs' jm.log --job 3")
    'flowdiag queues PATH… --job 3'
    """
    if not command.startswith("flowdiag ") or "://" in command:
        return command
    head, _, inputs = command.partition(" -")
    program = head.split(" ")[:2]
    shown = [*program, *(["PATH…"] if len(head.split(" ")) > len(program) else [])]
    return " ".join(shown) + (f" -{inputs}" if inputs else "")


def _has_space(text: str, word: re.Match[str], following: re.Match[str]) -> bool:
    return any(character.isspace() for character in text[word.end() : following.start()])


def _first_name(node: _Node, beginning: str, *, complete: bool) -> str | None:
    """Return the first name below a node whose next word starts with `beginning`.

    Args:
        node: the node after the complete words.
        beginning: the start of the next word.
        complete: whether a complete word precedes it.
    """
    if not complete and len(beginning) < _SHORTEST_CUT:
        return None
    below = next((child for word, child in node.items() if word.startswith(beginning)), None)
    while below is not None and below.pseudonym is None:
        below = next(iter(below.values()), None)
    return below.pseudonym if below is not None else None


def _words_of(name: str) -> tuple[str, ...]:
    """Split a name into words. A name without word characters is one word.

    >>> _words_of("Worker-2.flink_example") == _words_of("worker_2_FLINK.example")
    True
    """
    return tuple(word.casefold() for word in _WORD.findall(name)) or (name,)


def _short_forms(kind: str, real: str) -> Iterator[str]:
    """Yield other forms of a name: `worker-2` for `worker-2.acme.com`, file names of paths, `jdoe` for `ACME\\jdoe`."""
    if kind == "user" and "\\" in real:
        yield from (part for part in real.split("\\") if not _is_common(part))
    if kind == "input":
        file = real.rpartition("/")[2]
        if not _ID.fullmatch(file) and not _is_common(file):
            yield file
    label = real.partition(":")[0].partition(".")[0]
    if (
        kind in ("host", "pod")
        and label != real
        and not label.isdecimal()
        and not _is_common(label)
    ):
        yield label


def _shaped_names(text: str) -> Iterator[tuple[str, str]]:
    """Yield the kind and the text of everything that looks like a name."""
    for kind, pattern in _SHAPES:
        for hit in pattern.finditer(text):
            name = hit[hit.lastindex or 0].rstrip(".:")
            if not _is_common(name):
                yield kind, name


def _is_common(name: str) -> bool:
    return name.casefold() in _COMMON or not _WORD.search(name) or name == "0.0.0.0"


def _is_prose(text: str, words: Sequence[re.Match[str]]) -> bool:
    """Return whether words that look like a name are flowdiag's own prose."""
    if _SUBTASK.match(text, words[-1].end()):
        return False
    return all(word[0].casefold() in _own_words() for word in words)


@cache
def _own_words() -> frozenset[str]:
    """Return common words of flowdiag's own sentences that may also name tasks."""
    from flowdiag.analyses.knowledge.causes import CAUSES

    texts = [text for cause in CAUSES.values() for text in (cause.meaning, cause.explanation)]
    for cause in CAUSES.values():
        for remedy in cause.remedies.values():
            texts += [text for text in (remedy.text, remedy.risk, remedy.verify) if text]
    # A number distinguishes a name from ordinary words, as in worker-3.
    words = _WORD.findall(" ".join(texts))
    return frozenset(word.casefold() for word in words if word.isalpha())


def _kind(key: str, parent: str) -> str | None:
    return _NAMES_BELOW.get((parent, key)) or _NAMES.get(key)


def _is_text(key: str, parent: str) -> bool:
    if (parent, key) in _TEXTS_BELOW:
        return True
    return key not in _CONTRACT and (parent, key) not in _CONTRACT_BELOW


def names_in(node: Any, key: str = "", parent: str = "") -> Iterator[tuple[str, str]]:
    """Yield the kind and the text of each name under a known key."""
    if isinstance(node, Mapping):
        for k, v in node.items():
            yield from names_in(v, k, key)
    elif isinstance(node, list):
        for item in node:
            yield from names_in(item, key, parent)
    elif isinstance(node, str):
        kind = _kind(key, parent)
        if kind:
            yield kind, without_marks(node)


def _texts(node: Any, key: str = "", parent: str = "") -> Iterator[str]:
    """Yield all names and texts of a document. A table of options counts as texts `key: value`."""
    if isinstance(node, Mapping):
        for k, v in node.items():
            yield from _texts(v, k, key)
            if isinstance(v, str) and "." in k:
                yield f"{k}: {v}"
    elif isinstance(node, list):
        for item in node:
            yield from _texts(item, key, parent)
    elif isinstance(node, str) and (_kind(key, parent) or _is_text(key, parent)):
        yield node
