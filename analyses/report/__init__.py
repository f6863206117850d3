"""Builds, redacts and saves reports.

Start with `build.report_of`, which turns facts and outcomes into `contract.report.Report`, the document that all commands
write. `evidence` quotes log lines, `pseudonyms` hides names, `tables` declares the columns of the data, and
`suggestions` lists what to collect next. Rules never import this package.
"""
