# Everything starts from a bare Python 3.11+: `make` brings its own uv, and uv the rest.
.DEFAULT_GOAL := help
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c

PYTHON ?= $(firstword $(foreach p,python3.14 python3.13 python3.12 python3.11 python3,$(if $(shell $(p) -c 'import sys; sys.exit(not (3,11) <= sys.version_info < (3,15))' 2>/dev/null && echo yes),$(p))))
UV := .uv/bin/uv
BIN := .venv/bin
HOME_DIR := .cdc
PYTEST_ARGS ?=
# Containers often set this: each process would then compile each of thousands of modules again.
unexport PYTHONDONTWRITEBYTECODE
# Two stacks side by side take 8 GB; STACKS=1 is for less, and takes longer.
STACKS ?= 2
# Of `make soak`: which share of its modules; after so many seconds it begins no further test.
PART ?= 1/1
SECONDS ?= 3600
KILLS ?= 300
# Where the demo's shop is: postgres, or mariadb, which is installed when it is first asked for.
SOURCE ?= postgres
# Of Dagster's webserver.
PORT ?= 3000

# Of `make newest`.
NEWEST := $(addprefix cdc_assets_tests/,test_component.py orchestration/test_side_by_side.py orchestration/test_event_log.py)

.PHONY: help demo dev unit test lint type shape jars bench soak newest docs dist install stack-up stack-down clean

help:  ## this list
	@bold= plain=; if [ -t 1 ] && [ -z "$${NO_COLOR:-}" ]; then bold=$$'\033[1m' plain=$$'\033[0m'; fi; \
	grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/\1|\2/' \
	  | while IFS='|' read -r name text; do printf "  $$bold%-12s$$plain %s\n" "$$name" "$$text"; done

demo: install  ## start everything: a shop under load, replicated live; SOURCE=mariadb for MariaDB's
	@exec $(BIN)/cdc-assets demo --source $(SOURCE) --port $(PORT)

dev: install  ## Dagster at 127.0.0.1:3000 (PORT=3001 for another) with ./replication.yaml, against a stack that runs or not
	@! (exec 3<>/dev/tcp/127.0.0.1/$(PORT)) 2>/dev/null || { echo "port $(PORT) is taken: make dev PORT=3001, or another one that is free" >&2; exit 1; }
	@mkdir -p $(HOME_DIR)/dagster && cp dagster.yaml $(HOME_DIR)/dagster/
	@export SHOP_DSN="$${SHOP_DSN:-$$($(BIN)/cdc-assets stack dsn shop)}" \
	  CDC_ASSETS_WEBSERVER="$${CDC_ASSETS_WEBSERVER:-http://127.0.0.1:$(PORT)}" \
	  DAGSTER_HOME="$$PWD/$(HOME_DIR)/dagster" PATH="$$PWD/$(BIN):$$PATH"; \
	  exec dagster dev -h 127.0.0.1 -p $(PORT)

unit: .venv/.synced  ## the tests that start nothing: less than a minute
	$(BIN)/pytest -q -m unit -n logical --maxprocesses 4 --durations=10 $(PYTEST_ARGS)

test: install $(HOME_DIR)/.installed-optional  ## every test, on two stacks; STACKS=1 for one (PYTEST_ARGS='-k keys' for some)
	$(BIN)/pytest -n $(STACKS) --dist loadscope --no-loadscope-reorder --durations=40 $(PYTEST_ARGS)

lint: .venv/.synced  ## ruff, the import rules, and words that hide what a sentence is about
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/python -m cdc_assets_tests.words

type: .venv/.synced  ## pyright
	$(BIN)/pyright

shape:  ## the structure's figures beside their goals; LIST=1: what was counted
	@$(PYTHON) -m cdc_assets_tests.shape $(if $(LIST),--list)

jars: .venv/.synced $(HOME_DIR)/.installed-optional  ## the package's own Java, of its sources; needs a JDK
	$(BIN)/python -m cdc_assets_tests.jars

