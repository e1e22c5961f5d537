# SPDX-License-Identifier: BSD-3-Clause
# Everything from a clone: `make run` shows what Thole does, `make test` tests it all. See `make help`.
# Whatever is made is below build/; packages of the system are installed with apt, through sudo where needed.

BUILD   ?= build
PREFIX  ?= /usr/local
DESTDIR ?=
# Where loader and pkg-config look on Debian. Meson asks dpkg-architecture, which comes with the tools to make packages.
LIBDIR  ?= $(if $(wildcard /etc/debian_version),$(shell $(TOOL)/python -c \
	'import sysconfig; name = sysconfig.get_config_var("MULTIARCH"); print(f"lib/{name}" if name else "")'))
MPIS    ?= mpich openmpi impi
PYTEST  ?=
BENCH   ?=
PAPERS  ?=
MUTANTS ?=
SEEDS   ?= 1000
SEED    ?= $(shell date +%s)

# It is a word of many commands, and a folder that is removed.
ifneq ($(words $(BUILD)),1)
$(error BUILD is "$(BUILD)": name a folder without blanks)
endif

# Tests at a time: many of them wait.
AT_ONCE ?= $(shell expr 2 \* $$(nproc))

VENV  := $(BUILD)/venv
TOOL  := $(VENV)/tool/bin
# Workers take one test after the other, in the order that conftest.py gives.
SYSTEM = $(TOOL)/python -m pytest test/system --build $(BUILD) -n $(AT_ONCE) --maxschedchunk 1
# Two at a time, since most have one processor.
GUESTS = $(TOOL)/python -m pytest test/vm --build $(BUILD) -q -rfEs -n 2 --maxschedchunk 1
MUTATE = PATH="$(abspath $(TOOL)):$$PATH" $(TOOL)/python test/mutants/mutants.py --build $(BUILD) $(MUTANTS)
# What Meson's tests said stands far above by then.
FAILED = $(TOOL)/python test/failed.py --build $(BUILD)
# Folders of the user's, whose names may have blanks: abspath would take each for several.
STAGE = $(if $(DESTDIR),"$(if $(filter /%,$(firstword $(DESTDIR))),,$(CURDIR)/)$(DESTDIR)")
MESON := PATH="$(abspath $(TOOL)):$$PATH" $(TOOL)/meson
BELOW = -Dprefix="$(PREFIX)" $(if $(LIBDIR),-Dlibdir="$(LIBDIR)")
# What make by sudo has made is root's; Meson would say so in a traceback.
OWN = test ! -e $(1) || test -w $(1) || { echo "thole: $(1) is another user's, as after sudo make;" \
	"sudo rm -r $(1), or name another folder: BUILD=..." >&2; exit 2; }
# The loader looks into a cache for what is below /usr/local, where it looks there at all; who may not write that, as
# below a prefix of their own, need not. `su` leaves /sbin out of PATH.
TELL_LOADER = $(if $(DESTDIR),,PATH="$$PATH:/usr/sbin:/sbin" ldconfig 2>/dev/null || true)

.PHONY: own help run check test test-all test-vm unit system sim mutants build setup-tests build-tests venvs bench install uninstall wheel driver-package clean
.DEFAULT_GOAL := help

help:
	@echo "make run      install what is missing, build, and run MPI programs as shipped and over Thole, side by side"
	@echo "make test     install what the tests need, build, and run all tests"
	@echo "make check    what to run while working, in half a minute: unit tests, documents, the provider, a few histories"
	@echo "make test-all for a release: every MPI over every link, ten thousand histories, minutes of fuzzing, the mutants"
	@echo "make test-vm  what needs a kernel of its own, in guests under QEMU (800 MB below $(BUILD)/vm); skipped where there is none"
	@echo "make build    the library, the provider and the tool, in $(BUILD)"
	@echo "make bench    compare with every other transport that can be installed (BENCH=--quick passes arguments: see bench/run.py --help)"
	@echo "make papers   a report of the five papers' figures, theirs beside ours, in $(BUILD)/papers (PAPERS=--quick passes arguments)"
	@echo "make unit     only the unit tests"
	@echo "make system   only what pytest runs: the tool, MPIs, MX programs (PYTEST='-k NAME' passes arguments)"
	@echo "make sim      whole endpoints over a simulated network that loses frames and hosts: SEEDS=n histories"
	@echo "make mutants  put small faults into the protocol code, one by one: does a test notice? (MUTANTS='name' for some)"
	@echo "make install  install below PREFIX ($(PREFIX)), libraries in LIBDIR there; DESTDIR is honoured"
	@echo "make uninstall  take that back"
	@echo "make driver-package  the kernel driver as a Debian package for DKMS, in $(BUILD)/package"
	@echo "make wheel    a Python wheel with all of it, for glibc 2.34 and later, in $(BUILD)/wheel"
	@echo "make clean    remove $(BUILD)"

run: build venvs
	@$(TOOL)/python $(BUILD)/python/thole compare --plot $(BUILD)/thole-run.png --json $(BUILD)/thole-run.json \
		--seconds 160

