# Everything here needs python3 (3.11 or newer, with venv) and make. 'make help' lists the commands.
PYTHON ?= python3
VENV ?= .venv
ARGS ?=

environment = command -v $(PYTHON) >/dev/null || { echo "There is no '$(PYTHON)'. Python 3.11 or newer is needed: make PYTHON=/path/to/python ..." >&2; exit 1; }; \
	$(PYTHON) .ci/environment.py $(VENV)
python = $(VENV)/bin/python
# The tests start many processes: each module is compiled once, even where PYTHONDONTWRITEBYTECODE is set.
compiled_once = PYTHONDONTWRITEBYTECODE= PYTHONPYCACHEPREFIX=$(abspath $(VENV))/pycache
# Tests also wait, for ends of processes for example: one process more than there are cores keeps them busy.
processes = $(python) -c "import os; print(min(len(os.sched_getaffinity(0)) + 1, 4))"

.DEFAULT_GOAL := help
.PHONY: help install run test test-oldest check check-format check-lint check-types check-floors check-lines check-words check-lock check-containers check-docs docs dist evidence format openapi lock image clean environment-test

help: ## list these commands
	@echo "Commands (PYTHON=$(PYTHON), VENV=$(VENV), ARGS= further arguments):"
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1|\2/p' Makefile | while IFS='|' read -r name text; do printf '%-16s %s\n' "$$name" "$$text"; done

install: environment-test ## make the environment of all other commands, in VENV, and show how it goes

run: ## start the service with the built-in robots and the page; ARGS="--port 9000"
	@$(environment) run
	@exec $(VENV)/bin/ik-service serve --log-format console --page-port 8080 $(ARGS)

test: environment-test ## run the tests; ARGS="tests/service -k health"
	@$(compiled_once) $(python) -m pytest --numprocesses $$($(processes)) --dist loadgroup --no-loadscope-reorder $(ARGS)

test-oldest: ## run some of the tests with Python 3.10 and the least versions of all packages
	@$(PYTHON) .ci/oldest.py

check: check-format check-lint check-types check-floors check-lines check-words check-lock check-containers check-docs ## format, lint, types, import floors, lines, words, locks, docker/, docs/

check-format: environment-test
	@$(python) -m ruff format --check .

check-lint: environment-test
	@$(python) -m ruff check --output-format concise --quiet .

check-types: environment-test
	@$(python) -m mypy

check-floors: environment-test
	@$(VENV)/bin/lint-imports --no-logo

check-lines: environment-test
	@$(python) .ci/lines.py

check-words: environment-test
	@$(python) .ci/words.py

check-lock: environment-test
	@$(python) .ci/lock.py check

check-containers: environment-test
	@$(VENV)/bin/hadolint --no-color docker/Dockerfile
	@$(VENV)/bin/yamllint --strict docker
	@$(VENV)/bin/check-jsonschema --quiet --builtin-schema vendor.compose-spec docker/compose.yaml docker/compose.ray.yaml
	@$(VENV)/bin/kubernetes-validate --strict --quiet docker/kubernetes/base/[!k]*.yaml docker/kubernetes/uploads/volume.yaml docker/kubernetes/api_keys.example.yaml
	@$(python) -m json.tool docker/monitoring/dashboard.json /dev/null
	@$(compiled_once) $(python) -m pytest --quiet --no-header -n 0 tests/docker

check-docs: environment-test
	@$(python) .ci/site.py

docs: environment-test ## build the pages and a reference of the library as a site, in build/site
	@$(python) .ci/site.py build/site

evidence: environment-test ## the slow checks and the benchmarks, each printing its figure
	@$(python) -m pytest -m evidence -s $(ARGS)
	@for script in $$(grep -rl __main__ benchmarks --include '*.py' --exclude "*_digests.py" --exclude load.py --exclude-dir peers --exclude-dir .environments | sort); do \
		module=$$(echo $${script%.py} | tr / .); echo "== $$module"; $(python) -m $$module || exit 1; done

dist: environment-test ## build the wheel and the source archive into dist/, and check them for a package index
	@rm -rf dist
	@$(VENV)/bin/uv build --quiet --no-build-isolation --python $(python) --out-dir dist
	@$(VENV)/bin/uv tool run --quiet twine check --strict dist/*.whl dist/*.tar.gz

format: environment-test ## rewrite the code as check-format and check-lint want it
	@$(python) -m ruff format .
	@$(python) -m ruff check --fix .

openapi: environment-test ## write docs/openapi.json from the application
	@$(VENV)/bin/ik-service openapi > docs/openapi.json

image: ## build the container image and try it; needs docker, or root and Debian's buildah and mmdebstrap
	@$(PYTHON) docker/image.py

lock: ## write the lock files from pyproject.toml; ARGS=--upgrade takes newer versions
	@$(PYTHON) .ci/lock.py write $(ARGS)

clean: ## remove the environment and what tools have left
	@if [ -f $(VENV)/installed.json ]; then rm -rf $(VENV); fi
	@rm -rf build dist benchmarks/.environments *.egg-info .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	@find ik_service objectives tests benchmarks -name __pycache__ -prune -exec rm -rf {} + 2>/dev/null || true

environment-test:
	@$(environment) test
