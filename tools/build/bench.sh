#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# bench.sh EXPERIMENT: runs the demo, or an experiment of `uvmctl bench`, in a guest, in virtual time. Writes
# build/results/EXPERIMENT.json.
. "$(dirname "$0")/lib.sh"
exp=${1:-harvest}
case $exp in
demo) gpus=1 limit=1800 takes="half a minute" command="demo --preset stock-595" ;;
harvest) gpus=${GPUS:-2} limit=3600 takes="two minutes" command="bench harvest" ;;
*) die "there is no experiment '$exp'" "use EXP=harvest" ;;
esac
vram=${VRAM:-128}
say "booting a guest for '$exp': GPUs: $gpus, $vram MiB each (virtual time; about $takes)"
rc=0
KCONF=fast GPUS=$gpus VRAM=$vram MEM=${MEM:-3G} SMP=2 ICOUNT=1 TIMING=on PROFILE=v100-p3 NAME=$exp LIMIT=$limit \
	RUN="sh /suites/bench.sh $command" "$ROOT/tools/build/run.sh" |
	sed -u -e '/^HUVM-JSON-BEGIN/,/^HUVM-JSON-END/d' -e '/^HUVM-/d' -e '/reboot: Power down/d' || rc=$?
mkdir -p "$BUILD/results"
json=$BUILD/results/$exp.json
sed -n '/^HUVM-JSON-BEGIN/,/^HUVM-JSON-END/{/^HUVM-/d;p}' "$BUILD/logs/$exp.log" >"$json.part"
if jq -e 'type == "array" and length > 0' "$json.part" >/dev/null 2>&1; then
	mv "$json.part" "$json"
	say "results: build/results/$exp.json"
else
	rm -f "$json.part"
	die "'$exp' gave no results" "read build/logs/$exp.log"
fi
[ "$rc" = 0 ] || die "'$exp' failed with exit code $rc" "read build/logs/$exp.log"
