"""Filter and extract the late acknowledgements of a folder of logs with DuckDB."""

import sys

import duckdb

QUERY = """
SELECT regexp_extract(line, 'attempt (\\d+) from task (\\S+) of job (\\S+) at (\\S+)',
                      ['checkpoint', 'attempt', 'job', 'taskmanager']) AS late
FROM read_csv(?, columns = {'line': 'VARCHAR'}, delim = '\\x01', quote = '', escape = '',
              header = false, auto_detect = false, strict_mode = false, max_line_size = 16000000,
              null_padding = true, ignore_errors = true)
WHERE contains(line, 'Received late message for now expired checkpoint')
"""

connection = duckdb.connect()
connection.execute("SET threads = " + (sys.argv[2] if len(sys.argv) > 2 else "2"))
print(len(connection.execute(QUERY, [sys.argv[1] + "/*.log"]).fetchall()))