venvs: $(TOOL)/meson
	@tools/venvs.sh $(VENV) $(MPIS)

own:
	@$(call OWN,$(BUILD))

$(TOOL)/meson: | own
	@tools/packages.sh build
	@tools/venvs.sh $(VENV) tool

# With no tests the build needs no cmocka; `make test` switches them on in the same folder.
build: $(TOOL)/meson
	@tools/packages.sh build
	@test -f $(BUILD)/build.ninja || $(MESON) setup $(BUILD) -Dtests=false
	@$(MESON) compile -C $(BUILD)

setup-tests: $(TOOL)/meson
	@tools/packages.sh test
	@test -f $(BUILD)/build.ninja || $(MESON) setup $(BUILD) -Dtests=true
	@$(MESON) configure $(BUILD) -Dtests=true

build-tests: setup-tests
	@$(MESON) compile -C $(BUILD)

# All kinds run even if one fails, and any failure is the result. No $(MAKE): `make -n` would run that. MPIs are
# fetched while the library is compiled, and what guests are made of during the first tests; what goes wrong with that,
# the tests say, which fail then.
test: setup-tests
	@tools/venvs.sh $(VENV) $(MPIS) openmpi4 papers & venvs=$$!; \
	$(MESON) compile -C $(BUILD); built=$$?; \
	wait $$venvs && exit $$built
	@status=0; \
	{ tools/packages.sh vm; $(TOOL)/python test/vm/kernels.py --build $(BUILD); } >$(BUILD)/vm.log 2>&1 & \
	$(MESON) test -C $(BUILD) -j $(AT_ONCE) --print-errorlogs || status=1; \
	wait; \
	$(GUESTS) --require || status=1; \
	$(SYSTEM) --require all -q -rfE $(PYTEST) || status=1; \
	$(FAILED); \
	exit $$status

# What a release must pass beside: it takes hours. No $(MAKE) here either.
test-all: build-tests
	@tools/venvs.sh $(VENV) $(MPIS) openmpi4 wheel papers
	@status=0; \
	$(MESON) test -C $(BUILD) -j $(AT_ONCE) --setup all --print-errorlogs || status=1; \
	$(MUTATE) || status=1; \
	tools/packages.sh vm || true; \
	MPI_TESTS=full $(GUESTS) --require || status=1; \
	MPI_TESTS=full $(SYSTEM) --require all -q -rfE $(PYTEST) || status=1; \
	$(FAILED); \
	exit $$status

# Guests need neither KVM nor a privilege. What cannot be installed or fetched skips its tests, and they say why.
test-vm: build-tests
	@tools/packages.sh vm || true
	@$(GUESTS) $(PYTEST)

# These build no more than they run.
check: setup-tests
	@$(MESON) test -C $(BUILD) --print-errorlogs --suite unit --suite docs --suite check

unit: setup-tests
	@$(MESON) test -C $(BUILD) --print-errorlogs --suite unit

system: build-tests
	@tools/venvs.sh $(VENV) $(MPIS) openmpi4 wheel papers
	@$(SYSTEM) -rfEs $(PYTEST)

sim: build-tests
	@$(BUILD)/sim/thole-sim --seed $(SEED) --seeds $(SEEDS)

mutants: build-tests
	@$(MUTATE)

bench: build venvs
	@tools/packages.sh test
	@tools/packages.sh bench
	@$(TOOL)/python bench/run.py --build $(BUILD) $(BENCH)

papers: build
	@tools/venvs.sh $(VENV) papers
	@$(VENV)/papers/bin/python lab/run.py --build $(BUILD) $(PAPERS)

install: $(TOOL)/meson
	@$(call OWN,$(BUILD)/release)
	@tools/packages.sh build
	@tools/packages.sh install
	@test -f $(BUILD)/release/build.ninja || \
		$(MESON) setup $(BUILD)/release -Dtests=false -Dbuildtype=release $(BELOW)
	@$(MESON) configure $(BUILD)/release $(BELOW)
	@$(MESON) compile -C $(BUILD)/release
	@$(MESON) install -C $(BUILD)/release --no-rebuild $(if $(DESTDIR),--destdir $(STAGE))
	@$(TELL_LOADER)

uninstall: $(TOOL)/meson
	@test -f $(BUILD)/release/build.ninja || { echo "thole: $(BUILD)/release, which knows what was installed, is gone;" \
		"make install PREFIX=$(PREFIX) makes it again" >&2; exit 2; }
	@PATH="$(abspath $(TOOL)):$$PATH" $(TOOL)/python tools/uninstall.py $(BUILD)/release "$(PREFIX)" $(STAGE)
	@$(TELL_LOADER)

wheel: $(TOOL)/meson
	@tools/packages.sh build
	@tools/venvs.sh $(VENV) wheel
	@tools/wheel.sh $(VENV) $(BUILD)/wheel-build $(BUILD)/wheel

driver-package: build
	@tools/driver_package.sh $(BUILD)/kernel/driver $(BUILD)/package

clean:
	rm -rf "$(BUILD)"