bench: install $(HOME_DIR)/.installed-optional  ## speed, on this machine: prints figures, fails on none
	$(BIN)/python -m cdc_assets_tests.bench

soak: install  ## generated cases, by thousands; STACK=1: what `make test` leaves out, oldest first (PART=3/8); HOURS=2: load
ifdef HOURS
	HOURS=$(HOURS) $(BIN)/python -m cdc_assets_tests.bench hours
else ifdef STACK
	$(BIN)/cdc-assets stack install mariadb registry spark-s3 rest-catalog nessie
	CDC_ASSETS_KILLS=$(KILLS) $(BIN)/python -m cdc_assets_tests.soak --part $(PART) --seconds $(SECONDS) $(PYTEST_ARGS)
else
	$(BIN)/python -m cdc_assets_tests.toy.soak 50000
	$(BIN)/python -m cdc_assets_tests.soak --properties --seconds $(SECONDS) $(PYTEST_ARGS)
endif

newest: $(UV)  ## what depends on Dagster's inside, with the newest Dagster, in an environment of its own
	@$(UV) venv -q --clear $(HOME_DIR)/newest
	@$(UV) pip install -q --upgrade --python $(HOME_DIR)/newest/bin/python --group dev -e . -e 'packages/devstack[demo]'
	@file=$$(mktemp); version=$$($(HOME_DIR)/newest/bin/python -c 'import dagster; print(dagster.__version__)'); \
	if $(HOME_DIR)/newest/bin/python -m pytest -q -p no:cacheprovider -m "unit or slow" $(NEWEST) >$$file 2>&1; \
	then echo "works with Dagster $$version"; else cat $$file; echo "does not work with Dagster $$version"; exit 1; fi

docs: $(UV)  ## the documentation's site in site/, with search; fails on a link that leads nowhere
	@$(UV) run -q --no-project --isolated --with-requirements <($(UV) export -q --frozen --only-group docs --no-hashes) zensical build --strict
	@$(PYTHON) -m cdc_assets_tests.links

dist: .venv/.synced  ## wheels and sdists in dist/, the same for the same commit
	rm -rf dist
	SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) $(UV) build --all-packages --out-dir dist
	$(BIN)/twine check --strict dist/*.whl dist/*.tar.gz

install: .venv/.synced $(HOME_DIR)/.installed  ## Python packages and JVM pieces; does nothing the second time

stack-up: install  ## start the local stack and leave it running
	$(BIN)/cdc-assets stack up

stack-down: .venv/.synced  ## stop it
	$(BIN)/cdc-assets stack down

clean: ## stop the stack and remove everything that was installed or written here
	@if [ -x $(BIN)/cdc-assets ]; then $(BIN)/cdc-assets stack down --force; fi
	rm -rf $(HOME_DIR) .venv .uv dist site .cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache

$(UV):
	@test -n "$(PYTHON)" || { echo "Python 3.11 to 3.14 is needed, and none was found on PATH: make PYTHON=/path/to/python3.12" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(not (3,11) <= sys.version_info < (3,15))' || { echo "Python 3.11 to 3.14 is needed, and $(PYTHON) is none" >&2; exit 1; }
	@echo "installing uv into .uv"
	@$(PYTHON) -m venv .uv
	@.uv/bin/pip install --quiet --disable-pip-version-check uv

.venv/.synced: uv.lock pyproject.toml $(wildcard packages/*/pyproject.toml) | $(UV)
	$(UV) sync --locked --all-extras --python .uv/bin/python
	@touch $@

$(HOME_DIR)/.installed-optional: .venv/.synced $(wildcard packages/devstack/cdc_assets_devstack/jvm/* cdc_assets/decode/jvm/*.xml)
	$(BIN)/cdc-assets stack install mariadb registry spark-s3 rest-catalog junit
	@touch $@

$(HOME_DIR)/.installed: .venv/.synced $(wildcard packages/devstack/cdc_assets_devstack/jvm/* cdc_assets/decode/jvm/*.xml)
	$(BIN)/cdc-assets stack install
	@touch $@
