"""The recordings of real clusters and the truth that was written beside them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

RECORDINGS = Path(__file__).parents[1] / "fixtures" / "recordings" / "flink"


@dataclass(frozen=True)
class Recording:
    """One run of a real cluster.

    Args:
        folder: holds `logs`, `rest`, `archive` and, outside of them, `truth.json`.
        truth: what the job itself and `grep` say (see fixtures/README.md).
    """

    folder: Path
    truth: dict[str, Any]

    @property
    def name(self) -> str:
        """Version and scenario, as in `1.20.5/hot-key`."""
        return str(self.folder.relative_to(RECORDINGS))

    @property
    def jobs(self) -> list[dict[str, Any]]:
        """The truth per job; most recordings have one."""
        if "jobs" in self.truth:
            return list(self.truth["jobs"])
        return [self.truth]

    @property
    def log_files(self) -> list[Path]:
        """Every log, the JobManager's first."""
        return sorted(
            (self.folder / "logs").iterdir(), key=lambda p: ("jobmanager" not in p.name, p)
        )


def recordings() -> list[Recording]:
    """All of them, ordered by name."""
    return [
        Recording(folder=path.parent, truth=json.loads(path.read_text()))
        for path in sorted(RECORDINGS.glob("*/*/truth.json"))
    ]
