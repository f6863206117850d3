"""Commands, settings, renderers, exit codes and Spark startup: the only layer that prints or exits.

Start with `app` (the commands) or `diagnosing.run` (a diagnosis from the command line to the exit code). This layer may
import everything below; nothing below imports it.
"""
