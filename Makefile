# What people and CI run. `make` alone lists the targets.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.PHONY: help demo build install test lint bench bench-instructions fuzz isp-tables install-tools

# more arguments for the program behind a target: make isp-tables ARGS=--check
ARGS ?=

say = @printf '\n== %s\n' "$(1)"

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1|\2/p' $(MAKEFILE_LIST) | column -t -s '|'

demo: ## three sites on this machine's loopback, with commands to try; Ctrl-C ends it
	@scripts/setup.sh demo
	cargo build --release --bin portolan
	@exec target/release/portolan demo $(ARGS)

build: ## the program, target/release/portolan
	@scripts/setup.sh build
	cargo build --release --bin portolan

install: ## put the built program, unit, tables, docs and examples into /usr and /etc (or below DESTDIR); an own config stays
	install -Dm755 target/release/portolan $(DESTDIR)/usr/bin/portolan
	install -Dm644 deploy/portolan.service $(DESTDIR)/usr/lib/systemd/system/portolan.service
	install -Dm644 deploy/portolan.sysusers $(DESTDIR)/usr/lib/sysusers.d/portolan.conf
	install -Dm644 -t $(DESTDIR)/usr/share/portolan/isp-tables isp-tables/*.txt isp-tables/*.sha256 isp-tables/*.md
	install -Dm644 -t $(DESTDIR)/usr/share/doc/portolan docs/configuration.md docs/operations.md docs/checks.md
	install -Dm644 -t $(DESTDIR)/usr/share/doc/portolan/examples deploy/examples/*
	sed -i 's|"../../isp-tables/" .*|"/usr/share/portolan/isp-tables/"|' $(DESTDIR)/usr/share/doc/portolan/examples/*.toml
	test -e $(DESTDIR)/etc/portolan/portolan.toml || install -Dm644 deploy/portolan.toml $(DESTDIR)/etc/portolan/portolan.toml

# The programs are built with the tests: alone they would have other features, and what is below them be built twice.
test: ## everything that must hold: formatting, lints, ISP tables, systemd unit, all tests
	@scripts/setup.sh test
	@$(MAKE) --no-print-directory lint
	$(call say,ISP tables: generator and data)
	python3 -m unittest discover -q -s isp-tables
	$(call say,programs that the whole-system tests drive)
	cargo build --workspace --bins --tests
	$(call say,tests)
	cargo test --workspace

lint: ## formatting, clippy, shell scripts' syntax, systemd unit
	@scripts/setup.sh build
	$(call say,formatting)
	cargo fmt --all --check
	$(call say,clippy)
	cargo clippy --workspace --all-targets -- -D warnings
	$(call say,shell scripts and the systemd unit)
	bash -n scripts/setup.sh scripts/fuzz.sh deploy/verify.sh .ci/run
	deploy/verify.sh

bench: ## compare with Knot, NSD, gdnsd, PowerDNS and the kernel's floor, in one run
	@scripts/setup.sh bench
	cargo build --release --bin portolan
	cargo run --release -p portolan-bench -- $(ARGS)

# Instruction counts need the runner of the library's very version, kept beside the build.
bench-instructions: export GUNGRAUN_RUNNER := $(CURDIR)/target/tools/bin/gungraun-runner
bench-instructions: export GUNGRAUN_HOME := $(CURDIR)/target/gungraun
bench-instructions: export GUNGRAUN_SAVE_SUMMARY := json
bench-instructions: ## instruction counts of the hot path against the committed baseline; ARGS=--write makes it anew
	@scripts/setup.sh instructions
	rm -rf target/gungraun
	cargo bench -p portolan-bench --bench hot
	cargo run --release -p portolan-bench -- instructions $(ARGS)

fuzz: ## fuzz the parsers with coverage feedback, a minute each; ARGS="--seconds 900 packet" to say more
	@scripts/setup.sh build
	scripts/fuzz.sh $(ARGS)

isp-tables: ## derive the ISP tables anew from the pinned source; ARGS=--check only compares
	@scripts/setup.sh isp
	isp-tables/update.py $(ARGS)

install-tools: ## install all that the targets above need
	scripts/setup.sh test bench instructions isp
