"""flowdiag for programs and notebooks; everything here is exported by `flowdiag` itself (docs/library.md).

Nothing is printed, no process is ended: what is the user's to mend is a `FlowdiagError`, and anything
else that is raised is a bug. A SparkSession of the user's is used beside his own settings and never
stopped; without one a Spark of flowdiag's own runs as long as it is needed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import datetime
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from flowdiag.analyses.inputs import find, inputs_of
from flowdiag.analyses.model.choice import Choice, chosen, rule_overrides
from flowdiag.analyses.model.options import MemoryOptions, Options, QueueOptions, RateOptions
from flowdiag.analyses.model.rule import Rule
from flowdiag.analyses.model.span import Moment, Selection, parse_moment
from flowdiag.analyses.model.zones import zone_name
from flowdiag.analyses.report.privacy import Privacy
from flowdiag.analyses.report.saved import report_in
from flowdiag.analyses.report.wire import Report
from flowdiag.analyses.topics import ENGINES, EVERYTHING, all_rules, names_of, topic
from flowdiag.parsers.errors import FlowdiagError, InputError, nearest
from flowdiag.parsers.rows import Event
from flowdiag.parsers.sources.remote import is_url, without_credentials

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from flowdiag.analyses.engine.reading import Resources
    from flowdiag.analyses.report.data_dir import DataDir
    from flowdiag.cli.spark.borrowed import BorrowedSpark
    from flowdiag.cli.spark.starter import SparkStarter
    from flowdiag.parsers.sources.discover import Discovery
    from flowdiag.parsers.sources.open import Source

Paths = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]
"""Files, folders, globs or URLs; one or several."""

Time = str | datetime
"""`2026-01-31T18:43`, `2h` before the end of the input, or a datetime."""

_CHECKPOINTS: Final = (
    Event.CHECKPOINT_TRIGGERED,
    Event.CHECKPOINT_COMPLETED,
    Event.CHECKPOINT_EXPIRED,
    Event.CHECKPOINT_DECLINED,
    Event.CHECKPOINT_DISCARDED,
    Event.CHECKPOINT_FAILED,
    Event.CHECKPOINT_NOT_TRIGGERED,
    Event.CHECKPOINT_STATUS,
    Event.CHECKPOINT_VERTEX,
    Event.CHECKPOINT_SUBTASK,
    Event.CHECKPOINT_CONFIG,
    Event.CHECKPOINT_COUNTS,
    Event.ACKNOWLEDGED,
    Event.LATE_ACKNOWLEDGEMENT,
    Event.ACKNOWLEDGE_REFUSED,
    Event.CHECKPOINT_STARTED,
    Event.SYNCHRONOUS_PART,
    Event.ASYNCHRONOUS_PART,
    Event.SNAPSHOT_FAILED,
)
_TASKS: Final = (
    Event.DEPLOYED,
    Event.PLACED,
    Event.TASK_STATE,
    Event.TASK_RECEIVED,
    Event.TASK_STUCK,
    Event.TASK_CANCELLED,
)


def diagnose(
    paths: Paths,
    *,
    topics: str | Iterable[str] | None = None,
    spark: SparkSession | None = None,
    since: Time | None = None,
    until: Time | None = None,
    job: str | None = None,
    tz: str | None = None,
    thresholds: Mapping[str, Mapping[str, float]] | None = None,
    select: str | Iterable[str] = (),
    ignore: str | Iterable[str] = (),
    redact: bool = False,
    excerpts: bool = True,
    max_rows: int = 10_000,
    strict_inputs: bool = False,
    queues: QueueOptions | None = None,
    memory: MemoryOptions | None = None,
    rate: RateOptions | None = None,
    data_dir: str | os.PathLike[str] | None = None,
    progress: Callable[[str], None] | None = None,
) -> Report:
    """Who is the culprit, and what proves it: what `flowdiag diagnose` reports.

    Args:
        paths: the inputs.
        topics: any of checkpoints, rate, queues, memory, startup; None: all that the inputs can feed.
        spark: a session of yours; None: the one that this process has, else one of flowdiag's own.
        since, until: judge only this time; names and places are still taken from everything.
        job: judge only this job or application: the beginning of its id, or a glob of its name.
        tz: zone of the log's times, where it cannot be inferred: Asia/Shanghai, +08:00.
        thresholds: values by rule (code or name) and name of the threshold.
        select, ignore: rules to hear, and not to, by code, beginning of it, or name.
        redact: replace hosts, users, jobs, tasks and paths by pseudonyms.
        excerpts: whether the report may quote log text; secrets in it are masked.
        max_rows: longest list in the report's data.
        strict_inputs: fail if any input is missing, unreadable or damaged.
        queues, memory, rate: what only one topic takes.
        data_dir: a folder for the complete tables, as Parquet (docs/tables.md).
        progress: told the name of each stage.

    Raises:
        InputError: no input can be read; with `strict_inputs`, any one cannot.
        FlowdiagError: an argument is wrong, or Spark cannot be used; the message says what to do.
    """
    from flowdiag.analyses.diagnosis import diagnose as diagnosis
    from flowdiag.analyses.diagnosis import inspect_inputs
    from flowdiag.analyses.engine.reading import Resources

    tell = progress or _quiet
    named = _named(paths)
    wanted = _topics(topics)
    rules = all_rules()
    options = Options(
        selection=Selection(since=_moment(since), until=_moment(until), job=job),
        tz=zone_name(tz),
        thresholds=rule_overrides(thresholds, rules) if thresholds else {},
        choice=chosen(_words(select), _words(ignore), rules) if select or ignore else Choice(),
        privacy=Privacy(excerpts=excerpts, redact=redact),
        max_rows=_positive(max_rows),
        named=tuple(without_credentials(path) if is_url(path) else path for path in named),
        everything=topics is None,
        queues=queues or QueueOptions(),
        memory=memory or MemoryOptions(),
        rate=rate or RateOptions(),
    )
    tell("looking at the inputs")
    discovery, names = _inputs(named, wanted, strict=strict_inputs)
    diagnosed = tuple(map(topic, names))
    inspected = inspect_inputs(diagnosed, discovery, options)
    tables = _tables(data_dir, options)

    def made() -> Report:
        if not inspected.needs_spark:
            kept = Resources(keep=tables)
            return diagnosis(
                diagnosed, inspected, _no_session, options, resources=kept, progress=tell
            )
        with _spark(_theirs(spark), discovery) as (session, resources):
            if tables is not None and resources.executors:
                tables.check_cluster()
            kept = replace(resources, keep=tables)
            return diagnosis(diagnosed, inspected, session, options, resources=kept, progress=tell)

    report = made() if tables is None else tables.of(diagnosed, made)
    damaged = [each for each in report.inputs if each.error]
    if strict_inputs and damaged:
        raise InputError(f"{damaged[0].source}: {damaged[0].error}", hint="strict_inputs is set")
    return report


class Events:
    """What inputs say, as DataFrames of documented columns (docs/tables.md).

    Without a session of the user's a Spark of flowdiag's own serves them until `close`, or the end of
    the process; so this is best used in a `with` block.

    >>> with read("logs/") as events:  # doctest: +SKIP
    ...     events.checkpoints.groupBy("event").count().show()
    """

    def __init__(
        self,
        parts: Sequence[tuple[DataFrame, DataFrame | None]],
        sources: Sequence[Source],
        warnings: Sequence[str],
        stack: ExitStack,
    ) -> None:
        """For `read`: events and metrics of each engine, and what is to be closed."""
        self.inputs: Final = tuple(source.name for source in sources if source.kind != "not-read")
        """The inputs that are read, by the names in column `input`."""
        self.warnings: Final = tuple(warnings)
        """What is missing or not read, and why: a sentence each."""
        self._parts = parts
        self._stack = stack

    @cached_property
    def events(self) -> DataFrame:
        """Table `events`: every record that was understood, but for samples of metrics."""
        frame = self._parts[0][0]
        for other, _ in self._parts[1:]:
            frame = frame.unionByName(other)
        return frame

    @cached_property
    def metrics(self) -> DataFrame:
        """Table `metrics`: samples of Flink's metrics, one row per series and minute."""
        found = next((metrics for _, metrics in self._parts if metrics is not None), None)
        if found is not None:
            return found
        from flowdiag.analyses.engine.views import METRICS
        from flowdiag.analyses.model.columns import schema_of
        from flowdiag.parsers.spark.frame import spark_schema

        empty = schema_of(METRICS)
        return self.events.sparkSession.createDataFrame([], schema=spark_schema(empty))

    def of(self, *kinds: str) -> DataFrame:
        """The events of some kinds, by the words in column `event`.

        Raises:
            FlowdiagError: there is no such kind.
        """
        for kind in kinds:
            if kind not in tuple(Event):
                raise FlowdiagError(f"there is no event '{kind}'", hint=nearest(kind, Event))
        return self.events.where(self.events["event"].isin(*map(str, kinds)))

    @property
    def checkpoints(self) -> DataFrame:
        """What JobManager, TaskManagers and REST tell of checkpoints."""
        return self.of(*_CHECKPOINTS)

    @property
    def tasks(self) -> DataFrame:
        """Deployments and transitions of tasks."""
        return self.of(*_TASKS)

    @property
    def batches(self) -> DataFrame:
        """Batches of Spark's DStream applications; `epoch_ms` is the batch time."""
        return self.of(Event.SPARK_BATCH)

    @property
    def triggers(self) -> DataFrame:
        """Triggers of Spark's streaming queries."""
        return self.of(Event.SPARK_PROGRESS)

    def close(self) -> None:
        """End what serves the frames; a session of the user's stays."""
        self._stack.close()

    def __enter__(self) -> Self:
        """Close at the end of the block."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close, whatever happened."""
        self.close()


