"""Parses the JSON that a JobManager logs at DEBUG when a checkpoint ends.

The log line is `CheckpointStatistics (for jobID=…, checkpointId=…) dump = {json} ` (1.18 and later, loggers
`CheckpointStatsTracker` and `DefaultCheckpointStatsTracker`). The JSON has the shape of the
REST response for one checkpoint, with every vertex.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flowdiag.parsers.flink.rest_rows import Context, checkpoint_rows
from flowdiag.parsers.flink.rest_shapes import Ids
from flowdiag.parsers.json_values import decode_json


def parse_dump(
    json_text: str | bytes, job_id: str | None = None, checkpoint: int | None = None
) -> list[dict[str, Any]]:
    """Convert a dump to a `checkpoint_status` row and a `checkpoint_vertex` row per vertex.

    Args:
        json_text: the text after `dump = `, with or without whitespace around it.
        job_id, checkpoint: values from the text before it.

    Returns:
        Rows without `source`, `offset` and the columns of the record's header. Their templates are
        `dump-checkpoint` and `dump-checkpoint-vertex`, and fields.origin is `dump`. Empty for other text, such as
        truncated lines.
    """
    text = json_text.encode("utf-8", "replace") if isinstance(json_text, str) else json_text
    try:
        body = decode_json(text.strip())
    except ValueError:
        return []
    if not isinstance(body, Mapping) or "trigger_timestamp" not in body:
        return []
    context = Context(origin="dump", ids=Ids(job_id=job_id, checkpoint=checkpoint))
    return list(checkpoint_rows(body, context, detail="details"))
