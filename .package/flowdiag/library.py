"""The library for programs and notebooks, exported by the package `flowdiag` (docs/library.md).

It prints nothing and never ends the process. A `FlowdiagError` is an error that the caller can fix; any other
exception is a bug. A given SparkSession keeps its own settings and is never stopped. Without one, flowdiag starts
its own Spark for as long as necessary.
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

from flowdiag.analyses.contract.report import Report
from flowdiag.analyses.inputs import find, inputs_of
from flowdiag.analyses.model.rule import Rule
from flowdiag.analyses.report.saved import report_in
from flowdiag.analyses.selection.choice import Choice, choose_rules, rule_overrides
from flowdiag.analyses.selection.options import (
    MemoryOptions,
    Options,
    Privacy,
    QueueOptions,
    RateOptions,
)
from flowdiag.analyses.selection.span import Moment, Selection, parse_moment
from flowdiag.analyses.selection.zones import zone_name
from flowdiag.analyses.topic_names import ENGINES, EVERYTHING, PODS, names_of
from flowdiag.analyses.topics import all_rules, topic
from flowdiag.parsers.errors import FlowdiagError, InputError, nearest
from flowdiag.parsers.rows import Event
from flowdiag.parsers.sources.remote import is_url, without_credentials

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from flowdiag.analyses.engine.reading import Resources
    from flowdiag.analyses.report.data_dir import DataDir
    from flowdiag.cli.spark.borrowed import BorrowedSpark
    from flowdiag.cli.spark.starter import SparkStarter
    from flowdiag.parsers.discover import Discovery
    from flowdiag.parsers.source import Source

Paths = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]
"""One or more files, folders, globs or URLs."""

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
    """Diagnose inputs and return the report of `flowdiag diagnose`.

    Args:
        paths: the inputs.
        topics: any of checkpoints, rate, queues, memory, startup (default: all that the inputs allow).
        spark: your session (default: the active session, otherwise one of flowdiag's own).
        since, until: time range to diagnose; names and hosts still come from the whole input.
        job: only this job or application: prefix of its id, or glob of its name.
        tz: time zone of the logs, if it cannot be inferred: Asia/Shanghai, +08:00.
        thresholds: values by rule (code or name) and name of the threshold.
        select, ignore: codes, code prefixes or names of rules.
        redact: replace hosts, users, jobs, tasks and paths with pseudonyms.
        excerpts: whether the report quotes log text, with secrets masked.
        max_rows: longest list in the report's data.
        strict_inputs: fail if any input is missing, unreadable or damaged.
        queues, memory, rate: options of a single topic.
        data_dir: folder for the complete tables as Parquet (docs/tables.md).
        progress: receives the name of each stage.

    Raises:
        InputError: no input is readable; with `strict_inputs`, any input is not.
        FlowdiagError: an argument is invalid, or Spark is not available; the message contains a remedy.
    """
    from flowdiag.analyses.diagnosis import diagnose as diagnosis
    from flowdiag.analyses.diagnosis import inspect_inputs
    from flowdiag.analyses.engine.reading import Resources

    report_stage = progress or _quiet
    named = _path_names(paths)
    selected = _topics(topics)
    rules = all_rules()
    options = Options(
        selection=Selection(since=_moment(since), until=_moment(until), job=job),
        tz=zone_name(tz),
        thresholds=rule_overrides(thresholds, rules) if thresholds else {},
        choice=choose_rules(_split_rules(select), _split_rules(ignore), rules)
        if select or ignore
        else Choice(),
        privacy=Privacy(excerpts=excerpts, redact=redact),
        max_rows=_positive(max_rows),
        named=tuple(without_credentials(path) if is_url(path) else path for path in named),
        everything=topics is None,
        queues=queues or QueueOptions(),
        memory=memory or MemoryOptions(),
        rate=rate or RateOptions(),
    )
    report_stage("checking the inputs")
    discovery, names = _inputs(named, selected, strict=strict_inputs)
    diagnosed = tuple(map(topic, names))
    inspected = inspect_inputs(diagnosed, discovery, options)
    tables = _tables(data_dir, options)

    def make_report() -> Report:
        if not inspected.needs_spark:
            kept = Resources(keep=tables)
            return diagnosis(
                diagnosed,
                inspected,
                _fail_without_session,
                options,
                resources=kept,
                progress=report_stage,
            )
        with _spark(_user_session(spark), discovery) as (session, resources):
            if tables is not None and resources.executors:
                tables.check_cluster()
            kept = replace(resources, keep=tables)
            return diagnosis(
                diagnosed, inspected, session, options, resources=kept, progress=report_stage
            )

    report = make_report() if tables is None else tables.of(diagnosed, make_report)
    if strict_inputs:
        _require_intact(report)
    return report


class Events:
    """The events of the inputs as DataFrames (columns: docs/tables.md).

    Without a given session, flowdiag's own Spark serves the frames until `close` or the end of the process. So
    use this in a `with` block.

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
        """Store the frames of each engine; only `read` calls this."""
        self.inputs: Final = tuple(source.name for source in sources if source.kind != "not-read")
        """Names of the inputs, as in column `input`."""
        self.warnings: Final = tuple(warnings)
        """Sentences about missing and unread inputs."""
        self._parts = parts
        self._stack = stack

    @cached_property
    def events(self) -> DataFrame:
        """Table `events`: every recognized record except metric samples."""
        frame = self._parts[0][0]
        for other, _ in self._parts[1:]:
            frame = frame.unionByName(other)
        return frame

    @cached_property
    def metrics(self) -> DataFrame:
        """Table `metrics`: Flink metrics, one row per series and minute."""
        found = next((metrics for _, metrics in self._parts if metrics is not None), None)
        if found is not None:
            return found
        from flowdiag.analyses.engine.views import METRICS
        from flowdiag.analyses.model.columns import schema_of
        from flowdiag.parsers.on_spark.frame import spark_schema

        empty = schema_of(METRICS)
        return self.events.sparkSession.createDataFrame([], schema=spark_schema(empty))

    def of(self, *kinds: str) -> DataFrame:
        """Return the events of some kinds, named as in column `event`.

        Raises:
            FlowdiagError: unknown kind.
        """
        for kind in kinds:
            if kind not in tuple(Event):
                raise FlowdiagError(f"there is no event '{kind}'", hint=nearest(kind, Event))
        return self.events.where(self.events["event"].isin(*map(str, kinds)))

    @property
    def checkpoints(self) -> DataFrame:
        """Checkpoint events of JobManager, TaskManagers and REST."""
        return self.of(*_CHECKPOINTS)

    @property
    def tasks(self) -> DataFrame:
        """Deployments and state transitions of tasks."""
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
        """Stop flowdiag's own Spark; a given session keeps running."""
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
        """Close, even after an exception."""
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
    """Return all events of the inputs, with settled clocks, for your own analyses.

    Secrets are not masked.

    Args:
        paths: the inputs.
        spark: your session (default: the active session, otherwise one of flowdiag's own).
        tz: time zone of the logs, if it cannot be inferred: Asia/Shanghai, +08:00.
        metrics: names of Flink metrics to read (default: all known ones).
        strict_inputs: fail if any input is missing or unreadable.
        progress: receives the name of each stage.

    Raises:
        InputError: no input is readable.
        FlowdiagError: an argument is invalid, or Spark is not available; the message contains a remedy.
    """
    from flowdiag.analyses.diagnosis import sources_for_engine
    from flowdiag.analyses.engine.views import event_table, metric_table
    from flowdiag.analyses.report.fitting import engines_of

    report_stage, zone = progress or _quiet, zone_name(tz)
    report_stage("checking the inputs")
    discovery = find(_path_names(paths), strict=strict_inputs)
    sources, engines = engines_of(discovery.sources)
    stack = ExitStack()
    try:
        user_session = _user_session(spark)
        session, resources = stack.enter_context(_spark(user_session, discovery, keep=True))
        move = _move_to_session(user_session)
        parts: list[tuple[DataFrame, DataFrame | None]] = []
        for engine in sorted(engines - {PODS}):
            mine = sources_for_engine(engine, sources)
            if engine == "spark":
                from flowdiag.analyses.rate.owned import owned_events

                owned = owned_events(
                    mine, session, resources=resources, tz=zone, progress=report_stage
                )
                parts.append((move(event_table(owned.events, sources, engine)), None))
                continue
            from flowdiag.analyses.flink.settled import settled_events

            names = None if metrics is None else frozenset(metrics)
            settled = settled_events(
                mine, session, resources=resources, tz=zone, progress=report_stage, metrics=names
            )
            rows = move(event_table(settled.events, sources, engine))
            parts.append((rows, move(metric_table(settled.metrics(), sources))))
        resources.tune(None)  # the size of later queries is unknown
    except BaseException:
        stack.close()
        raise
    not_read = (f"{s.name}: {s.reason}" for s in sources if s.kind == "not-read" and s.reason)
    remarks = map(str, (*discovery.errors, *discovery.warnings))
    return Events(parts, sources, (*remarks, *not_read), stack)


def rules() -> tuple[Rule, ...]:
    """Return the rules of all topics, including the rules of plug-ins."""
    return all_rules()


def load(path: str | os.PathLike[str]) -> Report:
    """Load a report saved by `--format json` or `Report.to_json`.

    Raises:
        InputError: the file cannot be read.
        FlowdiagError: the file is not a report of a supported version.
    """
    try:
        document = Path(path).read_bytes()
    except OSError as error:
        raise InputError(f"cannot read '{path}': {error.strerror or error}") from None
    return report_in(document, os.fspath(path))


def register(spark: SparkSession) -> None:
    """Register the data source for `spark.read.format("flowdiag").load(path)` (docs/library.md).

    Raises:
        FlowdiagError: PySpark is older than 4.0, or its Python processes cannot import flowdiag.
    """
    try:
        from flowdiag.parsers.on_spark.data_source import FlowdiagDataSource

        source = spark.dataSource
    except (ImportError, AttributeError) as error:
        raise FlowdiagError(
            "this PySpark does not support Python data sources", hint="use PySpark 4.0 or later"
        ) from error
    from flowdiag.cli.spark.borrowed import check, check_python

    check(spark)
    check_python(spark)
    source.register(FlowdiagDataSource)


# -- arguments -----------------------------------------------------------------------------------------


def _quiet(stage: str) -> None:
    """Discard progress messages."""


def _path_names(paths: Paths) -> list[str]:
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
        raise FlowdiagError("no topic given", hint=f"available topics: {', '.join(ENGINES)}")
    return tuple(name for name in ENGINES if name in names)


def _moment(given: Time | None) -> Moment | None:
    if given is None:
        return None
    return parse_moment(given.isoformat() if isinstance(given, datetime) else given)


def _split_rules(given: str | Iterable[str]) -> tuple[str, ...]:
    return tuple(given.split(",")) if isinstance(given, str) else tuple(given)


def _tables(folder: str | os.PathLike[str] | None, options: Options) -> DataDir | None:
    if folder is None:
        return None
    from flowdiag.analyses.report.data_dir import DataDir

    if options.privacy.redact:
        raise FlowdiagError(
            "data_dir and redact cannot be combined: tables contain the original names"
        )
    return DataDir(os.fspath(folder), excerpts=options.privacy.excerpts)


def _require_intact(report: Report) -> None:
    """Raise an `InputError` about the first damaged input."""
    damaged = next((each for each in report.inputs if each.error), None)
    if damaged is not None:
        raise InputError(f"{damaged.source}: {damaged.error}", hint="strict_inputs is set")


def _positive(rows: int) -> int:
    if rows < 1:
        raise FlowdiagError(f"max_rows is {rows}", hint="write 1 or more")
    return rows


def _inputs(
    paths: Sequence[str], selected: tuple[str, ...] | None, *, strict: bool
) -> tuple[Discovery, tuple[str, ...]]:
    """Find the inputs, and the topics to diagnose."""
    from flowdiag.parsers.discover import Discovery

    if not paths:
        if selected == ("memory",):  # can calculate from options alone
            return Discovery(sources=(), warnings=(), errors=()), selected
        raise InputError("no input is given", hint="name a file, a folder, a glob or a URL")
    command = selected[0] if selected is not None and len(selected) == 1 else EVERYTHING
    discovery, engines = inputs_of(command, paths, strict=strict)
    return discovery, selected or names_of(EVERYTHING, engines)


# -- Spark ---------------------------------------------------------------------------------------------


def _user_session(given: SparkSession | None) -> SparkSession | None:
    """Return the given session or, failing that, the active session of the process."""
    from flowdiag.cli.spark.borrowed import running

    return given if given is not None else running()


@contextmanager
def _spark(
    user_session: SparkSession | None, discovery: Discovery, *, keep: bool = False
) -> Iterator[tuple[Callable[[], SparkSession], Resources]]:
    """Yield the session and the reading resources: the user's, or our own for this block.

    Args:
        user_session: the user's session, if there is one.
        discovery: the inputs, which the executors must be able to read.
        keep: keep cached data, because frames are used after the block.
    """
    from flowdiag.analyses.engine.frames import frames_released
    from flowdiag.cli.spark.borrowed import BorrowedSpark
    from flowdiag.cli.spark.resources import resources_for

    with ExitStack() as stack:
        spark: SparkStarter | BorrowedSpark
        if user_session is not None:
            spark = stack.enter_context(BorrowedSpark(user_session))
            if not keep:
                stack.enter_context(frames_released())
        else:
            from flowdiag.cli.spark.starter import SparkStarter

            spark = stack.enter_context(SparkStarter.begin())
        stack.enter_context(spark.explain_failures())
        yield _checked_session(spark, discovery), resources_for(spark)


def _checked_session(
    spark: SparkStarter | BorrowedSpark, discovery: Discovery
) -> Callable[[], SparkSession]:
    """Return the session function, which on a cluster first checks that the executors can parse."""
    if not spark.on_cluster:
        return spark.session
    from flowdiag.analyses.engine import reading
    from flowdiag.cli.spark.borrowed import BorrowedSpark
    from flowdiag.cli.spark.cluster import session_after_checks

    def session() -> SparkSession:
        if isinstance(spark, BorrowedSpark) and (
            reading.cost(discovery.sources) > reading.DRIVER_BYTES
        ):
            spark.send_parsers()
        return spark.session()

    return session_after_checks(session, (), discovery)


def _move_to_session(user_session: SparkSession | None) -> Callable[[DataFrame], DataFrame]:
    """Return a function that moves frames to the user's session, so that its views and settings apply."""

    def moved(frame: DataFrame) -> DataFrame:
        from pyspark.sql import DataFrame

        session: Any = user_session
        if session is None or frame.sparkSession is session:
            return frame
        plan = frame._jdf.queryExecution().analyzed()
        rows = session._jvm.org.apache.spark.sql.classic.Dataset.ofRows
        return DataFrame(rows(session._jsparkSession, plan), session)

    return moved


def _fail_without_session() -> Any:
    raise AssertionError("Spark is not needed for these inputs")
