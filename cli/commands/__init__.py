"""The commands, one file each: options and help, and a call of the code that does the work.

Start with `diagnose`. Heavy imports stay within functions, so that help and completion are fast.
"""
