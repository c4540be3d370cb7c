# Two commands do everything, set-up included:  make demo  and  make test
SHELL := /bin/bash
VENV := .venv
PY := $(VENV)/bin/python
LAB := $(VENV)/bin/lab
STAMP := $(VENV)/.installed
# Bytecode of our own packages is worth keeping, whatever the environment says.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test check bench torture agents peers schemas clean

demo: $(STAMP)
	@bash scripts/demo

test: $(STAMP) check
	@bash scripts/test

check: $(STAMP)
	@bash scripts/check

bench: $(STAMP)
	@bash scripts/with-docker bash scripts/bench

torture: $(STAMP)
	@bash scripts/torture

agents: $(STAMP)
	@bash scripts/agents

peers: $(STAMP)
	@bash scripts/peers

schemas: $(STAMP)
	$(PY) -m labrunner.records.schema

$(STAMP): pyproject.toml constraints.txt scripts/install
	@bash scripts/install
	@touch $(STAMP)

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis .lab
