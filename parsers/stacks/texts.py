"""Reads stacks in texts other than HotSpot's thread dumps.

| format | origin |
|---|---|
| `Process 12: …`, `Thread 12 (idle): …` | `py-spy dump`: Python workers, and the Python process of a driver |
| collapsed stacks | see `profiles` |
| `1TIDATETIME`, `3XMTHREADINFO …` | javacores of OpenJ9 |
| `<td id="63_td_stacktrace">` | the thread dump page of Spark's Web UI |
| `87⇥stream execution thread for …⇥WAITING⇥…` | a copy of that page's rows, with the expanded stacks |
| `"…" prio=5 Id=87 WAITING on …` | the same page as text, and `ThreadInfo.toString` in logs |
| `#21 "…" BLOCKED 2026-…Z` | `jcmd Thread.dump_to_file` (21 and later); without states and locks before 24 |
"""

from __future__ import annotations

import html
import re
import sys
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from flowdiag.parsers.formats import read_format
from flowdiag.parsers.rows import Event, Row
from flowdiag.parsers.stacks.dumps import (
    Thread,
    clock_us,
    info_thread,
    instant_us,
    thread_rows,
    with_ends,
)
from flowdiag.parsers.stacks.profiles import collapsed_samples, is_collapsed, profile_rows

Rows = Iterator[tuple[int, Row]]
ReadStacks = Callable[[bytes, str], Rows]


class StackText(NamedTuple):
    """A format: how to recognize it, and how to read it."""

    matches: Callable[[bytes], bool]
    rows: ReadStacks


def stack_text_of(head: bytes) -> StackText | None:
    """Return the format of a text that consists of stacks, or None for other texts."""
    return next((each for each in _FORMATS if each.matches(head)), None)


def engine_of_stacks(data: bytes) -> str:
    """Return the engine whose threads a dump contains; `unknown` if it contains none.

    >>> engine_of_stacks(b'"Executor task launch worker for task 1.0 in stage 2.0 (TID 3)" daemon')
    'spark'
    """
    if _SPARK.search(data):
        return "spark"
    if _FLINK.search(data):
        return "flink"
    return "spark" if _GATEWAY_FRAME.search(data) else "unknown"


_SPARK: Final = re.compile(
    rb"Executor task launch worker|stream execution thread for |streaming-job-executor-"
    rb"|pyspark[/.](?:worker|daemon)"
)
_FLINK: Final = re.compile(rb"org[./]apache[./]flink[./]|pyflink/")
_GATEWAY_FRAME: Final = re.compile(rb"[(/](?:clientserver|java_gateway)\.py:\d")


# -- py-spy --------------------------------------------------------------------------------------

_PROCESS = re.compile(rb"^Process (\d{1,10}): [^\n]*\n(?:Python v[^\n]*\n)?", re.MULTILINE)
_THREAD = re.compile(
    r"^Thread (?P<id>0x[0-9a-fA-F]{1,16}|\d{1,20}) \((?P<state>active|idle)[^)\n]*\)(?:: \"(?P<name>[^\"\n]{0,400})\")?",
    re.MULTILINE,
)
_FRAME = re.compile(
    r"^ {2,8}(?P<name>\S[^\n(]{0,300}?) \((?P<file>[^\n()]{1,400}):(?P<line>\d{1,9})\)$",
    re.MULTILINE,
)
_THIRD_PARTY: Final = frozenset(read_format("formats/stacks.toml")["python"]["libraries"])
_NETWORK: Final = frozenset(read_format("formats/stacks.toml")["python"]["network"])
_PATH: Final = 40  # maximum number of frames
_ARCHIVED: Final = {
    file: package
    for package, files in read_format("formats/stacks.toml")["python"]["archived"].items()
    for file in files
}
_WORKER: Final = "pyspark/worker.py"
_DAEMON: Final = "pyspark/daemon.py"  # the daemon process itself only forks workers, in `manager`
# Flink's Python worker has a dozen threads. Those that process records are in this function of Apache Beam.
_BUNDLE: Final = ("process_bundle", "apache_beam/runners/worker/")
_GATEWAY: Final = ("py4j/clientserver.py", "py4j/java_gateway.py")


