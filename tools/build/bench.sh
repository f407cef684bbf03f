#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# bench.sh EXPERIMENT|all: runs the demo, or experiments of `uvmctl bench`, in virtual time. Two guests run side by side; their
# rows come into one table and into build/results/EXPERIMENT.json. Wrong data or a complaint of a kernel gives no results.
# Settings come from the environment:
#   GPUS=n (demo, harvest)  VRAM=MiB  MEM=6G  PROFILE=v100-p3  LIMIT=s (a guest)
#   QUICK=1: less of each experiment, on smaller memories   RATIOS=1.5,2 (oversub)
# `all` leaves out what has results of this commit, without changes, and this configuration.
. "$(dirname "$0")/lib.sh"
exp=${1:-harvest}
quick=${QUICK:-}
[ "$quick" != 0 ] || quick=
every=(harvest oversub inter-job ladder prefetch-size spare-size interference intra-job scaling)
results=$BUILD/results
mkdir -p "$results" "$BUILD/logs"
# Of now: the checkout may move while the guests run.
commit=$(git -C "$ROOT" rev-parse HEAD 2>/dev/null || true)
[ -z "$(git -C "$ROOT" status --porcelain --untracked-files=no 2>/dev/null)" ] && dirty=false || dirty=true

several() { first=4 second=4 vram=3072 mem=7G data=phantom taped=yes command=$exp; }

# The experiments: estimate on two idle cores; GPUs and arguments of both guests; memory of a GPU (of the second guest's, if
# it differs) and of a guest, CPUs, data; whether what the jobs touch is recorded first.
# quick_a, quick_b: arguments instead, for QUICK=1.
spec() {
	first=1 second=1 vram=128 vram_b='' mem=3G cpus=2 profile=v100-p3 data=real taped='' quick_a='' quick_b='' command=
	case $exp in
	demo)
		takes="a minute" second=${GPUS:-4} a="demo --preset stock-595" b="demo --neighbours" reader="demo"
		;;
	harvest)
		takes="five minutes" second=${GPUS:-2} a="" b="" quick_a="-i 1" quick_b="-i 1" command=harvest
		;;
	oversub)
		takes="an hour" command=oversub
		# Half of the workloads in each guest.
		a="--workloads triad,hotspot,resnet50,zipf ${RATIOS:+--ratios $RATIOS}"
		b="--workloads atax,pagerank,bfs,llm-decode ${RATIOS:+--ratios $RATIOS}"
		quick_a="--workloads triad --ratios 1.5" quick_b="--workloads pagerank --ratios 1.5"
		;;
	inter-job)
		takes="an hour" && several
		a="--cases case-1,case-3" b="--cases case-2,case-4"
		quick_a="--cases case-1 -i 1" quick_b="--cases case-3 -i 1"
		;;
	ladder)
		takes="half an hour" && several
		a="--presets stock-460,stock-595,H,H+PE,H+PE+LP"
		b="--presets H+PE+LP+PLF,H+PE+LP+PLF+LPF,H+PE+LP+PLF+LPF+MPF,memharvester,huvm"
		quick_a="--presets stock-460,H,H+PE -i 1" quick_b="--presets H+PE+LP,H+PE+LP+PLF,memharvester -i 1"
		;;
	prefetch-size)
		takes="half an hour" && several
		a="--cases stride-2,stride-4,stride-8,stride-16,stride-32" b="--cases next-line-2,next-line-4,next-line-8,next-line-16,next-line-32"
		quick_a="--cases stride-2 -i 1" quick_b="--cases stride-32 -i 1"
		;;
	spare-size)
		takes="twenty minutes" && several
		a="--cases spare-0,spare-5,spare-10,spare-20" b="--cases spare-30,spare-40,spare-50,spare-60"
		quick_a="--cases spare-0,spare-5 -i 1" quick_b="--cases spare-30 -i 1"
		;;
	interference)
		takes="half an hour" && several
		a="--cases borrowers-1" b="--cases borrowers-3" quick_a="$a -i 1" quick_b="$b --presets memharvester,huvm -i 1"
		;;
	intra-job)
		takes="half an hour" && several
		a="--cases gnmt16,resnet50" b="--cases gnmt8,vgg16"
		quick_a="--cases resnet50 -i 1" quick_b="--cases vgg16 -i 1"
		;;
	scaling)
		# One CPU: what a thread spends are its own instructions alone, none of another one that it waits for.
		takes="four minutes" first=1 second=16 vram=131072 vram_b=2304 mem=8G cpus=1 profile=full16 data=phantom command=scaling
		# The fewest GPUs are those of a machine that has no more.
		a="--cases chunks-1k,chunks-4k,chunks-16k,chunks-64k,clients-1,clients-4,clients-16,clients-64,gpus-1"
		b="--cases gpus-2,gpus-4,gpus-8,gpus-16"
		quick_a="--cases chunks-1k,chunks-16k,gpus-1 -i 1" quick_b="--cases gpus-16 -i 1"
		;;
	*) die "there is no experiment '$exp'" "use EXP=all, demo or one of: ${every[*]}" ;;
	esac
	if [ -n "$quick" ] && [ -n "$quick_a" ]; then
		a=$quick_a b=$quick_b takes="a minute or two"
		[ -z "$taped" ] || vram=768 mem=3G
	fi
	vram=${VRAM:-$vram} vram_b=${VRAM:-${vram_b:-$vram}} mem=${MEM:-$mem} profile=${PROFILE:-$profile}
	if [ -n "$command" ]; then
		a="bench $command $a" b="bench $command $b" reader="bench $command"
	fi
	each=$vram
	[ "$vram" = "$vram_b" ] || each="$vram, $vram_b"
	mips=$(mips_of "$profile")
	config=$(jq -n --arg gpus "$first, $second" --arg each "$each" --arg mem "$mem" --arg profile "$profile" \
		--arg data "$data" --argjson cpus "$cpus" --argjson mips "$mips" --argjson quick "$([ -n "$quick" ] && echo true || echo false)" '{gpus: $gpus, vram_mib: ($each | tonumber? // $each),
		memory: $mem, cpus: $cpus, mips: $mips, profile: $profile, kernel: "fast", icount: true, data: $data, quick: $quick}')
}

