"""`flowdiag mcp`: tools for agents, over the Model Context Protocol on standard input and output.

`server` holds the tools, `session` the process that diagnoses for them (`worker`), `roots` says which files
anybody may ask about. The process that speaks the protocol imports nothing that diagnoses, so that it answers
at once and a diagnosis that takes too long can be ended.
"""
