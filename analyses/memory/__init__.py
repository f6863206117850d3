"""`flowdiag memory`: the memory and the network buffers of a Flink process.

Start with `topic.Memory`. `model` calculates the pools of a process, `measure` collects what the logs print, `assemble`
compares both, and `rules` judge the result. `advice` proposes options that the model has checked. This package imports
no other topic.
"""
