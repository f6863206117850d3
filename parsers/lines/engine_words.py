"""Words that show which engine a text without log lines of its own is about."""

from __future__ import annotations

import re
from typing import Final


def engine_in(text: str) -> str | None:
    """Return the engine that a text without its own log lines is about, by its words; None if undecided.

    >>> engine_in("Cannot execute: spark-submit job.py"), engine_in("kubectl logs flink-taskmanager-1-1"), engine_in("a")
    ('spark', 'flink', None)
    >>> engine_in("lost executor 3"), engine_in("the executor service is shut down"), engine_in("a.b.executor.Pool.run")
    ('spark', None, None)
    """
    spark, flink = len(_OF_SPARK.findall(text)), len(_OF_FLINK.findall(text))
    if spark == flink:
        return None
    return "spark" if spark > flink else "flink"


_OF_SPARK: Final = re.compile(
    r"(?i:py4j)|(?<![\w./-])(?<![Tt]ask )executors?\b(?![.-]\w| service| pool| thread)|pyspark|StreamingQuery|\[STREAM_FAILED\]|Structured Streaming|\(TID \d|Job aborted due to stage failure"
    r"|\b[Ss]park\b|\bSpark[A-Z]\w+|\bspark[._-][a-z]|\bDStream|ExecutorPods|\bawsglue|[Gg]lueContext|third-party-projects"
    r"|[Dd]atabricks|Executor self-exiting|(?m:^\d\d/\d\d/\d\d \d\d:\d\d:\d\d [A-Z]{4,5} [A-Z]\w+: )|\bdbutils|\b[Ll]ivy\b|ExecutorLostFailure|\bsc\.\w+\("
)
_OF_FLINK: Final = re.compile(
    r"pyflink|\b[Ff]link\b|\bFlink[A-Z]\w+|\bflink[.-][a-z]|\b(?:TaskManager|JobManager|TaskExecutor|JobMaster)\w*"
    r"|\b(?:task|job)managers?\b|StreamExecutionEnvironment|[Ss]avepoint|KeyedProcessFunction|[Vv]erverica"
)
