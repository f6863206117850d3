"""Facts and helpers shared by the Flink topics, from resolving clocks to naming the culprit and the cause.

Start with `topic.Flink.measure`, which scans and collects once for all topics. The modules follow the data flow:

- `settled`: parses the inputs and determines the process and the clock of each file, with `clocks`
- `lifecycle` and `sql/`: measure checkpoints, attempts, incidents and loads with Spark
- `assemble`: turns the small rows into `job.ClusterFacts` and `job.JobFacts`, without Spark
- `failures`, `tasks`: derive crises, episodes, back pressure and placement from the facts
- `suspects`: names the culprit and the cause
- `rules`: rules that several topics share

Rules import only `helpers`, which re-exports the functions of `judging` and `options`.
"""
