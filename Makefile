# Everything starts from a bare Python 3.11+: `make` brings its own uv, and uv the rest.
.DEFAULT_GOAL := help
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c

PYTHON ?= $(firstword $(foreach p,python3.13 python3.12 python3.11 python3,$(if $(shell $(p) -c 'import sys; sys.exit(not (3,11) <= sys.version_info < (3,14))' 2>/dev/null && echo yes),$(p))))
UV := .uv/bin/uv
BIN := .venv/bin
HOME_DIR := .cdc
PYTEST_ARGS ?=
# Two stacks side by side take 8 GB; STACKS=1 is for less, and takes longer.
STACKS ?= 2
KILLS ?= 300
SECONDS_AT_MOST ?= 7200
# Where the demo's shop is: postgres, or mariadb, which is installed when it is first asked for.
SOURCE ?= postgres
# Of Dagster's webserver.
PORT ?= 3000

.PHONY: help demo dev unit test lint type jars bench soak install stack-up stack-down clean

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

unit: .venv/.synced  ## the tests that start nothing: seconds
	$(BIN)/pytest -q -m unit -n logical --maxprocesses 4 $(PYTEST_ARGS)

test: install $(HOME_DIR)/.installed-optional  ## every test, on two stacks; STACKS=1 for one (PYTEST_ARGS='-k keys' for some)
	$(BIN)/pytest -n $(STACKS) --dist loadscope --no-loadscope-reorder $(PYTEST_ARGS)

lint: .venv/.synced  ## ruff and the import rules
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

type: .venv/.synced  ## pyright
	$(BIN)/pyright

jars: .venv/.synced  ## the package's own Java, of its sources; needs a JDK
	$(BIN)/python -m cdc_assets_tests.jars

bench: install $(HOME_DIR)/.installed-optional  ## speed, on this machine: prints figures, fails on none
	$(BIN)/python -m cdc_assets_tests.bench

soak: install  ## generated cases, by thousands; STACK=1: kills of every part, and every fault; HOURS=2: load
ifdef HOURS
	HOURS=$(HOURS) $(BIN)/python -m cdc_assets_tests.bench hours
