# make run     a broker in the foreground: Kafka on 127.0.0.1:9092, the web UI on http://127.0.0.1:9192/, data under
#              ./data; more options in ARGS:
#              make run ARGS="--listener PLAINTEXT://127.0.0.1:9093 --override num.partitions=3"
#              make run BROKERS=4: several brokers as one cluster; BROKERS=auto: one for each core
# make quick   lint, types, import contracts and the tests that start no process: after each change
# make test    the checks and all tests of this project: before each commit; what fails is run once more, alone
# make docs    the documentation as a site, in build/site
# make oracle  comparisons with Apache Kafka, benchmarks, long kills, many examples, and processor time of requests beside
#              the recorded one: before an issue is closed
#
# make quick PACKAGE=groups        only tests/groups; also for test and oracle
# make test ARGS='-k commit -x'    more options for pytest
#
# All set up what they need, once: a virtual environment in .venv; test and oracle also kcat, a JDK, Maven, Node, npm,
# Chromium, Prometheus and zsh.

PYTHON := $(or $(shell for version in 3.11 3.12 3.13 3.14; do command -v python$$version && break; done),python3)
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
PROJECT := setup.cfg pyproject.toml

# The checkout itself is put on the environment's path, the plugins of twistd too: setup.cfg has package_dir for that. If
# it is not there (another installation has replaced it), it is installed again.
IS_ON_PATH := $(shell $(BIN)/python -Ic 'import os, sys; print(os.getcwd() in map(os.path.realpath, sys.path))' 2>&1)
REPAIR := $(if $(filter True,$(IS_ON_PATH)),,repair)

# Each broker is a process of its own: without these files, every start would compile all modules again.
unexport PYTHONDONTWRITEBYTECODE

TESTS := tests$(addprefix /,$(PACKAGE))
PORTABLE := tests/system tests/wire/test_frame_splitter.py tests/net/test_transport.py tests/net/test_stall_watch.py \
	$(addprefix tests/broker/test_,$(addsuffix .py,delete_topics fetch group_commit list_offsets)) \
	$(addprefix tests/broker/test_,$(addsuffix .py,log_cleaner log_maintenance partition produce)) \
	$(addprefix tests/storage/test_,$(addsuffix .py,log rolling truncation)) \
	$(addprefix tests/client/test_,$(addsuffix .py,admin_routing cluster cluster_brokers cluster_metadata)) \
	$(addprefix tests/client/test_,$(addsuffix .py,connection_sockets connector fetcher simple_consumer streams sync)) \
	tests/testing/test_broker.py tests/testing/test_memory_broker.py
PYTEST := $(BIN)/python -m pytest $(TESTS) --numprocesses auto --durations 10 -r fEs

SEVERAL := $(if $(BROKERS),--brokers $(BROKERS))

.PHONY: run quick portable test oracle checks lint types contracts docs peers system clean repair

run: $(VENV)/installed
	exec $(BIN)/twistd --nodaemon --pidfile= pylogbroker --config etc/development.properties $(SEVERAL) $(ARGS)

quick: checks
	$(PYTEST) --dist worksteal --hypothesis-profile quick -m "not process" $(ARGS)
	$(if $(PACKAGE)$(ARGS),,@$(MAKE) --no-print-directory portable)

# With the calls of the operating system that other Unixes have.
portable: $(VENV)/installed-for-tests
	PYLOGBROKER_PORTABLE=1 $(BIN)/python -m pytest $(PORTABLE) --numprocesses auto --dist worksteal \
		--hypothesis-profile quick -m "not process"

test: checks peers
	$(PYTEST) --dist loadfile -m "not kafka and not benchmark" --second-try $(ARGS)

oracle: checks peers
	$(if $(PACKAGE)$(ARGS),,$(BIN)/python -m benchmarks.processor --check)
	$(PYTEST) --dist loadfile --hypothesis-profile oracle --ask --thorough \
		-m "kafka or oracle or hypothesis or thorough or benchmark" $(ARGS)

# Beside each other: lint takes one processor for as long as types the other.
checks: $(VENV)/installed-for-tests
	@$(MAKE) --no-print-directory --jobs --output-sync lint types contracts

lint: $(VENV)/installed-for-tests
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python -m tests.lint

types: $(VENV)/installed-for-tests
	$(BIN)/mypy

contracts: $(VENV)/installed-for-tests
	$(BIN)/lint-imports

docs: $(VENV)/installed-for-tests
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build

peers: $(VENV)/installed-for-tests system
	$(BIN)/python -m tests.peers

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "Python 3.11 or newer is needed: $(PYTHON) is older or missing" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) \
		|| { rm -f $@; \
			echo "$(PYTHON) cannot make virtual environments: install its venv package (python3-venv)" >&2; exit 1; }

$(VENV)/installed: $(PROJECT) $(REPAIR) | $(VENV)/bin/python
	$(PIP) install --editable .
	@$(BIN)/twistd --help > /dev/null
	@touch $@

$(VENV)/installed-for-tests: $(PROJECT) $(REPAIR) | $(VENV)/bin/python
	$(PIP) install --editable '.[test]'
	@$(BIN)/twistd --help > /dev/null
	@touch $@ $(VENV)/installed

# Programs that pip cannot install: command:package
PROGRAMS := kcat:kcat javac:default-jdk-headless mvn:maven node:nodejs npm:npm chromium:chromium chromedriver:chromium-driver \
	prometheus:prometheus promtool:prometheus zsh:zsh

system:
	@missing=""; \
	for program in $(PROGRAMS); do \
		command -v "$${program%%:*}" > /dev/null || missing="$$missing $${program#*:}"; \
	done; \
	if [ -z "$$missing" ]; then exit 0; fi; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get > /dev/null; then \
		apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends $$missing; \
	else \
		echo "The tests need these Debian packages, or what corresponds to them here:$$missing" >&2; exit 1; \
	fi

clean:
	rm -rf $(VENV) .peers .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache build *.egg-info
	rm -rf examples/*/build examples/*/*.egg-info
	rm -f twisted/plugins/dropin.cache pylogbroker/plugins/dropin.cache
