"""`flowdiag simulate`: builds the simulated workload from flags, reports and inputs.

`credits`, `pid` and `autoscaler` read the inputs and run the models of `flowdiag.analyses`. Each has a
`_page` module that renders the outcome.
"""

from typing import Final

RECORDED: Final = "as recorded"
"""Name of the outcome with the settings of the input."""

CHANGED: Final = "with your settings"
"""Name of the outcome with the settings of the command line."""
