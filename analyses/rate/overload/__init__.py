"""Findings of RT101: batches and triggers that fall behind.

`batches` covers DStreams, `queries` structured streaming. The rule `falling_behind` imports this package; nothing else does.
"""
