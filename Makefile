# Every target makes its own .venv; python3 with venv and pip is all that is needed.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

OMICS := .venv-omics

.PHONY: demo test test-omics check bench clean

$(STAMP): pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[dev]"
	touch $@

demo: $(STAMP)  ## cluster the built-in digits and draw the result
	$(BIN)/omcal demo --out out

test: $(STAMP)  ## all tests and the examples in docstrings
	$(BIN)/python -m pytest -n 2

# In an environment of its own: anndata lags behind the pandas that everything else is tested with.
$(OMICS)/.installed: pyproject.toml
	test -x $(OMICS)/bin/python || $(PYTHON) -m venv $(OMICS)
	$(OMICS)/bin/python -m pip install --quiet --disable-pip-version-check -e ".[omics,io,plot]" scanpy pytest hypothesis
	touch $@

test-omics: $(OMICS)/.installed  ## tests of AnnData and MuData, with the real libraries
	$(OMICS)/bin/python -m pytest tests/test_tl.py tests/datasets/test_single_cell.py

check: $(STAMP)  ## style, types, import directions
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(STAMP)  ## speed and memory, as ratios within one run
	$(BIN)/python benchmarks/speed.py

clean:
	rm -rf $(VENV) $(OMICS) out
