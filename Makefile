# The front door. The real build is in CMakePresets.json; these targets only name it, and none does anything twice.
#
#   make run      packages, build, model, then the demo: one prompt generated with and without the cache
#   make test     packages, build, model, all tests
#   make build    everything that can be built
#   make bench    speed on this machine (ten minutes); rewrites the measured section of docs/results.md
#   make format   formats the C++ files
#   make check    format, include table, warnings of clang, sanitizers, Arm, fuzz smoke
#
# PRESET chooses another configure preset than `release`: make test PRESET=debug

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.ONESHELL:
.DEFAULT_GOAL := help
.PHONY: help run test build bench format check setup

PRESET ?= release
BUILD := build/$(PRESET)
MODEL := models/SmolLM2-135M-Instruct.Q4_1.gguf

# Ninja configures again by itself when a CMake file changes.
CONFIGURE := [[ -f $(BUILD)/build.ninja ]] || cmake --preset $(PRESET)

help:
	@sed -n '3,10s/^# \{0,2\}//p' Makefile

setup:
	@scripts/setup.sh

run: setup
	@$(CONFIGURE)
	cmake --build --preset $(PRESET) --target kvern
	scripts/fetch_model.sh smollm2
	$(BUILD)/kvern demo -m $(MODEL)

build: setup
	@$(CONFIGURE)
	cmake --build --preset $(PRESET)

test: build
	@scripts/fetch_model.sh smollm2
	ctest --test-dir $(BUILD) --output-on-failure -j "$$(nproc)" 2>&1 | tee $(BUILD)/test.log

bench: build
	@scripts/fetch_model.sh smollm2
	bench/e2e/run.sh $(BUILD)

format:
	@scripts/setup.sh check
	scripts/format.sh

check:
	@scripts/setup.sh check
	scripts/fetch_model.sh smollm2
	scripts/check.sh
