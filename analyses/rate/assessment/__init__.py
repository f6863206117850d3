"""Decides how well batches and triggers keep up. The verdict is one word per stream, with the numbers behind it.

The verdict describes the current state. It uses medians and robust slopes (`stability`) over the last batches or
triggers, without the slow ones of a cold start. Rules and report read the same `StreamState`, so they cannot
contradict each other.
"""

from flowdiag.analyses.rate.assessment.assess import AssessedApplication, Assessment, assess
from flowdiag.analyses.rate.assessment.batches import late_window
from flowdiag.analyses.rate.assessment.state import PeriodicDelay, StreamState
from flowdiag.analyses.rate.assessment.triggers import late_triggers

__all__ = [
    "AssessedApplication",
    "Assessment",
    "PeriodicDelay",
    "StreamState",
    "assess",
    "late_triggers",
    "late_window",
]
