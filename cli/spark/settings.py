"""Spark settings: for a local session, for a session on a cluster, and by number of rows."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from flowdiag.cli.spark.optimizations import Optimization, is_enabled

LOCAL: Final[Mapping[str, str]] = {
    "spark.app.name": "flowdiag",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.eventLog.enabled": "false",
    "spark.sql.catalogImplementation": "in-memory",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # Recording the call site of a column costs a round trip to the JVM, for each column.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    # Otherwise Python adds the working directory to the path of Spark's daemon, and a regex.py there
    # would replace the package.
    "spark.executorEnv.PYTHONSAFEPATH": "1",
}

# Optimizer rules that only cost planning time in a small diagnosis: a rule without a match still walks
# every plan, and its first walks are interpreted.
_UNUSED_RULES: Final = (
    # Evaluates whole plans over the events during optimization, unnecessarily and on one core. That is a
    # quarter of the JVM's work.
    "ConvertToLocalRelation",
    # These have no match in flowdiag's queries.
    "CombineConcats",
    "CombineTypedFilters",
    "CostBasedJoinReorder",
    "DecimalAggregates",
    "EliminateDistinct",
    "EliminateLimits",
    "EliminateMapObjects",
    "EliminateOffsets",
    "EliminateSerialization",
    "InferFiltersFromGenerate",
    "LikeSimplification",
    "LimitPushDown",
    "LimitPushDownThroughWindow",
    "ObjectSerializerPruning",
    "OptimizeCsvJsonExprs",
    "OptimizeOneRowPlan",
    "OptimizeRepartition",
    "OptimizeUpdateFields",
    "ReorderJoin",
    "RewriteNonCorrelatedExists",
    "SimplifyCaseConversionExpressions",
    "SimplifyDateTimeConversions",
    "TransposeWindow",
    # These save work per row, but there are only a few rows.
    "BooleanSimplification",
    "ConstantPropagation",
    "EliminateAggregateFilter",
    "EliminateOuterJoin",
    "FoldablePropagation",
    "InferFiltersFromConstraints",
    "NullDownPropagation",
    "NullPropagation",
    "OptimizeIn",
    "PropagateEmptyRelation",
    "PruneFilters",
    "PushFoldableIntoBranches",
    "RemoveDispensableExpressions",
    "ReorderAssociativeOperator",
    "ReplaceNullWithFalseInPredicate",
    "SimplifyBinaryComparison",
    "SimplifyCasts",
    "SimplifyConditionals",
    "UnwrapCastInBinaryComparison",
)

FEW_ROWS: Final = 20_000
"""Maximum number of rows for which code generation costs more than it saves (benchmarks/README.md)."""
MANY_ROWS: Final = 300_000
"""Maximum number of rows for which Spark compiles only expressions, the fastest of three ways with 97,000 rows
(benchmarks/README.md).
"""

SMALL: Final[Mapping[str, str]] = {
    "spark.sql.shuffle.partitions": "1",
    # Generating and compiling code costs more than it saves with a few thousand rows.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    # Without generated code, it keeps a cache for each row.
    "spark.sql.subexpressionElimination.enabled": "false",
    # Adaptive plans run every exchange as a separate job.
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.optimizer.excludedRules": ",".join(
        f"org.apache.spark.sql.catalyst.optimizer.{rule}" for rule in _UNUSED_RULES
    ),
}

_OPTIMIZATION_OF_SETTING: Final[Mapping[str, Optimization]] = {
    "spark.sql.codegen.wholeStage": Optimization.INTERPRETED,
    "spark.sql.codegen.factoryMode": Optimization.INTERPRETED,
    "spark.sql.subexpressionElimination.enabled": Optimization.INTERPRETED,
    "spark.sql.adaptive.enabled": Optimization.FIXED_PLANS,
    "spark.sql.optimizer.excludedRules": Optimization.FEWER_RULES,
}

CLUSTER: Final[Mapping[str, str]] = {
    key: LOCAL[key]
    for key in (
        "spark.app.name",
        "spark.ui.showConsoleProgress",
        "spark.sql.session.timeZone",
        "spark.python.sql.dataFrameDebugging.enabled",
        "spark.executorEnv.PYTHONSAFEPATH",
    )
}


_LOCAL_MASTER: Final = re.compile(r"local(?:\[.*\])?", re.IGNORECASE)


def is_remote(master: str | None) -> bool:
    """Return whether Spark's tasks run on other hosts.

    >>> is_remote("spark://head:7077"), is_remote("local[4]"), is_remote(None)
    (True, False, False)
    """
    return master is not None and _LOCAL_MASTER.fullmatch(master) is None


def folders(folder: Path) -> dict[str, str]:
    """Return the settings that name folders, all inside a private folder."""
    return {
        "spark.local.dir": str(folder),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
    }


def by_size(rows: int | None, cores: int) -> Mapping[str, str | None]:
    """Return the settings that depend on the number of rows. None means that a setting must be unset.

    Args:
        rows: the number of rows to query next; None if unknown.
        cores: the number of parallel tasks.
    """
    if rows is None or rows > MANY_ROWS:
        shuffled = {"spark.sql.shuffle.partitions": str(max(2, cores * 3 // 2))}
        return {**dict.fromkeys(SMALL), **shuffled}
    small = dict(SMALL)
    if rows > FEW_ROWS:
        # Compiling expressions pays off; compiling whole stages takes longer than it saves.
        small["spark.sql.codegen.factoryMode"] = "FALLBACK"
    disabled = (
        key
        for key, optimization in _OPTIMIZATION_OF_SETTING.items()
        if not is_enabled(optimization)
    )
    return {**small, **dict.fromkeys(disabled)}
