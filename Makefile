# Two commands do all: `make demo` and `make test`. Both set up what they need in .venv.

PYTHON ?= python3
BIN := .venv/bin
PACKAGES := bench_core plugins/block-bootstrap/block_bootstrap plugins/code-digests/code_digests plugins/process-watch/process_watch plugins/placed-settings/placed_settings plugins/plain-files/plain_files plugins/input-digests/input_digests $(wildcard plugins/*/bench_*)

# one process a core, one thread a process: several threads in several processes slow each other down
JOBS ?= $(shell getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2)
# neighbours share fixtures and imports, so each process has its own part of the tests, and then helps others
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(JOBS) --dist worksteal

.PHONY: setup setup-ci demo test test-extras test-slow nightly mutants lint format bench schema papers wheels
.PHONY: release-check fresh clean

setup:
	@$(PYTHON) tools/install.py

setup-ci:
	@$(PYTHON) tools/install.py --ci

demo: setup
	$(BIN)/bench run suites/quickstart.yaml --workers 2 --out reports/demo

test: setup
	$(PYTEST) -m "not slow and not nightly"

# the tests that `make test` skips where extras are not installed; only their files are read, each by one process,
# so that Ray starts once
test-extras: setup-ci
	$(PYTEST) --dist loadfile -m "extra and not slow and not nightly" \
		$$(grep -rl --include="test_*.py" "mark\.extra(" tests plugins)

# of some FOLDERS of tests; by default of all
test-slow: setup
	$(PYTEST) -m "slow and not nightly" $(FOLDERS)

# what continuous integration has no time for: slow tests of distributions that have not changed, contracts at full
# size, long simulations, all smoke suites on a pretended GPU, drills at length
nightly: setup-ci
	$(PYTEST) -m "slow or nightly"
	$(PYTEST) -m "not slow and not nightly" -k contract --full-contracts --cpu-limit 0
	$(BIN)/python tests/drills/fuzz_suites.py
	$(BIN)/python tests/drills/flip_bytes.py
	$(BIN)/python tests/drills/kill_runs.py
	$(BIN)/python tests/drills/trace_files.py

# whether tests notice small changes of the code: docs/quality.md
mutants: setup
	nice -n 15 $(BIN)/python tools/mutants.py --jobs $(JOBS)

lint: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy $(PACKAGES) tools

format: setup
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: setup
	for file in benchmarks/*.py; do echo "== $$file"; $(BIN)/python $$file || exit 1; done

schema: setup
	$(BIN)/bench schema > .new && mv .new suites/suite.schema.json
	$(BIN)/python tools/reference.py suites > .new && mv .new docs/suites.md
	$(BIN)/python tools/reference.py parts > .new && mv .new docs/parts.md
	$(BIN)/python tools/command_reference.py > .new && mv .new docs/commands.md
	$(BIN)/python tools/code_map.py
	$(BIN)/python tools/api_reference.py

# the numbers and verdicts on pages, from the committed reports
papers: setup
	$(BIN)/python tools/paper_tables.py

wheels: setup
	$(BIN)/python tools/wheels.py

release-check: setup
	$(BIN)/python tools/release_check.py

# the proof that a newcomer's machine will do: an empty folder, home and cache
fresh:
	@$(PYTHON) tools/fresh.py

clean:
	rm -rf .venv .bench runs dist .pytest_cache .mypy_cache .ruff_cache
