.DEFAULT_GOAL := help
.PHONY: help setup demo test test-gpu test-all test-python wheel shaders fmt

DEMO := tests/fixtures/models/gemma4_tiny_4w_fp16

help: ## show this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1\t\2/p' $(MAKEFILE_LIST) | expand -t 12

setup: ## install what running and testing need and this machine lacks (Debian, Ubuntu)
	@scripts/setup.sh test
	@scripts/swiftshader.sh >/dev/null

demo: ## decode the tiny Gemma 4 fixture on this machine's Vulkan device
	@scripts/setup.sh run
	cargo build --release --package etvk-cli
	@cargo run --release --quiet --package etvk-cli -- demo $(DEMO)

test: ## format, lints, docs, the suite and three doors on lavapipe, two of them on SwiftShader
	@scripts/test.sh cpu

test-gpu: ## the suite and conformance on this machine's own device
	@scripts/test.sh gpu

test-all: test test-gpu ## both of them

wheel: ## the Python package, in target/wheel
	@scripts/setup.sh backend
	@scripts/wheel.sh

test-python: ## the Python package in a fresh environment (PYTHON: one that has torch and executorch 1.5.1)
	@scripts/test-python.sh

shaders: ## rebuild the committed SPIR-V after a change in shaders/
	@scripts/setup.sh shaders
	cargo xtask shaders

fmt: ## format all Rust code
	cargo fmt --all
