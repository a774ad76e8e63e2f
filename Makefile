# Everything here works on a fresh machine with Python 3.11+ and nothing else:
# the first target that needs it creates .venv and installs the hashed lock.

PYTHON ?= $(shell for candidate in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$candidate -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$candidate && break; \
	done)
IN := .venv/bin
UV_COMPILE := uv pip compile pyproject.toml --quiet --universal --python-version 3.11 --generate-hashes \
	--no-emit-index-url --no-emit-find-links --custom-compile-command "make lock"
DEMO_EXTRAS := --extra console --extra duckdb --extra postgres --extra serve --extra spark

# Brokers, workers and Spark's tasks are processes of their own: each would compile everything anew.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup demo test lint format bench chaos lock dev python

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' Makefile

setup: dev ## Create .venv with everything for development

demo: python ## A shop with its database, log, pipelines, views and console, live (DEMO_SECONDS=60 ends it)
	@$(PYTHON) scripts/environment.py $@
	@$(IN)/python -m examples.shop

test: lint ## Lint, then all tests, in two processes (PYTEST="-k name" to choose some, in one)
	@$(IN)/python -m pytest $(or $(PYTEST),-n 2 --dist worksteal)

lint: dev ## Ruff, formatting, strict types, import contract
	@$(IN)/ruff check .
	@$(IN)/ruff format --check .
	@$(IN)/mypy
	@$(IN)/lint-imports

format: dev ## Let Ruff fix and format what it can
	@$(IN)/ruff check --fix .
	@$(IN)/ruff format .

bench: dev ## One benchmark: make bench NAME=broker
	@test -n "$(NAME)" || { echo "usage: make bench NAME=...; one of:" $(basename $(notdir $(shell grep -l __main__ benchmarks/*.py))) >&2; exit 2; }
	@$(IN)/python -m benchmarks.$(NAME)

chaos: dev ## Clients under faults, and a checker (CHAOS_SECONDS=60, SEED=..., CHAOS="--flush os" for more)
	@$(IN)/python -m tests.chaos --seconds $(or $(CHAOS_SECONDS),60) $(if $(SEED),--seed $(SEED)) $(CHAOS)

lock: ## Resolve the lock files anew (needs uv)
	@command -v uv >/dev/null || { echo "make lock needs uv: pip install uv" >&2; exit 1; }
	@$(UV_COMPILE) --group build --upgrade --output-file requirements/runtime.lock
	@$(UV_COMPILE) --group build --group dev --extra all --constraint requirements/runtime.lock --upgrade --output-file requirements/dev.lock
	@$(UV_COMPILE) --group build --group demo $(DEMO_EXTRAS) --constraint requirements/dev.lock --upgrade --output-file requirements/demo.lock

dev: python
	@$(PYTHON) scripts/environment.py $@

python:
	@test -n "$(PYTHON)" || { echo "Headrace needs Python 3.11 or newer, and none is on the PATH. Install one, or: make $(MAKECMDGOALS) PYTHON=/path/to/python3" >&2; exit 1; }
