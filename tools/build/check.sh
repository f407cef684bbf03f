#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# The fast checks: formatting, whether mutants and bindings are of the sources, whether reports of data races are told apart, clippy for the host crates and for the module, unit and property tests. All of them run,
# whatever one of them finds. KCONF: the kernel whose build clippy uses for the module (fast).
. "$(dirname "$0")/lib.sh"
KCONF=${KCONF:-fast}
cd "$ROOT"
export CARGO_TARGET_DIR=$BUILD/cargo-check
mkdir -p "$BUILD/logs" "$BUILD/clippy-$KCONF"
# Who builds once has nothing of files for the next time.
[ -z "${CI:-}" ] || export CARGO_INCREMENTAL=0
"$ROOT/tools/build/crates.sh" from "$CARGO_TARGET_DIR"
bad=()

# step NAME COMMAND…: says what runs, remembers what failed.
step() {
	local name=$1 began=$SECONDS
	shift
	say "$name"
	if ("$@"); then
		[ $((SECONDS - began)) -lt 10 ] || say "  $((SECONDS - began)) s"
	else
		bad+=("$name")
	fi
}

format() {
	# The same file for the module's sources and the crates; sources that a macro hides are found too.
	find drivers qemu tools tests -name '*.rs' ! -path '*/target/*' ! -name 'uapi.rs' -print0 |
		xargs -0 rustfmt --check --color never --edition 2021 --config-path "$ROOT/rustfmt.toml" \
			--config skip_children=true >"$BUILD/logs/fmt.log" 2>&1 && return 0
	sed -n 's/^Diff in \(.*\):[0-9]*:$/\1/p' "$BUILD/logs/fmt.log" | sort -u
	head -20 "$BUILD/logs/fmt.log"
	die "some files are not formatted" "run rustfmt --edition 2021 on them"
}

clippy_module() {
	local kdir
	kdir=$("$ROOT/tools/build/kernel.sh" "$KCONF" --print) || exit 1
	locked "module-clippy-$(here)" logged "$BUILD/logs/module-clippy.log" make -C "$kdir" "M=$ROOT" "MO=$BUILD/clippy-$KCONF" \
		"LLVM=$(llvm)" "BINDGEN=$(bindgen_)" "CLIPPY_CONF_DIR=$ROOT" "-j$JOBS" CLIPPY=1 KRUSTFLAGS=-Dwarnings modules
}

# Each says what the tests are to catch; one that does not fit the sources any more says nothing.
mutants() {
	local m bad=()
	for m in tests/mutants/*.patch; do
		patch --dry-run -p1 -s -F2 -r - <"$m" >/dev/null 2>&1 || bad+=("$m")
	done
	[ ${#bad[@]} = 0 ] || die "${#bad[@]} mutants do not fit the sources: ${bad[*]}" "write them anew"
}

# What the detector of data races reports: the first four are of a run, the others were written for this.
races_told() {
	(. tests/suites/races.sh && races tests/races/reports.log) | diff - tests/races/told.txt >&2 ||
		die "reports of data races are told apart otherwise than tests/races/told.txt says" "mend tests/suites/races.sh, or that file"
}

step "formatting" format
step "mutants fit" mutants
step "races told apart" races_told
step "bindings" env BINDGEN="$(bindgen_)" tools/libhuvm/regen.sh --check
# Not "cargo clippy": cargo would look in ~/.cargo/bin first and find another toolchain's.
step "clippy, host crates" logged "$BUILD/logs/clippy.log" cargo-clippy clippy --locked --workspace --all-targets -- -D warnings
step "clippy, module ($KCONF kernel)" clippy_module
step "unit and property tests" logged "$BUILD/logs/cargo-test.log" cargo test --locked --workspace --no-fail-fast
[ ${#bad[@]} != 0 ] || "$ROOT/tools/build/crates.sh" to "$CARGO_TARGET_DIR"
awk '/^test result/ {p += $4; f += $6} END {printf "[huvm] host: %d passed, %d failed\n", p, f}' "$BUILD/logs/cargo-test.log"
[ ${#bad[@]} = 0 ] || die "$(IFS=/; echo "${#bad[@]} checks failed: ${bad[*]}")" "read what they printed above, and build/logs"
