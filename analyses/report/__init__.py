"""The report: its types, how it is built, cited, redacted, saved and compared with a baseline.

Start with `build.report_of`, which turns facts and outcomes into `wire.Report`, the document that all commands write.
`evidence` quotes log lines, `redact` and `pseudonyms` hide names, `tables` declares the columns of the data, and
`suggestions` lists what to collect next. Rules never import this package.
"""
