#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# bench.sh EXPERIMENT: runs the demo, or an experiment of `uvmctl bench`, in virtual time. Two guests boot side by side, most
# often one with one GPU and one with several; their rows come into one table and into build/results/EXPERIMENT.json. Wrong
# data or a complaint of a kernel gives no results.
. "$(dirname "$0")/lib.sh"
exp=${1:-harvest}
case $exp in
demo)
	takes="a minute" first=1 second=${GPUS:-4}
	one="demo --preset stock-595" several="demo --neighbours" reader="demo"
	;;
harvest)
	takes="five minutes" first=1 second=${GPUS:-2}
	one="bench harvest" several="bench harvest" reader="bench harvest"
	;;
oversub)
	takes="eight minutes" first=1 second=1
	# Half of the workloads in each guest.
	one="bench oversub --workloads triad,hotspot,resnet50,zipf" several="bench oversub --workloads atax,pagerank,bfs,llm-decode"
	reader="bench oversub"
	;;
*) die "there is no experiment '$exp'" "use EXP=harvest or EXP=oversub" ;;
esac
[ "$exp" = oversub ] || [ "$second" -ge 2 ] || die "'$exp' needs neighbours" "leave GPUS= out, or set it to 2 or more"
vram=${VRAM:-128}
results=$BUILD/results
json=$results/$exp.json
mkdir -p "$results" "$BUILD/logs"
# What an earlier run found is no result of this one.
rm -f "$json" "$results/$exp.meta.json" "$results/$exp.targets.txt"

# Of now: the checkout may move while the guests run.
commit=$(git -C "$ROOT" rev-parse HEAD 2>/dev/null || true)
[ -z "$(git -C "$ROOT" status --porcelain --untracked-files=no 2>/dev/null)" ] && dirty=false || dirty=true

# guest NAME GPUS COMMAND: runs it; its document is left in build/results/EXPERIMENT-NAME.part.
guest() {
	local name=$exp-$1 rc=0
	KCONF=fast GPUS=$2 VRAM=$vram MEM=${MEM:-3G} SMP=2 ICOUNT=1 TIMING=on PROFILE=v100-p3 NAME=$name LIMIT=${LIMIT:-3600} \
		RUN="sh /suites/bench.sh $3" "$ROOT/tools/build/run.sh" |
		sed -u -e '/^HUVM-JSON-BEGIN/,/^HUVM-JSON-END/d' -e '/^HUVM-/d' -e '/reboot: Power down/d' -e "s/^/[$1, $2 GPU] /" || rc=$?
	sed -n '/^HUVM-JSON-BEGIN/,/^HUVM-JSON-END/{/^HUVM-/d;p}' "$BUILD/logs/$name.log" >"$results/$name.part"
	return "$rc"
}

say "'$exp': two guests, of $first and of $second GPUs with $vram MiB each (virtual time; about $takes)"
# A group of its own, to be ended as a whole.
set -m
guest a "$first" "$one" &
beside=$!
set +m
trap 'kill -- -"$beside" 2>/dev/null || true' EXIT
trap 'exit 130' INT TERM
rc=0
guest b "$second" "$several" || rc=$?
wait "$beside" || rc=$?
parts=("$results/$exp-a.part" "$results/$exp-b.part")
logs="build/logs/$exp-a.log, build/logs/$exp-b.log"
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
	--arg kernel "$KERNEL_SERIES" --arg gpus "$first, $second" --arg vram "$vram" --arg mem "${MEM:-3G}" '{schema: "huvm.results/1",
	experiment: $exp, commit: ($commit | if . == "" then null else . end), dirty: $dirty,
	versions: {driver: .driver_version, tool: .tool_version, rustc: $rustc, qemu: $qemu, kernel: $kernel},
	configuration: {gpus: $gpus, vram_mib: ($vram | tonumber), memory: $mem, cpus: 2, profile: "v100-p3", kernel: "fast",
	icount: true}, seed: null, warnings: (.warnings // [])}' "$doc" >"$results/$exp.meta.json"
sed -n '/^WHAT /,$p' "$doc.txt" >"$results/$exp.targets.txt"
[ -s "$results/$exp.targets.txt" ] || rm -f "$results/$exp.targets.txt"
jq .data "$doc" >"$json.part" && mv "$json.part" "$json"
rm -f "$doc" "$doc.txt"
say "results: ${json#"$ROOT"/}"
