"""The rules, listed by hand.

`ALL_RULES` is the one list, in the order of reports. Importing it must not import Spark.
"""

from __future__ import annotations

from typing import Any, Final

from flowdiag.analyses.rules.base import Rule

# The facts differ by command, hence Any: each command passes its own rules their own facts.
ALL_RULES: Final[tuple[Rule[Any], ...]] = ()
