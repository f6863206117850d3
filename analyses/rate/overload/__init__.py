"""Findings of RT101: batches and triggers that fall behind.

`batches` covers DStreams, and `queries` covers Structured Streaming. Only the rule `falling_behind` imports this
package.
"""
