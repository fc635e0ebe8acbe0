# Every target makes its own environment; python3 with venv and pip is all that is needed.
PYTHON ?= python3
VENV ?= .venv
TORCH ?= .venv-torch
OMICS ?= .venv-omics
WORKERS ?= 2

BIN := $(VENV)/bin
PIP := -m pip install --quiet --disable-pip-version-check

.PHONY: demo quick test test-torch test-omics check bench front-page clean

%/bin/python:
	$(PYTHON) -m venv $*

$(VENV)/.installed: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python $(PIP) -e ".[dev]"
	touch $@

demo: $(VENV)/.installed  ## cluster the built-in digits and draw the result
	$(BIN)/omcal demo --out out

quick: $(VENV)/.installed  ## the inner loop: no real data, no other processes, no measured memory
	$(BIN)/python -m pytest --quick -n $(WORKERS)

test: $(VENV)/.installed  ## all tests and the examples in docstrings
	$(BIN)/python -m pytest -n $(WORKERS)

# In an environment of its own, as its default build takes gigabytes and nothing else needs it.
$(TORCH)/.installed: pyproject.toml | $(TORCH)/bin/python
	$(TORCH)/bin/python $(PIP) -e ".[cli,fast,io]" "torch==2.13.0" pytest pytest-xdist hypothesis
	touch $@

test-torch: $(TORCH)/.installed  ## tests of tensors and devices, with PyTorch
	$(TORCH)/bin/python -m pytest -m torch -n $(WORKERS) tests

# In an environment of its own: anndata lags behind the pandas that everything else is tested with.
$(OMICS)/.installed: pyproject.toml | $(OMICS)/bin/python
	$(OMICS)/bin/python $(PIP) -e ".[omics,io,plot]" scanpy pytest hypothesis
	touch $@

test-omics: $(OMICS)/.installed  ## tests of AnnData and MuData, with the real libraries
	$(OMICS)/bin/python -m pytest tests/test_tl.py tests/datasets/test_single_cell.py

check: $(VENV)/.installed  ## style, types, import directions
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(VENV)/.installed  ## speed and memory, as ratios within one run, into out/speed.md
	$(BIN)/python benchmarks/speed.py

front-page: $(VENV)/.installed  ## the tables of README.md anew, from benchmarks/results
	$(BIN)/python benchmarks/front_page.py

clean:
	rm -rf $(VENV) $(TORCH) $(OMICS) out
