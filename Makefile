# Tilewave with nothing but make and Python 3.11 or newer: `make report`, `make test`.
# make report ARGS="--config only=ladder" hands further arguments to Snakemake.

VENV   := .venv
# Modules are run by name: a checkout that was moved still works.
PY     := $(VENV)/bin/python
ARGS   ?=
# All cores; a job that times takes them for itself.
CORES  ?= all
# Processes that share the tests.
WORKERS ?= auto
# Many processes start, and each would read the library anew.
unexport PYTHONDONTWRITEBYTECODE
# Candidates in order; `make report PYTHON=/path/to/python3` chooses another one. On 3.14 a package has no
# wheel yet, and asks for a C compiler.
PYTHON ?= python3.13 python3.12 python3.11 python3.14 python3

# A lock file's content names its stamp, so nothing is installed twice and a new lock always is.
stamp   = $(VENV)/.$(1)-$(shell cksum < requirements/$(1).txt | tr -c '0-9\n' '-')
# The GPU extra goes where an NVIDIA driver is.
DRIVER := $(wildcard /proc/driver/nvidia/version)$(shell command -v nvidia-smi 2>/dev/null)
RUN    := $(call stamp,base) $(if $(DRIVER),$(call stamp,gpu)) $(VENV)/.linked
TEST   := $(RUN) $(call stamp,test)
LINT   := $(TEST) $(call stamp,lint)
# An environment of its own: what examines the packages is not among them.
SUPPLY := $(call stamp,supply)
# Python compiles what is imported; compiling all of it takes a third of the installation.
INSTALL = $(PY) -m pip install --quiet --disable-pip-version-check --require-hashes --no-compile

.PHONY: report test long browser slurm smoke documents bench wheel lint format schema opcodes lock clean
.PHONY: audit sbom
.DEFAULT_GOAL := report

report: $(RUN)
	@$(PY) -m tilewave.commands.unlock
	$(PY) -m snakemake --cores $(CORES) report $(ARGS)

# The small study: every kernel compiled, executed on two cores, and checked. A repeated run does
# nothing, so the verdict is shown from its file.
smoke: $(RUN)
	@$(PY) -m tilewave.commands.unlock
	$(PY) -m snakemake --cores 2 report --configfile config/smoke.yaml $(ARGS)
	@cat results/smoke/verdict.txt

# Images and tables of the documents, from the report; .ci/run says when they are out of date.
documents: report
	$(PY) tools/documents.py

# How fast the CPU executes each kernel, and where its time goes.
bench: $(TEST)
	$(PY) -m pytest -m long -s tests/long/test_speed.py $(ARGS)

# dist/tilewave-*.whl, tried in an empty environment. Needs a package index.
wheel: $(VENV)/.made
	PYTHON=$(PY) sh tools/try_wheel.sh

# A file's tests stay in one process, which keeps to one core; the order of sets must be the same in all of them.
test: $(TEST)
	PYTHONHASHSEED=0 OPENBLAS_NUM_THREADS=1 $(PY) -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder $(ARGS)

# Whole runs, minutes each: disturbed, in odd places, of many kernels, on a GPU with faults.
long: $(TEST)
	PYTHONHASHSEED=0 $(PY) -m pytest -m long tests/long $(ARGS)

# The pages in a Chromium: the one that is here, or else Playwright's own.
browser: $(TEST) $(call stamp,browser)
	command -v chromium || command -v google-chrome || $(PY) -m playwright install chromium
	PYTHONHASHSEED=0 $(PY) -m pytest tests/report/test_browser.py $(ARGS)

# A run through Slurm's daemons on simulated nodes. Needs slurm-wlm and munge; docs/cluster.md.
slurm: $(TEST) $(call stamp,slurm)
	PYTHONHASHSEED=0 $(PY) -m pytest tests/pipeline/test_slurm.py $(ARGS)

lint: $(LINT)
	$(PY) -m ruff check
	$(PY) -m ruff format --check
	$(PY) -m mypy
	$(PY) -m snakefmt --check Snakefile workflow/rules
	$(PY) -m snakemake --lint

format: $(LINT)
	$(PY) -m ruff check --fix
	$(PY) -m ruff format
	$(PY) -m snakefmt Snakefile workflow/rules

# For editors, and for readers; tests/pipeline/test_schema.py says when one is out of date.
schema: $(RUN)
	PYTHONPATH=workflow $(PY) -c 'from tilewave.pipeline import config; print(config.json_schema(), end="")' > config/schema.json
	$(PY) tools/plot_options.py
	$(PY) tools/front_matter.py

# The list of opcodes in docs/executing.md; tests/test_documents.py says when it is out of date.
opcodes: $(RUN)
	$(PY) tools/opcodes.py

# Known vulnerabilities of what is locked, asked of PyPI. Strict: a package that it cannot answer for is a failure.
audit: $(SUPPLY)
	$(VENV)/supply/bin/python -m pip_audit --strict --disable-pip --require-hashes \
	  $(addprefix -r ,$(wildcard requirements/*.txt))

# What is installed in $(VENV), with licences, as CycloneDX: results/sbom.cdx.json.
sbom: $(RUN) $(SUPPLY)
	@mkdir -p results
	$(VENV)/supply/bin/python -m cyclonedx_py environment --pyproject pyproject.toml --output-reproducible \
	  --mc-type application -o results/sbom.cdx.json $(PY)

# Needs uv. base comes first: the others are constrained by it. Pins move only where they must;
# make lock ARGS=--upgrade takes the newest.
lock:
	for name in base test lint gpu browser slurm mcp build supply; do \
	  case $$name in base | build | supply) other= ;; *) other="-c base.txt" ;; esac; \
	  (cd requirements && uv pip compile $$name.in $$other --universal --python-version 3.11 $(ARGS) \
	    --generate-hashes --no-emit-index-url --no-header -q --native-tls -o $$name.txt) || exit 1; \
	done

# The store of measurements (.tilewave) and the environment stay.
clean:
	rm -rf results
	find reports -mindepth 1 ! -name README.md -delete

$(VENV)/.base-%: | $(VENV)/.made
	@echo "Installing requirements/base.txt into $(VENV)"
	@$(INSTALL) -r requirements/build.txt
	@$(INSTALL) --no-build-isolation -r requirements/base.txt
	@rm -f $(VENV)/.base-*; touch $@

# `.venv/bin/python -m tilewave` finds the library.
$(VENV)/.linked: tools/link_library.py | $(VENV)/.made
	@$(PY) tools/link_library.py
	@touch $@

# What adds to the base: the name is the stamp's first part.
$(VENV)/.%: $(call stamp,base)
	$(eval name := $(firstword $(subst -, ,$*)))
	@echo "Installing requirements/$(name).txt into $(VENV)"
	@$(INSTALL) -r requirements/$(name).txt
	@rm -f $(VENV)/.$(name)-*; touch $@

$(VENV)/.supply-%: | $(VENV)/.made
	@echo "Installing requirements/supply.txt into $(VENV)/supply"
	@$(PY) -m venv --clear $(VENV)/supply
	@$(subst $(PY),$(VENV)/supply/bin/python,$(INSTALL)) -r requirements/supply.txt
	@rm -f $(VENV)/.supply-*; touch $@

# Touched last: an environment that was cut short is made again.
$(VENV)/.made:
	@PYTHON="$(PYTHON)" VENV="$(VENV)" sh tools/make_venv.sh
	@touch $@
