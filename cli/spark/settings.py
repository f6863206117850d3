"""What is set of Spark: for a session of our own, for one on a cluster, for so many rows."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from flowdiag.cli.spark.tricks import Trick, used

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
    # Recording the call site of every column costs a round trip to the JVM each.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    # Python puts the working directory on the path of Spark's daemon otherwise: a file named
    # regex.py there would be run instead of the package.
    "spark.executorEnv.PYTHONSAFEPATH": "1",
}

# Rules that change nothing about a small diagnosis but the time of planning it: a rule that finds
# nothing still walks through every plan, and its first walks are interpreted.
_UNUSED_RULES: Final = (
    # It evaluates whole plans over the events while optimising, on one core and without need: a
    # quarter of the JVM's work.
    "ConvertToLocalRelation",
    # What our queries do not contain.
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
    # What saves work for each row, of which there are few.
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
"""Up to here no code is generated: with a few thousand rows that only costs (benchmarks/README.md)."""
MANY_ROWS: Final = 300_000
"""Up to here expressions are compiled: fastest of three ways with 97 000 rows (benchmarks/README.md)."""

SMALL: Final[Mapping[str, str]] = {
    "spark.sql.shuffle.partitions": "1",
    # Generating and compiling code costs more than it saves on a few thousand rows.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    # Without code it keeps a cache for each row.
    "spark.sql.subexpressionElimination.enabled": "false",
    # Adaptive plans run every exchange as a job of its own.
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.optimizer.excludedRules": ",".join(
        f"org.apache.spark.sql.catalyst.optimizer.{rule}" for rule in _UNUSED_RULES
    ),
}

_OF_TRICKS: Final[Mapping[str, Trick]] = {
    "spark.sql.codegen.wholeStage": Trick.INTERPRETED,
    "spark.sql.codegen.factoryMode": Trick.INTERPRETED,
    "spark.sql.subexpressionElimination.enabled": Trick.INTERPRETED,
    "spark.sql.adaptive.enabled": Trick.FIXED_PLANS,
    "spark.sql.optimizer.excludedRules": Trick.FEWER_RULES,
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


def folders(folder: Path) -> dict[str, str]:
    """Settings that name folders, all in a private one."""
    return {
        "spark.local.dir": str(folder),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
    }


def by_size(rows: int | None, cores: int) -> Mapping[str, str | None]:
    """What depends on the size of what is queried next; None for what is not set.

    Args:
        rows: how many there are; None where nobody knows.
        cores: tasks at once.
    """
    if rows is None or rows > MANY_ROWS:
        shuffled = {"spark.sql.shuffle.partitions": str(max(2, cores * 3 // 2))}
        return {**dict.fromkeys(SMALL), **shuffled}
    small = dict(SMALL)
    if rows > FEW_ROWS:
        # Expressions are compiled, whole stages are not: that takes longer than it saves.
        small["spark.sql.codegen.factoryMode"] = "FALLBACK"
    off = (key for key, trick in _OF_TRICKS.items() if not used(trick))
    return {**small, **dict.fromkeys(off)}
