"""The listener that users attach to their own applications, and how it is handed out.

`flowdiag_listener.py` and `FlowdiagListener.java` run in Spark drivers where nothing of flowdiag is
installed: they import nothing from here, and nothing here imports them.
"""
