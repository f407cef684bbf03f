#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# bench.sh EXPERIMENT: runs `uvmctl bench` in a guest, in virtual time. Writes build/results/EXPERIMENT.json.
. "$(dirname "$0")/lib.sh"
exp=${1:-harvest}
case $exp in
harvest) gpus=${GPUS:-2} vram=${VRAM:-128} mem=${MEM:-3G} ;;
*) die "there is no experiment '$exp'" "use EXP=harvest" ;;
esac
say "booting a guest with $gpus GPUs of $vram MiB (virtual time; experiment $exp, about two minutes)"
rc=0
KCONF=fast GPUS=$gpus VRAM=$vram MEM=$mem SMP=2 ICOUNT=1 TIMING=on PROFILE=${PROFILE:-v100-p3} NAME=bench-$exp LIMIT=3600 \
	GENV="EXP=$exp" RUN="sh /suites/bench.sh" "$ROOT/tools/build/run.sh" |
	sed -u -e '/^HUVM-JSON-BEGIN/,/^HUVM-JSON-END/d' -e '/^HUVM-/d' -e '/reboot: Power down/d' || rc=$?
mkdir -p "$BUILD/results"
json=$BUILD/results/$exp.json
sed -n '/^HUVM-JSON-BEGIN/,/^HUVM-JSON-END/{/^HUVM-/d;p}' "$BUILD/logs/bench-$exp.log" >"$json.part"
if jq -e 'type == "array" and length > 0' "$json.part" >/dev/null 2>&1; then
	mv "$json.part" "$json"
	say "results: build/results/$exp.json"
else
	rm -f "$json.part"
	die "the experiment gave no results" "read build/logs/bench-$exp.log"
fi
[ "$rc" = 0 ] || die "the experiment failed with exit code $rc" "read build/logs/bench-$exp.log"
