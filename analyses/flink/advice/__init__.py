"""Advice on failures: from the exception's text, by memory pool and process, and for a failure without a cause.

It uses the helpers of the rules, and `failures` beneath it does not.
"""