# The touches of an experiment's jobs, made here: an emulated CPU takes minutes to draw a graph's edges. They are of this tool;
# another one makes its own. image: the guest's, with these in its folder /tapes.
tapes() {
	local tool=$BUILD/image-fast/bin/uvmctl dir=$BUILD/tapes key chunks=$((vram * 100 / 436)) list
	key=$(sha256sum <"$tool")
	[ "$(cat "$dir/key" 2>/dev/null)" = "$key" ] || { rm -rf "$dir" && mkdir -p "$dir" && echo "$key" >"$dir/key"; }
	say "  recording what the jobs touch"
	list=$( ("$tool" $a --record --tapes "$dir" --chunks "$chunks" && "$tool" $b --record --tapes "$dir" --chunks "$chunks") | sort -u)
	rm -rf "$dir/tapes" && mkdir "$dir/tapes"
	for t in $list; do ln "$dir/$t" "$dir/tapes/$t"; done
	find "$dir/tapes" -exec touch -h -d @0 {} +
	image=$BUILD/image-$exp.cpio
	# The kernel unpacks one archive after the other; the second begins at a multiple of four.
	cp "$BUILD/image-fast.cpio.gz" "$image"
	truncate -s %512 "$image"
	(cd "$dir" && find tapes | LC_ALL=C sort | cpio -o -H newc --quiet --reproducible -R 0:0) >>"$image"
	a="$a --tapes /tapes --chunks $chunks" b="$b --tapes /tapes --chunks $chunks"
}

# guest NAME GPUS VRAM COMMAND: runs it; its document is left in build/results/EXPERIMENT-NAME.part.
guest() {
	local name=$exp-$1 rc=0
	KCONF=fast GPUS=$2 VRAM=$3 MEM=$mem SMP=$cpus ICOUNT=1 TIMING=on DATA=$data PROFILE=$profile NAME=$name LIMIT=${LIMIT:-7200} \
		IMAGE=$image RUN="sh /suites/bench.sh $4" "$ROOT/tools/build/run.sh" |
		sed -u -e '/^HUVM-JSON-BEGIN/,/^HUVM-JSON-END/d' -e '/^HUVM-/d' -e '/reboot: Power down/d' -e "s/^/[$1, $2 GPU] /" || rc=$?
	sed -n '/^HUVM-JSON-BEGIN/,/^HUVM-JSON-END/{/^HUVM-/d;p}' "$BUILD/logs/$name.log" >"$results/$name.part"
	return "$rc"
}