class PythonFrame(NamedTuple):
    """A Python frame: its function, file and line."""

    name: str
    file: str
    line: int

    @property
    def text(self) -> str:
        return f"{self.name} ({self.file}:{self.line})"

    @property
    def function(self) -> str:
        """The name without its class, which newer versions of `py-spy` print (0.4.3, Python 3.11).

        >>> PythonFrame("BundleProcessor.process_bundle", "bundle_processor.py", 1).function
        'process_bundle'
        """
        return self.name.rpartition(".")[2]

    @property
    def package(self) -> str:
        """The first part of the module's path.

        >>> PythonFrame("send", "requests/adapters.py", 3).package, PythonFrame("f", "ssl.py", 1).package
        ('requests', 'ssl')
        """
        path = re.split(r"(?:site|dist)-packages/|/lib/python3[^/]{0,4}/", self.file)[-1]
        return path.partition("/")[0].removesuffix(".py")

    @property
    def is_library(self) -> bool:
        if self.file.startswith("<") or re.search(r"-packages/|/lib/python3", self.file):
            return True
        return self.package in _THIRD_PARTY or self.package in sys.stdlib_module_names


def _is_python_dump(head: bytes) -> bool:
    # The cheaper test comes first.
    return b"\nThread " in head[: 1 << 20] and _PROCESS.search(head[:65536]) is not None


def _python_rows(data: bytes, place: str) -> Rows:
    for begin, end in with_ends(_PROCESS.finditer(data), len(data)):
        text = data[begin.end() : end].decode("utf-8", "replace")
        for thread in _python_threads(text):
            fields = {"dump": f"{place}:{begin.start()}", **thread}
            row: Row = {"event": Event.THREAD.value, "template": "python-dump", "fields": fields}
            yield begin.start(), row | {"thread": thread["thread"]}


def _python_threads(text: str) -> Iterator[dict[str, str]]:
    """Yield the fields of the threads of Python workers, and of callbacks in the driver."""
    for head, end in with_ends(_THREAD.finditer(text), len(text)):
        frames = _with_packages(
            [
                PythonFrame(found["name"], found["file"], int(found["line"]))
                for found in _FRAME.finditer(text, head.end(), end)
            ]
        )
        on_worker = any(
            frame.file.endswith(_WORKER)
            or (frame.function == _BUNDLE[0] and _BUNDLE[1] in frame.file)
            or (frame.file.endswith(_DAEMON) and frame.name == "worker")
            for frame in frames
        )
        if on_worker or any(
            f.function == "_call_proxy" and f.file.endswith(_GATEWAY) for f in frames
        ):
            name = head["name"] or f"Thread {head['id']}"
            yield {"thread": name, **_python_fields(frames, head["state"], on_worker=on_worker)}


def _with_packages(frames: list[PythonFrame]) -> list[PythonFrame]:
    """Add the package to the file names of modules that were imported from an archive.

    >>> frames = [PythonFrame("f", "util.py", 3), PythonFrame("worker", "daemon.py", 90)]
    >>> [frame.file for frame in _with_packages(frames)], _with_packages(frames[:1]) == frames[:1]
    (['pyspark/util.py', 'pyspark/daemon.py'], True)
    """
    # The last frames belong to the loop that `python -m pyspark.daemon` runs.
    on_worker = any(f.file == "daemon.py" and f.name in ("manager", "worker") for f in frames)
    known = {file: name for file, name in _ARCHIVED.items() if on_worker or name != "pyspark"}
    return [
        frame._replace(file=f"{known[frame.file]}/{frame.file}") if frame.file in known else frame
        for frame in frames
    ]


def _python_fields(frames: list[PythonFrame], state: str, *, on_worker: bool) -> dict[str, str]:
    mine = next((n for n, frame in enumerate(frames) if not frame.is_library), None)
    above = frames[:mine]
    activity = _python_activity(above, state) if mine is not None else "python-idle"
    kind = {"python-idle": "idle", "python-job": "job"}.get(activity)
    fields = {
        "role": "python-task" if on_worker else "python-driver",
        "activity": activity,
        "kind": kind or ("python" if on_worker else "python-driver"),
        "path": "\n".join(frame.text for frame in frames[:_PATH]),
    }
    if mine is not None:
        fields["frame"] = frames[mine].text
        if above:
            fields["call"] = f"{above[-1].package}.{above[-1].name}"
    return fields


def _python_activity(above: list[PythonFrame], state: str) -> str:
    packages = {frame.package for frame in above}
    if "py4j" in packages:
        return "python-job"
    if packages & _NETWORK:
        return "python-call"
    return "python-computes" if state == "active" else "python-waits"


# -- collapsed stacks ----------------------------------------------------------------------------


def _collapsed_rows(data: bytes, place: str) -> Rows:
    for row in profile_rows(collapsed_samples(data), place):
        yield 0, row


# -- OpenJ9 --------------------------------------------------------------------------------------

