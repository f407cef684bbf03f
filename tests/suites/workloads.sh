#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# Workloads of the catalog, one of each kind, over more data than the GPU has memory. The CPU checks every word: a page lost,
# stale, or given to another one is found, whatever the order in which the workload came back to it.
echo "KTAP version 1"
echo "1..17"
. "${0%/*}/bounds.sh"
failed=0
n=0
result() { n=$((n + 1)); if [ "$1" = 0 ]; then echo "ok $n $2"; else echo "not ok $n $2"; failed=1; fi; }
# verified ROWS NAME ARGUMENTS…: so many jobs end well, moved data, evicted some of it, and have no wrong word.
least=1
verified() {
	rows=$1 name=$2
	shift 2
	limited uvmctl run "$@" --verify --csv --no-header --fields workload,mismatches,evictions,h2d_bytes >/tmp/rows 2>/tmp/said
	rc=$?
	# Empty where nothing was checked; and one that fits the memory proves little.
	good=$(awk -F, -v least=$least '$2 == "0" && $3 >= least && $4 > 0' /tmp/rows | wc -l)
	[ $rc = 0 ] && [ "$good" = "$rows" ]
	ok=$?
	[ $ok = 0 ] || sed 's/^/# /' /tmp/rows /tmp/said
	result $ok "$name"
}
verified 1 program stream-triad --ratio 1.25
verified 1 cpu_between_launches srad --ratio 1.25 -i 1
verified 1 trace lavamd --ratio 1.25
verified 1 random_reads faiss --ratio 1.5 -i 2
verified 1 graph pagerank --ratio 1.25 -i 1
verified 1 training vgg16 --ratio 1.25 -i 1
verified 2 two_gpus_at_once gesummv:0 pathfinder:1 --ratio 1.25 -i 1
# A real graph is small: what is discarded was on the GPU.
least=0
verified 1 discarded louvain --size 8M
# The examples of libhuvm, as their users build them.
for of in c rust; do
	limited vector_add_$of >/tmp/said 2>&1 && grep -q "^[0-9]* words added, 0 wrong$" /tmp/said
	ok=$?
	[ $ok = 0 ] || sed 's/^/# /' /tmp/said
	result $ok example_in_$of
done
# More than the machine has: said before the kernel kills somebody for it.
limited uvmctl run scan --size 100G >/tmp/rows 2>/tmp/said
rc=$?
sed 's/^/# /' /tmp/said
[ $rc = 2 ] && grep -q "this machine has" /tmp/said
result $? more_than_the_machine_has
# One that is stopped in the middle leaves nothing behind. (A shell lets its background jobs ignore SIGINT.)
uvmctl run hotspot --ratio 1.5 -i 1000 >/dev/null 2>&1 &
pid=$!
t=0
until grep -q " $pid 0x" /sys/kernel/debug/huvm/spaces || [ $t -ge 100 ]; do sleep 0.1; t=$((t + 1)); done
sleep 2
kill -TERM $pid
ended $pid
rc=$?
uvmctl client list --csv --no-header >/tmp/left
[ $? = 0 ] && [ $rc = 143 ] && [ ! -s /tmp/left ]
ok=$?
echo "# exit code $rc, clients left: $(wc -l </tmp/left)"
result $ok stopped
# The tool in scripts: exit codes, signals, what it leaves behind.
limited uvmctl run pagerank --size 100G >/tmp/rows 2>/tmp/said
[ $? = 2 ] && grep -q "this machine has" /tmp/said
result $? catalog_more_than_the_machine_has
limited uvmctl trace record -o /tmp/rec -- sh -c 'uvmctl run scan --ratio 0.2 -i 1 >/dev/null; exit 7' >/dev/null 2>&1
[ $? = 7 ] && uvmctl trace report /tmp/rec >/dev/null
result $? recorded_commands_exit_code
uvmctl trace record -o /tmp/rec >/dev/null 2>&1 &
pid=$!
t=0
# It hears signals, and copies, from then on.
until grep -q 1 /sys/kernel/tracing/instances/uvmctl-*/events/huvm/huvm_copy/enable 2>/dev/null || [ $t -ge 600 ]; do sleep 0.1; t=$((t + 1)); done
limited uvmctl run scan --ratio 0.2 -i 1 >/dev/null 2>&1
kill -TERM $pid
ended $pid
[ $? = 0 ] && uvmctl trace report /tmp/rec | grep -q '^copy' && ! ls -d /sys/kernel/tracing/instances/uvmctl-* 2>/dev/null
result $? recording_ended_by_a_signal
small() { uvmctl mem show --csv --no-header --fields unusable_chunks | grep -qv '^0$'; }
uvmctl bench oversub --workloads hotspot --ratios 1.5 --presets stock-595 -i 10 >/dev/null 2>&1 &
pid=$!
t=0
until small || [ $t -ge 600 ]; do sleep 0.1; t=$((t + 1)); done
small
seen=$?
kill -TERM $pid
ended $pid
rc=$?
echo "# exit code $rc"
[ $seen = 0 ] && [ $rc = 143 ] && ! small
result $? bench_gives_memory_back
uvmctl policy reset --gpu 0 >/dev/null
uvmctl policy set --gpu 0 --preset huvm >/dev/null
limited uvmctl run scan --preset stock-595 --ratio 0.2 -i 1 -j >/tmp/rows 2>/tmp/said
sed 's/^/# /' /tmp/said
[ "$(grep -c 'goes on with its own' /tmp/said)" = 1 ] && grep -q '"gpu_preset": *"huvm"' /tmp/rows
result $? preset_of_a_job_alone
uvmctl policy reset --gpu 0 >/dev/null
exit $failed
