# Everything runs in .venv, which is made on first use; only Python >= 3.10, pip and make are needed.
#     make run      train and predict        make test     all checks        make help     the rest
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/$(if $(filter Windows_NT,$(OS)),Scripts,bin)
STAMP  := $(VENV)/.installed
DOCS   := $(VENV)/.docs-installed
PIP     = -m pip install --quiet --disable-pip-version-check -c constraints.txt

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

# Where `make package` tries the wheel and the source distribution, and the extras it tries alone.
TRIAL  := build/trial
EXTRAS ?= $(shell sed -n '/^\[project.optional-dependencies\]/,/^\[project.scripts\]/s/^\([a-z]*\) = .*/\1/p' pyproject.toml)

comma  := ,
space  := $(subst ,, )

# Those that pyproject.toml states; `make test-pythons` uses the ones that are there.
PYTHONS ?= 3.10 3.11 3.12 3.13

.DEFAULT_GOAL := help
.PHONY: help run test lint types contract tests test-fast test-pythons sanitize docs package fuzz bench format install clean

help: ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## ?(.*)/  make \1\t\2/' | expand -t 21

run: $(STAMP) ## train on measured solubilities, evaluate, predict; a report at the end
	rm -rf $(DEMO)
	$(BIN)/gad train esol --recipe quick --out $(DEMO)
	$(BIN)/gad predict $(DEMO)/model.gad examples/molecules.csv -o $(DEMO)/predictions.csv --uncertainty
	$(BIN)/gad draw "CC(=O)Oc1ccccc1C(=O)O" --atom 1 --time 5 -o $(DEMO)/heat.svg
	@cat $(DEMO)/predictions.csv
	@echo "The report: $(DEMO)/report.html   A unit of heat on aspirin: $(DEMO)/heat.svg"
	@echo "The page: run  $(BIN)/gad serve $(DEMO)/model.gad  and open http://127.0.0.1:8000/"

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
	HYPOTHESIS_PROFILE=quick $(BIN)/pytest -q -n $(WORKERS) --dist loadfile -m "not slow" tests

# Each in an environment of its own, .venv-3.10 and so on; found by name or in pyenv's folder.
test-pythons: ## `make test` once on each Python from 3.10 to 3.13 that is there
	@for version in $(PYTHONS); do \
		python=; \
		for found in python$$version $${PYENV_ROOT:-$$HOME/.pyenv}/versions/$$version.*/bin/python; do \
			"$$found" -c "" 2>/dev/null && python=$$found; \
		done; \
		if [ -z "$$python" ]; then echo "Python $$version is not here: left out"; continue; fi; \
		echo "Python $$version: $$python"; \
		$(MAKE) test PYTHON="$$python" VENV=.venv-$$version || exit 1; \
	done

# Every kernel of src/gad/native is called by one of these.
KERNEL_TESTS := $(addprefix tests/,native/test_kernels.py native/test_spectra.py native/test_trees.py chem/fast/test_raw.py nn/backends \
	operators/test_spans.py operators/test_layouts.py operators/test_solvers.py)

# Python itself is not built with the sanitizer, so its library goes first, and what Python and PyTorch
# keep until the end is no leak of ours.
sanitize: $(STAMP) ## the compiled kernels under address and undefined-behaviour sanitizers
	GAD_NATIVE=sanitize ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=print_stacktrace=1 \
		LD_PRELOAD="$$($${CC:-cc} -print-file-name=libasan.so) $$($${CC:-cc} -print-file-name=libubsan.so)" \
		$(BIN)/pytest -q -p no:cacheprovider $(KERNEL_TESTS)

docs: $(DOCS) ## the site in build/site: pages, reference, executed tutorials; any warning fails
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build

# The wheel is built from the source distribution, so a file that this lacks is noticed. What it needs is
# fetched once; then it is installed where nothing else is, by itself and with each extra alone, and used
# there. The last one, dev, also runs the tests that the source distribution brings along.
package: $(STAMP) ## wheel and sdist, each tried in empty environments: the base, and every extra alone
	rm -rf dist $(TRIAL)
	PIP_CONSTRAINT=$(abspath constraints.txt) $(BIN)/python -m build
	$(BIN)/python -m twine check --strict dist/*
	$(BIN)/python -m pip wheel --quiet -c constraints.txt -w $(TRIAL)/wheels "$$(echo dist/*.whl)[$(subst $(space),$(comma),$(EXTRAS))]"
	for extra in "" $(filter-out dev,$(EXTRAS)) dev; do \
		rm -rf $(TRIAL)/env && $(PYTHON) -m venv $(TRIAL)/env && \
		$(TRIAL)/env/bin/python -m pip install --quiet --disable-pip-version-check --no-compile --no-index \
			--find-links $(TRIAL)/wheels "$$(echo dist/*.whl)$${extra:+[$$extra]}" && \
		GAD_CACHE=$(abspath $(TRIAL)/cache) $(TRIAL)/env/bin/python .ci/trial.py $(TRIAL)/work $$extra || exit 1; \
	done
	mkdir $(TRIAL)/source && tar -xzf dist/*.tar.gz -C $(TRIAL)/source --strip-components=1
	cd $(TRIAL)/source && env -u GAD_DATA HYPOTHESIS_PROFILE=quick \
		../env/bin/pytest -q -n $(WORKERS) --dist loadfile -m "not slow" tests

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
	$(BIN)/python $(PIP) -e ".[dev]"
	@touch $@

$(DOCS): $(STAMP)
	$(BIN)/python $(PIP) -e ".[docs]"
	@touch $@

clean: ## remove the environment and every cache
	rm -rf $(VENV) $(DEMO) build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
