"""Facts about Flink and Spark that rules share: causes and remedies, options and their types, relations.

Nothing here reads an input. Wording lives in the `.toml` files, so that texts can be edited without touching logic.

| start with | it has |
|---|---|
| `causes` | each cause, its explanation and its remedies, from `causes/*.toml` |
| `conditions` | when a remedy fits a job |
| `option_types` | how the engines read the values of options |
| `relations` | which findings explain which others |
"""