def read(
    paths: Paths,
    spark: SparkSession | None = None,
    *,
    tz: str | None = None,
    metrics: Iterable[str] | None = None,
    strict_inputs: bool = False,
    progress: Callable[[str], None] | None = None,
) -> Events:
    """Everything that the inputs say, with settled clocks, for analyses of your own.

    Secrets in it are not masked: they are as the logs have them.

    Args:
        paths: the inputs.
        spark: a session of yours; None: the one that this process has, else one of flowdiag's own.
        tz: zone of the log's times, where it cannot be inferred: Asia/Shanghai, +08:00.
        metrics: names of the metrics of Flink that become rows; None: all that are known.
        strict_inputs: fail if any input is missing or unreadable.
        progress: told the name of each stage.

    Raises:
        InputError: no input can be read.
        FlowdiagError: an argument is wrong, or Spark cannot be used; the message says what to do.
    """
    from flowdiag.analyses.engine.views import event_table, metric_table
    from flowdiag.analyses.report.fitting import engines_of

    tell, zone = progress or _quiet, zone_name(tz)
    tell("looking at the inputs")
    discovery = find(_named(paths), strict=strict_inputs)
    sources, engines = engines_of(discovery.sources)
    stack = ExitStack()
    try:
        theirs = _theirs(spark)
        session, resources = stack.enter_context(_spark(theirs, discovery, keep=True))
        home = _home(theirs)
        parts: list[tuple[DataFrame, DataFrame | None]] = []
        for engine in sorted(engines):
            mine = _of(engine, sources)
            if engine == "spark":
                from flowdiag.analyses.rate.owned import owned_events

                owned = owned_events(mine, session, resources=resources, tz=zone, progress=tell)
                parts.append((home(event_table(owned.events, sources, engine)), None))
                continue
            from flowdiag.analyses.flink.settled import settled_events

            names = None if metrics is None else frozenset(metrics)
            settled = settled_events(
                mine, session, resources=resources, tz=zone, progress=tell, metrics=names
            )
            rows = home(event_table(settled.events, sources, engine))
            parts.append((rows, home(metric_table(settled.metrics(), sources))))
        resources.tune(None)  # nobody knows what is asked of them
    except BaseException:
        stack.close()
        raise
    not_read = (f"{s.name}: {s.reason}" for s in sources if s.kind == "not-read" and s.reason)
    remarks = map(str, (*discovery.errors, *discovery.warnings))
    return Events(parts, sources, (*remarks, *not_read), stack)


