"""What is wrong and who did it: measurements (Spark), judgements (Python), models of the field.

Imports `flowdiag.parsers`; is imported by `flowdiag.cli`.
"""
