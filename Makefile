# Every target works in a fresh clone: it brings the environment up to date first. Needs Python >= 3.11 and Java >= 17.
.DEFAULT_GOAL := help
.PHONY: help setup demo demo-full demo-cluster test test-columns test-sparks campaign guards sim failures soak lint bench docs site format lock dist test-clusters tf-check clean java

# SPARK=3.5 (4.0, 4.1, 4.3): the environment of another Spark. 4.2 is that of .venv.
OTHER := $(filter-out 4.2,$(SPARK))
VENV := $(if $(OTHER),.cache/sparks/$(OTHER),.venv)
LOCK := requirements/$(if $(OTHER),spark-$(OTHER),dev).lock
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# On disk the demos need a quarter of the packages. A .venv that once had them all keeps them.
DEMO_READY := $(if $(STORE)$(OTHER)$(wildcard $(READY)),$(READY),.venv/.ready-demo)
# Spark reads and writes in Java with it (docs/columns.md). Without a JDK there is none, and Python does.
JAR := sparklog/spark/sparklog.jar
# Twice the cores of a small machine: many tests wait, for servers and for faults to pass.
WORKERS ?= 4
TESTS ?= $(if $(SPARK),$(shell grep -rl 'mark\.sparks' tests --include='test_*.py'),tests)
ARGS ?=

# Of Spark 3.5: 2.12 (which pyspark brings) or 2.13.
export SCALA := $(SCALA)

# Python workers run in the same environment as the driver, whatever `python3` is; a Spark installed elsewhere stays out.
# Not ?=: a make that another one starts for its own Spark would take the environment of the outer one.
PYSPARK_PYTHON := $(abspath $(BIN)/python)
export PYSPARK_PYTHON
unexport SPARK_HOME PYSPARK_DRIVER_PYTHON PYSPARK_DRIVER_PYTHON_OPTS
# Without byte code every process of a test would compile the package anew.
unexport PYTHONDONTWRITEBYTECODE

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: java $(READY) $(JAR) ## the environment in .venv, from the lock files

DEMO = STORE=$(STORE) $(if $(filter s3 gs abfs hdfs,$(STORE)),$(BIN)/python -m tests.servers.run_with $(STORE)) \
	$(BIN)/python examples/demo.py

demo: java $(DEMO_READY) $(JAR) ## the first act: real data through a log, on disk, or STORE=s3|gs|abfs|hdfs (a server is started), or STORE=s3://bucket/prefix
	@$(DEMO) $(ARGS)

demo-full: java $(DEMO_READY) $(JAR) ## the same and its further acts: compaction, a Delta table, and three stores, one of which is lost
	@$(DEMO) --full $(ARGS)

demo-cluster: java $(DEMO_READY) ## three coordinators, three agents and scheduled jobs on this machine; the leader is killed (ARGS=--stay)
	@$(BIN)/python examples/demo_cluster.py $(ARGS)

test: setup ## all tests, or some: make test TESTS=tests/core ARGS="-k murmur2" WORKERS=1 (ARGS="--order-seed 7": in a random order; SPARK=3.5, 4.0, 4.1, 4.2 or 4.3: what runs on each Spark; 3.5 with SCALA=2.13)
	@$(BIN)/python -m pytest -n $(WORKERS) $(if $(SPARK),-m sparks) $(ARGS) $(TESTS)

test-columns: setup ## what reads and writes records in Spark, with sparklog's JAR: the same tests, by Java (ten minutes)
	@$(BIN)/python -m pytest -n $(WORKERS) --columns $(ARGS) tests/spark

test-sparks: ## what runs on each Spark, on all five: every read, write, stream and job
	@failed=; for spark in 3.5 4.0 4.1 4.2 4.3; do \
		echo "Spark $$spark"; $(MAKE) --no-print-directory test SPARK=$$spark || failed="$$failed $$spark"; \
	done; test -z "$$failed" || { echo "failed on Spark$$failed"; exit 1; }

test-clusters: setup ## what `make dist` makes on a standalone cluster, on YARN and on Spark Connect, all real, and the README on its wheel beside each Spark (half an hour)
	@$(BIN)/python -m pytest -n 1 --campaign $(ARGS) tests/clusters

tf-check: setup ## terraform/ without an account: format, validation, its tests, checkov, rules on plans, mutations, and apply, use and destroy on emulators (ten minutes)
	@$(BIN)/python -m pytest -n $(WORKERS) --campaign --deselect tests/terraform/rights/test_rights.py::test_new_runs_ask_for_exactly_what_is_allowed $(ARGS) tests/terraform

