"""Advice on failures, based on the exception text, the memory pool and the process.

This package builds on `failures`. Unlike `failures`, it may import the rule helpers.
"""
