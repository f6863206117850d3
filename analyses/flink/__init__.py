"""The Flink job: what the topics about Flink share, from settled clocks to the cause engine.

Start with `topic.Flink.measure`: one scan and one collect for all topics. The path of a record:

- `settled`: parses the inputs and settles their writers and clocks, with `clocks`
- `lifecycle` and `sql/`: measure checkpoints, attempts, incidents and loads with Spark
- `assemble`: turns the small rows into `job.ClusterFacts` and `job.JobFacts`, without Spark
- `failures`, `tasks`: derive crises, episodes, back pressure and placement from the facts
- `suspects`: names the culprit and the cause
- `rules`: rules that several topics share

A rule imports `helpers` alone; `judging` and `options` are behind it.
"""
