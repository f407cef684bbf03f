#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# bench.sh EXPERIMENT: runs the demo, or an experiment of `uvmctl bench`, in virtual time. One guest has one GPU, another
# has several; they boot side by side, and their rows come into one table and into build/results/EXPERIMENT.json. Wrong
# data or a complaint of a kernel gives no results.
. "$(dirname "$0")/lib.sh"
exp=${1:-harvest}
case $exp in
demo)
	takes="a minute" gpus=${GPUS:-4}
	one="demo --preset stock-595" several="demo --neighbours" reader="demo"
	;;
harvest)
	takes="five minutes" gpus=${GPUS:-2}
	one="bench harvest" several="bench harvest" reader="bench harvest"
	;;
*) die "there is no experiment '$exp'" "use EXP=harvest" ;;
esac
[ "$gpus" -ge 2 ] || die "'$exp' needs neighbours" "leave GPUS= out, or set it to 2 or more"
vram=${VRAM:-128}
results=$BUILD/results
json=$results/$exp.json
mkdir -p "$results" "$BUILD/logs"
# What an earlier run found is no result of this one.
rm -f "$json" "$results/$exp.meta.json" "$results/$exp.targets.txt"

# Of now: the checkout may move while the guests run.
commit=$(git -C "$ROOT" rev-parse HEAD 2>/dev/null || true)
[ -z "$(git -C "$ROOT" status --porcelain --untracked-files=no 2>/dev/null)" ] && dirty=false || dirty=true

# guest GPUS COMMAND: runs it; its document is left in build/results/EXPERIMENT-GPUS.part.
guest() {
	local name=$exp-$1 rc=0
	KCONF=fast GPUS=$1 VRAM=$vram MEM=${MEM:-3G} SMP=2 ICOUNT=1 TIMING=on PROFILE=v100-p3 NAME=$name LIMIT=${LIMIT:-3600} \
		RUN="sh /suites/bench.sh $2" "$ROOT/tools/build/run.sh" |
		sed -u -e '/^HUVM-JSON-BEGIN/,/^HUVM-JSON-END/d' -e '/^HUVM-/d' -e '/reboot: Power down/d' -e "s/^/[$1 GPU] /" || rc=$?
	sed -n '/^HUVM-JSON-BEGIN/,/^HUVM-JSON-END/{/^HUVM-/d;p}' "$BUILD/logs/$name.log" >"$results/$name.part"
	return "$rc"
}

say "'$exp': two guests, of 1 and of $gpus GPUs with $vram MiB each (virtual time; about $takes)"
# A group of its own, to be ended as a whole.
set -m
guest 1 "$one" &
first=$!
set +m
trap 'kill -- -"$first" 2>/dev/null || true' EXIT
trap 'exit 130' INT TERM
rc=0
guest "$gpus" "$several" || rc=$?
wait "$first" || rc=$?
parts=("$results/$exp-1.part" "$results/$exp-$gpus.part")
logs="build/logs/$exp-1.log, build/logs/$exp-$gpus.log"
[ "$rc" = 0 ] || { rm -f "${parts[@]}"; die "'$exp' failed with exit code $rc: no results" "read $logs"; }
# One document of both: the envelope of the last, the rows of all.
doc=$results/$exp.doc.part
jq -s '(map(.data) | add) as $rows | last | .data = $rows | select($rows | type == "array" and length > 0)' "${parts[@]}" >"$doc" 2>/dev/null || true
rm -f "${parts[@]}"
[ -s "$doc" ] || { rm -f "$doc"; die "'$exp' gave no results" "read $logs"; }
# The guest's tool is static: it runs here too.
echo
"$BUILD/image-fast/bin/uvmctl" $reader --from "$doc" | tee "$doc.txt" || rc=$?
[ "$rc" = 0 ] || { rm -f "$doc" "$doc.txt"; die "'$exp' has wrong results: none kept" "read $logs"; }
# Beside the rows: what they are of (tools/results/src/rows.rs), and the targets as they were judged.
jq --arg exp "$exp" --arg commit "$commit" --argjson dirty "$dirty" --arg rustc "$(rustc -V)" --arg qemu "$QEMU_SERIES" \
	--arg kernel "$KERNEL_SERIES" --arg gpus "1, $gpus" --arg vram "$vram" --arg mem "${MEM:-3G}" '{schema: "huvm.results/1",
	experiment: $exp, commit: ($commit | if . == "" then null else . end), dirty: $dirty,
	versions: {driver: .driver_version, tool: .tool_version, rustc: $rustc, qemu: $qemu, kernel: $kernel},
	configuration: {gpus: $gpus, vram_mib: ($vram | tonumber), memory: $mem, cpus: 2, profile: "v100-p3", kernel: "fast",
	icount: true}, seed: null, warnings: (.warnings // [])}' "$doc" >"$results/$exp.meta.json"
sed -n '/^WHAT /,$p' "$doc.txt" >"$results/$exp.targets.txt"
[ -s "$results/$exp.targets.txt" ] || rm -f "$results/$exp.targets.txt"
jq .data "$doc" >"$json.part" && mv "$json.part" "$json"
rm -f "$doc" "$doc.txt"
say "results: ${json#"$ROOT"/}"