def rules() -> tuple[Rule, ...]:
    """The rules of all topics, those of plug-ins among them."""
    return all_rules()


def load(path: str | os.PathLike[str]) -> Report:
    """A report that was saved with `--format json`, or with `Report.to_json`.

    Raises:
        InputError: the file cannot be read.
        FlowdiagError: it is no report that this version knows.
    """
    try:
        document = Path(path).read_bytes()
    except OSError as error:
        raise InputError(f"cannot read '{path}': {error.strerror or error}") from None
    return report_in(document, os.fspath(path))


def register(spark: SparkSession) -> None:
    """Let a session read with `spark.read.format("flowdiag").load(path)` (docs/library.md).

    Raises:
        FlowdiagError: this PySpark has no Python data sources, or its Python has no flowdiag.
    """
    try:
        from flowdiag.parsers.spark.data_source import FlowdiagDataSource

        source = spark.dataSource
    except (ImportError, AttributeError) as error:
        raise FlowdiagError(
            "this PySpark has no data sources in Python", hint="they came with PySpark 4.0"
        ) from error
    from flowdiag.cli.spark.borrowed import check, check_python

    check(spark)
    check_python(spark)
    source.register(FlowdiagDataSource)


# -- what the arguments mean ---------------------------------------------------------------------------


def _quiet(stage: str) -> None:
    """Nobody wants to know."""


def _named(paths: Paths) -> list[str]:
    if isinstance(paths, str | os.PathLike):
        paths = [paths]
    return [os.fspath(path) for path in paths]


