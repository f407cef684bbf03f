#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# mutants.sh [NAME…]: can the tests fail? Puts the bugs of tests/mutants into a scratch copy of the tree, one at a time, builds
# it, runs the suite or host test that is to catch the bug, and says which test did. Exit code 1 if a bug survives, no longer
# applies, does not build or did not run. What was judged before on the same sources is not judged again, unless named or FRESH=1.
# LANES=n judges n at a time (by default as many as there are CPUs), each in a scratch copy of its own.
#
# A patch begins with lines of the form "Word: text":
#   Bug:     what is wrong, and what it would do to a user
#   Catch:   VM SUITE [TEST,TEST…]    a VM of tests/suites/suites.list, and a suite to run there; or
#            host CRATE [ARGUMENTS]   cargo test -p CRATE ARGUMENTS
#   Kernel:  debug                    the debug kernel (else fast)
#   Limit:   seconds                  for its VM, if the bug is a hang (else LIMIT, 300)
# Results: build/mutants/mutants.json, a log for each in build/mutants/logs.
. "$(dirname "$0")/lib.sh"
WORK=$BUILD/mutants
LOGS=$WORK/logs
DONE=$WORK/done
CLAIMS=$WORK/claims
LIMIT=${LIMIT:-300}
LANES=${LANES:-$(nproc)}
mkdir -p "$LOGS" "$DONE"
all=0
[ $# != 0 ] || all=1
exec 8>"$WORK/lock"
flock -n 8 || die "make test-mutants runs here already" "wait for it, or use another checkout"
lanes=()
trap 'trap - INT TERM; kill "${lanes[@]}" 2>/dev/null; wait; exit 130' INT TERM

# What of the checkout the mutants are made from.
sources() { (cd "$ROOT" && find drivers uapi qemu tools tests Makefile Kbuild Cargo.toml Cargo.lock clippy.toml rustfmt.toml \
	-name target -prune -o -type f -print | LC_ALL=C sort); }

# The lane's scratch copy is the checkout again. Files that are the same keep their time, so little is built anew.
sync_tree() {
	local f
	while read -r f; do
		cmp -s "$ROOT/$f" "$TREE/$f" && continue
		mkdir -p "$(dirname "$TREE/$f")"
		cp "$ROOT/$f" "$TREE/$f"
	done <"$WORK/files"
	(cd "$TREE" && find . -path ./build -prune -o -name target -prune -o -type f -print) | sed 's/^\.\///' | LC_ALL=C sort |
		LC_ALL=C comm -13 "$WORK/files" - | while read -r f; do rm -f "$TREE/$f"; done
}

# waited COMMAND…: runs it so that an end of this script is its end.
waited() {
	local rc=0
	setsid "$@" </dev/null 8>&- &
	child=$!
	wait "$child" || rc=$?
	child=
	return $rc
}

field() { sed -n "/^--- /q;s/^$2: *//p" "$1" | head -1; }
json() { printf '%s' "$1" | tr -d '\000-\037' | sed 's/[\\"]/\\&/g'; }

# build_module CONF: the scratch copy's module, and the checkout's image with that module in the place of its own: of two
# archives behind each other the kernel takes the later one's file.
build_module() {
	local dir=$TREE.initrd
	[ -f "$BUILD/image-$1.cpio.gz" ] || return 1
	JOBS=$JOBS waited "$TREE/tools/build/module.sh" "$1" >"$TREE.log" 2>&1 || return 1
	rm -rf "$dir"
	mkdir -p "$dir/lib"
	strip --strip-debug -o "$dir/lib/huvm.ko" "$TREE/build/module-$1/huvm.ko"
	(cd "$dir" && echo lib/huvm.ko | cpio -o -H newc --quiet -R 0:0 | gzip -1n) >"$TREE.cpio.gz"
	mkdir -p "$TREE/build"
	cat "$BUILD/image-$1.cpio.gz" "$TREE.cpio.gz" >"$TREE/build/image-$1.cpio.gz"
}

# in_vm LOG CONF VM SUITE [TESTS]: runs it. Sets by and line to what failed first; by is empty if nothing did. Returns 1 if the suite
# never began (no image, no QEMU, a panic at boot), or skipped all: that says nothing of the bug.
in_vm() {
	local log=$1 conf=$2 vm=$3 suite=$4 only=${5:-} row rc=0 gpus vram mem realism profile code planned ran told
	row=$(awk -v vm="$vm" '$1 == vm' "$ROOT/tests/suites/suites.list")
	[ -n "$row" ] || die "there is no VM $vm" "mend the mutant's line Catch:"
	read -r _ gpus vram mem realism profile _ <<<"$row"
	by= line=
	told=$TREE/build/logs/mutant.qemu
	rm -f "$log" "$TREE/build/logs/mutant.log" "$told"
	NAME=mutant KCONF=$conf GPUS=$gpus VRAM=$vram MEM=$mem REALISM=$realism PROFILE=$profile TIMING=on IOMMU=$(iommu_of "$vm") LIMIT=$LIMIT \
		QEMU="$BUILD/qemu/qemu-system-x86_64" QEMU_ARGS="$(told_in "$told" "$suite")" RUN="sh /suites/suite.sh $suite" \
		GENV="HUVM_TIME_SCALE=${TIME_SCALE:-2} HUVM_SEED=${SEED:-1} HUVM_LONG=0 HUVM_ONLY=$only" \
		setsid "$TREE/tools/build/run.sh" >/dev/null 2>&1 </dev/null 8>&- &
	child=$!
	# The first failure is enough.
	while kill -0 "$child" 2>/dev/null; do
		if grep -qsE '^not ok ' "$TREE/build/logs/mutant.log"; then
			kill -- "-$child" 2>/dev/null || true
			break
		fi
		sleep 0.3
	done
	wait "$child" 2>/dev/null || rc=$?
	child=
	cp "$TREE/build/logs/mutant.log" "$log" 2>/dev/null || true
	touch "$log"
	grep -qxF "HUVM-SUITE $suite" "$log" || { line=$(tail -1 "$log"); return 1; }
	by=$(sed -n 's/^not ok [0-9]* /'"$suite"' /p' "$log" | head -1)
	if [ -n "$by" ]; then
		line=$(sed '/^not ok /q' "$log" | grep -E '^# ' | grep -vE '^# [a-z0-9_]+: [0-9.]+ s$' | tail -1 || true)
		return 0
	fi
	# What the machine's last words were, if it had some.
	line=$(grep -m1 -E 'BUG:|WARNING:|Kernel panic|Oops|KASAN|INFO: |rmmod failed|leak|rcu:.*stall' "$log" || true)
	code=$(sed -n "s/^HUVM-SUITE-END $suite \([0-9]*\)$/\1/p" "$log" | tail -1)
	planned=$(sed -n 's/^1\.\.\([0-9]*\)$/\1/p' "$log" | tail -1)
	ran=$(grep -cE '^ok ' "$log" || true)
	# A QEMU that was killed says nothing of the bug, nor a suite that began no test: the module did not load, or a test has another name now.
	if grep -q "QEMU's exit code: 137" "$log" || { [ -n "$code" ] && [ "${planned:-0}" = 0 ]; }; then
		line=$(grep -E '^# ' "$log" | tail -1 || true)
		return 1
	fi
	if [ "$rc" = 124 ]; then
		by="$suite (no end within $LIMIT s)"
	elif [ -z "$code" ]; then
		by="$suite (the machine stopped)"
	elif [ "$code" != 0 ] && [ "$code" != 4 ]; then
		by="$suite (unload, leaks and kernel's log)"
	elif [ "$rc" != 0 ]; then
		by="$suite (ended with $rc)"
	elif [ "${planned:-0}" != "$ran" ] || [ "$ran" = 0 ]; then
		by="$suite (planned ${planned:-no} tests, ran $ran)"
	elif [ "$(grep -cE '^ok .* # SKIP' "$log" || true)" = "$ran" ]; then
		line="all of it is skipped there"
		return 1
	elif [ -s "$told" ] && line=$(grep -m1 -vE "$(provoked "$vm")" "$told"); then
		by="$suite (what the device says of the driver)"
	fi
}

# on_host LOG CRATE [ARGUMENTS]: as in_vm. Returns 1 if it does not compile.
on_host() {
	local log=$1 rc=0
	shift
	by= line=
	export CARGO_TARGET_DIR=$TREE.cargo CARGO_BUILD_JOBS=$JOBS
	waited env -C "$TREE" cargo test --locked --no-run -p "$@" >"$log" 2>&1 || return 1
	waited timeout -k 5 "$LIMIT" env -C "$TREE" cargo test --locked -p "$@" >"$log" 2>&1 || rc=$?
	[ "$rc" != 0 ] || return 0
	by=$(sed -n 's/^test \(.*\) \.\.\. FAILED$/\1/p' "$log" | head -1)
	line=$(grep -m1 -A1 "panicked at" "$log" | tr '\n' ' ' || true)
	[ "$rc" != 124 ] || by="$1 (no end within $LIMIT s)"
	[ -n "$by" ] || by="(ended with $rc)"
	by="$1 $by"
}

names=()
for p in "$ROOT"/tests/mutants/*.patch; do
	n=$(basename "$p" .patch)
	if [ $all = 1 ]; then
		names+=("$n")
		continue
	fi
	for want in "$@"; do case $n in "$want" | "$want"-*) names+=("$n") ;; esac; done
done
[ ${#names[@]} != 0 ] || die "there is no mutant '$*'" "see tests/mutants"
started=$(date +%s)

# What a user's tests would run on.
confs=$(for n in "${names[@]}"; do
	case $(field "$ROOT/tests/mutants/$n.patch" Catch) in host*) ;; *)
		k=$(field "$ROOT/tests/mutants/$n.patch" Kernel)
		echo "${k:-fast}"
		;;
	esac
done | sort -u)
for conf in $confs; do
	"$ROOT/tools/build/kernel.sh" "$conf"
	"$ROOT/qemu/build.sh"
	"$ROOT/tools/build/module.sh" "$conf"
	"$ROOT/tools/build/image.sh" "$conf"
done
sources >"$WORK/files"
base=$( (cd "$ROOT" && grep -E '^(drivers|uapi|qemu|tools|tests/vectors|tests/loopback|tests/guest|tests/config|Kbuild|Cargo)' "$WORK/files" | xargs cat; rustc -V) | short_hash)
# key VM SUITE: what a verdict depends on, but for the bug: the driver, the device, the tools, the machine and the suite (or "host …").
key() { (cd "$ROOT/tests/suites" && echo "$base" && grep -w "^$1" suites.list; cat ./*.h suite.sh "${2%%@*}.c" "${2%%@*}.sh") 2>/dev/null | short_hash; }

# in_lanes COMMAND WHAT…: runs COMMAND for each of WHAT, which has no slashes, in as many lanes as there are. Sets gave_up to 1 if a lane did.
in_lanes() {
	local command=$1 l
	gave_up=0
	shift
	rm -rf "$CLAIMS"
	mkdir -p "$CLAIMS"
	lanes=()
	for ((l = 1; l <= LANES && l <= $#; l++)); do
		(
			child=
			trap 'trap - INT TERM; [ -z "$child" ] || kill -- "-$child" 2>/dev/null; exit 130' INT TERM
			TREE=$WORK/tree$l
			mkdir -p "$TREE"
			sync_tree
			for what in "$@"; do
				mkdir "$CLAIMS/$what" 2>/dev/null || continue
				"$command" "$what"
			done
		) &
		lanes+=("$!")
	done
	for l in "${lanes[@]}"; do wait "$l" || gave_up=1; done
	lanes=()
}

# Without a bug all of it must pass: one run for each suite or host test, of all that the mutants name there.
declare -A tests=() whole=()
baseline() {
	local id=$1 only vm suite words
	only=$(printf %s "${tests[$id]}" | tr , '\n' | sed '/^$/d' | sort -u | paste -sd,)
	[ -z "${whole[$id]:-}" ] || only=
	read -r _ vm suite _ <<<"$id"
	words=$(printf '%s %s %s' "$(key "$vm" "$suite")" "$id" "$only" | short_hash)
	[ "${FRESH:-0}" = 1 ] || [ ! -f "$DONE/baseline-$words" ] || return 0
	say "without a bug: $id $only"
	case $id in
	host*)
		# shellcheck disable=SC2086 # words
		on_host "$TREE.baseline" ${id#host } || die "the host tests do not compile" "read $TREE.baseline"
		;;
	*)
		build_module "${id%% *}" || die "the module does not build" "read $TREE.log"
		# shellcheck disable=SC2086 # words
		in_vm "$TREE.baseline" $id "$only" || die "without any bug the VM did not run its suite: $line" "read $TREE.baseline"
		;;
	esac
	[ -z "$by" ] || die "without any bug this fails: $by: $line" "mend that first (log: $TREE.baseline)"
	touch "$DONE/baseline-$words"
}
for n in "${names[@]}"; do
	c=$(field "$ROOT/tests/mutants/$n.patch" Catch)
	k=$(field "$ROOT/tests/mutants/$n.patch" Kernel)
	read -r vm suite only <<<"$c"
	if [ "$vm" = host ]; then
		tests["$c"]=
		continue
	fi
	id="${k:-fast} $vm $suite"
	[ -n "$only" ] || whole["$id"]=1
	tests["$id"]+=",$only"
done
in_lanes baseline "${!tests[@]}"
[ $gave_up = 0 ] || die "without a bug not all of it passes" "read what is said above"

# judge NAME: puts the bug in, and out again.
judge() {
	local n=$1 patch catch conf vm suite mark began by= line= result= limit took
	patch=$ROOT/tests/mutants/$n.patch
	catch=$(field "$patch" Catch)
	conf=$(field "$patch" Kernel)
	conf=${conf:-fast}
	read -r vm suite _ <<<"$catch"
	mark=$( (key "$vm" "$suite"; cat "$patch") | short_hash)
	if [ $all = 1 ] && [ "${FRESH:-0}" != 1 ] && grep -s "\"key\": \"$mark\"" "$DONE/$n.json" | grep -qv '"result": "DID NOT RUN"'; then
		return
	fi
	began=$SECONDS
	limit=$(field "$patch" Limit)
	if ! (cd "$TREE" && patch -p1 -s -F2 --no-backup-if-mismatch -r - <"$patch") >"$LOGS/$n.log" 2>&1; then
		result="DOES NOT APPLY"
	elif [ "${catch%% *}" = host ]; then
		# shellcheck disable=SC2086 # words
		on_host "$LOGS/$n.log" ${catch#host } || result="DOES NOT BUILD"
	elif ! build_module "$conf"; then
		cp "$TREE.log" "$LOGS/$n.log"
		result="DOES NOT BUILD"
	else
		# shellcheck disable=SC2086 # words
		LIMIT=${limit:-$LIMIT} in_vm "$LOGS/$n.log" "$conf" $catch || result="DID NOT RUN"
	fi
	sync_tree
	[ -n "$result" ] || { [ -n "$by" ] && result=caught; } || result=SURVIVED
	took=$((SECONDS - began))
	printf '{"mutant": "%s", "bug": "%s", "catch": "%s", "kernel": "%s", "result": "%s", "by": "%s", "line": "%s", "seconds": %s, "key": "%s"}\n' \
		"$n" "$(json "$(field "$patch" Bug)")" "$(json "$catch")" "$conf" "$result" "$(json "$by")" "$(json "$line")" \
		"$took" "$mark" >"$DONE/$n.json"
	say "$n: $result${by:+ by $by}, $took s"
}
in_lanes judge "${names[@]}"
bad=$gave_up

# The table, of all that are kept in the tree and were judged.
value() { sed -n "s/.*\"$2\": \"\([^\"]*\)\".*/\1/p" "$1"; }
{
	echo '['
	sep=
	for p in "$ROOT"/tests/mutants/*.patch; do
		f=$DONE/$(basename "$p" .patch).json
		[ -f "$f" ] || continue
		printf '%s' "$sep"
		tr -d '\n' <"$f"
		sep=$',\n'
	done
	printf '\n]\n'
} >"$WORK/mutants.json"
caught=0
printf '\n%-36s %-10s %5s  %s\n' mutant result time 'caught by'
for n in "${names[@]}"; do
	f=$DONE/$n.json
	printf '%-36s %-10s %4ss  %s\n' "$n" "$(value "$f" result)" "$(sed -n 's/.*"seconds": \([0-9]*\).*/\1/p' "$f")" "$(value "$f" by)"
	if [ "$(value "$f" result)" = caught ]; then caught=$((caught + 1)); else bad=1; fi
done
say "$(($(date +%s) - started)) s in all; build/mutants/mutants.json"
echo "$caught of ${#names[@]} mutants caught"
exit $bad
