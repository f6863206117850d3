"""Options and help.

`shared` declares the options that commands have in common, `configuration` prints the effective settings, and `help` lays
out the help. Nothing here runs a diagnosis or starts Spark.
"""
