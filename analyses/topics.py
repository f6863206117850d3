"""All rules of all commands, for documents and settings. Importing it must not import Spark."""

from __future__ import annotations

from typing import Final

from flowdiag.analyses.checkpoints.rules import CHECKPOINT_RULES
from flowdiag.analyses.memory.rules import MEMORY_RULES
from flowdiag.analyses.queues.rules import QUEUE_RULES
from flowdiag.analyses.rate.rules import RATE_RULES
from flowdiag.analyses.startup.rules import STARTUP_RULES

ALL_RULES: Final = CHECKPOINT_RULES + RATE_RULES + QUEUE_RULES + MEMORY_RULES + STARTUP_RULES
