# `make` alone prints the targets. Everything that needs Python packages makes .venv first.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready

.DEFAULT_GOAL := help
.PHONY: help demo test test-all test-deep test-faults check bench bench-compare build requirements warm clean clean-cache

help:  ## print the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(READY): requirements/dev.txt pyproject.toml
	@echo "Setting up .venv (once; a minute or two) ..."
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "rankcast needs Python 3.11 or later, this is " + sys.version.split()[0])'
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.txt
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps -e .
	@touch $@

warm: $(READY)  ## compile the kernels once, into Numba's cache
	@$(BIN)/python -m rankcast.warm

demo: warm  ## two pipelines on local Spark over seeded streams, with a report; ends by itself
	@$(BIN)/rankcast demo

test: warm  ## run the tests (fast profile)
	@$(BIN)/python -m pytest -n 2 --dist loadgroup

test-all: warm  ## run the tests, thorough profile
	@HYPOTHESIS_PROFILE=thorough $(BIN)/python -m pytest -n 2 --dist loadgroup

test-deep: warm  ## long searches for trouble: errors at every line, threads, damage, hostile input; an hour
	@HYPOTHESIS_PROFILE=thorough $(BIN)/python -m pytest -n 2 --dist loadgroup -m deep

test-faults: warm  ## kill applications, Python workers and executors of Spark, many times over
	@$(BIN)/python -m rankcast.spark.archive || true
	@$(BIN)/python -m pytest tests/spark -m faults

check: $(READY)  ## format, lint and type check
	@$(BIN)/ruff format --check --quiet . || { echo "run: $(BIN)/ruff format ."; exit 1; }
	@$(BIN)/ruff check --quiet .
	@$(BIN)/mypy

bench: warm  ## run every benchmark case, small size, and write the report
	@$(BIN)/rankcast bench run '*' --size small --out out/records
	@$(BIN)/rankcast bench report --records out/records --out out/report.html

bench-compare: $(READY)  ## compare the last run with the committed records
	@$(BIN)/rankcast bench compare benchmarks/records out/records

build: $(READY)  ## build the wheel into dist/
	@$(BIN)/python -m pip wheel --quiet --no-build-isolation --no-deps --wheel-dir dist .

requirements: $(READY)  ## pin the requirements of every extra anew (needs uv)
	@for extra in base bench plot spark dev; do \
	  uv pip compile --quiet --no-header --no-emit-index-url --generate-hashes --universal --python-version 3.11 \
	    $$(test $$extra = base || echo --extra $$extra) pyproject.toml -o requirements/$$extra.txt || exit 1; done

clean-cache:  ## forget compiled kernels
	@find src -name '*.nb[ic]' -delete

clean: clean-cache  ## remove what was made, .venv too
	@rm -rf .venv build dist out .pytest_cache .mypy_cache .ruff_cache .hypothesis src/*.egg-info
