"""Options, settings and help: how a command line becomes validated settings.

`settings` merges flags, `FLOWDIAG_*` variables, `flowdiag.toml` and defaults; `shared` declares the options that
commands have in common; `help` lays out their help. Nothing here runs a diagnosis or starts Spark.
"""
