# Two commands do all the set-up on a fresh machine:
#   make gate    detect the stack, run the shipped suites on it, judge them against the baselines
#   make test    lint, types and the tests of the plugin itself
# The environment sees the system's packages, so that an accelerator build of torch that is installed is used as it is.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
TORCH ?= torch==2.13.0
TORCH_CPU_INDEX ?= https://download.pytorch.org/whl/cpu
GATE_ARGS ?=

.PHONY: gate test lint types tests benchmarks clean

gate: $(VENV)/.gate
	$(BIN)/python -m pytest suites --accel-record=new --accel-report=reports/gate.json $(GATE_ARGS)

test: lint types tests

lint: $(VENV)/.test
	$(BIN)/ruff check .

types: $(VENV)/.test
	$(BIN)/mypy

tests: $(VENV)/.test
	$(BIN)/python -m pytest -n 2 --dist worksteal tests

benchmarks: $(VENV)/.test
	$(BIN)/python benchmarks/overhead.py

$(VENV)/bin/python:
	$(PYTHON) -m venv --system-site-packages $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip

# torch is installed only where there is none: never replaced, never upgraded. Its small CPU build where that index answers.
$(VENV)/.torch: $(VENV)/bin/python
	@if $(BIN)/python -c "import importlib.util as u, sys; sys.exit(u.find_spec('torch') is None)"; then \
	  echo "torch is here already and stays as it is"; \
	else \
	  $(BIN)/python -m pip install --quiet --retries 0 --timeout 15 --index-url $(TORCH_CPU_INDEX) "$(TORCH)" 2>/dev/null \
	    || $(BIN)/python -m pip install --quiet "$(TORCH)"; \
	fi
	@touch $@

$(VENV)/.gate: $(VENV)/.torch pyproject.toml
	$(BIN)/python -m pip install --quiet numpy -e ".[operators,cuda,xdist]"
	@touch $@

$(VENV)/.test: $(VENV)/.gate
	$(BIN)/python -m pip install --quiet -e ".[test,cuda]"
	@if command -v npm >/dev/null; then \
	  npm install --silent --no-fund --no-audit --prefix $(VENV)/node allure@3 >/dev/null 2>&1 \
	    || echo "Allure's generator cannot be installed: its test will be skipped"; \
	fi
	@touch $@

clean:
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis reports
