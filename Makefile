# Flightdeck needs Python 3.11 or newer and make; everything else is installed into .venv.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
RUN := $(BIN)/python -m config.supervisor
TYPED := tasks_app orders campaigns config demo bench

# One installs at a time: of two checkouts the second waits for the first.
APT := flock -w 600 /var/lib/dpkg /bin/sh -c 'apt="apt-get -qq -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3"; \
	$$apt update && DEBIAN_FRONTEND=noninteractive $$apt install -y --no-install-recommends "$$0" >/dev/null'

# Programs and tests are compiled once, not by each of the many processes that begin with them.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup demo demo-reset run test setup-browser test-browser test-deep eval-assistant mutants lint types migrations settings check rules bench bench-bookings bench-transitions bench-jobs bench-operations bench-pages chaos screenshots clean

help: ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1|/' | \
		while IFS='|' read -r name text; do printf '  make %-12s %s\n' "$$name" "$$text"; done

setup: $(VENV)/.setup ## install what Flightdeck runs on

demo: $(VENV)/.setup-demo ## the whole story on real input; HEADLESS=1 tells it without a person
	@$(BIN)/python -m demo $(if $(filter-out 0 no false,$(HEADLESS)),--headless)

demo-reset: $(VENV)/.setup-demo ## forget the demo's data: the next make demo begins anew
	@$(BIN)/python -m demo --reset

run: $(VENV)/.setup ## web, workers and the assistant on DATABASE_URL (unset: the embedded PostgreSQL); PORT=8000
	@$(RUN) run

# Tests wait for processes and clocks a fifth of their time, a browser does not: one tester more than two cores.
test test-deep: TESTERS ?= 3
test-browser mutants: TESTERS ?= 2

test: $(VENV)/.setup-dev ## the tests, on a private embedded PostgreSQL; ARGS="-k name" TESTERS=0
	@ROUNDS= $(BIN)/python -m pytest -n $(TESTERS) $(ARGS)

# Debian’s own packages: the one without a window takes half of the processor time; the other does where it is
# there already and nothing can be installed.
setup-browser: $(VENV)/.setup-dev ## Chromium for test-browser and screenshots, where it is missing
	@command -v chromium-headless-shell >/dev/null || { test "$$(id -u)" = 0 && command -v apt-get >/dev/null && \
		echo "== installing chromium-headless-shell" && $(APT) chromium-headless-shell; } || \
		command -v chromium >/dev/null || { echo "Chromium is needed and cannot be installed from here:" \
		"apt-get install chromium-headless-shell"; exit 1; }

eval-assistant: $(VENV)/.setup-dev ## 60 questions to the assistant over two data sets, and how many it answers right
	@$(BIN)/python -m tests.assistant.evaluation

# Neighbouring tests share a tester: those of a module share a web process and a database.
test-browser: setup-browser ## the tests in a real browser, two at a time; ARGS="-k story" TESTERS=0
	@$(BIN)/python -m pytest -m browser -o python_files="test_*_browser.py" -n $(TESTERS) --dist worksteal $(ARGS)

test-deep: $(VENV)/.setup-dev ## make test with full grids and all rounds of kills, races and chaos; ROUNDS=50
	@test "$(or $(ROUNDS),1)" -ge 1 || { echo "ROUNDS: how often all rounds are played, 1 or more"; exit 2; }
	@ROUNDS=$(or $(ROUNDS),1) $(BIN)/python -m pytest -m "not browser" -n $(TESTERS) $(ARGS)

# What is mutated and which tests look at it stands in tests/mutants/modules.py. It ends by itself within 15 minutes and
# says what was not reached.
mutants: $(VENV)/.setup-mutants ## small defects put into the modules of pure rules, and those no test sees; MODULES="orders.amounts" SAMPLE=40 SEED=1
	@MODULES="$(MODULES)" SAMPLE="$(SAMPLE)" SEED="$(SEED)" LIMIT_S="$(LIMIT_S)" TESTERS="$(TESTERS)" \
		$(BIN)/python -m tests.mutants

lint: $(VENV)/.setup-dev ## style, formatting and the rules of who may import whom
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@find templates -name '*.html' | grep -vxFf .ci/templates-to-format.txt | xargs -r $(BIN)/djlint --quiet --check --lint
	@$(BIN)/lint-imports

types: $(VENV)/.setup-dev ## type checks
	@$(BIN)/mypy $(TYPED)

check: lint types settings rules ## lint, types, forgotten migrations, settings fit for production, rules

rules: $(VENV)/.setup-dev ## the tests that read the code and the documents; ARGS="-k name"
	@$(BIN)/python -m pytest -m "rule and not deep" $(ARGS)