# Whether there are results of this commit and configuration.
is_there() {
	[ "$dirty" = false ] && [ -s "$results/$exp.json" ] && [ -s "$results/$exp.meta.json" ] &&
		jq -e --arg commit "$commit" --argjson config "$config" \
			'.commit == $commit and .dirty == false and .configuration == $config' "$results/$exp.meta.json" >/dev/null
}

one() {
	local json=$results/$exp.json rc=0 beside parts logs doc tool=$BUILD/image-fast/bin/uvmctl
	[ "$first" != 1 ] || [ "$exp" = oversub ] || [ "$second" -ge 2 ] ||
		die "'$exp' needs neighbours" "leave GPUS= out, or set it to 2 or more"
	# What an earlier run found is no result of this one.
	rm -f "$json" "$results/$exp.meta.json" "$results/$exp.targets.txt"
	say "'$exp': two guests, of $first and of $second GPUs with ${each/, / and } MiB each (virtual time; about $takes)"
	image=$BUILD/image-fast.cpio.gz
	[ -z "$taped" ] || tapes
	# A group of its own, to be ended as a whole.
	set -m
	guest a "$first" "$vram" "$a" &
	beside=$!
	set +m
	trap 'kill -- -'"$beside"' 2>/dev/null || true' EXIT
	trap 'exit 130' INT TERM
	guest b "$second" "$vram_b" "$b" || rc=$?
	wait "$beside" || rc=$?
	trap - EXIT
	[ -z "$taped" ] || rm -f "$image"
	parts=("$results/$exp-a.part" "$results/$exp-b.part")
	logs="build/logs/$exp-a.log, build/logs/$exp-b.log"
	[ "$rc" = 0 ] || { rm -f "${parts[@]}"; die "'$exp' failed with exit code $rc: no results" "read $logs"; }
	# One document of both: the envelope of the last, the rows of all.
	doc=$results/$exp.doc.part
	jq -s '(map(.data) | add) as $rows | last | .data = $rows | select($rows | type == "array" and length > 0)' "${parts[@]}" >"$doc" 2>/dev/null || true
	rm -f "${parts[@]}"
	[ -s "$doc" ] || { rm -f "$doc"; die "'$exp' gave no results" "read $logs"; }
	# The guest's tool is static: it runs here too. It reads the rows of both guests as those of one experiment.
	echo
	"$tool" $reader --from "$doc" | tee "$doc.txt" || rc=$?
	"$tool" --json $reader --from "$doc" >"$doc.json" || rc=$?
	[ "$rc" = 0 ] || { rm -f "$doc" "$doc.txt" "$doc.json"; die "'$exp' has wrong results: none kept" "read $logs"; }
	# Beside the rows: what they are of (tools/results/src/rows.rs), and the targets as they were judged.
	jq --arg exp "$exp" --arg commit "$commit" --argjson dirty "$dirty" --arg rustc "$(rustc -V)" --arg qemu "$QEMU_SERIES" \
		--arg kernel "$KERNEL_SERIES" --argjson config "$config" '{schema: "huvm.results/1",
		experiment: $exp, commit: ($commit | if . == "" then null else . end), dirty: $dirty,
		versions: {driver: .driver_version, tool: .tool_version, rustc: $rustc, qemu: $qemu, kernel: $kernel},
		configuration: $config, seed: null, warnings: (.warnings // [])}' "$doc" >"$results/$exp.meta.json"
	sed -n '/^WHAT /,$p' "$doc.txt" >"$results/$exp.targets.txt"
	[ -s "$results/$exp.targets.txt" ] || rm -f "$results/$exp.targets.txt"
	# Each CPU executes so many instructions a microsecond: what the driver's threads spent, in instructions.
	jq --argjson mips "$mips" '.data | map(if .driver_ns then .driver_insns = (.driver_ns * $mips / 1000 | round) else . end)' \
		"$doc.json" >"$json.part" && mv "$json.part" "$json"
	rm -f "$doc" "$doc.txt" "$doc.json"
	say "results: ${json#"$ROOT"/}"
}

if [ "$exp" != all ]; then
	spec
	one
	exit
fi
began=$SECONDS did=0 left=${#every[@]}
for exp in "${every[@]}"; do
	spec
	if is_there; then
		say "'$exp' is there already"
	else
		say "$left experiments to go, '$exp' is next"
		one
		did=$((did + 1))
		say "$(((SECONDS - began) / 60)) minutes so far, about $(((SECONDS - began) * (left - 1) / did / 60)) more"
	fi
	left=$((left - 1))
done
say "all experiments have results: build/results"
