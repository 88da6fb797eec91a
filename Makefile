# The commands of the house; `make help` lists them. Each does the set-up that it needs, from a clean clone on.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# rustup's cargo is not on the PATH of a shell that was open before it was installed.
export PATH := $(PATH):$(HOME)/.cargo/bin
export FATHOM_CACHE := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/fathom

# One target directory for each compiler and set of dependencies, outside the tree, so that clones share it.
ifeq ($(origin CARGO_TARGET_DIR),undefined)
key := $(shell { rustc -V; cat Cargo.lock; } 2>/dev/null | sha256sum | cut -c1-12)
CARGO_TARGET_DIR := $(FATHOM_CACHE)/target-$(key)
endif
export CARGO_TARGET_DIR

# Where `make checkup` looks; QUICK=1 gives an answer in about 45 seconds. `make checkup DIR=/var/lib/mongodb`
DIR ?= $(FATHOM_CACHE)/checkup
QUICK ?=
# Seconds for each fuzz target in `make fuzz`.
FUZZ_SECONDS ?= 60
# 0 links the program to the shared libraries of this machine, where archives (.a) of them are missing.
STATIC ?= 1
# The steps of `make proof`, separated by commas; all where none is named. `make proof ONLY=faults,guest`
ONLY ?=
# 1 lets the fault studies of `make proof` write the bundles that `make test` checks.
RECORD ?=
export ONLY RECORD
# The revision whose changes `make quick` tests; the upstream branch, or the last commit, where none is given.
SINCE ?=

# In front of what uses the target directory: it exists, and unused ones of older lists are removed (the latest two, and any
# that was used within two hours, stay). Cargo tells clones apart by the times of their files alone, and programs hold the path of
# the clone that they were built in: what another clone built of our packages is built again.
prepare = mkdir -p "$(CARGO_TARGET_DIR)" && touch "$(CARGO_TARGET_DIR)" && \
	{ [ "$$(cat "$(CARGO_TARGET_DIR)/clone" 2>/dev/null)" = "$(CURDIR)" ] || \
	{ find "$(CARGO_TARGET_DIR)" -path '*/.fingerprint/*' -prune \( -name 'fathom*' -o -name 'xtask-*' \) -exec rm -rf {} + && \
	echo "$(CURDIR)" >"$(CARGO_TARGET_DIR)/clone"; }; } && \
	{ ls -1dt "$(FATHOM_CACHE)"/target-* 2>/dev/null || true; } | tail -n +3 | \
	while read -r old; do find "$$old" -maxdepth 0 -mmin +120 -exec rm -rf {} +; done

.PHONY: help setup build tool dist checkup package book test quick proof verdicts lint fmt refresh bench fuzz soak clean

help: ## list the targets
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | while IFS=$$'\t' read -r name about; do \
		printf '  make %-8s %s\n' "$$name" "$$about"; done

setup: ## install what building and `make test` want: Debian packages, pymongo, cargo-nextest
	@setup/install.sh build
	@setup/install.sh test
	@setup/clients.sh install python
	@setup/nextest.sh >/dev/null
	@$(prepare)

# WiredTiger is built beside the crates that do not need it; the build script of the one that does waits for it.
wiredtiger = { [ -n "$${FATHOM_WIREDTIGER-}$${FATHOM_WIREDTIGER_DIR-}" ] || setup/wiredtiger.sh >/dev/null & }
# A static program needs a target of its own, so that build scripts and macros, which run here, are not linked like it.
ifneq ($(STATIC),0)
triple := $(or $(shell PATH="$$PATH:$(HOME)/.cargo/bin" rustc -vV 2>/dev/null | sed -n 's/^host: //p'),$(shell uname -m)-unknown-linux-gnu)
static := --config 'target.$(triple).rustflags=["-C","target-feature=+crt-static","--cfg","getrandom_backend=\"custom\""]' --target $(triple)
built := $(CARGO_TARGET_DIR)/$(triple)
archives := setup/install.sh static
else
static :=
built := $(CARGO_TARGET_DIR)
archives := true
endif
install_program = mkdir -p bin && { ln -f "$(built)/$(1)/fathom" bin/$(2) 2>/dev/null || \
	install -m 755 "$(built)/$(1)/fathom" bin/$(2); }

build: ## the release program, static, at bin/fathom (STATIC=0 links this machine's libraries)
	@setup/install.sh build
	@$(archives)
	@$(prepare)
	@$(wiredtiger) ; echo cargo build --release --locked --package fathom; cargo build --release --locked --package fathom $(static)
	@$(call install_program,release,fathom)

tool: ## the program without the lab server, at bin/fathom-tool: small, for production hosts
	@setup/install.sh tool
	@$(archives)
	@$(prepare)
	cargo build --profile tool --locked --package fathom --no-default-features $(static)
	@$(call install_program,tool,fathom-tool)

