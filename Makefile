# Every target sets up what it needs in .venv; a second run starts at once.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SHARED_DATA := $(wildcard ../shared/data)
export KINFOLK_DATA ?= $(if $(SHARED_DATA),$(abspath $(SHARED_DATA)),)

.PHONY: demo test check format bench reproduce clean help

help:
	@echo "make demo       fit the built-in example and draw its graph (kinfolk-demo/graph.png)"
	@echo "make test       run all tests"
	@echo "make check      ruff and mypy"
	@echo "make bench      run the benchmarks"
	@echo "make reproduce  test errors on the paper's data sets, beside the methods without a graph"

$(VENV)/.base: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[plots]'
	@touch $@

$(VENV)/.dev: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $@ $(VENV)/.base

$(VENV)/.bench: $(VENV)/.dev
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev,bench]'
	@touch $@

demo: $(VENV)/.base
	$(BIN)/kinfolk demo

test: $(VENV)/.dev
	$(BIN)/python -m pytest -q

check: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/.bench
	$(BIN)/python benchmarks/graph_step.py
	$(BIN)/python benchmarks/fit.py
	$(BIN)/python benchmarks/methods.py
	$(BIN)/python benchmarks/ccmtl.py

# The paper's data sets under every protocol, GAMTLCV beside the methods without a graph.
reproduce: $(VENV)/.bench
	$(BIN)/python benchmarks/accuracy.py

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache build dist kinfolk-demo
