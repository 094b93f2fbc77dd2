# Every command sets up by itself: `make demo` and `make test` work on a fresh machine.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.ready
.DEFAULT_GOAL := help
export PYTHONDONTWRITEBYTECODE :=  # images that set it let every process that a test starts compile the sources again

.PHONY: help setup test test-fast lint ruff pyright pyright-strict imports prose coverage test-slow bench demo results lab packages test-packages site clean

help:  ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-14s %s\n", $$1, $$2}' Makefile

setup: $(STAMP)  ## the environment, in .venv; every other target does this first

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable ".[test]"
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --no-deps vit-pytorch timm  # they ask for torchvision
	touch $(STAMP)

QUIET := $(BIN)/python -m tools.quiet  # the lab pauses meanwhile

test: lint  ## what CI runs: ruff, pyright, import-linter and pytest
	$(QUIET) $(BIN)/pytest -n 2 --dist worksteal

test-fast: setup  ## under a minute: layouts, configurations, the contract of every attention without traces, the command
	$(BIN)/pytest -n 2 --dist worksteal tests/attention/test_base.py tests/attention/test_base_sizes.py tests/attention/test_layout.py tests/test_registry.py tests/test_cli.py tests/test_config.py

lint: setup  ## without pytest
	$(MAKE) --no-print-directory --jobs 2 pyright ruff pyright-strict imports prose

ruff:
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

pyright:
	$(BIN)/pyright

pyright-strict:
	$(BIN)/pyright --project tools/strict.json

imports:
	$(BIN)/lint-imports

prose:
	$(BIN)/python -m tools.prose

coverage: setup  ## share of the branches that `make test` passes through, in processes that tests start too
	$(BIN)/coverage erase
	$(QUIET) $(BIN)/coverage run -m pytest -n 2 --dist worksteal
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report --skip-covered --sort=cover

test-slow: setup  ## minutes: compiles every core with inductor, traces every pair, fills a disk, kills a training thirty times
	$(QUIET) $(BIN)/pytest -m slow

bench: setup  ## ten minutes, with nothing else running: ours beside the peers; writes docs/speed.md and its chart
	$(BIN)/python -m benchmarks.attention --write docs/speed.md
	$(BIN)/python -m benchmarks.whole --write docs/speed.md
	$(BIN)/python -m benchmarks.growth --write docs/speed.md
	$(BIN)/python -m benchmarks.tokens --write docs/speed.svg
	$(BIN)/python -m benchmarks.pipeline --write docs/training.md

demo: setup  ## about two minutes: trains nine attentions on images in the package, and prints a table
	$(BIN)/vix compare --jobs 2

results: setup  ## the atlas of `vix advise` and the pages in docs/results, from the records there
	$(BIN)/python -m tools.atlas
	$(BIN)/python -m tools.pages

lab: setup  ## experiments that decide the documents' claims, in the background of other work; `LANES=2` when nothing else runs
	$(BIN)/python -m tools.lab run --lanes $(or $(LANES),1)

packages: setup  ## the wheels (with compiled kernels and without), the source and the trained models as release files, in dist/
	rm -rf dist
	$(BIN)/python -m build --outdir dist
	$(BIN)/python -m tools.wheels dist/*-py3-none-any.whl
	for model in $$(ls pretrained); do git archive --format zip --prefix $$model/ --output dist/pretrained-$$model.zip HEAD:pretrained/$$model; done

test-packages: setup  ## ten minutes: the wheel and the source in a clean environment, the tutorial from its first line to its last
	$(BIN)/pytest -m slow tests/test_package.py

site: setup  ## the documentation as pages, in .site
	$(BIN)/mkdocs build --strict

clean:  ## remove the environment
	rm -rf .venv