_CORE_HEAD = re.compile(
    rb'^3XMTHREADINFO +"(?P<name>[^\n]{0,2000}?)" J9VMThread:[^\n]*?state:(?P<state>[A-Z]{1,3})[^\n]*$',
    re.MULTILINE,
)
_CORE_AT = re.compile(rb"^4XESTACKTRACE +at ([^\n\r]{1,2000})", re.MULTILINE)
_CORE_BLOCK = re.compile(
    rb"^3XMTHREADBLOCK +(?:Blocked|Waiting|Parked) on: (?P<lock>[^\s@]{1,300}@\S{1,30}) Owned by: "
    rb'(?:"(?P<owner>[^"\n]{1,2000})")?',
    re.MULTILINE,
)
_CORE_TIME = re.compile(
    rb"^1TIDATETIME +Date: +(\d{4}/\d\d/\d\d) at (\d\d:\d\d:\d\d)", re.MULTILINE
)
_CORE_CPU = re.compile(rb"^3XMCPUTIME +CPU usage total: (\d{1,12}\.\d{1,9}) secs", re.MULTILINE)
_CORE_STATES: Final = {
    "R": "RUNNABLE",
    "B": "BLOCKED",
    "CW": "WAITING",
    "P": "WAITING",
    "S": "WAITING",
}


def _is_javacore(head: bytes) -> bool:
    return b"\n1TIDATETIME" in head or (b"\n3XMTHREADINFO " in head and b"XMTHDINFO" in head)


def _javacore_rows(data: bytes, place: str) -> Rows:
    printed = _CORE_TIME.search(data)
    local_us = None
    if printed is not None:
        local_us = clock_us(b" ".join(printed.groups()).decode(), "%Y/%m/%d %H:%M:%S")
    threads = []
    for head, end in with_ends(_CORE_HEAD.finditer(data), len(data)):
        block, cpu = (
            _CORE_BLOCK.search(data, head.end(), end),
            _CORE_CPU.search(data, head.end(), end),
        )
        lines = [
            found[1].decode("utf-8", "replace").replace("/", ".")
            for found in _CORE_AT.finditer(data, head.end(), end)
        ]
        threads.append(
            Thread(
                name=head["name"].decode("utf-8", "replace"),
                state=_CORE_STATES.get(head["state"].decode(), ""),
                lines=[
                    re.sub(r"\(Compiled Code\)|\(Bytecode PC[^)]*\)", "", line) for line in lines
                ],
                lock=block["lock"].decode("utf-8", "replace").replace("/", ".") if block else None,
                owner=block["owner"].decode("utf-8", "replace")
                if block and block["owner"]
                else None,
                cpu_ms=float(cpu[1]) * 1000 if cpu else None,
                offset=head.start(),
            )
        )
    for offset, row in thread_rows(threads, f"{place}:{local_us or 0}"):
        yield offset, row | {"local_us": local_us}


# -- Spark's page --------------------------------------------------------------------------------

_CELL = re.compile(
    rb'id="(?P<id>\d{1,19})_td_(?P<column>name|state|locking|stacktrace)"[^>]{0,200}>(?P<text>.*?)</td>',
    re.DOTALL,
)
_TAG = re.compile(r"<[^>]{0,400}>")
_BLOCKED = re.compile(r"Blocked by Thread (\d{1,19})(?: (\S{1,300}))?")


def _is_thread_page(head: bytes) -> bool:
    return b"Thread dump for executor" in head or b"_td_stacktrace" in head


def _page_rows(data: bytes, place: str) -> Rows:
    cells: dict[str, dict[str, str]] = {}
    starts: dict[str, int] = {}
    for found in _CELL.finditer(data):
        number = found["id"].decode()
        starts.setdefault(number, found.start())
        text = re.sub(r"<br\s*/?>", "\n", found["text"].decode("utf-8", "replace"))
        text = html.unescape(_TAG.sub("", text)).strip()
        cells.setdefault(number, {})[found["column"].decode()] = text
    yield from _page_threads(cells, starts, place)


_COPIED_ROW = re.compile(
    rb"^ {0,4}(?P<id>\d{1,19})[ \xa0]{0,4}\t(?P<name>[^\t\n]{1,2000})\t"
    rb"(?P<state>RUNNABLE|BLOCKED|WAITING|TIMED_WAITING)(?:[ \t]+(?P<locking>[^\n]{0,1000}))?\r?$",
    re.MULTILINE,
)
_COPIED_FRAME = re.compile(rb"\s{0,8}[\w.@/$-]{3,400}[.][\w$<>]{1,200}\([^)\n]{1,200}\)")


def _is_copied_page(head: bytes) -> bool:
    if not any(state in head for state in (b"\tRUNNABLE", b"\tBLOCKED", b"\tWAITING", b"\tTIMED_")):
        return False  # the pattern takes longer
    return any(_COPIED_FRAME.match(head, row.end()) for row in _COPIED_ROW.finditer(head))


