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

# Where `make checkup` looks; QUICK=1 gives an answer within half a minute. `make checkup DIR=/var/lib/mongodb`
DIR ?= $(FATHOM_CACHE)/checkup
QUICK ?=
# Seconds for each fuzz target, in `make fuzz` and `make test`; 0 leaves them out of `make test`.
FUZZ_SECONDS ?= 60

# In front of what uses the target directory: it exists, and unused ones of older lists go (the latest two, and any
# that was used within two hours, stay).
prepare = mkdir -p "$(CARGO_TARGET_DIR)" && touch "$(CARGO_TARGET_DIR)" && \
	{ ls -1dt "$(FATHOM_CACHE)"/target-* 2>/dev/null || true; } | tail -n +3 | \
	while read -r old; do find "$$old" -maxdepth 0 -mmin +120 -exec rm -rf {} +; done

.PHONY: help setup build checkup package book test lint fmt bench fuzz soak clean

help: ## list the targets
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | while IFS=$$'\t' read -r name about; do \
		printf '  make %-8s %s\n' "$$name" "$$about"; done

setup: ## install what building and testing want: Debian packages, the clients of the tests, a guest
	@setup/install.sh build
	@setup/install.sh test
	@setup/install.sh fuzz
	@setup/clients.sh install
	@setup/guest.sh install
	@$(prepare)

build: ## the release program, at bin/fathom
	@setup/install.sh build
	@$(prepare)
	cargo build --release --locked --package fathom
	@mkdir -p bin
	@ln -f "$(CARGO_TARGET_DIR)/release/fathom" bin/fathom 2>/dev/null || \
		install -m 755 "$(CARGO_TARGET_DIR)/release/fathom" bin/fathom

checkup: build ## what holds this machine's storage back (DIR=where, QUICK=1)
	@mkdir -p "$(FATHOM_CACHE)/checkup"
	@set -- bin/fathom checkup --dir "$(DIR)" $(if $(filter-out 0,$(QUICK)),--quick); echo "$$*"; \
	code=0; "$$@" || code=$$?; \
	if [ $$code -eq 1 ]; then echo "make checkup: done; the findings are above (exit code 1 of fathom)"; code=0; fi; \
	exit $$code

package: build ## a Debian package and a tarball of the release program, in bin/, tried in an empty prefix
	@setup/install.sh package
	@rm -f bin/fathom_*.deb bin/fathom-*.tar.gz
	@setup/package.sh bin/fathom bin deb
	@for package in bin/fathom_*.deb bin/fathom-*.tar.gz; do setup/package_test.sh "$$package"; done

book: ## the pages of docs/ as a website, at bin/book
	@mkdir -p bin
	@mdbook=$$(setup/mdbook.sh) && "$$mdbook" build --dest-dir "$(CURDIR)/bin/book"

test: setup ## everything that a change must pass
	@FUZZ_SECONDS=$(FUZZ_SECONDS) setup/test.sh

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

bench: build ## the disk probe beside fio, the lab server and the load generator beside go-ycsb, the cost of watching
	@setup/install.sh bench
	cargo run --release --locked --package xtask -- bench
	cargo run --release --locked --package xtask -- bench-server
	cargo run --release --locked --package xtask -- bench-load
	cargo run --release --locked --package xtask -- bench-router
	cargo run --release --locked --package xtask -- bench-watch

fuzz: ## every fuzz target for FUZZ_SECONDS
	@setup/install.sh fuzz
	@$(prepare)
	@setup/fuzz.sh "$(FUZZ_SECONDS)"

soak: setup ## the long forms of the tests
	@setup/clients.sh install ferretdb
	cargo test --workspace --locked -- --ignored

clean: ## remove what was built
	cargo clean --quiet
	rm -rf bin "$(FATHOM_CACHE)/fuzz-target"
	rm -rf "$(FATHOM_CACHE)"/setup-* "$(FATHOM_CACHE)"/clients-* "$(FATHOM_CACHE)"/guest*
