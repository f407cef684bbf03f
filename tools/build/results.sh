#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# results.sh ARGUMENTS: builds the host tool huvm-results, and runs it where the caller is.
. "$(dirname "$0")/lib.sh"
# The folder of the fast checks: most of what it needs is there already.
export CARGO_TARGET_DIR=$BUILD/cargo-check
logged "$BUILD/logs/results-build.log" cargo build --locked --manifest-path "$ROOT/Cargo.toml" -p huvm_results --bin huvm-results
exec "$CARGO_TARGET_DIR/debug/huvm-results" "$@"
