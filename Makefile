# Every target sets up what it needs: a .venv with the pinned dependencies, once.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready

.PHONY: help parity vision hardware verify test check bench against fuzz mutants tables tree clean
help:            ## Show this list
	@grep -E '^[a-z]+: .*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 12

parity: $(READY) ## Train EqProp and backprop side by side and print the table
	$(BIN)/python -m experiments.parity $(ARGS)

vision: $(READY) ## Train convolutional networks by EqProp and by backprop on the same images
	$(BIN)/python -m experiments.vision $(ARGS)

hardware: $(READY) ## Say what training would cost on simulated hardware
	$(BIN)/python -m experiments.hardware $(ARGS)

verify: $(READY) ## Establish every claim of the project again
	$(BIN)/python -m experiments.verify $(ARGS)

test: $(READY)   ## Run the tests, on all cores
	$(BIN)/python -m pytest -n auto --maxprocesses 4 --dist worksteal $(ARGS)

check: $(READY)  ## ruff, mypy --strict, the import contracts, and tables against their results
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m experiments.tables --check

bench: $(READY)  ## Measure the speed of the engine as ratios
	$(BIN)/python -m experiments.benchmark $(ARGS)

against: $(READY) ## Compare the speed with that of the commit before, or of BASE=revision or folder
	$(BIN)/python -m experiments.benchmark --against $(or $(BASE),HEAD~1) $(ARGS)

fuzz: $(READY)   ## Hunt for networks that do not behave as theory says, for five minutes
	$(BIN)/python -m experiments.fuzz $(ARGS)

mutants: $(READY) ## Make small faults in the code and list those that no test notices
	$(BIN)/python -m experiments.mutants $(ARGS)

tables: $(READY) ## Measure the tables of the pages anew, for hours, or ARGS="parity vision" alone
	$(BIN)/python -m experiments.tables $(ARGS)

tree: $(READY)   ## Write docs/tree.md, the list of all files
	$(BIN)/python -m experiments.tree

clean:           ## Remove the environment, caches and results
	rm -rf $(VENV) results build ./*.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "Settle needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) --version 2>&1). Try: make PYTHON=python3.12 ..."; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[all]'
	@touch $@
