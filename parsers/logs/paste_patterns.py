"""Patterns for pasted texts: words that identify the engine, and the formats of exceptions."""

from __future__ import annotations

import re
from typing import Final

from flowdiag.parsers.lines.failure_lines import failure_line, server_message


def engine_in(text: str) -> str | None:
    """Return the engine that a text without log lines is about, from the words in it, or None if they do not
    decide.

    >>> engine_in("Cannot execute: spark-submit job.py"), engine_in("kubectl logs flink-taskmanager-1-1"), engine_in("a")
    ('spark', 'flink', None)
    >>> engine_in("Py4JJavaError: An error occurred while calling o8.executeSql.")
    'flink'
    >>> engine_in("lost executor 3"), engine_in("the executor service is shut down"), engine_in("a.b.executor.Pool.run")
    ('spark', None, None)
    """
    if _PYFLINK_CALL.search(text) is not None:
        return "flink"
    spark, flink = len(_OF_SPARK.findall(text)), len(_OF_FLINK.findall(text))
    if spark == flink:
        return None
    return "spark" if spark > flink else "flink"


# Py4J, which Spark uses as well, prints the Java method that PyFlink called.
_PYFLINK_CALL: Final = re.compile(
    r"calling [oz]:?[\w.]{1,120}\.(?:executeSql|sqlQuery|executeInsert|executeAsync|addInsertSql|createTemporarySystemFunction|createTemporaryFunction|createTemporaryView"
    r"|createStatementSet|fromDataStream|toRetractStream|toAppendStream|toChangelogStream|fromSource|addSource|sinkTo|addSink|executeAndCollect)\b"
)
_OF_SPARK: Final = re.compile(
    r"(?i:py4j)|\bAn error occurred while calling (?:o\d{1,9}|z:org\.apache\.spark)\.|(?<![\w./-])(?<![Tt]ask )executors?\b(?![.-]\w| service| pool| thread)|pyspark|(?i:foreach_?batch)|StreamingQuery|\[STREAM_FAILED\]|Structured Streaming|\(TID \d|Job aborted due to stage failure"
    r"|\b[Ss]park\b|\b[A-Z]?\w{0,40}Spark[A-Z]\w+|\bspark[._-][a-z]|\bDStream|ExecutorPods|\bawsglue|[Gg]lueContext|third-party-projects"
    r"|[Dd]atabricks|Executor self-exiting|(?m:^\d\d/\d\d/\d\d \d\d:\d\d:\d\d [A-Z]{4,5} (?!Block(?:Manager|StateChange):)[A-Z]\w+: )|\bdbutils|\b[Ll]ivy\b|serverSparkVersion|SubmissionResponse\b|ExecutorLostFailure|\bsc\.\w+\(|\[DELTA_[A-Z]|\bAnalysisException\b|\b_spark_metadata\b|\bstate/\d{1,5}/\d{1,6}/\d{1,9}\.(?:delta|snapshot|changelog|zip)\b|\byarn\.Client\b|(?m:^\[[A-Z_.]{5,100}\] .{0,4000}SQLSTATE: [0-9A-Z]{5}\b)"
)
_OF_FLINK: Final = re.compile(
    r"pyflink|\b[Ff]link\b|\bFlink[A-Z]\w+|\bflink[.-][a-z]|\b(?:TaskManager|JobManager|TaskExecutor|JobMaster)\w*"
    r"|\b(?:task|job)managers?\b|StreamExecutionEnvironment|[Ss]avepoint|KeyedProcessFunction|[Vv]erverica"
)