# The program as it is packaged and measured: optimized as a whole, which takes five minutes more.
dist:
	@setup/install.sh build
	@$(archives)
	@$(prepare)
	cargo build --profile dist --locked --package fathom --features official-driver $(static)
	@$(call install_program,dist,fathom)

checkup: build ## what holds this machine's storage back (DIR=where, QUICK=1)
	@mkdir -p "$(FATHOM_CACHE)/checkup"
	@set -- bin/fathom checkup --dir "$(DIR)" $(if $(filter-out 0,$(QUICK)),--quick); echo "$$*"; \
	code=0; "$$@" || code=$$?; \
	case $$code in 1|4) echo "make checkup: done; the verdict is above (exit code $$code of fathom)"; code=0;; esac; \
	exit $$code

package: dist ## a Debian package, a tarball and a Python wheel of the program, in bin/, each tried in an empty prefix
	@setup/install.sh package
	@rm -f bin/fathom_*.deb bin/fathom-*.tar.gz bin/fathom-*.whl
	@setup/package.sh bin/fathom bin deb
	@python3 setup/wheel.py bin/package/bin/fathom bin
	@for package in bin/fathom_*.deb bin/fathom-*.tar.gz bin/fathom-*.whl; do setup/package_test.sh "$$package"; done

book: ## the pages of docs/ as a website, at bin/book
	@mkdir -p bin
	@mdbook=$$(setup/mdbook.sh) && "$$mdbook" build --dest-dir "$(CURDIR)/bin/book"

test: setup ## what every change must pass
	@setup/test.sh

quick: ## tidy, and the tests of the crates that changed since SINCE, within a minute; make test runs everything
	@setup/install.sh build
	@$(prepare)
	@PATH="$$(setup/nextest.sh):$$PATH" cargo xtask quick $(SINCE)

proof: ## what is slow by nature, as a report: faults, kill loops, foreign clients, fuzzing (ONLY=faults,guest)
	@for target in build test proof fuzz; do setup/install.sh $$target; done
	@# Clients and the guest are mostly downloads, cargo-nextest is mostly compiling. Tests that need what is missing are skipped.
	@setup/clients.sh install & clients=$$!; setup/guest.sh install & guest=$$!; setup/nextest.sh >/dev/null; \
		wait $$clients || echo "make proof: not all foreign clients could be installed"; \
		wait $$guest || echo "make proof: the guest could not be installed"
	@$(prepare)
	@PATH="$$(setup/nextest.sh):$$PATH" cargo xtask proof

lint: ## format check, clippy and tidy
	@setup/install.sh build
	@$(prepare)
	cargo fmt --all --check
	cargo fmt --manifest-path fuzz/Cargo.toml --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	cargo xtask tidy

fmt: ## format the code
	cargo fmt --all
	cargo fmt --manifest-path fuzz/Cargo.toml

# One test at a time, since two of them write the same page.
refresh: setup fmt ## bring up to date: tables and pictures of the docs, limits that improved, the changelog's order, the format
	cargo xtask refresh
	PATH="$$(setup/nextest.sh):$$PATH" FATHOM_UPDATE_DOCS=1 cargo nextest run --workspace --test tests --locked --cargo-quiet \
		--test-threads 1 -E 'test(/^(verdicts|capacity|doctor)::/)'

# The packaged program is measured; the program of `make build` is built first, to be measured beside it.
bench: build dist ## the disk probe beside fio, the lab server and the load generator beside go-ycsb, reading recordings, the cost of watching
	@setup/install.sh bench
	for task in disk server load router recordings watch builds; do \
		cargo run --profile dist --locked --package fathom-bench $(static) -- $$task; done

fuzz: ## every fuzz target for FUZZ_SECONDS
	@setup/install.sh fuzz
	@$(prepare)
	@setup/fuzz.sh "$(FUZZ_SECONDS)"

verdicts: setup ## record the cells of the bench of verdicts: hours, as root; ONLY=name,name selects
	@for target in test proof; do setup/install.sh $$target; done
	@setup/guest.sh install
	cargo test --package fathom --locked --test tests -- --ignored --exact verdicts::record capacity::record --test-threads 1 --nocapture

soak: setup ## the long forms of the tests
	@setup/install.sh proof
	@setup/clients.sh install
	@setup/clients.sh install ferretdb
	cargo test --workspace --locked -- --ignored --skip helper_process --skip verdicts:: --skip capacity::

clean: ## remove what was built
	cargo clean --quiet
	rm -rf bin "$(FATHOM_CACHE)/fuzz-target"
	rm -rf "$(FATHOM_CACHE)"/setup-* "$(FATHOM_CACHE)"/clients-* "$(FATHOM_CACHE)"/guest*
