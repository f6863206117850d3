"""Extracts the decisive line of a long Spark exception: the Python error, or the deepest cause."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from flowdiag.parsers.exceptions import classify, is_root_cause, is_wrapper

_PYTHON_BEGIN: Final = "Traceback (most recent call last)"
_PYTHON_ERROR: Final = re.compile(
    r"(?:[A-Za-z_][\w.]{0,200})?(?:Error|Exception|Interrupt|Exit)(?:: .*)?$"
)
_LINE: Final = 500


def python_error(lines: Iterable[str]) -> str | None:
    """Return the last line of the last Python traceback in a stack trace, which has more details than the JVM's message.

    Errors of Py4J only report that the JVM failed. The decisive exception of the JVM in the lines below counts instead.

    >>> python_error(["Traceback (most recent call last):", "py4j.protocol.Py4JJavaError: An error occurred.",
    ...               ": a.B: no", "\tat c.D", "Caused by: java.lang.OutOfMemoryError: Java heap space"])
    'java.lang.OutOfMemoryError: Java heap space'
    """
    inside, found = False, None
    chain: list[str] | None = None  # of the JVM, below an error of Py4J
    for line in lines:
        if _PYTHON_BEGIN in line:
            inside, chain = True, None
        elif inside and line[:1] not in " \t" and _PYTHON_ERROR.match(line[:_LINE].strip()):
            inside = False
            chain = [] if line.startswith(OF_THE_JVM) else None
            if not line.startswith("py4j."):
                found = line.strip()
        elif chain is not None:
            chain = _with_link(chain, line)
            found = decisive_exception(chain or ()) or found
    return found


def _with_link(chain: list[str], line: str) -> list[str] | None:
    """Add the exception in a line to a chain. Return None before the chain starts. Messages may have blank lines."""
    mark = "Caused by: " if chain else ": "
    if line.startswith(mark):
        return [*chain, line.removeprefix(mark).strip()[:_LINE]]
    return chain or None


OF_THE_JVM: Final = "py4j.protocol.Py4JJavaError:"


_PYTHON_FRAME: Final = re.compile(
    r'\s{0,40}File "(?P<file>[^"\n]{1,300})", line (?P<line>[0-9]{1,7}), in (?P<function>[\w.<>]{1,120})'
)
_LIBRARY: Final = re.compile(
    r"(?:site|dist)-packages|pyspark|py4j|/lib(?:64)?/python[0-9.]*/|<frozen|\.zip/"
)


@dataclass(slots=True)
class PythonTrace:
    """Collects the frames of user code in a Python traceback.

    Attributes:
        frame: the deepest frame, with function, file and line. A frame that only waits for the query does not count.
        in_module: whether one of the frames is at the top level of a script.
    """

    frame: str | None = None
    in_module: bool = False
    _above: str | None = None

    def add(self, line: str, *, again: bool = False) -> None:
        """Process a frame's line, or the line of code below it.

        Args:
            line: the line.
            again: whether it belongs to an error that followed the first one, whose frame is decisive.
        """
        if again:
            self.in_module |= line.endswith(", in <module>")
            return
        if _waits_for_query(line):
            self.frame = self._above
        found = _PYTHON_FRAME.match(line) if 'File "' in line else None
        if found is None:
            return
        self.in_module |= found["function"] == "<module>"
        if _LIBRARY.search(found["file"]) is None:
            name = re.split(r"[\\/]", found["file"])[-1]
            self._above, self.frame = self.frame, f"{found['function']}({name}:{found['line']})"


def python_frame(lines: Iterable[str]) -> str | None:
    """Return the deepest frame in user code of a Python traceback, with function, file and line.

    >>> python_frame(['  File "/opt/app/job.py", line 61, in upsert', '    c = connect()',
    ...               '  File "/usr/lib/python3.10/site-packages/psycopg2/__init__.py", line 122, in connect'])
    'upsert(job.py:61)'
    >>> python_frame(['  File "/opt/app/job.py", line 70, in <module>', '    query.awaitTermination()']) is None
    True
    """
    trace = PythonTrace()
    for line in lines:
        trace.add(line)
    return trace.frame


def _waits_for_query(code: str) -> bool:
    """Return whether a line of code waits for the end of a query or streaming context."""
    return ".await" in code and "Termination" in code


def decisive_exception(chain: Sequence[str]) -> str | None:
    """Return the decisive exception of a chain: the deepest known root cause or, failing that, the deepest exception.

    >>> decisive_exception(["a.B: Multiple streaming queries are concurrently using hdfs://n/ck/offsets/7",
    ...          "c.FileAlreadyExistsException: Rename destination exists"])
    'a.B: Multiple streaming queries are concurrently using hdfs://n/ck/offsets/7'
    """
    found = classify(chain, "spark") if len(chain) > 1 else None
    if found is not None and is_root_cause(found.name) and not is_wrapper(found.name):
        return chain[found.link]
    return without_lost_task(chain[-1]) if chain else None


_LOST_TASK: Final = re.compile(
    r"most recent failure: Lost task [0-9.]{1,20} in stage [0-9.]{1,20} \(TID [0-9]{1,12}(?:, [^()\n]{0,200})?\)"
    r"(?: \([^()\n]{0,200}\))?: "
)


def without_lost_task(text: str) -> str:
    """Remove Spark's description of the job and task from the failure of a task; return other texts unchanged.

    >>> without_lost_task("a.SparkException: Job aborted due to stage failure: Task 3 in stage 1.0 failed 4 times, "
    ...     "most recent failure: Lost task 3.3 in stage 1.0 (TID 88, worker-3, executor 2): a.B: / by zero")
    'a.B: / by zero'
    """
    found = _LOST_TASK.search(text)
    return text if found is None else text[found.end() :] if text[found.end() :].strip() else text


_OF_QUERY: Final = re.compile(r"(?: SQLSTATE: \w{5}){0,2}\s*=== Streaming Query ===[\s\S]*")


_TERMINATED: Final = re.compile(
    r"\A(?:Error: )?(?:[\w.]{0,120}StreamingQueryException: )?(?:\[STREAM_FAILED\] )?Query [^\[\n]{0,200}"
    r"\[id = [^\]\n]{1,120}\] terminated with exception: (?=\S)"
)


def without_query(text: str) -> str:
    """Remove the ids of the query from the beginning of a streaming query's exception, and its description from the end.

    >>> without_query("KeyError: 'id' SQLSTATE: 38000 SQLSTATE: XXKST === Streaming Query === Identifier: [id = 7]")
    "KeyError: 'id'"
    >>> without_query("[STREAM_FAILED] Query orders [id = 7, runId = 8] terminated with exception: no topic")
    'no topic'
    """
    return _TERMINATED.sub("", _OF_QUERY.sub("", text)) or text


_OUT_OF_MEMORY: Final = "OutOfMemoryError"
_EXECUTOR_FRAME: Final = re.compile(r"org\.apache\.spark\.executor\.|Lost task |Exception in task ")
_DRIVER_FRAME: Final = re.compile(
    r"stopping SparkContext|\b(?:AsyncEventQueue|LiveListenerBus|ElementTrackingStore|AppStatusListener"
    r"|MicroBatchExecution|ContinuousExecution|StreamExecution|DAGScheduler|TaskResultGetter)\b"
    r"|stream execution thread for "
)
_SERIALIZING: Final = "Task serialization failed"
_COLLECT: Final = re.compile(
    r"\bexecute(?:Collect|Take|ToIterator)|\b(?:Dataset|RDD)\S{0,20}\.(?:collect|toLocalIterator|head|take)\w{0,20}\("
    r"|\bcollect(?:AsArrow)?ToPython\b|\bBroadcastExchangeExec\b"
)


def full_heap(lines: Iterable[str]) -> Mapping[str, str]:
    """Return the process whose heap is full and the reason as fields, if the frames of an OutOfMemoryError show
    both.

    >>> full_heap(["java.lang.OutOfMemoryError: Java heap space", "at a.SparkPlan.executeCollect(S.scala:4)"])
    {'where': 'driver', 'by': 'collect'}
    >>> full_heap(["java.lang.OutOfMemoryError: x", "at org.apache.spark.executor.Executor$TaskRunner.run(E.scala:1)"])
    {}
    >>> full_heap(["E: Task serialization failed: java.lang.OutOfMemoryError: x", "at a.B", "Caused by: c.OutOfMemoryError: x"])
    {'where': 'driver'}
    """
    traces: list[list[str]] = []
    inside = False
    for line in lines:
        if _SERIALIZING in line[:_LINE]:  # before the driver sends the tasks
            return {"where": "driver"} if _OUT_OF_MEMORY in line else {}
        begins = line.strip().startswith("Caused by: ")
        if _OUT_OF_MEMORY in line:
            traces.append([])
            inside = True
        elif begins or line.startswith("Driver stacktrace"):
            inside = False
        if inside:
            traces[-1].append(line[:_LINE])
    # The deepest trace may contain only frames of Java.
    for trace in reversed(traces):
        text = "\n".join(trace)
        if _EXECUTOR_FRAME.search(text) is not None:
            return {}
        if _COLLECT.search(text) is not None:
            return {"where": "driver", "by": "collect"}
        if _DRIVER_FRAME.search(text) is not None:
            return {"where": "driver"}
    return {}


_CAUSED: Final = "Caused by: "


def last_cause(text: str) -> str | None:
    """Return the decisive line of a stack trace, or None if the trace has no causes.

    >>> last_cause("a.E: x\\n\\tat b.C\\nCaused by: d.F: y\\n\\tat b.C\\nCaused by: g.H: z")
    'Caused by: g.H: z'
    >>> last_cause("a.E: x\\nCaused by: b.S: [MALFORMED_RECORD_IN_PARSING] no\\nCaused by: c.N: For input string: 7")
    'Caused by: b.S: [MALFORMED_RECORD_IN_PARSING] no'
    """
    lines = text.splitlines()
    causes = [line for line in lines if line.startswith(_CAUSED)]
    found = decisive_exception([line.removeprefix(_CAUSED) for line in causes])
    return python_error(lines) or next((line for line in causes if found and found in line), None)


def shorten(text: str, most: int) -> str:
    """Shorten a long stack trace to its beginning and its decisive line.

    Args:
        text: the stack trace.
        most: maximum number of characters.
    """
    if len(text) <= most:
        return text
    last = (last_cause(text) or "")[:_LINE]
    if not last or last in text[:most]:
        return text[:most]
    return f"{text[: most - len(last) - 3].rstrip()}\n…\n{last}"