NAME = r"(?:[A-Za-z_][\w$]{0,80}\.){1,20}(?:package\$)?_?[A-Z][\w$]{0,120}"
ENDS = r"(?:Exception|Error|Throwable|Failure|Abort|Interrupt|Died|NotCompatible)(?:\$\w{1,80})?"
ELEMENT = re.compile(
    r"\s{0,40}(?:Exception in thread \"[^\"\n]{0,200}\" |: ?|Root exception:? |Exception: |\[)?"
    rf"(?=[\w$.]{{2,400}}{ENDS}(?:[:;\])(]|\s|\Z)|(?:[a-z_]\w{{0,80}}\.){{1,8}}(?:errors?|exc|exceptions?)\.[A-Z]\w{{2,80}}: )"
    rf"(?P<text>(?:{NAME}|[A-Z][A-Za-z0-9]\w{{0,100}}{ENDS})(?:\Z|[:;] ?.*|\s*\Z|\s\(.*|\([\w.$]{{3,300}}\):? .*))"
)
# An uncaught exception that ended a query's thread.
THREAD = re.compile(
    r"\s{0,40}Exception in thread \"stream execution thread for (?P<query>[^\"\n]{1,200})\" "
)
# Exception, task name, location: a copied row of the Web UI's table of exceptions.
TABLE_ROW = re.compile(
    r"(?P<text>[^\t|]{3,3000}?)(?:\t| \| | {2,8})\s{0,4}(?P<task>[^\t|]{1,300}\([0-9]{1,6}/[0-9]{1,6}\))"
    r"(?: - execution #[0-9]{1,6})?(?:(?:\t| \| | {2,8})\s{0,4}(?:(?P<host>[\w.-]{1,255}):[0-9]{1,5}\S{0,60}|\(unassigned\)|\S{1,300})?)?"
    r"[\s|]{0,20}\Z"
)
BELOW = re.compile(
    r"\s{0,40}(?:Caused by|Wrapped by|Suppressed|Root cause|Previous exception in task): ?(?P<text>.*)"
)
FRAMEISH = re.compile(
    r"\s{0,40}(?:at )?(?:[\w$-]{1,80}\.){2,20}[\w$<>]{1,120}\([^()\n]{0,120}\)?\s*(?:~?\[.*)?\Z"
)
IN_MESSAGE = re.compile(
    rf"(?:: |\s)(?P<text>(?:[a-z][\w$]{{0,80}}\.){{2,20}}[A-Z][\w$]{{0,120}}{ENDS}(?::.*|\s*)\Z)"
)
NAME_ONLY = re.compile(rf"{NAME}\Z")
NAME_FIRST = re.compile(rf"\A(?:{NAME}|[A-Z]\w{{0,100}}{ENDS}): ")
# In a sentence, in quotes or after emphasis marks: only with package and message, or as a Spark error condition,
# which mails and web pages quote without a class.
IN_PROSE = re.compile(
    rf"(?:^|[\s\"'`“‘«(*{{：])(?P<text>(?:[a-z][\w$]{{0,80}}\.){{2,20}}[A-Z][\w$]{{0,120}}{ENDS}: [^\n]{{3,3000}}"
    r"|\[[A-Z]{2,20}_[A-Z_.]{3,60}\] [^\n]{3,3000}"
    r"|[A-Z][a-z]{1,40}[A-Z]\w{0,80}(?:Exception|Error): [^\n]{8,3000})"
)
# The beginning of a sentence that explains what may happen, before it quotes an exception.
HYPOTHETICAL = re.compile(
    r"(?i)(?:\b(?:if|when|whenever|once) you (?:ever )?(?:get|see|hit|encounter|receive|run into|face)\b"
    r"|\b(?:can|may|might|could|would) (?:\w{1,20} )?(?:throw|raise|fail with|end with|lead to|result in|cause)\b)[^.!?]{0,80}\Z"
)
# A JSON record whose appender prints the stack trace after it on the same line.
BEHIND_OBJECT = re.compile(
    rf"\}}\s{{0,8}}(?=(?:[a-z_]\w{{0,80}}\.){{1,20}}[A-Z][\w$]{{0,120}}{ENDS}(?:[:\s]|\Z)|Traceback \(most recent|Caused by: )"
)
GRAVE: Final = frozenset({"ERROR", "FATAL"})
MARKS: Final = ('"', "`", "*")
DIGITS = re.compile(r"\d+")
NAMED = re.compile(r"\b[A-Z][a-z0-9]\w{2,80}(?:Exception|Error)\b")
# Python's logging prints the exception of a record below its message.
PYTHON_LOGGER = re.compile(r"(?:[a-z_]\w{0,60}\.){0,10}[a-z_]\w{0,60}\Z")
ANNOUNCED = re.compile(r"(?i)\b(?:errors?|exceptions?|fails?|failed|failure)\b")
BEGINS_RECORD = re.compile(r"[\[\d]|(?:DEBUG|INFO|WARNING|ERROR|CRITICAL):[a-z_][\w.]{0,80}:")
PYTHON_BEGIN: Final = "Traceback (most recent call last)"
PYTHON = re.compile(
    r"(?P<text>(?:[a-z_]\w{0,80}\.){0,10}[A-Z]\w{0,80}(?:Error|Exception|Interrupt|Exit|Warning)(?:: .*)?\Z)"
)
# Python prints the cause before the exception.
BEFORE = re.compile(
    r"(?:During handling of the above exception|The above exception was the direct cause)\b"
)
# A traceback in the format of IPython and Jupyter: frames have no `File`, and an arrow marks the line.
NOTEBOOK = re.compile(
    r"\s{0,8}(?P<error>[A-Z]\w{2,80}(?:Error|Exception))\s{2,200}Traceback \(most recent call last\)"
)
NOTEBOOK_CODE = re.compile(r"-{2,8}> ?\d{1,6} (?P<code>\s*\S.{0,200})")
# The last line of a Python traceback whose exception has an unusual name.
PYTHON_UNUSUAL = re.compile(r"(?P<text>(?:[A-Za-z_]\w{0,80}\.){0,10}[A-Z]\w{0,80}(?:: .*)?\Z)")
# The first line of an exception above its stack frames, if the class is cut off or missing; not a thread of a dump.
CUT_MESSAGE = re.compile(
    r"(?i)(?!\")(?!.*Thread\.State).*\b(?:exception|errors?|failed|failure|denied|cannot|can't|could not|unable|invalid|missing"
    r"|refused|timed out|not (?:in|found|supported|exists?|allowed|available))\b"
)
CELL = re.compile(r"\s{0,8}[A-Z][\w /()-]{1,40}\t\S")
EVENT = re.compile(r"\s{0,8}(?:Normal|Warning)\s{1,12}[A-Z]\w{2,40}\s{1,30}\d{1,4}[smhd]")
# Python marks the failed part of an indented line of code with these characters, but always with a `^`.
RULER = re.compile(r"\s{0,8}(?:-{12,200}|={12,200}|\*{12,200}|_{12,200})\s*\Z")
FENCE = re.compile(r"\s{0,40}(?:```|~~~)[^\^]*\Z")
PYTHON_FILE = re.compile(r"\s{0,8}File \"[^\"\n]{1,300}\", line \d")
# A class with an unusual name, which is an exception if a stack frame follows.
UNUSUAL = re.compile(r"(?:Caused by: )?(?:[a-z_][\w$]{0,80}\.){1,20}_?[A-Z][\w$]{0,120}(?:: .*)?\Z")
# A header with an unknown layout: at most six words, a level, then the message.
LOOSE_HEADER = re.compile(
    r"(?:[^\s,;|]{1,120}[\s,;|]{1,8}){0,6}?[\"'\[(<{]?"
    r"(?P<level>TRACE|DEBUG|INFO|WARN|WARNING|ERROR|FATAL|CRITICAL|SEVERE)(?=[\"'\])>}\s,;|:-])"
    r"[\"'\])>}]?(?:\s{0,4}[,;|:\]>-]|\s{2}|\s(?=[\[({\"']))[\s,;|:>-]{0,6}"
    r"(?:(?P<logger>(?:[a-z_]\w{0,80}\.){1,10}[\w$]{1,120}|__main__|root)(?::(?=\S)| - ))?(?P<message>\S.*)",
    re.DOTALL,
)
# A bold title between paragraphs, and code in a sentence.
# Fields of an alert or of a form, which follow a message.
FIELD = re.compile(
    r"\s{0,8}(?:Source|Dashboard|Runbook|Playbook|Silence|Labels|Annotations|Assignee|Environment|Steps to reproduce|Link): \S"
)
# YARN's dated lines inside the diagnostics of an application.
OF_DIAGNOSTICS = re.compile(
    r"\s{0,8}\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}\](?:Container |Exception from |Killed by )"
)
TITLE = re.compile(r"\s{0,8}\*\*[\w ,'/-]{2,60}:?\*\*\s{0,8}\Z|\s{0,4}##\[\w{1,20}\]")
PROMPT = re.compile(
    r"\s{0,4}(?:[\w.-]{1,60}@[\w.-]{1,80}[: ][^\s$#]{0,100} ?)?\$ [a-z./]\S{0,200}(?: |\Z)"
)
# A prompt of an SQL client, whose statement ends the output above.
SQL_PROMPT = re.compile(
    r"\s{0,4}(?:[A-Za-z]\w{0,20} )?(?i:sql|spark-sql|beeline)(?: \([^)\n]{1,60}\))?> "
)
WHOLE = re.compile(
    r"\s{0,8}`[^`]{10,8000}`\s*\Z|\s{0,40}\"[\w .-]{1,60}\"\s{0,3}:\s{0,3}\"(?:[^\"\\]|\\.){0,8000}\",?\s*\Z"
)
"""A line that contains its whole message: inline code, or a string in a JSON object."""
INLINE = re.compile(r"`([^`\n]{10,3000})`")
MENTION = re.compile(r"\A@[\w-]{1,40},? ")
# A logger with its package, after a level and a date.
LOGGER = re.compile(
    r"\s{0,4}(?P<logger>(?:[a-z][\w$]{0,80}\.){1,12}(?![\w$]{0,100}(?:Exception|Error|Throwable)\b)[A-Z][\w$]{0,120})(?:: | - )(?=\S)"
)
# After a date, a level needs no punctuation after it.
DATED_LEVEL = re.compile(
    r"\s{0,8}(?:\[[^\]\n]{0,120}\]\s{1,4}|\([^)\n]{0,120}\)\s{1,4}){0,3}"
    r"(?P<level>WARN|WARNING|ERROR|FATAL|CRITICAL|SEVERE)(?P<logger>)\s{1,8}(?P<message>\S.*)",
    re.DOTALL,
)
TAGGED = re.compile(
    r"\s{0,8}(?:time(?:stamp)?|date|at|when|first seen|last seen)\s?[:=]?\s", re.IGNORECASE
)
# The status of a FlinkDeployment (`error:` in YAML, JSON or `kubectl describe`), with the outermost exception first.
TYPED: Final = tuple(
    re.compile(
        rf"{quote}type{quote}\s?:\s?{quote}(?P<name>{NAME}){quote}\s?,"
        rf"\s?{quote}message{quote}\s?:\s?{quote}(?P<message>(?:{inside}){{0,3000}})"
    )
    for quote, inside in (('"', r'[^"\\\n]|\\{1,3}"|\\.'), (r'\\"', r'[^"\\\n]|\\\\\\"|\\(?!")'))
)
# The start of a paragraph that explains what happens in case of a failure.
GENERAL = re.compile(
    r"(?:When|Whenever|If|In case|Whether|Unless|By default|Note that)\b(?!.{0,300}\b(?:I|we|my|our)\b)"
)
# A sentence that explains the meaning of a word, level or code in general.
MEANING = re.compile(
    r"(?!This\b|That\b|It\b)(?:[\w`'\"()./-]{1,40} ){1,6}(?:means?|indicates?|signals?|stands? for|denotes?)(?: that)? (?:an?|the|some|one|any|your)\b"
)
SERIAL = re.compile(r"(?:[\w$]{1,80}\.){0,20}SerializedThrowable(?:: |\s*\Z)")


