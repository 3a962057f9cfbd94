# Two commands for a fresh machine with Python 3.11 to 3.14: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test check docs faults results figures architecture bench scaling gpu gpu_wheels format lock clean

demo: $(VENV)/base
	$(BIN)/python demo.py

test: export PYTHONDONTWRITEBYTECODE := # modules are compiled once, and not by each of a hundred processes
test: $(VENV)/installed
	$(BIN)/python -m pytest --numprocesses logical --maxprocesses 8 --dist loadfile --no-loadscope-reorder

check: $(VENV)/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(MAKE) docs

docs: $(VENV)/installed # into site/; broken links and anchors, and pages that load files from elsewhere, are errors
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

faults: $(VENV)/installed # runs what docs/faults.md claims, and writes it
	$(BIN)/python -m pytest -m faults --record_faults --numprocesses logical --maxprocesses 8 --dist loadfile --no-loadscope-reorder
	VIT_REAL_PROCESSES=1 $(BIN)/python -m pytest -m "faults and slow" --record_faults
	$(BIN)/python -m tests.faults.table

results: $(VENV)/installed # ROW=NAME trains what a row of evidence/ lacks; always writes docs/leaderboard.md, docs/claims.md and docs/results.md
	$(BIN)/python evidence/make/make.py $(ROW)

figures: $(VENV)/installed # of digits and of docs/concepts/; docs/figures/numbers.json has the commands of the others
	$(BIN)/python docs/make_figures.py
	$(BIN)/python docs/make_concept_figures.py

architecture: $(VENV)/installed # the table of rooms in docs/architecture.md, and the schemas of recipes
	$(BIN)/python docs/make_architecture.py
	for name in train pretrain study; do $(BIN)/python -m vit $$name --print_schema > configs/schemas/$$name.json; done

bench: $(VENV)/bench # all rows of docs/performance.md, 30 minutes on 2 cores; continues where it was interrupted
	$(BIN)/python benchmarks/all_rows.py

scaling: $(VENV)/bench # how cost grows: figures and numbers of docs/performance.md, 15 minutes on 2 cores
	$(BIN)/python benchmarks/scaling.py

DEVICE ?= cuda
KIT := $(or $(wildcard $(BIN)/python),$(PYTHON))
gpu: # what only a GPU can show, in 9 minutes: correctness, speed, a profile; continues where it was cut off. DEVICE=cpu: tiny sizes
	$(KIT) benchmarks/gpu/kit.py --device $(DEVICE)

gpu_wheels: # into .wheels/: what a machine with PyTorch, Lightning and timm lacks, for `make gpu` there without a network
	$(PYTHON) -m pip download --quiet --no-deps --only-binary=:all: --dest .wheels --python-version 3.12 \
	    --platform manylinux2014_x86_64 --platform manylinux_2_28_x86_64 --platform any \
	    wandb sentry-sdk gitpython gitdb smmap pydantic \
	    pydantic-core annotated-types httpx peft fastapi starlette uvicorn python-multipart prometheus-client safetensors

format: $(VENV)/installed
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

lock: $(VENV)/installed # after a change of pyproject.toml: uv.lock, and from it constraints.txt. UPGRADE=--upgrade: newest versions
	$(BIN)/uv lock $(UPGRADE)
	$(BIN)/uv export --quiet --frozen --all-extras --all-groups --no-hashes --no-emit-project --no-annotate --output-file constraints.txt

# uv installs where there is one, else pip. constraints.txt has the versions of uv.lock.
PIP = $(if $(shell command -v uv),uv pip install --python $(BIN)/python,$(BIN)/python -m pip install --disable-pip-version-check)
INSTALL = $(PIP) --constraint constraints.txt --editable

$(VENV)/base: pyproject.toml constraints.txt # what `vit` itself needs
	$(PYTHON) -c "import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 14) and 'Python 3.11 to 3.14 is needed: make PYTHON=python3.12 ...')"
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "Installing what vit needs into $(VENV): about 110 packages, on Linux 6.4 GB with PyTorch for GPUs"
	$(INSTALL) .
	touch $@

$(VENV)/installed: $(VENV)/base # what tests and checks need beside it
	@echo "Installing what tests need beside it: about 140 packages, 1.5 GB"
	$(if $(findstring uv pip,$(PIP)),,$(PIP) --quiet --upgrade 'pip>=25.1') # which knows --group
	$(INSTALL) . --group dev
	touch $@

$(VENV)/bench: $(VENV)/installed
	$(INSTALL) . --group bench
	touch $@

clean:
	rm -rf $(VENV) site .pytest_cache .mypy_cache .ruff_cache .hypothesis
