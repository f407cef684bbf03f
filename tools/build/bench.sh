#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# bench.sh EXPERIMENT|all: runs the demo, or experiments of `uvmctl bench`, in virtual time. An experiment is some guests, as many of
# which run at a time as the machine has CPUs and memory for; their rows come into one table and into build/results/EXPERIMENT.json. Wrong
# data or a complaint of a kernel gives no results. Settings come from the environment:
#   LANES=n: that many guests at a time
#   GPUS=n (demo, harvest)  VRAM=MiB  MEM=6G  PROFILE=v100-p3  LIMIT=s (a guest)  ITERATIONS=n (measured passes)
#   WORKLOADS=bfs,zipf RATIOS=1.5,2 PRESETS=huvm,random (oversub, streaming)
#   AGAIN=1 (oversub, streaming, those of several jobs): once more, presets in the other order: how far apart the two are stands in the rows
#   QUICK=1: less of each experiment, on smaller memories; results are in build/results-quick
#   FRESH=1: from the start
# Recordings of a guest (timeline, recorded-jobs) are kept beside its rows, as build/results/EXPERIMENT-CASE-PRESET.jsonl.gz.
# What is stopped goes on where it was: the rows of a guest are kept, and taken again as long as all that made them is the same to the
# byte (kernel, image, device, profile, arguments), for then they would be the same again. So `all` leaves out what is there.
. "$(dirname "$0")/lib.sh"
exp=${1:-harvest}
quick=${QUICK:-}
[ "$quick" != 0 ] || quick=
every=(harvest oversub streaming inter-job ladder prefetch-size spare-size interference intra-job scaling timeline)
results=$BUILD/results${quick:+-quick}
tool=$BUILD/image-fast/bin/uvmctl
mkdir -p "$results/parts" "$BUILD/logs"
# A guest is one thread of the host's: its CPUs take turns under -icount. Each is taken to need 4 GiB.
lanes=$(($(awk '/^MemAvailable:/ { print $2 }' /proc/meminfo) >> 22))
lanes=${LANES:-$((lanes < 2 ? 2 : lanes < $(nproc) ? lanes : $(nproc)))}
[[ $lanes =~ ^[1-9][0-9]*$ ]] || die "LANES is '$lanes'" "set it to how many guests are to run at a time"
# Of now: the checkout may move while the guests run.
commit=$(git -C "$ROOT" rev-parse HEAD 2>/dev/null || true)
[ -z "$(git -C "$ROOT" status --porcelain --untracked-files=no 2>/dev/null)" ] && dirty=false || dirty=true
# What every row is made by, but for the profile and the arguments.
built=$(made_of fast bench | sha256sum)
# Where two machines have other figures of one commit: which of these bytes differ, and what made them.
bytes=$(
	kdir=$("$ROOT/tools/build/kernel.sh" fast --print)
	jq -n --arg kernel "$(short_hash <"$kdir/arch/x86/boot/bzImage")" --arg driver "$(short_hash <"$BUILD/module-fast/huvm.ko")" --arg tool "$(short_hash <"$tool")" \
		--arg source "$(basename "$kdir" | sed 's/^kernel-//; s/-fast-.*//')" --arg clang "$("$(clang_)" --version | head -1)" --arg ld "$(ld --version | head -1)" \
		'{kernel: $kernel, "kernel-source": $source, "module": $driver, tool: $tool, clang: $clang, ld: $ld}'
)

