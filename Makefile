# Start with `make demo` and `make test`. Both set up .venv.

PYTHON ?= python3
BIN := .venv/bin
PACKAGES := bench_core plugins/block-bootstrap/block_bootstrap plugins/code-digests/code_digests plugins/process-watch/process_watch plugins/placed-settings/placed_settings plugins/plain-files/plain_files plugins/input-digests/input_digests $(wildcard plugins/*/bench_*)

# one process per core, one thread per process: threads of several processes slow each other down
JOBS ?= $(shell getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2)
# neighbouring tests share fixtures and imports, so each process starts with its own section, then steals work
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

# the tests that `make test` skips without extras; only their files are collected, each by one process, so that Ray
# starts once
test-extras: setup-ci
	$(PYTEST) --dist loadfile -m "extra and not slow and not nightly" \
		$$(grep -rl --include="test_*.py" "mark\.extra(" tests plugins)

# in the test folders FOLDERS, by default in all
test-slow: setup
	$(PYTEST) -m "slow and not nightly" $(FOLDERS)

# too long for continuous integration: slow tests of unchanged distributions, full contracts, long simulations, all
# smoke suites on a simulated GPU, long drills
nightly: setup-ci
	$(PYTEST) -m "slow or nightly"
	$(PYTEST) -m "not slow and not nightly" -k contract --full-contracts --cpu-limit 0
	$(BIN)/python tests/drills/fuzz_suites.py
	$(BIN)/python tests/drills/flip_bytes.py
	$(BIN)/python tests/drills/kill_runs.py
	$(BIN)/python tests/drills/trace_files.py

# mutation testing: docs/quality.md
mutants: setup
	nice -n 15 $(BIN)/python tools/mutants.py --jobs $(JOBS)

lint: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/python tools/words.py
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

# the numbers and verdicts in docs/, from the committed reports
papers: setup
	$(BIN)/python tools/paper_tables.py

wheels: setup
	$(BIN)/python tools/wheels.py

release-check: setup
	$(BIN)/python tools/release_check.py

# a first installation on a simulated fresh machine: an empty folder, home directory and cache
fresh:
	@$(PYTHON) tools/fresh.py

clean:
	rm -rf .venv .bench runs dist .pytest_cache .mypy_cache .ruff_cache
