#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# The demo: uvmctl demo in a guest with one GPU, in virtual time. Writes build/results/demo.json.
. "$(dirname "$0")/lib.sh"
VRAM=${VRAM:-128}
say "booting a guest with one GPU of $VRAM MiB (virtual time; about half a minute)"
rc=0
KCONF=fast GPUS=1 VRAM=$VRAM MEM=${MEM:-3G} SMP=2 ICOUNT=1 TIMING=on PROFILE=v100-p3 NAME=demo LIMIT=1800 \
	RUN="sh /suites/demo.sh" "$ROOT/tools/build/run.sh" |
	sed -u -e '/^HUVM-JSON-BEGIN/,/^HUVM-JSON-END/d' -e '/^HUVM-/d' -e '/reboot: Power down/d' || rc=$?
mkdir -p "$BUILD/results"
sed -n '/^HUVM-JSON-BEGIN/,/^HUVM-JSON-END/{/^HUVM-/d;p}' "$BUILD/logs/demo.log" >"$BUILD/results/demo.json.part"
if jq -e 'type == "array" and length > 0' "$BUILD/results/demo.json.part" >/dev/null 2>&1; then
	mv "$BUILD/results/demo.json.part" "$BUILD/results/demo.json"
	say "results: build/results/demo.json"
else
	rm -f "$BUILD/results/demo.json.part"
	die "the demo gave no results" "read build/logs/demo.log"
fi
[ "$rc" = 0 ] || die "the demo failed with exit code $rc" "read build/logs/demo.log"
