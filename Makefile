# The README's commands. Each prepares what it needs first: see scripts/bootstrap.py.
PYTHON ?= $(shell for p in python3.12 python3.11 python3.13 python3; do command -v $$p >/dev/null 2>&1 && $$p -c 'import sys, venv, ensurepip; sys.exit(not (3,11) <= sys.version_info[:2] <= (3,13))' 2>/dev/null && { echo $$p; break; }; done)
KAFKA_VERSION ?= 4.2.1
PRODUCER ?= legacy
MINUTES ?= 10
HISTORIES ?= 200000
SEED ?=
WORKERS ?= 3
BIN := .venv/bin
ARGS ?=
HAS_PYTHON = [ -n "$(PYTHON)" ] || { echo "[setup] Python 3.11, 3.12 or 3.13 (with venv) not found on PATH; name one with PYTHON=/path/to/python" >&2; exit 2; }
SITE := NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

.DEFAULT_GOAL := help
.PHONY: help packages setup demo test test-all unit simulate mutation soak lint release bench lock screenshots reference site dashboards format clean

help:  ## Show this list
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-9s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

packages:  ## Virtual environment and packages, enough for lint
	@$(HAS_PYTHON)
	@$(PYTHON) scripts/bootstrap.py --packages-only

setup:  ## Virtual environment, packages, Delta's and Kafka's jars
	@$(HAS_PYTHON)
	@$(PYTHON) scripts/bootstrap.py --kafka-version $(KAFKA_VERSION)

demo: setup  ## Three real brokers, five real divergences, found live
	@$(BIN)/parallax demo --kafka-version $(KAFKA_VERSION) --producer $(PRODUCER) $(ARGS)

test: setup  ## Unit tests, simulation, end to end on real brokers, by WORKERS (3), two of which play
	@$(BIN)/python -m pytest -n $(WORKERS) $(ARGS)

test-all: setup  ## These, and the long proofs that belong before a release; properties are tried on new examples
	@$(BIN)/python -m pytest -m alone --hypothesis-profile=searching $(ARGS)
	@$(BIN)/python -m pytest -n $(WORKERS) -m "not alone" --hypothesis-profile=searching $(ARGS)

unit: setup  ## The tests that need no broker
	@$(BIN)/python -m pytest tests/unit $(ARGS)

simulate: setup  ## Generated histories, HISTORIES (200000) of them from SEED (0) on; hours rather than minutes
	@$(BIN)/python -m tests.simulation --histories $(HISTORIES) --jobs 2 $(if $(SEED),--seed $(SEED)) $(ARGS)

mutation: setup  ## Mutation score of compare/, findings/, evidence/ and judge/: how many changes of what judges the tests notice (docs/contribute/proven.md)
	@$(BIN)/python -m pip install -q --disable-pip-version-check --target build/mutation -r tests/mutation/requirements.txt
	@PYTHONPATH=build/mutation $(BIN)/python -m tests.mutation $(ARGS)

soak: setup  ## A cluster under traffic and blows, watched for MINUTES (10); SEED repeats a plan
	@$(BIN)/python -m tests.soak --minutes $(MINUTES) $(if $(SEED),--seed $(SEED)) --kafka-version $(KAFKA_VERSION) $(ARGS)

lint: packages  ## ruff, mypy --strict, import-linter, generated documents, prose of pages and docstrings, the site, pip-audit
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m dashboards --check
	$(BIN)/python scripts/reference.py --check
	$(BIN)/python scripts/prose.py
	$(SITE)
	$(BIN)/python scripts/audit_packages.py

release: lint test-all  ## The release checklist: these, and a wheel that is the same when built again, SBOM, third-party notices
	@$(BIN)/python scripts/publish.py $(ARGS)

bench: setup  ## Benchmarks, each with its peer in the same run
	@$(BIN)/python -m benchmarks $(ARGS)

format:  ## Format the code
	@$(BIN)/ruff format . && $(BIN)/ruff check --fix .

screenshots: setup  ## Pictures of the status page for the documents, by the demo and Chromium
	@$(BIN)/python scripts/screenshots.py

reference:  ## Write docs/reference/ and conf/parallax.yaml again
	@$(BIN)/python scripts/reference.py

site: setup  ## The documents as a site, in build/site
	@$(SITE)

dashboards:  ## Write the Grafana dashboards again
	@$(BIN)/python -m dashboards

lock:  ## Pin the dependencies of pyproject.toml again
	@$(BIN)/python -m pip install -q uv
	@$(BIN)/uv pip compile -q --universal --python-version 3.11 --generate-hashes --group dev --no-annotate --no-header -o requirements.lock pyproject.toml

clean:  ## Remove the virtual environment and caches of the project
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis build
