"""Detection: the facts behind the findings of a rule. The rule grades them and words the finding."""