def _copied_rows(data: bytes, place: str) -> Rows:
    cells: dict[str, dict[str, str]] = {}
    starts: dict[str, int] = {}
    for row, end in with_ends(_COPIED_ROW.finditer(data), len(data)):
        columns = {
            key: (value or b"").decode("utf-8", "replace") for key, value in row.groupdict().items()
        }
        stack = data[row.end() : end].decode("utf-8", "replace").strip()
        starts.setdefault(columns["id"], row.start())
        cells.setdefault(columns["id"], columns | {"stacktrace": stack})
    yield from _page_threads(cells, starts, place)


def _page_threads(cells: dict[str, dict[str, str]], starts: dict[str, int], place: str) -> Rows:
    """Yield the rows of threads from the cells of a page, joined by the thread number in each cell."""
    threads = []
    for number, row in cells.items():
        blocked = _BLOCKED.search(" ".join(row.get("locking", "").split()))
        threads.append(
            Thread(
                name=row.get("name", ""),
                state=row.get("state", ""),
                lines=row.get("stacktrace", "").split("\n"),
                lock=blocked[2] if blocked else None,
                owner=cells.get(blocked[1], {}).get("name") if blocked else None,
                offset=starts[number],
            )
        )
    yield from thread_rows(threads, place)


# -- ThreadInfo as text ------------------------------------------------------------------------

_INFO_HEAD = re.compile(
    rb'^(?:"|&quot;)[^\n]{0,2000} Id=\d{1,19} [A-Z_]{3,20}\b[^\n]{0,1000}$', re.MULTILINE
)


def _is_info_text(head: bytes) -> bool:
    found = _INFO_HEAD.search(head) if b" Id=" in head else None
    return found is not None and b"\n\tat " in head[found.end() : found.end() + 4096]


def _info_rows(data: bytes, place: str) -> Rows:
    threads = []
    for head, end in with_ends(_INFO_HEAD.finditer(data), len(data)):
        text = html.unescape(data[head.start() : end].decode("utf-8", "replace"))
        thread = info_thread(text)
        if thread is not None:
            thread.offset = head.start()
            threads.append(thread)
    yield from thread_rows(threads, place)


# -- jcmd Thread.dump_to_file --------------------------------------------------------------------

_FILE_BEGIN = re.compile(
    rb"\s{0,9}\d{1,10}\r?\n(?P<time>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[.\d]{0,10}Z)\r?\n[^\n]{1,100}\n\s{0,9}#\d"
)
_FILE_HEAD = re.compile(
    rb'^#(?P<number>\d{1,19}) "(?P<name>[^\n]{0,2000}?)"(?: virtual)?(?: (?P<state>[A-Z_]{3,20}) [^\n]{0,40})?\r?$',
    re.MULTILINE,
)
_FILE_WAITS = re.compile(
    r"- (?:waiting to lock|parking to wait for) <([^>\n]{1,400})>(?:, owner #(\d{1,19}))?"
)
_FILE_HOLDS = re.compile(r"- locked <([^>\n]{1,400})>")


def _is_file_dump(head: bytes) -> bool:
    return _FILE_BEGIN.match(head) is not None


def _file_rows(data: bytes, place: str) -> Rows:
    begin = _FILE_BEGIN.match(data)
    utc_us = instant_us(begin["time"].decode()) if begin is not None else None
    threads: list[Thread] = []
    names: dict[str | None, str] = {}
    holders: dict[str | None, str] = {}
    for head, end in with_ends(_FILE_HEAD.finditer(data), len(data)):
        text = data[head.end() : end].decode("utf-8", "replace")
        name, number = head["name"].decode("utf-8", "replace"), head["number"].decode()
        waits = _FILE_WAITS.search(text)
        lock, owner = waits.groups() if waits is not None else (None, None)
        names[number] = name
        holders |= {held: number for held in _FILE_HOLDS.findall(text) if held != lock}
        lines = [line.strip() for line in text.split("\n")]
        threads.append(
            Thread(
                name=name,
                state=(head["state"] or b"").decode(),
                lines=[line.removeprefix("at ") for line in lines if line and line[0] != "-"],
                lock=lock,
                number=number,
                owner_number=owner,
                offset=head.start(),
            )
        )
    for thread in threads:
        thread.owner_number = thread.owner_number or holders.get(thread.lock)
        thread.owner = names.get(thread.owner_number)
    for offset, row in thread_rows(threads, f"{place}:{utc_us or 0}"):
        yield offset, row | {"utc_us": utc_us}


_FORMATS: Final = (
    StackText(_is_python_dump, _python_rows),
    StackText(_is_javacore, _javacore_rows),
    StackText(_is_thread_page, _page_rows),
    StackText(_is_copied_page, _copied_rows),
    StackText(_is_file_dump, _file_rows),
    StackText(_is_info_text, _info_rows),
    StackText(is_collapsed, _collapsed_rows),
)
