#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# fuzz.sh [TARGET…]: runs the fuzz targets of tests/fuzz (all of them), each for SECONDS_EACH (60; make: S=), with the coverage of what runs as
# its guide. What it has found to be worth keeping stays in build/fuzz/TARGET; inputs that once broke something are kept in
# tests/fuzz/found/TARGET, those that together reach all that was reached in tests/fuzz/corpus/TARGET: both are run first, and by
# cargo test. Exit code 1 if something breaks: the input is build/fuzz/TARGET-… then. MERGE=bytes: instead of fuzzing, what in
# build/fuzz/TARGET reaches more than the corpus does goes there, inputs of at most so many bytes.
. "$(dirname "$0")/lib.sh"
SECONDS_EACH=${SECONDS_EACH:-60}
[ $# != 0 ] || set -- guest device files tool
target=$(rustc -vV | sed -n 's/^host: //p')
# libFuzzer asks for counters, and for what was compared. The compiler has them for every program; only its option is unstable.
flags="--cfg fuzzing -Cpasses=sancov-module -Ccodegen-units=1 -Cllvm-args=-sanitizer-coverage-level=4"
flags+=" -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table"
flags+=" -Cllvm-args=-sanitizer-coverage-trace-compares"
cxx=$(clang_)
say "building the fuzz targets"
export CARGO_TARGET_DIR=$BUILD/cargo-fuzz RUSTC_BOOTSTRAP=1 RUSTFLAGS=$flags CXX=${cxx/clang/clang++}
logged "$BUILD/logs/fuzz-build.log" cargo build --locked --manifest-path "$ROOT/tests/fuzz/Cargo.toml" --target "$target"
mkdir -p "$BUILD/fuzz/files" "$BUILD/fuzz/tool"
# Files as they should be are where the search starts.
for f in "$ROOT"/qemu/profiles/*.toml; do { printf 0 && cat "$f"; } >"$BUILD/fuzz/files/${f##*/}"; done
for f in "$ROOT"/Documentation/results-notes.toml; do { printf 4 && head -c 8000 "$f"; } >"$BUILD/fuzz/files/${f##*/}"; done
for f in "$ROOT"/tools/results/tests/data/a/*.json; do { printf 2 && head -c 8000 "$f"; } >"$BUILD/fuzz/files/${f##*/}"; done
{ printf 4 && head -c 8000 "$ROOT/tools/results/paper.toml"; } >"$BUILD/fuzz/files/paper.toml"
# First bytes: tests/fuzz/bodies.
head -20 "$ROOT/tools/uvmctl/tests/data/trace.jsonl" >"$BUILD/fuzz/trace.jsonl"
{ printf 3 && cat "$BUILD/fuzz/trace.jsonl"; } >"$BUILD/fuzz/files/trace.jsonl"
{ printf 2 && cat "$BUILD/fuzz/trace.jsonl"; } >"$BUILD/fuzz/tool/trace.jsonl"
for n in {0..23}; do { printf '1%b' "\\x$(printf %02x $n)" && head -c 200 /dev/urandom; } >"$BUILD/fuzz/tool/changed-$n"; done
bad=()
for t in "$@"; do
	kept=("$ROOT/tests/fuzz/corpus/$t" "$ROOT/tests/fuzz/found/$t")
	mkdir -p "$BUILD/fuzz/$t" "${kept[@]}"
	if [ -n "${MERGE:-}" ]; then
		"$CARGO_TARGET_DIR/$target/debug/$t" -merge=1 -max_len="$MERGE" "${kept[0]}" "$BUILD/fuzz/$t" >"$BUILD/logs/fuzz-$t.log" 2>&1 ||
			bad+=("$t")
		say "$t: a corpus of $(find "${kept[0]}" -type f | wc -l) inputs, $(du -bs "${kept[0]}" | cut -f1) bytes"
		continue
	fi
	say "fuzzing: $t, $SECONDS_EACH s"
	"$CARGO_TARGET_DIR/$target/debug/$t" "$BUILD/fuzz/$t" "${kept[@]}" -max_total_time="$SECONDS_EACH" -max_len=20000 -timeout=20 \
		-rss_limit_mb=4096 -artifact_prefix="$BUILD/fuzz/$t-" -print_final_stats=1 >"$BUILD/logs/fuzz-$t.log" 2>&1 || bad+=("$t")
	awk -v t="$t" '/cov: / {for (i = 1; i < NF; i++) if ($i == "cov:") cov = $(i + 1)} /number_of_executed_units/ {n = $2}
		END {printf "[huvm] %s: %d inputs, %d edges\n", t, n, cov}' "$BUILD/logs/fuzz-$t.log"
done
[ ${#bad[@]} = 0 ] || die "broken: ${bad[*]}" "read build/logs/fuzz-${bad[0]}.log; the input is build/fuzz/${bad[0]}-…"