# tests/terraform, chaos and clusters have targets of their own.
LONG := $(filter-out tests/terraform/ tests/chaos/ tests/clusters/,$(wildcard tests/*/)) tests/terraform/rights

campaign: setup ## the long tests: hundreds of races on every store, each request to S3 spoilt (an hour or more; TESTS=tests/faults: some)
	@$(BIN)/python -m pytest -n $(WORKERS) --campaign -m campaign $(ARGS) $(if $(filter tests,$(TESTS)),$(LONG),$(TESTS))

guards: setup ## take each guard of tests/guards/ away and show that a test notices (ARGS="--only NAME", --list)
	@$(BIN)/python -m tests.guards $(ARGS)

sim: setup ## simulated clusters with faults, seed by seed, for two minutes (ARGS="--seconds 3600 --seeds 5000-", --steps N; RESTORES=10000: that many restores)
	@$(BIN)/python -m tests.sim$(if $(RESTORES),.restores --restores $(RESTORES)) $(ARGS)

failures: setup ## break a running cluster in two dozen ways, mend each, and write docs/failures.md (ten minutes)
	@RECORD_SECONDS=1 $(BIN)/python -m pytest -q -n 0 -s --campaign $(ARGS) tests/chaos/test_failures.py -k seen_and_mended
	@$(BIN)/python -m tests.chaos.page

soak: setup ## a cluster of real processes on S3, HDFS and a disk under troubles, for 20 minutes (ARGS="--soak-seconds 60 --soak-seed 7")
	@$(BIN)/python -m pytest -q -n 0 -s tests/soak/test_soak.py --soak-seconds 1200 $(ARGS)

lint: setup ## ruff, mypy --strict, import contracts, plain English, layout
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy $(wildcard sparklog pyspark_sparklog jobs)
	@$(BIN)/lint-imports --no-logo --cache-dir .cache/import-linter
	@$(BIN)/python -m tests.plain_english
	@$(BIN)/python -m tests.layout

bench: setup ## measure beside bare peers, into docs/benchmarks.md (STORE=s3|hdfs|gs|abfs: a page of its own; PEERS=1: Kafka and Delta Lake; ARGS=small: that part)
	@STORE=$(STORE) PEERS=$(PEERS) $(BIN)/python -m bench $(ARGS)

docs: setup ## regenerate the pages under docs/ that are made from the code, and the figures of the README
	@$(BIN)/python -m scripts.docs.generate_docs
	@$(BIN)/python -m tests.cost_table
	@$(BIN)/python -m tests.mechanisms
	@$(BIN)/python -m tests.spark_versions
	@$(BIN)/python -m tests.readme_figures
	@$(BIN)/python -m tests.differences
	@$(BIN)/python -m tests.terraform_readmes
	@$(BIN)/python -m tests.deploy_costs
	@$(BIN)/python -m tests.chaos.page

site: setup ## the documentation as web pages with search, in build/site (to look at it: python3 -m http.server -d build/site)
	@scripts/site.sh

format: setup ## let ruff format the code and fix what it can
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

lock: ## resolve requirements/*.lock again (needs uv; ARGS=--upgrade moves the pins)
	@scripts/lock.sh $(ARGS)

dist: setup ## wheel, sdist, an environment for executors and the jobs, into dist/: no network, the same bytes for one commit
	@$(BIN)/python scripts/dist.py $(ARGS)

clean: ## remove caches and build results; .venv stays
	rm -rf .cache build dist
	find . -name .venv -prune -o -type d -name __pycache__ -exec rm -rf {} +

java:
	@scripts/check_java.sh

$(READY): pyproject.toml requirements/build.lock $(LOCK) | java
	@scripts/setup.sh $(OTHER)
	@touch $@

$(JAR): $(shell find jvm -type f) scripts/build_jar.py | $(if $(STORE)$(OTHER)$(wildcard $(READY)),$(READY),.venv/.ready-demo)
	@$(BIN)/python scripts/build_jar.py $@ || { test $$? = 3 && echo "no JAR: Spark reads and writes by Python until a JDK is there" >&2; }

.venv/.ready-demo: pyproject.toml requirements/build.lock requirements/demo.lock | java
	@scripts/setup.sh demo
	@touch $@
