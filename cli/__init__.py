"""Commands, settings, renderers, exit codes, starting Spark: the only layer that prints or exits."""
