"""Derives the facts behind a finding. The rule then sets the severity and writes the text.

There is one module per question. Only the rules of this topic import this package, which itself imports the topic's
`helpers` but no rule.
"""