# Until the first release: the initial migration of each app is written anew, the rules stay as they are. All of
# them are put aside meanwhile; an initial migration that was not written comes back.
migrations: $(VENV)/.setup-dev ## write the initial migrations anew after a change of the models
	@back() { for old in */migrations/*.aside; do new=$${old%.aside}.py; \
			test -e $$new && rm $$old || mv $$old $$new; done; }; trap back EXIT INT TERM; \
		for old in */migrations/0*.py; do mv $$old $${old%.py}.aside; done; \
		for app in tasks_app orders campaigns; do \
			$(BIN)/python -W ignore::RuntimeWarning manage.py makemigrations --no-header $$app || exit 1; done

settings: $(VENV)/.setup-dev ## forgotten migrations, settings fit for production
	@$(RUN) exec -- $(BIN)/python manage.py makemigrations --check --dry-run
	@FLIGHTDECK_DEBUG=0 FLIGHTDECK_PUBLIC_URL=https://flightdeck.example FLIGHTDECK_HOSTS=flightdeck.example \
		FLIGHTDECK_SECRET_KEY="$$($(BIN)/python -c 'import secrets; print(secrets.token_urlsafe(64))')" \
		$(BIN)/python manage.py check --deploy --fail-level WARNING

bench: $(VENV)/.setup-bench $(VENV)/.setup-demo ## every ratio and whether it is within its bound; ROUNDS=1 ONLY="jobs pages"
	@ROUNDS="$(ROUNDS)" BRIEFS="$(BRIEFS)" BEFORE="$(BEFORE)" $(BIN)/python -m bench $(ONLY)

bench-bookings: $(VENV)/.setup ## the cost of a booked deal; BRIEFS=100 BEFORE=<commit to compare with>
	@BRIEFS="$(BRIEFS)" BEFORE="$(BEFORE)" $(BIN)/python -m bench.bookings

bench-transitions: $(VENV)/.setup-bench ## audited status changes beside psycopg and django-fsm-log; ROUNDS=3
	@ROUNDS="$(ROUNDS)" $(BIN)/python -m bench.transitions

bench-jobs: $(VENV)/.setup-bench ## durable steps beside DBOS and Procrastinate; ROUNDS=3
	@ROUNDS="$(ROUNDS)" $(BIN)/python -m bench.jobs

bench-operations: $(VENV)/.setup-demo ## webhooks and polls beside a bare view and a bare client; ROUNDS=3
	@ROUNDS="$(ROUNDS)" $(BIN)/python -m bench.operations

bench-pages: $(VENV)/.setup ## pages and decisions among 100,000 deals beside a stock list; ROUNDS=3
	@ROUNDS="$(ROUNDS)" $(BIN)/python -m bench.pages

chaos: $(VENV)/.setup ## purchases among sellers that misbehave, and kills; OPERATIONS=1000 SEED=1
	@OPERATIONS="$(OPERATIONS)" SEED="$(SEED)" $(BIN)/python -m tests.chaos

# docs/images holds the best of them; all are in var/screenshots, to be looked at.
screenshots: setup-browser ## pictures of the running demo: every page, light and dark, 1280 and 390 wide
	@test -f var/demo/logins.json || { echo "start make demo first, and leave it running"; exit 1; }
	@for run in "Approver:maya --out docs/images" "Administrator:admin --all --out var/screenshots"; do \
		FLIGHTDECK_PASSWORD="$$($(BIN)/python -c 'import json, sys; print(json.load(open("var/demo/logins.json"))[sys.argv[1]])' "$${run%%:*}")" \
		$(BIN)/python -m demo.screenshots "http://127.0.0.1:$$(cat var/demo/web.port)" $${run#*:} \
		--campaign Lindqvist $(ARGS) || exit 1; done

clean: ## remove .venv and caches; data under var/ stay
	@if [ -x $(BIN)/python ]; then $(BIN)/python -m config.postgres stop; fi
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -not -path './var/*' -prune -exec rm -rf {} +

# Each stamp names what it was made from, so that a second run installs nothing.
$(VENV)/.made:
	@echo "== making $(VENV) with $(PYTHON)"
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Flightdeck needs Python 3.11 or newer: make PYTHON=python3.11 …")'
	@$(PYTHON) -m venv --clear $(VENV)
	@touch $@

$(VENV)/.setup: requirements.txt | $(VENV)/.made
	@echo "== installing Flightdeck (about a minute)"
	@$(PIP) install --progress-bar on -r $<
	@touch $@

$(VENV)/.setup-demo: requirements-demo.txt $(VENV)/.setup
	@echo "== installing the demo's sellers"
	@$(PIP) install --progress-bar on -r $<
	@touch $@

$(VENV)/.setup-bench: requirements-bench.txt $(VENV)/.setup
	@echo "== installing what the benches compare with"
	@$(PIP) install --progress-bar on -r $<
	@touch $@

$(VENV)/.setup-dev: requirements-dev.txt $(VENV)/.setup-demo
	@echo "== installing tests and checks"
	@$(PIP) install --progress-bar on -r $<
	@touch $@

$(VENV)/.setup-mutants: requirements-mutants.txt $(VENV)/.setup-dev
	@echo "== installing the mutation tester"
	@$(PIP) install --progress-bar on -r $<
	@touch $@
