# `make demo` and `make test` set everything up on a machine with Python 3.11 or newer, then do their job.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
SITE   := $(VENV)/.docs
LAST_QUICK := benchmarks/quick-0.2.json
# Two workers with one thread each: numerical libraries would otherwise fight for the same cores.
PYTEST := OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal -q

.PHONY: demo test coverage check format test-slow test-dropin test-site test-matrix benchmark benchmark-quick docs \
  site-archive release-check setup clean

demo: $(READY)
	$(BIN)/jensen compare digits --effort quick --report report.html --samples samples.png

test: $(READY)
	$(PYTEST)
	$(MAKE) --no-print-directory test-dropin

# All tests with the lines that none of them reaches; half as long again.
coverage: $(READY)
	$(PYTEST) --cov --cov-report=term

# What every commit passes, in under three minutes.
check: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(PYTEST) tests/laws tests/golden tests/test_layers.py

format: $(READY)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# pytest's 5 says that no test is marked slow.
test-slow: $(READY)
	$(PYTEST) tests -m slow || [ $$? -eq 5 ]

# scikit-learn's own tests of mixtures, k-means, factor analysis and topics, run on our classes.
test-dropin: $(READY)
	SCIPY_ARRAY_API=1 SKLEARN_RUN_FLOAT32_TESTS=1 $(PYTEST) -p dropin.plugin -p no:cacheprovider --disable-warnings \
	  --pyargs sklearn.mixture.tests.test_gaussian_mixture sklearn.mixture.tests.test_mixture \
	  sklearn.cluster.tests.test_k_means sklearn.decomposition.tests.test_factor_analysis \
	  sklearn.decomposition.tests.test_online_lda

benchmark: $(READY)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[bench]'
	$(BIN)/python benchmarks/gaussian_mixture.py
	$(BIN)/python benchmarks/kmeans.py
	$(BIN)/python benchmarks/kmedoids.py
	$(BIN)/python benchmarks/subspaces.py
	$(BIN)/python benchmarks/ridge_regression.py
	$(BIN)/python benchmarks/imputation.py
	$(BIN)/python benchmarks/vae_missing.py

# Speed and memory beside scikit-learn and torch, in a few minutes; fails if something fell since the last release.
benchmark-quick: $(READY)
	@mkdir -p build
	$(BIN)/python benchmarks/quick.py -o build/quick.json --against $(LAST_QUICK)

# The site, with every link checked. The first time it runs all examples for their pictures, which takes minutes.
docs: $(SITE)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	$(BIN)/python tools/check_site.py site

# The site of this version as one file, with its version in every path.
site-archive: docs
	$(BIN)/python tools/site_archive.py site dist

# The site in a browser: every page, the search, keyboard and contrast. Examples that were not run have no pictures here.
test-site: $(SITE)
	$(PYTEST) tests/site -m 'slow or not slow'

# The archives of a release, built, and tried in a clean environment outside of the checkout.
release-check: $(READY)
	$(BIN)/python tools/release_check.py

# The same small suite with every Python on this machine, and with the lowest and the newest packages. Each environment
# is made anew and takes some minutes; `make test-matrix ONLY="3.12 lowest"` chooses.
test-matrix: $(READY)
	$(BIN)/python tools/test_matrix.py $(ONLY)

setup: $(READY)

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "jensen needs Python 3.11 or newer, but $(PYTHON) is $$($(PYTHON) --version 2>&1); try: make PYTHON=python3.12"; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { \
	  echo "$(PYTHON) has no venv module; install it (Debian: apt-get install python3-venv) or choose another PYTHON="; exit 1; }
	@echo "making $(VENV), which takes some minutes"
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	@touch $(READY)

$(SITE): $(READY)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[docs]'
	@touch $(SITE)

clean:
	rm -rf $(VENV) site .pytest_cache .mypy_cache .ruff_cache .coverage build dist
