"""Knowledge about Flink and Spark that rules share: causes and remedies, conditions, relations.

Nothing here reads an input. Wording lives in the `.toml` files, so that texts can be edited without touching logic.

| module | contents |
|---|---|
| `causes` | each cause, its explanation and its remedies, from the `.toml` files |
| `conditions` | when a remedy fits a job |
| `relations` | which findings explain which others |
"""