# guest_of NAME GPUS VRAM ARGUMENTS: one more guest of the experiment; VRAM, of each GPU, is what the user says, if she does.
guest_of() { guests+=("$1 $2 ${VRAM:-$3} $4"); }
# alone VRAM WORKLOAD…: a guest of one GPU for each; of those that the user says, if she does.
alone() {
	local vram=$1 w
	shift
	# shellcheck disable=SC2086 # words
	[ -z "${WORKLOADS:-}" ] || set -- ${WORKLOADS//,/ }
	for w in "$@"; do guest_of "$w" 1 "$vram" "--workloads $w${RATIOS:+ --ratios $RATIOS}${PRESETS:+ --presets $PRESETS}"; done
}
# several ARGUMENTS…: guests of four GPUs, whose jobs are recorded first. They are named after the last word of their arguments.
several() {
	local a vram=1536
	mem=5G cpus=8 data=phantom taped=yes command=$exp
	[ -z "$quick" ] || { vram=768 mem=3G; }
	for a in "$@"; do guest_of "${a##*[ ,]}" 4 $vram "$a"; done
}

# The experiments: minutes on two idle cores, by guess; their guests; memory of a guest, CPUs, data; whether what the jobs touch is
# recorded first.
spec() {
	local mem_=${MEM:-} profile_=${PROFILE:-} w a=() passes=${ITERATIONS:+-i $ITERATIONS}
	mem=3G cpus=2 profile=v100-p3 data=real taped='' command='' guests=()
	[ -z "$quick" ] || passes="-i 1"
	case $exp in demo | harvest | scaling | timeline | recorded-jobs) ;; *) passes+=${AGAIN:+ --again} ;; esac
	case $exp in
	demo)
		minutes=1 reader=demo
		guest_of a 1 128 "demo --preset stock-595"
		guest_of b "${GPUS:-4}" 128 "demo --neighbours"
		;;
	harvest)
		minutes=5 command=harvest
		[ "${GPUS:-2}" -ge 2 ] || die "'$exp' needs neighbours" "leave GPUS= out, or set it to 2 or more"
		guest_of a 1 128 ""
		guest_of b "${GPUS:-2}" 128 ""
		;;
	oversub)
		# A guest a workload. On less memory a job of twice the memory leaves fewer chunks than an order of eviction can be told by.
		minutes=400 command=oversub
		if [ -n "$quick" ]; then
			# One that streams and one that does not.
			alone 256 stream-triad pagerank
		else
			# shellcheck disable=SC2046 # words
			alone 256 $("$tool" --json run --list | jq -r '.data[] | select(.family != "sweep").name')
		fi
		;;
	streaming)
		# Data of 24 GiB: at a ratio of 1.5 a GPU has the paper's 16. Memory that only phantom data lies in is the guest's, not the host's.
		minutes=60 command=streaming data=phantom mem=40G
		[ -n "${ITERATIONS:-}$quick" ] || passes+=" -i 1"
		if [ -n "$quick" ]; then
			alone 2048 stream-triad hotspot
		else
			# Those of `uvmctl bench streaming` without --workloads.
			alone 28672 stream-triad add-vectors 2dconv 3dconv hotspot fdtd pathfinder
		fi
		;;
	inter-job)
		minutes=30
		if [ -n "$quick" ]; then
			several "--cases case-1" "--cases case-3"
		else
			several "--cases case-1" "--cases case-2" "--cases case-3" "--cases case-4"
		fi
		;;
	ladder)
		minutes=15
		if [ -n "$quick" ]; then
			several "--presets stock-460,H,H+PE" "--presets H+PE+LP,H+PE+LP+PLF,memharvester"
		else
			several "--presets stock-460,stock-595,H,H+PE,H+PE+LP" \
				"--presets H+PE+LP+PLF,H+PE+LP+PLF+LPF,H+PE+LP+PLF+LPF+MPF,memharvester,huvm"
		fi
		;;
	prefetch-size)
		minutes=20
		if [ -n "$quick" ]; then
			several "--cases stride-2" "--cases stride-32,step-8"
		else
			several "--cases stride-2,stride-4,stride-8,stride-16,stride-32" \
				"--cases next-line-2,next-line-4,next-line-8,next-line-16,next-line-32" "--cases step-4,step-8,step-16,step-32"
		fi
		;;
	spare-size)
		minutes=10
		if [ -n "$quick" ]; then
			several "--cases spare-0,spare-5" "--cases spare-30"
		else
			several "--cases spare-0,spare-5,spare-10,spare-20" "--cases spare-30,spare-40,spare-50,spare-60"
		fi
		;;
	interference)
		minutes=15
		several "--cases borrowers-1" "${quick:+--presets memharvester,huvm }--cases borrowers-3"
		;;
	intra-job)
		minutes=15
		if [ -n "$quick" ]; then
			several "--cases resnet50" "--cases vgg16"
		else
			several "--cases gnmt16" "--cases resnet50" "--cases gnmt8" "--cases vgg16"
		fi
		;;
	scaling)
		# One CPU: what a thread spends are its own instructions alone, none of another one that it waits for.
		minutes=5 mem=8G cpus=1 profile=full16 data=phantom command=scaling
		if [ -n "$quick" ]; then
			guest_of a 1 131072 "--cases chunks-1k,chunks-16k"
			guest_of b 16 2304 "--cases gpus-1,gpus-16"
		else
			guest_of a 1 131072 "--cases chunks-1k,chunks-4k,chunks-16k,chunks-64k,clients-1,clients-4,clients-16,clients-64"
			guest_of b 16 2304 "--cases gpus-1,gpus-2,gpus-4,gpus-8,gpus-16,full-1,full-4,full-16"
		fi
		;;
	timeline)
		# A pass to get to know the job, two for the picture.
		minutes=6 command=timeline passes=${passes:--i 2}
		guest_of scan 2 128 "--cases scan --recordings /results"
		guest_of pagerank 2 128 "--cases pagerank --recordings /results"
		;;
	recorded-jobs)
		minutes=60
		for w in case-1 case-2 case-3 case-4 gnmt8 resnet50; do a+=("--recordings /results${PRESETS:+ --presets $PRESETS} --cases $w"); done
		several "${a[@]}"
		;;
	*) die "there is no experiment '$exp'" "use EXP=all, demo, recorded-jobs or one of: ${every[*]}" ;;
	esac
	mem=${mem_:-$mem} profile=${profile_:-$profile}
	[ -z "$command" ] || reader="bench $command"
	# The demo's passes are not chosen here: its rows are compared with those of before.
	[ -n "$command" ] || passes=
	mips=$(mips_of "$profile")
	for w in "${!guests[@]}"; do
		set -- ${guests[w]}
		guests[w]="$1 $2 $3 ${command:+bench $command }${guests[w]#* * * }${passes:+ $passes}"
	done
	config=$(printf '%s\n' "${guests[@]}" | jq -R . | jq -s --arg mem "$mem" --arg profile "$profile" --arg data "$data" \
		--argjson cpus "$cpus" --argjson mips "$mips" --argjson quick "$([ -n "$quick" ] && echo true || echo false)" '
		def each(i): map(split(" ")[i]) | reduce .[] as $x ([]; if index($x) then . else . + [$x] end) | join(", ");
		{gpus: each(1), vram_mib: (each(2) | tonumber? // .), memory: $mem, cpus: $cpus, mips: $mips, profile: $profile,
		kernel: "fast", icount: true, data: $data, quick: $quick, guests: map(split(" ")[3:] | join(" "))}')
}

# The touches of an experiment's jobs, made here: an emulated CPU takes minutes to draw a graph's edges. They are of this tool;
# another one makes its own. image: the guests', with these in its folder /tapes.
tapes() {
	local dir=$BUILD/tapes key w chunks list=()
	set -- ${guests[0]}
	chunks=$(($3 * 100 / 436))
	key=$(sha256sum <"$tool")
	[ "$(cat "$dir/key" 2>/dev/null)" = "$key" ] || { rm -rf "$dir" && mkdir -p "$dir" && echo "$key" >"$dir/key"; }
	say "  recording what the jobs touch"
	for w in "${!guests[@]}"; do
		# shellcheck disable=SC2086 # words
		list+=($("$tool" ${guests[w]#* * * } --record --tapes "$dir" --chunks "$chunks"))
		guests[w]+=" --tapes /tapes --chunks $chunks"
	done
	rm -rf "$dir/tapes" && mkdir "$dir/tapes"
	for w in "${list[@]}"; do ln -f "$dir/$w" "$dir/tapes/$w"; done
	find "$dir/tapes" -exec touch -h -d @0 {} +
	image=$BUILD/image-$exp.cpio
	# The kernel unpacks one archive after the other; the second begins at a multiple of four.
	cp "$BUILD/image-bench.cpio.gz" "$image"
	truncate -s %512 "$image"
	(cd "$dir" && find tapes | LC_ALL=C sort | cpio -o -H newc --quiet --reproducible -R 0:0) >>"$image"
}

# key_of GUEST: what its rows are made by. (Tapes are made by the tool, of the arguments.)
key_of() { { echo "$built $cpus $mem $data $1" && cat "$(profile_file "$profile")"; } | sha256sum | cut -c1-64; }

# part_of NAME: where its document is kept; beside it, in .key, what it was made by.
part_of() { echo "$results/parts/$exp-$1.json"; }
# kept_of NAME: where its recordings are.
kept_of() { echo "$results/parts/$exp-$1.recordings"; }
has_part() { [ -s "$(part_of "$1")" ] && [ "$(cat "$(part_of "$1").key" 2>/dev/null)" = "$2" ]; }

# guest NAME KEY GPUS VRAM COMMAND: runs it, and keeps its document.
guest() {
	local name=$exp-$1 part rc=0
	part=$(part_of "$1")
	rm -rf "$part" "$part.key" "$(kept_of "$1")"
	KCONF=fast GPUS=$3 VRAM=$4 MEM=$mem SMP=$cpus ICOUNT=1 TIMING=on DATA=$data PROFILE=$profile NAME=$name LIMIT=${LIMIT:-7200} \
		IMAGE=$image RUN="sh /suites/bench.sh $5" "$ROOT/tools/build/run.sh" |
		sed -u -e '/^HUVM-JSON-BEGIN/,/^HUVM-JSON-END/d' -e '/^HUVM-RECORDING-BEGIN/,/^HUVM-RECORDING-END/d' -e '/^HUVM-/d' -e '/reboot: Power down/d' -e "s/^/[$1] /" || rc=$?
	[ "$rc" = 0 ] || { echo "$rc" >"$part.failed"; return "$rc"; }
	sed -n '/^HUVM-JSON-BEGIN/,/^HUVM-JSON-END/{/^HUVM-/d;p}' "$BUILD/logs/$name.log" >"$part"
	recordings "$BUILD/logs/$name.log" "$(kept_of "$1")"
	echo "$2" >"$part.key"
}

# recordings LOG FOLDER: those that a guest printed, each under its name.
recordings() {
	local name
	while read -r _ name; do
		[[ $name =~ ^[a-z0-9.-]+$ ]] || die "a recording is called '$name'" "read $1"
		mkdir -p "$2"
		sed -n "/^HUVM-RECORDING-BEGIN $name\r*$/,/^HUVM-RECORDING-END/{/^HUVM-/d;p}" "$1" | tr -d '\r' | base64 -d >"$2/$name.gz"
		gzip -t "$2/$name.gz"
	done < <(grep -a '^HUVM-RECORDING-BEGIN' "$1" | tr -d '\r')
}

# Whether there are results of just this.
is_there() {
	[ -s "$results/$exp.json" ] && [ "$(jq -r '.key // ""' "$results/$exp.meta.json" 2>/dev/null)" = "$(whole_key)" ]
}
whole_key() { local g; for g in "${guests[@]}"; do key_of "$g"; done | sha256sum | cut -c1-64; }

# All guests that have no rows yet, so many at a time.
all_guests() {
	local g name key todo=() did=0 began=$SECONDS pids=()
	for g in "${!guests[@]}"; do
		name=${guests[g]%% *}
		rm -f "$(part_of "$name").failed"
		has_part "$name" "${keys[g]}" || todo+=("$g")
	done
	[ ${#todo[@]} = ${#guests[@]} ] || say "  rows of $((${#guests[@]} - ${#todo[@]})) of ${#guests[@]} guests are there"
	trap 'kill -- $(for p in "${pids[@]}"; do echo "-$p"; done) 2>/dev/null || true' EXIT
	trap 'exit 130' INT TERM
	for g in "${todo[@]}"; do
		while [ "$(jobs -rp | wc -l)" -ge "$lanes" ]; do wait -n || true; done
		! ls "$results/parts/$exp-"*.failed >/dev/null 2>&1 || break
		# Those that run now are half done, more or less.
		[ "$did" -le "$lanes" ] || say "  $did of ${#todo[@]} guests of '$exp', about $(((SECONDS - began) * (2 * (${#todo[@]} - did) + lanes) / (2 * did - lanes) / 60)) minutes to go"
		did=$((did + 1))
		name=${guests[g]%% *}
		key=${keys[g]}
		# A group of its own, to be ended as a whole.
		set -m
		# shellcheck disable=SC2046,SC2086 # words
		(set -- ${guests[g]} && n=$1 gpus=$2 vram=$3 && shift 3 && guest "$n" "$key" "$gpus" "$vram" "$*") &
		pids+=($!)
		set +m
	done
	wait
	trap - EXIT
}

one() {
	local json=$results/$exp.json rc=0 parts=() keys=() doc=$results/$exp.doc.part g failed key kept
	key=$(whole_key)
	for g in "${guests[@]}"; do
		keys+=("$(key_of "$g")")
		parts+=("$(part_of "${g%% *}")")
	done
	# What an earlier run found is no result of this one.
	rm -f "$json" "$results/$exp.meta.json" "$results/$exp.targets.txt"
	[ -z "${FRESH:-}" ] || rm -f "${parts[@]}"
	say "'$exp': $(jq -r '"\(.guests | length) guests, of \(.gpus) GPUs of \(.vram_mib) MiB"' <<<"$config") (virtual time; about $minutes minutes)"
	image=$BUILD/image-bench.cpio.gz
	[ -z "$taped" ] || tapes
	all_guests
	[ -z "$taped" ] || rm -f "$image"
	for g in "${guests[@]}"; do
		failed=$(part_of "${g%% *}").failed
		[ ! -f "$failed" ] || die "'$exp' failed with exit code $(cat "$failed"): no results" "read build/logs/$exp-${g%% *}.log"
	done
	# Nor without all that belongs to one: where the disk is full, or a recording came out broken.
	for g in "${!guests[@]}"; do
		has_part "${guests[g]%% *}" "${keys[g]}" || die "'$exp' has no rows of ${guests[g]%% *}: no results" "read what came before, and build/logs/$exp-${guests[g]%% *}.log"
	done
	# One document of all: the envelope of the last, the rows and the warnings of each.
	jq -s '(map(.data) | add) as $rows | (map(.warnings // []) | add | unique) as $warnings | last | .data = $rows |
		.warnings = $warnings | select($rows | type == "array" and length > 0)' "${parts[@]}" >"$doc" || rm -f "$doc"
	[ -s "$doc" ] || { rm -f "$doc" "${parts[@]}"; die "'$exp' gave no results" "read build/logs/$exp-*.log"; }
	# The guest's tool is static: it runs here too. It reads the rows of all guests as those of one experiment.
	echo
	"$tool" $reader --from "$doc" | tee "$doc.txt" || rc=$?
	"$tool" --json $reader --from "$doc" >"$doc.json" || rc=$?
	[ "$rc" = 0 ] || { rm -f "$doc" "$doc.txt" "$doc.json" "${parts[@]}"; die "'$exp' has wrong results: none kept" "read build/logs/$exp-*.log"; }
	# Beside the rows: what they are of (tools/results/src/rows.rs), and the targets as they were judged.
	jq --arg exp "$exp" --arg commit "$commit" --argjson dirty "$dirty" --arg rustc "$(rustc -V)" --arg qemu "$QEMU_SERIES" \
		--arg kernel "$KERNEL_SERIES" --argjson config "$config" --arg key "$key" --argjson bytes "$bytes" '{schema: "huvm.results/3",
		experiment: $exp, commit: ($commit | if . == "" then null else . end), dirty: $dirty,
		versions: {driver: .driver_version, tool: .tool_version, rustc: $rustc, qemu: $qemu, kernel: $kernel},
		bytes: $bytes, configuration: $config, seed: 1, warnings: (.warnings // []), key: $key}' "$doc" >"$results/$exp.meta.json"
	sed -n '/^WHAT /,$p' "$doc.txt" >"$results/$exp.targets.txt"
	[ -s "$results/$exp.targets.txt" ] || rm -f "$results/$exp.targets.txt"
	# Each CPU executes so many instructions a microsecond: what the driver's threads spent, in instructions.
	jq --argjson mips "$mips" '.data | map(if .driver_ns then .driver_insns = (.driver_ns * $mips / 1000 | round) else . end)' \
		"$doc.json" >"$json.part"
	mv "$json.part" "$json"
	rm -f "$doc" "$doc.txt" "$doc.json" "$results/$exp"-*.jsonl.gz
	for g in "${guests[@]}"; do
		kept=$(kept_of "${g%% *}")
		[ ! -d "$kept" ] || cp "$kept"/*.jsonl.gz "$results/"
	done
	say "results: ${json#"$ROOT"/}"
}

if [ "$exp" != all ]; then
	spec
	one
	exit
fi
# What is left is guessed by what there was: minutes taken, for minutes said.
began=$SECONDS said=0 left=0 todo=()
for exp in "${every[@]}"; do
	spec
	if [ -z "${FRESH:-}" ] && is_there; then
		say "'$exp' is there already"
	else
		todo+=("$exp") left=$((left + minutes))
	fi
done
for exp in "${todo[@]}"; do
	spec
	one
	said=$((said + minutes)) left=$((left - minutes))
	say "$(((SECONDS - began) / 60)) minutes so far, about $(((SECONDS - began) * left / said / 60)) more"
done
say "all experiments have results: ${results#"$ROOT"/}"
