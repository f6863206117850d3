# Everyday commands; `make` lists them. Each works in a clone without anything but Python 3.11.
.DEFAULT_GOAL := help
PYTHON ?= python3
RECORDING ?= fixtures/recordings/flink/1.20.5/hot-key

.venv: pyproject.toml
	$(PYTHON) -m venv .venv
	.venv/bin/pip install -q -e '.[dev]'
	touch .venv

.PHONY: help
help: ## list the commands
	@awk -F':.*## ' '/^[a-z-]+:.*## / {printf "%-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: run
run: .venv ## diagnose a recording: make run RECORDING=...
	.venv/bin/flowdiag checkpoints $(RECORDING)

.PHONY: test
test: .venv ## all tests, as CI runs them
	.venv/bin/pytest

.PHONY: quick
quick: .venv ## what needs neither Java nor another process
	.venv/bin/pytest -m 'not full and not spark and not command and not application and not browser and not packaging'

.PHONY: lint
lint: .venv ## style, types, layers
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy
	.venv/bin/mypy tests benchmarks
	.venv/bin/lint-imports --no-cache

.PHONY: docs
docs: .venv ## make the generated documents anew
	.venv/bin/python -m flowdiag.cli.docs

.PHONY: reports
reports: .venv ## every report of every recording into reports/: for comparing before and after
	.venv/bin/python -m benchmarks.reports keep reports

.PHONY: ci
ci: ## everything that CI checks, in a fresh environment
	bash .ci/run

.PHONY: lock
lock: ## the versions that CI takes, made anew: the newest that pyproject.toml allows
	bash .ci/supply lock

.PHONY: audit
audit: ## known vulnerabilities and licences of what is locked
	bash .ci/supply check

.PHONY: release
release: ## wheel, source distribution, software bill of materials and their sums in dist/
	bash .ci/supply release

.PHONY: full
full: .venv ## what takes hours: every combination of files, live clusters, oldest dependencies
	bash .ci/full
