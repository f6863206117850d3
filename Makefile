# Everyday commands; `make` lists them. They need only a clone and Python 3.11.
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
test: .venv ## the tests of every change, as CI runs them
	.venv/bin/pytest

.PHONY: quick
quick: .venv ## tests that need neither Java nor a second process
	.venv/bin/pytest -m 'not full and not spark and not command and not application and not browser and not packaging'

.PHONY: lint
lint: .venv ## style, types, layers, wording
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy
	.venv/bin/mypy tests benchmarks
	.venv/bin/lint-imports --no-cache
	.venv/bin/python -m tests.english
	.venv/bin/codespell

.PHONY: docs
docs: .venv ## regenerate the generated documents
	.venv/bin/python -m flowdiag.cli.docs

.PHONY: site
site: .venv ## build the documentation site in build/site/pages/site
	bash .ci/site build/site

.PHONY: reports
reports: .venv ## write every report of every recording to reports/, to compare before and after
	.venv/bin/python -m benchmarks.reports keep reports

.PHONY: ci
ci: ## every check of CI, in a fresh environment
	bash .ci/run

.PHONY: lock
lock: ## update the locked versions to the newest that pyproject.toml allows
	bash .ci/supply lock

.PHONY: audit
audit: ## check locked versions for known vulnerabilities and licenses
	bash .ci/supply check

.PHONY: release
release: ## build wheel, source distribution, bill of materials and checksums in dist/
	bash .ci/supply release

.PHONY: full
full: .venv ## hours of checks: every combination of files, live clusters, oldest dependencies
	bash .ci/full
