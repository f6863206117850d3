"""The rules: one file a rule, in the folder of its command; that folder lists them in their order."""
