"""The Flink job: facts and helpers that the topics about Flink share, from settled clocks to the culprit and its cause.

Start with `topic.Flink.measure`: one scan and one collect for all topics. In the order of the data flow:

- `settled`: parses the inputs and settles their writers and clocks, with `clocks`
- `lifecycle` and `sql/`: measure checkpoints, attempts, incidents and loads with Spark
- `assemble`: turns the small rows into `job.ClusterFacts` and `job.JobFacts`, without Spark
- `failures`, `tasks`: derive crises, episodes, back pressure and placement from the facts
- `suspects`: names the culprit and the cause
- `rules`: rules that several topics share

A rule imports only `helpers`, which re-exports the functions of `judging` and `options`.
"""