def announces(text: str, bare: str) -> bool:
    """Return whether a line outside records reports a failure, rather than explaining failures in general."""
    return failure_line(text) is not None and GENERAL.match(bare) is None


def without_brackets(text: str) -> str:
    """Remove closing quotes and brackets that belong to the sentence around a text.

    >>> without_brackets("a.B: x')"), without_brackets("a.B: exited (crashed)")
    ('a.B: x', 'a.B: exited (crashed)')
    """
    while text[-1:] in _CLOSING and text.count(text[-1]) > text.count(_CLOSING[text[-1]]) * (
        text[-1] in ")}]"
    ):
        text = text[:-1]
    return text


_CLOSING: Final = {")": "(", "}": "{", "]": "[", '"': '"', "'": "'", "`": "`", "*": "*"}


def fact_in(text: str, *, weak: bool = False) -> str:
    """Return the part of a line that reports a failure: inline code or a server's message in a sentence, or the whole line.

    Args:
        text: the line.
        weak: whether inline code with a vague wording counts as well.

    >>> fact_in("@ann We get `Job aborted due to stage failure: no disk` here"), fact_in("@ann Job aborted.")
    ('Job aborted due to stage failure: no disk', 'Job aborted.')
    """
    codes = (found[1] for found in INLINE.finditer(text))
    quoted = (code for code in codes if failure_line(code, weak=weak) is not None)
    return server_message(next(quoted, MENTION.sub("", text)))
