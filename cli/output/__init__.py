"""Where output goes and how saved reports come back: console streams, rendering to bytes, reading reports.

`console` owns stdout and stderr; `writing` picks the renderer; `saved` and `embedded` read reports back.
"""
