# Every target sets up what it needs: a .venv with the pinned dependencies, once.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready

.PHONY: help parity vision hardware verify test check bench against fuzz mutants playground tables docs wheel tree clean
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

playground: $(READY) ## Write a page in which a digit is drawn and a network is seen to settle
	$(BIN)/python -m experiments.playground $(ARGS)

fuzz: $(READY)   ## Hunt for networks that do not behave as theory says, for five minutes
	$(BIN)/python -m experiments.fuzz $(ARGS)

mutants: $(READY) ## Make small faults in the code and list those that no test notices
	$(BIN)/python -m experiments.mutants $(ARGS)

docs: $(READY)   ## Build the site: pages, tutorials and the reference, in build/site
	$(BIN)/python -m sphinx --quiet --fail-on-warning --keep-going -c docs/site docs build/site
	@echo "The site is in build/site/index.html."

# Without the extras a command says in one sentence what it lacks, and still helps.
wheel: $(READY)  ## Install the wheel in a clean environment and use it from another folder
	rm -rf build/wheel
	$(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir build/wheel .
	$(PYTHON) -m venv build/wheel/env
	build/wheel/env/bin/python -m pip install --quiet --constraint constraints.txt "settle[torch] @ file://$$(ls $(CURDIR)/build/wheel/*.whl)"
	cd build/wheel && for name in $$(env/bin/python -c 'from settle.commands import commands; print(*commands())'); do \
	  env/bin/settle $$name --help >/dev/null || exit 1; done
	cd build/wheel && env/bin/settle fuzz --minutes 1 | grep -q 'settle\[dev\]'
	cd build/wheel && env/bin/settle playground --out page && env/bin/settle parity --quick --out parity

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
