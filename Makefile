# Everything that is done to this repository, by name. `make` alone lists it.
#
# A fresh clone needs Python 3.11 or newer and make, nothing else: the first target that needs the
# environment makes it, and it is made again only when a pyproject.toml or constraints.txt changed.
# All paths are relative, so a checkout may live in a folder with spaces.
#
#   make test PYTEST_ARGS="tests/state -k codec -n 0"     a part of the tests, in one process
#   make test PYTHON=python3.13 VENV=.venv-3.13           another interpreter, in an environment of its own

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test test-all coverage lint format pictures docs bench clean

PYTEST_ARGS ?=
BENCH_ARGS ?=
WORKERS ?= auto
PARTS ?= 2
VENV ?= .venv
DOCS_ARGS ?=
DOCS_VENV := .venv-docs

# Demo and tests start many processes; without bytecode each would compile the whole library again.
unexport PYTHONDONTWRITEBYTECODE

# Versions that CI tests come first, then whatever the machine calls Python.
PYTHONS := $(if $(PYTHON),"$(PYTHON)",python3.11 python3.12 python3.13 python3 python)
FITS := import sys, ensurepip, venv; sys.exit(sys.version_info < (3, 11))

# $(call install,FOLDER,EXTRA,CONSTRAINTS,OTHERS): an environment with Clew, editable, one of its extras, and other
# distributions of this repository.
# A name on PATH may be a stub that does not start (a version manager's), so each is tried. An
# environment without a working pip was left by an interrupted run, and is made again.
define install
	@set -e; \
	if ! $(1)/bin/python -m pip --version >/dev/null 2>&1; then \
	  found=; \
	  for python in $(PYTHONS); do \
	    if "$$python" -c '$(FITS)' >/dev/null 2>&1; then found=$$python; break; fi; \
	  done; \
	  if [ -z "$$found" ]; then \
	    echo 'Clew needs Python 3.11 or newer with its venv module; none of these is one:' >&2; \
	    for python in $(PYTHONS); do \
	      echo "  $$python: $$("$$python" --version 2>/dev/null || echo 'not there')" >&2; \
	    done; \
	    echo 'Install one (on Debian and Ubuntu also python3-venv), or name it: make PYTHON=/path/to/python' >&2; \
	    exit 1; \
	  fi; \
	  echo "Making $(1) with $$("$$found" --version)"; \
	  "$$found" -m venv --clear $(1); \
	fi; \
	echo "Installing .[$(2)] $(4) into $(1)"; \
	$(1)/bin/python -m pip install --quiet --disable-pip-version-check --compile $(3) \
	  --editable '.[$(2)]' $(addprefix --editable ,$(4)); \
	$(1)/bin/python -m compileall -q src $(addsuffix /src,$(4)); \
	touch $(1)/.installed
endef

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' Makefile

demo: $(VENV)/.installed ## ask a question across three databases, then run the demo
	@$(VENV)/bin/python nl2sql/examples/demo.py
	@$(VENV)/bin/clew demo
	@echo "(the command is in $(VENV)/bin)"

test: $(VENV)/.installed ## run the tests, except the slow ones
	@$(VENV)/bin/python -m pytest -n $(WORKERS) --maxprocesses 8 --dist worksteal $(PYTEST_ARGS)

test-all: $(VENV)/.installed ## run all tests; PARTS=20 runs ten times as much of the slow ones
	@CLEW_CAMPAIGN_PARTS=$(PARTS) $(VENV)/bin/python -m pytest -n $(WORKERS) --maxprocesses 8 --dist worksteal -m 'slow or not slow' $(PYTEST_ARGS)

coverage: $(VENV)/.installed ## run the tests with branch coverage
	@$(VENV)/bin/python -m pytest -n $(WORKERS) --maxprocesses 8 --cov --cov-report=term $(PYTEST_ARGS)

lint: $(VENV)/.installed ## run ruff and mypy, without changes
	@$(VENV)/bin/python -m ruff check .
	@$(VENV)/bin/python -m ruff format --check .
	@$(VENV)/bin/python -m mypy

format: $(VENV)/.installed ## format the code, and fix what ruff can fix
	@$(VENV)/bin/python -m ruff check --fix .
	@$(VENV)/bin/python -m ruff format .

pictures: $(VENV)/.installed ## draw the pictures of the galleries again
	@$(VENV)/bin/python docs/pictures/draw.py

docs: $(DOCS_VENV)/.installed ## build the documentation site into build/site; warnings and broken links are errors
	@$(DOCS_VENV)/bin/python -m docs.site.build $(DOCS_ARGS)

bench: .venv-bench/.installed ## measure Clew and its peers
	@.venv-bench/bin/python -m benchmarks $(BENCH_ARGS)

clean: ## remove everything that these targets created
	@rm -rf .venv .venv-* .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage .coverage.* htmlcov build dist
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/.installed: pyproject.toml nl2sql/pyproject.toml constraints.txt
	$(call install,$(VENV),dev,-c constraints.txt,./nl2sql)

$(DOCS_VENV)/.installed: pyproject.toml constraints.txt
	$(call install,$(DOCS_VENV),docs,-c constraints.txt)

# The peers have requirements of their own, which must not move what the tests run on.
BENCH_PINS := $(or $(wildcard benchmarks/constraints.txt),constraints.txt)
.venv-bench/.installed: pyproject.toml $(BENCH_PINS)
	$(call install,.venv-bench,bench,-c $(BENCH_PINS))
