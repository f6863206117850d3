"""`flowdiag memory`: memory pools and network buffers of Flink processes.

Start with `topic.Memory`. `model` calculates the pools of a process, `measure` collects sizes from logs, `assemble`
compares both, and `rules` judge the result. `advice` proposes options that the model has checked. This package
imports no other topic.
"""
