# Two commands for everyone: `make demo` and `make test`. The rest is for contributors.
# Needs the Rust toolchain, Python 3.11, git and make; everything else is fetched into ./target and ./.venv.

CARGO  ?= cargo
PYTHON ?= python3
VENV   := .venv
TOOLS  := target/tools
DENY   := $(TOOLS)/bin/cargo-deny
PYTHONS := bench crates examples fuzz python tests
# With the features of the tests: what they have compiled is not compiled again.
BUILD := $(CARGO) build --quiet --workspace --all-features
# A fixed seed: a gate must not be a lottery. `make search` looks with new ones.
export PROPTEST_RNG_SEED ?= 1
# Python keeps what it has compiled: tests start hundreds of processes, and each would compile all its modules again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test bench fmt fmt-check lint phrases package rust-build rust-test docs deny dependencies python-lint tools wheel python-test flower-test spark-test onnx-test browser-test search sweep soak fuzz clean advisories lock engines-test stores-test

demo:            ## the main job on bundled real data; pictures in ./pmfcl-demo
	$(CARGO) run --profile demo -p pmfcl-cli --no-default-features -- demo

# Clippy is the compiler with more lints: as a wrapper it checks our crates while they are compiled, and nothing is compiled a second
# time for `cargo clippy`. A warning is an error.
LINTED := RUSTC_WORKSPACE_WRAPPER=clippy-driver CLIPPY_ARGS=-Dwarnings__CLIPPY_HACKERY__

# After the colon are the stages that one waits for; three run at the same time, since tests of Flower, Spark and locks wait a lot. The
# time of each is printed at the end.
test:            ## everything CI runs
	WHEEL= $(LINTED) $(PYTHON) tests/stages/run.py --at-once 3 rust-build tools fmt-check phrases:tools wheel:tools,rust-build \
	  flower-test:wheel spark-test:wheel python-test:wheel rust-test:rust-build onnx-test:tools,rust-build docs:rust-build \
	  browser-test:tools,rust-build python-lint:wheel package:rust-build dependencies

bench:           ## speed, memory and accuracy; ratios, one run
	$(CARGO) build --release --quiet -p pmfcl-cli -p pmfcl-lab
	$(MAKE) --no-print-directory $(VENV)/peers
	for name in kernels conditioning memory scaling reading; do \
	  PATH="$(CURDIR)/$(VENV)/bin:$$PATH" target/release/pmfcl-lab bench $$name || exit 1; echo; done

fmt:             ## format everything
	$(CARGO) fmt --all
	$(MAKE) --no-print-directory $(VENV)/tools && $(VENV)/bin/ruff format $(PYTHONS) && $(VENV)/bin/ruff check --fix $(PYTHONS)

fmt-check:
	$(CARGO) fmt --all --check

lint: phrases
	$(CARGO) clippy --workspace --all-targets --all-features -- -D warnings