def _topics(given: str | Iterable[str] | None) -> tuple[str, ...] | None:
    if given is None:
        return None
    names = (given,) if isinstance(given, str) else tuple(given)
    for name in names:
        if name not in ENGINES:
            raise FlowdiagError(f"there is no topic '{name}'", hint=nearest(name, ENGINES))
    if not names:
        raise FlowdiagError("no topic is given", hint=f"there are: {', '.join(ENGINES)}")
    return tuple(name for name in ENGINES if name in names)


def _moment(given: Time | None) -> Moment | None:
    if given is None:
        return None
    return parse_moment(given.isoformat() if isinstance(given, datetime) else given)


def _words(given: str | Iterable[str]) -> tuple[str, ...]:
    return tuple(given.split(",")) if isinstance(given, str) else tuple(given)


def _tables(folder: str | os.PathLike[str] | None, options: Options) -> DataDir | None:
    if folder is None:
        return None
    from flowdiag.analyses.report.data_dir import DataDir

    if options.privacy.redact:
        raise FlowdiagError(
            "data_dir and redact do not go together: tables keep names as the logs have them"
        )
    return DataDir(os.fspath(folder), excerpts=options.privacy.excerpts)


def _positive(rows: int) -> int:
    if rows < 1:
        raise FlowdiagError(f"max_rows is {rows}", hint="write 1 or more")
    return rows


def _inputs(
    paths: Sequence[str], wanted: tuple[str, ...] | None, *, strict: bool
) -> tuple[Discovery, tuple[str, ...]]:
    """The inputs, and the topics that they are diagnosed for."""
    from flowdiag.parsers.sources.discover import Discovery

    if not paths:
        if wanted == ("memory",):  # reckons with what it is given
            return Discovery(sources=(), warnings=(), errors=()), wanted
        raise InputError("no input is given", hint="name a file, a folder, a glob or a URL")
    command = wanted[0] if wanted is not None and len(wanted) == 1 else EVERYTHING
    discovery, engines = inputs_of(command, paths, strict=strict)
    return discovery, wanted or names_of(EVERYTHING, engines)


def _of(engine: str, sources: Sequence[Source]) -> tuple[Source, ...]:
    from flowdiag.analyses.diagnosis import sources_for_engine

    return sources_for_engine(engine, sources)


# -- whose Spark ---------------------------------------------------------------------------------------


def _theirs(given: SparkSession | None) -> SparkSession | None:
    """The session of the user: the one that he gave, else the one that this process has."""
    from flowdiag.cli.spark.borrowed import running

    return given if given is not None else running()


@contextmanager
def _spark(
    theirs: SparkSession | None, discovery: Discovery, *, keep: bool = False
) -> Iterator[tuple[Callable[[], SparkSession], Resources]]:
    """The session to use, and with what to read: somebody's, or one of our own for this block.

    Args:
        theirs: of the user; None: there is none.
        discovery: the inputs, which executors must be able to read.
        keep: what Spark stored stays: frames over it are used after the block.
    """
    from flowdiag.analyses.engine.frames import released
    from flowdiag.cli.spark.borrowed import BorrowedSpark
    from flowdiag.cli.spark.resources import resources_of

    with ExitStack() as stack:
        spark: SparkStarter | BorrowedSpark
        if theirs is not None:
            spark = stack.enter_context(BorrowedSpark(theirs))
            if not keep:
                stack.enter_context(released())
        else:
            from flowdiag.cli.spark.starter import SparkStarter

            spark = stack.enter_context(SparkStarter.begin())
        stack.enter_context(spark.explaining())
        yield _checked(spark, discovery), resources_of(spark)


def _checked(
    spark: SparkStarter | BorrowedSpark, discovery: Discovery
) -> Callable[[], SparkSession]:
    """The session, where its executors are many and far once they can parse."""
    if not spark.on_cluster:
        return spark.session
    from flowdiag.analyses.engine import reading
    from flowdiag.cli.spark.borrowed import BorrowedSpark
    from flowdiag.cli.spark.cluster import checked_session

    def session() -> SparkSession:
        if isinstance(spark, BorrowedSpark) and (
            reading.cost(discovery.sources) > reading.DRIVER_BYTES
        ):
            spark.send_parsers()
        return spark.session()

    return checked_session(session, (), discovery)


def _home(theirs: SparkSession | None) -> Callable[[DataFrame], DataFrame]:
    """Makes frames those of the user's session, so that his views and settings hold for them."""

    def moved(frame: DataFrame) -> DataFrame:
        from pyspark.sql import DataFrame

        session: Any = theirs
        if session is None or frame.sparkSession is session:
            return frame
        plan = frame._jdf.queryExecution().analyzed()
        rows = session._jvm.org.apache.spark.sql.classic.Dataset.ofRows
        return DataFrame(rows(session._jsparkSession, plan), session)

    return moved


def _no_session() -> Any:
    raise AssertionError("nothing was left to be scanned")
