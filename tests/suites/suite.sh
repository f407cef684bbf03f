#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# suite.sh NAME[@ARGUMENT]…: in the guest: for each suite load the module, run it, unload, read the kernel's log. After the last
# one: leaks, of all of them (a scan takes as long as many a suite).
# Lines for the runner: HUVM-SUITE name; KTAP; HUVM-SUITE-END name code. HUVM_ONLY=test,test: these tests of a suite alone.
failed=0
log=/tmp/log
# What the kernel says when something is wrong, or when a checker of its own turns itself off.
wrong='BUG:|WARNING:|KASAN|INFO: (task|possible|trying to register)|possible (recursive|circular)|suspicious RCU|turning off the locking'
wrong="$wrong|ODEBUG:|DMA-API:.*(error|warn|pending|dma-debug disabled|out of memory)|rcu:.*stall|Oops|Kernel panic|sleeping function"
# Of memory that is not, or not any more, mapped for a GPU.
wrong="$wrong|DMAR:.*(fault|PTE .* not set)"
wrong="$wrong|huvm:.*(leak|BUG|DMA mappings left)"
# What it says of bugs of the CPU (arch/x86/kernel/cpu/bugs.c), some of it with a WARNING: of its own.
cpu_bugs='^\[[^]]*\] (Spectre|MDS|TAA|SRBDS|MMIO Stale Data|RETBleed|ITS|Speculative Return Stack Overflow|VMSCAPE)[ :]'
# The checker of DMA, where there is one, is off: it sees nothing any more. Off from the start (dma_debug=off) is meant.
dma_unchecked() {
	[ "$(cat /sys/kernel/debug/dma-api/disabled 2>/dev/null)" = Y ] && ! grep -q 'dma_debug=off' /proc/cmdline
}
. "${0%/*}/races.sh"
# Suites that make hardware misbehave, or the driver fail, of which it is to speak.
provoking="bounce bringup ecc fail fail_behind fuzz harvest hostile inject iommu keep large leave lost reclaim regress soak stuck unbind"
only=$(echo "${HUVM_ONLY:-}" | tr , ' ')
for name in "$@"; do
	# NAME@ARGUMENT: a suite that takes one.
	suite=${name%%@*} argument=
	[ "$suite" = "$name" ] || argument=${name#*@}
	echo "HUVM-SUITE $name"
	rc=0
	unchecked=
	! dma_unchecked || unchecked="off from the start of this suite"
	if ! grep -q '^huvm ' /proc/modules; then
		# Suites begin without any technique, and switch on what they are about; suite defaults has what users have, suite bounce no GPU.
		insmod /lib/huvm.ko test=1 && case $suite in
			defaults | bounce) ;;
			*) uvmctl policy set --preset demand >/dev/null ;;
		esac || rc=1
	fi
	if [ $rc = 0 ]; then
		if [ -x "/suites/$suite" ]; then "/suites/$suite" $argument $only; else sh "/suites/$suite.sh" $argument; fi
		rc=$?
		rmmod huvm || { echo "# rmmod failed"; rc=1; }
	fi
	shift
	if [ $# = 0 ] && [ -w /sys/kernel/debug/kmemleak ]; then
		# What is younger than 5 s is none yet, nor what was written to since the last scan (so that the second finds what there is); and what
		# stale words on stacks point to is found some scans later. The file's size is always 0: what it has is known to who reads it.
		sleep 5
		leaks=
		turns="1 2 3"
		[ "${HUVM_LONG:-0}" = 0 ] || turns="1 2 3 4 5 6"
		for turn in $turns; do
			echo scan >/sys/kernel/debug/kmemleak || { echo "# kmemleak does not scan"; rc=1; }
			leaks=$(head -60 /sys/kernel/debug/kmemleak)
			[ -z "$leaks" ] || break
			sleep 1
		done
		if [ -n "$leaks" ]; then
			echo "# kmemleak:"
			echo "$leaks" | sed 's/^/# /'
			echo clear >/sys/kernel/debug/kmemleak
			rc=1
		fi
	fi
	[ -n "$unchecked" ] || ! dma_unchecked || unchecked="turned itself off in this suite"
	[ -z "$unchecked" ] || { echo "# the checker of DMA: $unchecked"; rc=1; }
	# One reading for all that follows: what the kernel says between two would be lost.
	dmesg -rc >$log.raw || { echo "# the kernel's log cannot be read"; rc=1; }
	sed 's/^<[0-9]*>//' $log.raw >$log
	# What a test of this suite has the driver say, and looks for.
	expected='^$'
	[ "$suite" != bringup ] || expected='huvm: BUG: a wait is longer than its bound: [0-9]+ 1 [0-9]+ [^ ]+ step 0 14000$'
	races $log >$log.races
	bad=$(grep -E "$wrong" $log | grep -vE "$cpu_bugs" | grep -v 'BUG: KCSAN: ' | grep -vE "$expected" | head -20; sed -n 's/^\(ours\|called\) /a race: /p' $log.races)
	if [ -n "$bad" ]; then
		echo "# the kernel's log:"
		echo "$bad" | sed 's/^/# /'
		grep -A30 -E 'BUG:|WARNING:|INFO: |suspicious RCU|ODEBUG:|turning off the locking' $log | head -80 | sed 's/^/# /'
		rc=1
	fi
	# What the driver says as a warning or worse, of hardware that nobody made misbehave. (That it waits for long, or that interrupts take much of
	# a CPU's time, says as much of a slow machine.)
	said=$(sed -n 's/^<[0-4]>\(\[[^]]*\] huvm[ :].*\)/\1/p' $log.raw | grep -vE 'taints kernel|huvm: waiting|comes without end')
	if [ -n "$said" ]; then
		case " $provoking " in
		*" $suite "*) echo "# provoked: $(echo "$said" | wc -l) lines of the driver's" ;;
		*)
			echo "# what the driver says, unprovoked:"
			echo "$said" | head -20 | sed 's/^/# /'
			rc=1 ;;
		esac
	fi
	# An address of the kernel's in a line of the driver's own.
	bad=$(grep -E '(^|\] )huvm[ :]' $log | grep -E 'ffff[89a-f][0-9a-f]{11}' | head -5)
	if [ -n "$bad" ]; then
		echo "# addresses of the kernel's in the log:"
		echo "$bad" | sed 's/^/# /'
		rc=1
	fi
	# The least that a thread had left of its kernel stack, told when it ends, the driver's when the module goes, on a kernel that tells it
	# (the race kernel, whose frames are the largest for its stacks). Some is to be left for roads that no test takes.
	least=$(sed -n 's/.*\] \(.*) used greatest stack depth: \([0-9]*\) bytes left\)/\2 \1/p' $log | sort -n | head -1)
	if [ -n "$least" ]; then
		echo "# kernel stack: ${least#* }"
		[ "${least%% *}" -ge 3072 ] || { echo "# that is too little"; rc=1; }
	fi
	# Races of the kernel's own: not ours, but said.
	sed -n 's/^kernel /# the kernel itself: /p' $log.races
	# Accesses watched by the detector of data races, on a kernel that has one.
	[ ! -r /sys/kernel/debug/kcsan ] || sed -n 's/^setup_watchpoints: /# watched for races: /p' /sys/kernel/debug/kcsan
	[ $rc = 0 ] || [ $rc = 4 ] || failed=1
	echo "HUVM-SUITE-END $name $rc"
done
exit $failed
