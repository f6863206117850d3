"""Detection: the facts behind the findings of a rule. The rule grades them and words the finding.

One module per question. Only the rules of this topic import this package; it imports the topic's `helpers`, and no rule.
"""
