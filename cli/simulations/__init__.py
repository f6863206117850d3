"""`flowdiag simulate`: builds the simulated workload from flags, reports and inputs."""

from typing import Final

RECORDED: Final = "as recorded"
"""Name of the outcome with the settings of the input."""

CHANGED: Final = "with your settings"
"""Name of the outcome with the settings of the command line."""
