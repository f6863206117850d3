"""Reads thread dumps and profiles in every format, and determines what each thread is doing.

Start with `dumps` and `profiles`. `activities` determines what a thread is doing from the frame patterns in
`formats/stacks.toml`.
"""
