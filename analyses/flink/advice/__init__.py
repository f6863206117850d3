"""Advice on failures: by the text of the exception, by memory pool and process, and for failures without a known cause.

May import the helpers of the rules, unlike `failures`, on which this package builds.
"""
