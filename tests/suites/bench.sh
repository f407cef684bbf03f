#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# In the guest: loads the module, runs `uvmctl` with these arguments, unloads it, prints the JSON document between marks for
# the host to keep. It fails if the tool does, or if the kernel complained.
# Until the kernel trusts its clock, a second after the boot, it sleeps by ticks of 4 ms. (In virtual time: this takes none.)
sleep 2
# The driver's calls for tests: oversub makes a GPU's memory small by one.
insmod /lib/huvm.ko test=1 || exit 1
# A row's preset is that of its process; what belongs to a GPU as a whole, as pre-eviction, would stay as users have it.
uvmctl policy set --preset stock-595 >/dev/null || exit 1
# Through cat: no progress bars on a serial line.
set -o pipefail
uvmctl --json "$@" 2>&1 >/results/bench.json | cat
rc=$?
rmmod huvm || rc=1
# With their levels: what the driver says as a warning or worse (0 to 4; those of a facility have it times eight).
bad=$(dmesg -r | grep -v 'taints kernel' | grep -E 'BUG:|WARNING:|INFO: (task|possible)|rcu:.*stall|Oops|kernel panic|huvm:.*(leak|BUG)|^<[0-4]>.*huvm:' | head -20)
if [ -n "$bad" ]; then
	echo "the kernel's log has:"
	echo "$bad"
	rc=1
fi
echo HUVM-JSON-BEGIN
cat /results/bench.json
echo HUVM-JSON-END
# What was recorded, if anything was.
for f in /results/*.jsonl; do
	[ -f "$f" ] || continue
	echo "HUVM-RECORDING-BEGIN ${f##*/}"
	gzip -c -9 "$f" | base64
	echo HUVM-RECORDING-END
done
exit $rc
