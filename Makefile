# Two commands do everything on a fresh machine with Python 3.11 to 3.13: `make demo` and `make test`.
PYTHON ?= python3
BIN := .venv/bin
# pins versions, for `make locks` alone
UV ?= uv
# byte code of all that is installed would take half of pip's time; little of it is ever imported
INSTALL := $(BIN)/python -m pip install --disable-pip-version-check --quiet --no-compile
# without byte code, as container images often ask for, each start compiles TensorFlow anew: 7 s
unexport PYTHONDONTWRITEBYTECODE

# processes of `make test`, each of which takes about 2 GB
JOBS ?= 2
# of `make release`
TASK = multi30k_ende
NAME = dtmt_tied
TERMS = LICENSE

.PHONY: demo test quality release load setup setup-dev format lint types check locks check-locks

demo: setup ## Train the embedded default, score it, export it, translate with it.
	$(BIN)/python pipelines/train.py --name demo --restart
	@echo
	@echo "Five lines through the exported SavedModel:"
	@$(BIN)/python pipelines/translate.py --name demo --show-source < pipelines/demo.en
	@echo
	@if [ -t 0 ] && [ -t 1 ]; then $(BIN)/python pipelines/translate.py --name demo; fi
	@echo "What else there is:"
	@echo "  your own text        $(BIN)/python pipelines/train.py --help"
	@echo "  real translation     $(BIN)/python pipelines/train.py --task multi30k_ende  (2 1/2 hours)"

test: setup-dev ## Lint, types and all tests.
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python -m mypy
	$(BIN)/python -m pytest -n $(JOBS) --dist loadgroup --no-loadscope-reorder --durations 15

check: test

quality: setup ## Train multi30k_ende_tok anew; fail if it scores more than 1 BLEU below the recorded mean. Takes 2 1/2 hours.
	$(BIN)/python pipelines/quality.py

release: setup ## Pack run NAME of TASK, trained and exported if it is not yet, for others into dist/, under the licence in the file TERMS.
	@ls saved_models/$(TASK)/$(NAME)/*/saved_model.pb > /dev/null 2>&1 || $(BIN)/python pipelines/train.py --task $(TASK) --name $(NAME)
	$(BIN)/python pipelines/pack.py saved_models/$(TASK)/$(NAME) --name $(TASK) --license $(TERMS) -o dist

load: setup-dev ## 20,000 requests of 16 clients through the exported model in MODEL=saved_models/<task>/<name>; LINES=a file to send.
	$(BIN)/python -m tests.serving.load --model-dir $(MODEL) --lines $(LINES)

setup: .venv/.installed
setup-dev: .venv/.installed-dev

.venv/bin/pip:
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' || \
	  { echo "Python 3.11, 3.12 or 3.13 is needed (TensorFlow's range); name one: make PYTHON=python3.12"; exit 1; }
	$(PYTHON) -m venv .venv || { rm -rf .venv; exit 1; }

.venv/.installed: requirements.txt | .venv/bin/pip
	$(INSTALL) -r requirements.txt
	@touch $@

.venv/.installed-dev: requirements-dev.txt .venv/.installed
	$(INSTALL) -r requirements-dev.txt
	@touch $@

format: setup-dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

lint: setup-dev
	$(BIN)/ruff check .

types: setup-dev
	$(BIN)/python -m mypy

COMPILE = UV_CUSTOM_COMPILE_COMMAND="make locks" $(UV) pip compile --quiet --universal --generate-hashes $(UPGRADE)
locks: ## Pin what requirements*.txt allow, with hashes, for each Python; pins that still fit stay, but for UPGRADE=--upgrade.
	for lock in python3.11 python3.12 python3.13; do \
	  version=$${lock#python}; \
	  $(COMPILE) --python-version $$version requirements-dev.txt -o $$lock-dev.lock && \
	  $(COMPILE) --python-version $$version requirements.txt -c $$lock-dev.lock -o $$lock.lock || exit 1; \
	done  # what users get is what the tests had

check-locks: setup-dev ## That the pins fit requirements*.txt and each other.
	$(BIN)/python -m pytest tests/test_locks.py
