"""`flowdiag mcp`: tools for agents, over the Model Context Protocol on standard input and output.

`server` defines the tools, `session` runs the process that diagnoses (`worker`), `roots` limits the files that clients
may read. The server process imports no module that diagnoses: it answers at once, and can end a slow diagnosis.
"""
