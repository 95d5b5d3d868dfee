# Two commands do all: `make demo` and `make test`. Both set up what they need in .venv.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PLUGINS := $(patsubst %/pyproject.toml,%,$(wildcard plugins/*/pyproject.toml))
PROJECTS := pyproject.toml $(addsuffix /pyproject.toml,$(PLUGINS))
PACKAGES := bench_core $(wildcard plugins/*/bench_*)

# uv is used where it is installed; it does not read pip's own settings
UV := $(shell command -v uv 2>/dev/null)
export UV_FIND_LINKS ?= $(PIP_FIND_LINKS)
INSTALL := $(if $(UV),$(UV) pip install --python $(BIN)/python,$(BIN)/python -m pip install) --quiet

# one process a core, one thread a process: several threads in several processes slow each other down
JOBS ?= $(shell getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2)

.PHONY: setup demo test test-all lint format bench schema clean

setup: $(VENV)/.installed

$(VENV)/.installed: $(PROJECTS) constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "bench needs Python 3.11 or newer: make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)"; exit 2; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(INSTALL) "hatchling>=1.26" "editables>=0.5"
	$(INSTALL) --no-build-isolation -c constraints.txt -e ".[dev]" $(foreach plugin,$(PLUGINS),-e ./$(plugin))
	@touch $@

demo: setup
	$(BIN)/bench run suites/quickstart.yaml

test: setup
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(JOBS) -m "not slow"

test-all: setup
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(JOBS)

lint: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy $(PACKAGES)

format: setup
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: setup
	$(BIN)/python benchmarks/startup.py
	$(BIN)/python benchmarks/store.py
	$(BIN)/python benchmarks/training.py
	$(BIN)/python benchmarks/decoding.py
	$(BIN)/python benchmarks/guards.py
	$(BIN)/python benchmarks/self_terminating.py
	$(BIN)/python benchmarks/gpt2.py
	$(BIN)/python benchmarks/significance.py
	$(BIN)/python benchmarks/state_space.py
	$(BIN)/python benchmarks/output_layers.py
	$(BIN)/python benchmarks/insertion.py

schema: setup
	$(BIN)/bench schema > suites/suite.schema.json
	$(BIN)/bench schema --markdown suites > docs/suites.md
	$(BIN)/bench schema --markdown parts > docs/parts.md

clean:
	rm -rf $(VENV) .bench runs dist .pytest_cache .mypy_cache .ruff_cache
