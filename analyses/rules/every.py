"""All rules of all commands, for documents and settings. Importing it must not import Spark."""

from __future__ import annotations

from typing import Final

from flowdiag.analyses.rules.checkpoints import CHECKPOINT_RULES
from flowdiag.analyses.rules.memory import MEMORY_RULES
from flowdiag.analyses.rules.queues import QUEUE_RULES
from flowdiag.analyses.rules.rate import RATE_RULES
from flowdiag.analyses.rules.startup import STARTUP_RULES

ALL_RULES: Final = CHECKPOINT_RULES + RATE_RULES + QUEUE_RULES + MEMORY_RULES + STARTUP_RULES
