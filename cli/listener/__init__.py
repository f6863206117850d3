"""The listener that users attach to their own applications, and its export.

`flowdiag_listener.py` and `FlowdiagListener.java` run in Spark drivers without flowdiag: they import nothing
from this package, and nothing in this package imports them.
"""
