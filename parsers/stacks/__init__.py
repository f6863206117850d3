"""Thread dumps and profiles: reading them in every format, and what each thread is doing.

Start with `dumps` and `profiles`. `activities` names what a thread does, from the frame patterns in `formats/stacks.toml`.
"""
