"""Derives the facts behind a finding. The rule then sets the severity and writes the text.

One module per question. Only the rules of this topic import this package; it imports the topic's `helpers`, and no rule.
"""