# Spelling (dictionary in _typos.toml), phrases that have an ordinary word instead, and documents wrapped at 100 columns.
phrases: $(VENV)/tools
	$(PYTHON) tests/phrases/check.py
	$(PYTHON) tests/phrases/wrap.py --check README.md ARCHITECTURE.md CONTRIBUTING.md docs/*.md
	$(VENV)/bin/typos

# nextest where it is installed, the standard runner elsewhere. The Python crate is tested through Python. Some tests wait for locks, so
# there is one more at a time than processors.
rust-test:
	if $(CARGO) nextest --version >/dev/null 2>&1; \
	then $(CARGO) nextest run --workspace --all-features --no-fail-fast --test-threads $$(($$(nproc) + 1)); \
	else $(CARGO) test --workspace --all-features --no-fail-fast --lib --bins --tests; fi

# All that the stages after it run.
rust-build:
	$(CARGO) test --workspace --all-features --no-run --lib --bins --tests
	$(BUILD) --bin pmfcl --example cases --example pages

# The examples in the documents, and the documents themselves, from what is compiled already: `cargo doc` would have every dependency
# checked again. Also the public names of the core against the list in tests/surface.
docs:
	RUSTDOC="$(CURDIR)/tests/stages/rustdoc.py" $(CARGO) test --quiet --workspace --all-features --doc
	$(PYTHON) tests/surface/check.py

python-lint: $(VENV)/tools $(VENV)/python
	$(VENV)/bin/ruff format --check $(PYTHONS) && $(VENV)/bin/ruff check $(PYTHONS)
	$(VENV)/bin/python -m mypy

# Everything the Python tests need, fetched while the first crates compile.
tools: $(VENV)/tools $(VENV)/python $(VENV)/onnx $(VENV)/browser
	$(MAKE) --no-print-directory $(VENV)/flower || true
	if command -v java >/dev/null; then $(MAKE) --no-print-directory $(VENV)/spark || true; fi

# What the tests of Python wait for. In `make test` the wheel is a stage of its own: installed once more, it would not be there for a
# moment, and an app that Flower starts then cannot import it.
WHEEL ?= wheel

# The wheel as users install it, except for its profile and features of dependencies that it does not use: what the Rust tests have
# compiled is not compiled again.
wheel: $(VENV)/python
	rm -rf target/wheels && $(VENV)/bin/maturin build --quiet --profile dev --features as-in-tests --interpreter $(VENV)/bin/python --out target/wheels
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check --force-reinstall --no-deps target/wheels/pmfcl-*.whl

# For stages that run at the same time: they use the wheel that is there, and build one only where there is none.
INSTALLED := $(VENV)/bin/python -c 'import pmfcl' 2>/dev/null || $(MAKE) --no-print-directory wheel

python-test: $(WHEEL) $(VENV)/onnx
	$(INSTALLED)
	$(BUILD) --bin pmfcl
	PMFCL_PROGRAM=target/debug/pmfcl $(VENV)/bin/python -m pytest -q -rs python/tests tests/defaults

# The Flower apps: in one process, in the simulation engine, and over a SuperLink and SuperNodes that are killed. Where Flower
# cannot be installed, this says so and nothing is tested.
flower-test: $(VENV)/python
	$(INSTALLED)
	if $(MAKE) --no-print-directory $(VENV)/flower; \
	then FLWR_TELEMETRY_ENABLED=0 FLWR_DISABLE_UPDATE_CHECK=1 $(VENV)/bin/python -m pytest -q -rs tests/flower; \
	else echo "********  Flower could not be installed here: tests/flower was NOT run  ********"; fi

# pmfcl.spark on a standalone master and two workers on loopback, one of which is killed. Where Java
# or Spark is absent, this says so and nothing is tested.
spark-test: $(VENV)/python
	$(INSTALLED)
	if command -v java >/dev/null && $(MAKE) --no-print-directory $(VENV)/spark; \
	then $(BUILD) --bin pmfcl && PMFCL_PROGRAM=target/debug/pmfcl $(VENV)/bin/python -m pytest -q -rs tests/spark; \
	else echo "********  Spark needs Java 17 and pyspark, which are not here: tests/spark was NOT run  ********"; fi

# pmfcl.ray and pmfcl.dask on local clusters of two processes each, memory capped, and the recipes for DuckDB and Polars. Where an
# engine cannot be installed, this says so and nothing is tested; an engine that hangs is ended after eight minutes. Ray gives its
# workers a low priority (15), with which they hardly ran at all next to anything else, and passes did not come to an end in time.
engines-test: $(VENV)/python
	$(INSTALLED)
	if $(MAKE) --no-print-directory $(VENV)/engines; \
	then RAY_DEDUP_LOGS=0 RAY_USAGE_STATS_ENABLED=0 RAY_worker_niceness=0 timeout 480 $(VENV)/bin/python -m pytest -q -rs tests/engines; \
	else echo "********  Ray or Dask could not be installed here: tests/engines was NOT run  ********"; fi

# Files in a bucket of moto, a server with the interface of S3; the Rust tests have a small server of their own. Where moto cannot be
# installed, this says so and nothing is tested.
stores-test: $(VENV)/python
	if $(MAKE) --no-print-directory $(VENV)/stores; \
	then $(BUILD) --bin pmfcl && PMFCL_PROGRAM=target/debug/pmfcl $(VENV)/bin/python -m pytest -q -rs tests/stores; \
	else echo "********  moto could not be installed here: tests/stores was NOT run  ********"; fi

# Exported models through onnxruntime: the same predictions on every loss and basis.
onnx-test: $(VENV)/onnx
	$(BUILD) --example cases
	PMFCL_CASES=target/debug/examples/cases $(VENV)/bin/python -m pytest -q tests/onnx

# The report page in headless Chromium, which is installed if it is not there and can be.
browser-test: $(VENV)/browser
	$(BUILD) --example pages
	PMFCL_PAGES_EXAMPLE=target/debug/examples/pages $(VENV)/bin/python -m pytest -q tests/browser

deny: $(DENY)
	$(DENY) --log-level error check licenses bans sources
	$(PYTHON) tests/dependencies/check.py --approve

# The verdict of cargo-deny on exactly these dependencies is on record; where they have changed, `make deny` runs.
# The fuzzer has a lock of its own, which must follow the crates.
dependencies:
	$(PYTHON) tests/dependencies/check.py
	$(CARGO) metadata --locked --format-version 1 --manifest-path fuzz/Cargo.toml >/dev/null

advisories: $(DENY)  ## known vulnerabilities and unmaintained crates: by the network, or DB=git directory of rustsec/advisory-db; not a gate
	if [ -n "$(DB)" ]; then $(PYTHON) tests/tools/advisories.py "$(DB)"; else $(DENY) --log-level error check advisories; fi

# The crates as they would be published: manifests, versions and lists of files. They are not compiled from the archives,
# which takes as long as the tests. The five that are left out are never published.
package:
	$(CARGO) package --quiet --no-verify --allow-dirty --workspace \
	  --exclude pmfcl-baselines --exclude pmfcl-faults --exclude pmfcl-lab --exclude pmfcl-oracle --exclude pmfcl-python

# Kills of writers in processes of their own, of Python that saves and of the program, in memory where there is a file system for it:
# what SIGKILL leaves does not depend on a disk. The tests of files are built as `make test` builds them, with every check. Writers that
# wait for each other's locks sleep, so there are many worlds of them at once.
SHM := $(shell test -w /dev/shm && echo TMPDIR=/dev/shm)

soak:            ## 10,000 kills, a million steps of two writers, and files far larger than memory; not a gate
	$(SHM) PMFCL_KILLS=1000 PMFCL_STRIDE=1 $(CARGO) test --quiet --workspace --exclude pmfcl-python --all-features --test file -- \
	  --nocapture kills:: faults::
	$(MAKE) --no-print-directory wheel
	$(SHM) PMFCL_KILLS=1000 $(VENV)/bin/python -m pytest -q -s python/tests/test_kills.py
	$(SHM) PMFCL_STEPS=1000000 PMFCL_WORLDS=64 $(CARGO) test --quiet --workspace --exclude pmfcl-python --all-features --test file -- \
	  --nocapture stateful::
	$(CARGO) build --release -p pmfcl-cli
	PMFCL_KILLS=1000 $(CARGO) test --release -p pmfcl-cli --test cli -- --include-ignored --nocapture crash:: memory::

fuzz:            ## forty million executions over all fuzz targets; not a gate
	fuzz/run.sh all

search:          ## property tests with new seeds and many cases; with DATA=dir also `make sweep`; not a gate
	env -u PROPTEST_RNG_SEED PROPTEST_CASES=5000 $(CARGO) test --workspace --exclude pmfcl-python --release --tests
	if [ -n "$(DATA)" ]; then $(MAKE) --no-print-directory sweep DATA="$(DATA)"; fi

# The bundled sets, and the tables of a directory: Parquet or CSV, targets y, y2, …; `task` and `split` are no features.
sweep: $(VENV)/python  ## task by task against one fit on DATA=dir, in 20 random splits; not a gate
	rm -rf target/wheels && $(VENV)/bin/maturin build --quiet --release --interpreter $(VENV)/bin/python --out target/wheels
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check --force-reinstall --no-deps target/wheels/pmfcl-*.whl
	$(CARGO) build --quiet --release -p pmfcl-cli
	PMFCL_PROGRAM=target/release/pmfcl PYTHONPATH=tests $(VENV)/bin/python -m defaults $(DATA)

$(DENY):
	$(CARGO) install --quiet --locked --debug --root $(TOOLS) cargo-deny@0.20.2

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

# What the tests install is locked with hashes (`make lock` writes the locks): a file that was exchanged on its way is refused. uv takes
# less time than pip; where it cannot reach the packages, pip may know how to.
UV := $(VENV)/bin/uv pip install --quiet --python $(VENV)/bin/python
PIP := $(VENV)/bin/python -m pip install --quiet --disable-pip-version-check
define install
$(UV) $(1) || $(PIP) $(1)
endef

$(VENV)/tools: $(VENV)/bin/python tests/tools/requirements.lock
	$(PIP) --require-hashes -r tests/tools/requirements.lock && touch $@

$(VENV)/python: $(VENV)/tools python/tests/requirements.lock
	$(call install,--require-hashes -r python/tests/requirements.lock) && touch $@

$(VENV)/onnx $(VENV)/browser $(VENV)/flower $(VENV)/spark: $(VENV)/%: $(VENV)/tools tests/%/requirements.lock
	$(call install,--require-hashes -r tests/$*/requirements.lock) && touch $@

lock: $(VENV)/tools  ## writes the locks of the lists of Python packages the tests install
	tests/tools/lock.sh $(VENV)/bin/uv

$(VENV)/engines: $(VENV)/tools tests/engines/requirements.txt
	$(call install,-r tests/engines/requirements.txt) && touch $@

$(VENV)/stores: $(VENV)/tools tests/stores/requirements.txt
	$(call install,-r tests/stores/requirements.txt) && touch $@

# Peers that benchmarks compare with.
$(VENV)/peers: $(VENV)/tools
	$(call install,numpy scipy threadpoolctl scikit-learn pyarrow polars) && touch $@

clean:
	rm -rf target $(VENV) pmfcl-demo
