#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# The fast checks: formatting, clippy for the host crates and for the module, unit and property tests.
. "$(dirname "$0")/lib.sh"
cd "$ROOT"
export CARGO_TARGET_DIR=$BUILD/cargo-check
mkdir -p "$BUILD/logs"
say "formatting"
find drivers qemu tools tests -name '*.rs' ! -path '*/target/*' ! -name 'uapi.rs' -print0 |
	xargs -0 rustfmt --check --edition 2021 --config-path "$ROOT/rustfmt.toml" --config skip_children=true >"$BUILD/logs/fmt.log" 2>&1 || {
	head -40 "$BUILD/logs/fmt.log"
	die "some files are not formatted" "run rustfmt --edition 2021 on them"
}
say "clippy, host crates"
logged "$BUILD/logs/clippy.log" cargo clippy --locked --workspace --all-targets -- -D warnings
say "clippy, module (fast kernel)"
"$ROOT/tools/build/kernel.sh" fast
mkdir -p "$BUILD/module-clippy"
logged "$BUILD/logs/module-clippy.log" make -C "$("$ROOT/tools/build/kernel.sh" fast --print)" "M=$ROOT" \
	"MO=$BUILD/module-clippy" "LLVM=$(llvm)" "BINDGEN=$(bindgen_)" "CLIPPY_CONF_DIR=$ROOT" "-j$JOBS" CLIPPY=1 modules
if grep -E '^(warning|error)' -A6 "$BUILD/logs/module-clippy.log" | head -60 | grep .; then
	die "clippy has something to say about the module" "see build/logs/module-clippy.log"
fi
say "unit and property tests"
logged "$BUILD/logs/cargo-test.log" cargo test --locked --workspace
awk '/^test result/ {p += $4; f += $6} END {printf "[huvm] host: %d passed, %d failed\n", p, f}' "$BUILD/logs/cargo-test.log"
