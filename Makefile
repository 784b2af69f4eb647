# Everything runs in .venv, which is made on first use; only Python >= 3.10, pip and make are needed.
#     make run      train and predict        make test     all checks        make help     the rest
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed

# The data sets ZINC and QM9, where they lie next to the repository. Only tests about these sets need
# them, and skip with a reason elsewhere.
ifneq ($(wildcard ../shared/data),)
export GAD_DATA ?= $(abspath ../shared/data)
endif

# One thread per worker: the graphs are small, and the workers share the cores.
WORKERS ?= 2
tests test-fast fuzz package: export OMP_NUM_THREADS ?= 1

# Where `make run` leaves its run.
DEMO := demo

# Where `make package` tries the wheel and the source distribution.
TRIAL := build/trial

.DEFAULT_GOAL := help
.PHONY: help run test lint types contract tests test-fast sanitize package fuzz bench format install clean

help: ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## ?(.*)/  make \1\t\2/' | expand -t 18

run: $(STAMP) ## train on measured solubilities, evaluate, predict; a report at the end
	rm -rf $(DEMO)
	$(BIN)/gad train esol --out $(DEMO)
	$(BIN)/gad predict $(DEMO)/model.gad examples/molecules.csv -o $(DEMO)/predictions.csv --uncertainty
	$(BIN)/gad draw "CC(=O)Oc1ccccc1C(=O)O" --atom 1 --time 5 -o $(DEMO)/heat.svg
	@cat $(DEMO)/predictions.csv
	@echo "The report: $(DEMO)/report.html   A unit of heat on aspirin: $(DEMO)/heat.svg"

test: lint types contract tests ## every check, as in continuous integration

lint: $(STAMP) ## style and likely mistakes
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP) ## static types
	$(BIN)/mypy --strict src

contract: $(STAMP) ## imports point one way
	$(BIN)/lint-imports

tests: $(STAMP) ## unit tests and the examples in docstrings
	$(BIN)/pytest -q -n $(WORKERS)

test-fast: $(STAMP) ## the inner loop: unit tests without the slow ones, fewer drawn examples
	HYPOTHESIS_PROFILE=quick $(BIN)/pytest -q -n $(WORKERS) -m "not slow" tests

# Python itself is not built with the sanitizer, so its library goes first, and what Python and PyTorch
# keep until the end is no leak of ours.
sanitize: $(STAMP) ## the compiled kernels under address and undefined-behaviour sanitizers
	GAD_NATIVE=sanitize ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=print_stacktrace=1 \
		LD_PRELOAD="$$($${CC:-cc} -print-file-name=libasan.so) $$($${CC:-cc} -print-file-name=libubsan.so)" \
		$(BIN)/pytest -q -p no:cacheprovider tests/native/test_kernels.py tests/nn/backends tests/operators/test_spans.py tests/operators/test_layouts.py

# The wheel is built from the source distribution, so a file that this lacks is noticed. Then it is
# installed where nothing else is, and tried there by a training and by the tests that the source
# distribution brings along.
package: $(STAMP) ## build wheel and sdist, and try both in an empty environment
	rm -rf dist $(TRIAL)
	PIP_CONSTRAINT=$(abspath constraints.txt) $(BIN)/python -m build
	$(PYTHON) -m venv $(TRIAL)/env
	$(TRIAL)/env/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt dist/*.whl
	cd $(TRIAL) && GAD_CACHE=cache env/bin/gad train esol --set epochs=1 --out run
	$(TRIAL)/env/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt "$$(echo dist/*.whl)[dev]"
	mkdir $(TRIAL)/source && tar -xzf dist/*.tar.gz -C $(TRIAL)/source --strip-components=1
	cd $(TRIAL)/source && env -u GAD_DATA ../env/bin/pytest -q -n $(WORKERS) -m "not slow" tests

fuzz: $(STAMP) ## a hundred thousand damaged recipes, models, tables and molecules
	GAD_FUZZ_CASES=100000 $(BIN)/pytest -q -n $(WORKERS) --dist worksteal tests/training/test_corrupt.py tests/data/test_tables_fuzz.py

bench: $(STAMP) ## speed and memory, side by side
	$(BIN)/python -m benchmarks

format: $(STAMP) ## rewrite the files in the house style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

install: $(STAMP) ## make the environment only

# Reinstalled when the dependencies change. The constraints choose the tested versions.
$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and "Python >= 3.10 is needed, found " \
		+ sys.version.split()[0] + ": choose one with make PYTHON=python3.x")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	@touch $@

clean: ## remove the environment and every cache
	rm -rf $(VENV) $(DEMO) build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
