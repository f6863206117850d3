"""The rules, listed by hand.

`ALL_RULES` is the one list, in the order of reports. Importing it must not import Spark.
"""

from __future__ import annotations

from typing import Any, Final

from flowdiag.analyses.rules import (
    checkpoint_declined,
    checkpoint_expired,
    checkpoint_never_completes,
    growing_checkpoint,
    late_acknowledgement,
    slow_checkpoint,
)
from flowdiag.analyses.rules.base import Rule

# The facts differ by command, hence Any: each command passes its own rules their own facts.
ALL_RULES: Final[tuple[Rule[Any], ...]] = (
    checkpoint_expired.RULE,
    late_acknowledgement.RULE,
    checkpoint_declined.RULE,
    slow_checkpoint.RULE,
    growing_checkpoint.RULE,
    checkpoint_never_completes.RULE,
)