else ifdef STACK
	$(BIN)/cdc-assets stack install mariadb registry spark-s3 rest-catalog
	HYPOTHESIS_PROFILE=soak CDC_ASSETS_KILLS=$(KILLS) CDC_ASSETS_SECONDS=$(SECONDS_AT_MOST) \
	  $(BIN)/pytest -s cdc_assets_tests/stack/test_kills.py cdc_assets_tests/stack/test_truth.py \
	  cdc_assets_tests/merge/test_faults.py \
	  cdc_assets_tests/merge/test_rebuild.py cdc_assets_tests/merge/test_rewind.py \
	  cdc_assets_tests/merge/test_removal.py \
	  cdc_assets_tests/merge/test_generated.py \
	  cdc_assets_tests/merge/test_cut_moves.py cdc_assets_tests/merge/test_absent_columns.py \
	  cdc_assets_tests/conformance cdc_assets_tests/stack/test_second_writer.py \
	  cdc_assets_tests/stack/test_published_columns.py cdc_assets_tests/stack/test_restored_source.py \
	  cdc_assets_tests/stack/test_truth_avro.py cdc_assets_tests/stack/test_incremental.py \
	  cdc_assets_tests/stack/test_truth_replica.py cdc_assets_tests/stack/test_rewound.py \
	  cdc_assets_tests/stack/test_operated.py \
	  cdc_assets_tests/stack/test_verify.py cdc_assets_tests/stack/test_verify_mariadb.py \
	  cdc_assets_tests/stack/test_matches.py cdc_assets_tests/stack/test_resnapshot.py \
	  cdc_assets_tests/stack/test_resnapshot_mariadb.py \
	  cdc_assets_tests/stack/test_rebuild_from_source.py \
	  cdc_assets_tests/stack/test_rebuild_from_source_mariadb.py \
	  cdc_assets_tests/stack/test_signalled_resnapshot.py \
	  cdc_assets_tests/stack/test_signalled_rebuild.py cdc_assets_tests/stack/test_steered.py \
	  cdc_assets_tests/databases/test_mysql_reading.py \
	  cdc_assets_tests/merge/test_shared_reading.py \
	  cdc_assets_tests/merge/test_shards.py cdc_assets_tests/merge/test_restarted_source.py \
	  cdc_assets_tests/merge/test_where_snapshots_begin.py \
	  cdc_assets_tests/stack/semantics cdc_assets_tests/orchestration/test_waiting.py \
	  cdc_assets_tests/merge/test_two_writers.py cdc_assets_tests/merge/test_restart_look.py \
	  cdc_assets_tests/merge/test_keys.py cdc_assets_tests/formats/test_canal.py \
	  cdc_assets_tests/live/test_demo_life.py \
	  cdc_assets_tests/merge/test_odd_records.py cdc_assets_tests/merge/test_wide.py \
	  cdc_assets_tests/merge/test_added_partitions.py cdc_assets_tests/merge/test_hostile_names.py \
	  cdc_assets_tests/formats/test_other_keys.py cdc_assets_tests/formats/test_golden_avro.py \
	  cdc_assets_tests/formats/test_yugabyte_merge.py cdc_assets_tests/merge/test_dialects.py \
	  cdc_assets_tests/stack/test_altered.py cdc_assets_tests/stack/test_altered_under_load.py \
	  cdc_assets_tests/merge/test_older_rows.py cdc_assets_tests/stack/test_every_type.py \
	  cdc_assets_tests/stack/test_truth_mariadb.py cdc_assets_tests/stack/test_altered_mariadb.py \
	  cdc_assets_tests/stack/test_ddl_mariadb.py cdc_assets_tests/stack/test_statements.py \
	  cdc_assets_tests/merge/test_statements.py \
	  cdc_assets_tests/merge/test_statements_among_rows.py \
	  cdc_assets_tests/merge/test_renamed.py cdc_assets_tests/merge/test_dropped.py \
	  cdc_assets_tests/merge/test_altered_meanwhile.py cdc_assets_tests/merge/test_binlog.py \
	  cdc_assets_tests/merge/test_deletes.py cdc_assets_tests/merge/test_dropped_columns.py \
	  cdc_assets_tests/merge/test_expired.py cdc_assets_tests/merge/test_filled_at_the_swap.py \
	  cdc_assets_tests/merge/test_forgetting.py cdc_assets_tests/merge/test_from_before.py \
	  cdc_assets_tests/merge/test_half_done.py cdc_assets_tests/merge/test_latency_told.py \
	  cdc_assets_tests/merge/test_made_anew.py cdc_assets_tests/merge/test_out_of_quarantine.py \
	  cdc_assets_tests/merge/test_record_size.py cdc_assets_tests/merge/test_requests_in_steps.py \
	  cdc_assets_tests/merge/test_taken_over.py cdc_assets_tests/merge/test_told_by_catalog.py \
	  cdc_assets_tests/merge/test_widened.py cdc_assets_tests/merge/test_withheld.py \
	  cdc_assets_tests/elsewhere/test_cluster.py cdc_assets_tests/orchestration/test_executors.py \
	  cdc_assets_tests/merge/test_generated_rows_evolution.py cdc_assets_tests/merge/test_upkeep.py \
	  cdc_assets_tests/merge/test_changelog.py cdc_assets_tests/stack/test_changelog_truth.py \
	  cdc_assets_tests/merge/test_versions.py cdc_assets_tests/stack/test_history_truth.py \
	  cdc_assets_tests/stack/test_watched_mariadb.py cdc_assets_tests/stack/test_classic.py \
	  cdc_assets_tests/stack/test_dead_connector.py cdc_assets_tests/devstack/test_stack.py \
	  cdc_assets_tests/merge/test_quarantine.py \
	  cdc_assets_tests/stack/test_backfill.py cdc_assets_tests/stack/test_bad_input.py \
	  cdc_assets_tests/stack/test_watched.py cdc_assets_tests/live/test_project.py \
	  cdc_assets_tests/orchestration/test_table_run.py \
	  cdc_assets_tests/orchestration/test_shared_run.py \
	  cdc_assets_tests/orchestration/test_hung.py \
	  cdc_assets_tests/orchestration/test_asset_page.py \
	  cdc_assets_tests/formats/test_canal_on_spark.py cdc_assets_tests/formats/test_goldengate.py \
	  cdc_assets_tests/formats/test_maxwell.py cdc_assets_tests/formats/test_by_table.py \
	  cdc_assets_tests/formats/test_fuzz_debezium_avro.py \
	  cdc_assets_tests/formats/test_yugabyte_fuzz.py cdc_assets_tests/devstack/test_shop.py \
	  cdc_assets_tests/devstack/test_local_files.py cdc_assets_tests/devstack/test_mariadb.py \
	  cdc_assets_tests/devstack/test_registry.py cdc_assets_tests/log/test_reader.py \
	  $(PYTEST_ARGS)
else
	$(BIN)/python -m cdc_assets_tests.toy.soak 50000
	HYPOTHESIS_PROFILE=soak $(BIN)/pytest -m property $(PYTEST_ARGS)
endif

install: .venv/.synced $(HOME_DIR)/.installed  ## Python packages and JVM pieces; does nothing the second time

stack-up: install  ## start the local stack and leave it running
	$(BIN)/cdc-assets stack up

stack-down: .venv/.synced  ## stop it
	$(BIN)/cdc-assets stack down

clean: ## stop the stack and remove everything that was installed or written here
	@if [ -x $(BIN)/cdc-assets ]; then $(BIN)/cdc-assets stack down --force; fi
	rm -rf $(HOME_DIR) .venv .uv dist .pytest_cache .ruff_cache .hypothesis .import_linter_cache

$(UV):
	@test -n "$(PYTHON)" || { echo "Python 3.11 to 3.13 is needed, and none was found on PATH: make PYTHON=/path/to/python3.12" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(not (3,11) <= sys.version_info < (3,14))' || { echo "Python 3.11 to 3.13 is needed, and $(PYTHON) is none" >&2; exit 1; }
	@echo "installing uv into .uv"
	@$(PYTHON) -m venv .uv
	@.uv/bin/pip install --quiet --disable-pip-version-check uv

.venv/.synced: uv.lock pyproject.toml | $(UV)
	$(UV) sync --locked --all-extras --python .uv/bin/python
	@touch $@

$(HOME_DIR)/.installed-optional: .venv/.synced $(wildcard cdc_assets/devstack/jvm/*)
	$(BIN)/cdc-assets stack install mariadb registry spark-s3 rest-catalog
	@touch $@

$(HOME_DIR)/.installed: .venv/.synced $(wildcard cdc_assets/devstack/jvm/*)
	$(BIN)/cdc-assets stack install
	@touch $@
