PYTHON ?= python3
VENV   ?= .venv
BIN     = $(VENV)/bin

.PHONY: demo test test-slow check lint format docs screenshots bench bench-gpu bench-ranks results faults hour mutants advisories dist clean help

demo: $(VENV)/.demo  ## six methods side by side on a drifting stream: a table, plots and a page
	$(BIN)/tamis demo

test: $(VENV)/.ok  ## every contract and every module, in minutes
	$(BIN)/python -m pytest

test-slow: $(VENV)/.ok  ## long faults, brokers under restart, browsers, ranks, the site, the wheel
	$(BIN)/python -m pytest -m slow

check: lint test test-slow  ## what CI runs: format, lint, types, import layers, all tests

lint: $(VENV)/.ok  ## format, lint, types, import layers
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/.ok  ## format, and fix what ruff can
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: $(VENV)/.ok  ## the site, into docs/_build/index.html; no network, no warnings
	$(BIN)/sphinx-build -W --keep-going -n -q -j 2 docs docs/_build

bench: $(VENV)/.ok  ## speed and memory on the CPU, ten to fifteen minutes, into docs/performance.md
	$(BIN)/python -m benchmarks.plausible
	$(BIN)/python -m benchmarks.slots
	$(BIN)/python -m benchmarks.buffers --out results/benchmarks
	$(BIN)/python -m benchmarks.stream
	$(BIN)/python -m benchmarks.classes
	$(BIN)/python -m benchmarks.staleness
	$(BIN)/python -m benchmarks.page

bench-gpu: $(VENV)/.ok  ## the same on a machine with a GPU
	$(BIN)/python -m benchmarks.gpu
	$(BIN)/python -m benchmarks.page

bench-ranks: $(VENV)/.ok  ## two ranks: picks, cost, bytes, kills, Ray; into docs/scale.md
	$(BIN)/python -m benchmarks.ranks

screenshots: $(VENV)/.ok  ## pictures of every page, light and dark, on a phone and a monitor, into results/screenshots
	$(BIN)/python -m tests.support.screenshots

faults: $(VENV)/.ok  ## the fault matrix, half an hour, into docs/reliability.md
	$(BIN)/python -m tests.support.faults.matrix
	$(BIN)/python -m benchmarks.faults_sources
	$(BIN)/python -m tests.support.faults.matrix --page

hour: $(VENV)/.ok  ## an hour of everything at once, beside the unbroken run
	$(BIN)/python -m tests.support.faults.hour --minutes 60

mutants: $(VENV)/.ok  ## small faults written into the library: do the tests notice? an hour, into docs/reliability.md
	$(BIN)/python -m tests.support.mutation

advisories: $(VENV)/.ok  ## known vulnerabilities of the pinned packages; queries an online database
	$(BIN)/python -m pip install -q --disable-pip-version-check pip-audit
	$(BIN)/pip-audit -r constraints.txt --no-deps --disable-pip

dist: $(VENV)/.ok  ## wheel and sdist of the release into dist/, checked
	rm -rf dist
	$(BIN)/python -m build --no-isolation
	$(BIN)/twine check --strict dist/*

results: $(VENV)/.ok  ## tables and figures of README, front page and results from kept runs; no training
	$(BIN)/tamis lab reproduce page --out results/paper --page docs/results.md
	$(BIN)/tamis lab tables --minutes 0 --out results/tables --page docs/compare.md --front .

$(VENV)/.demo: pyproject.toml constraints.txt  ## what a first look takes
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q --disable-pip-version-check -c constraints.txt torch -e '.[demo]'
	@touch $@

$(VENV)/.ok: $(VENV)/.demo  ## every extra and every tool
	$(BIN)/python -m pip install -q --disable-pip-version-check -c constraints.txt torch -e '.[dev]'
	@touch $@

clean:  ## remove the virtual environment
	rm -rf $(VENV)

help:  ## list the targets
	@sed -nE 's/^([a-z-]+):.*  ## (.*)/\1\t\2/p' Makefile | expand -t 14
