#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# A machine with power management whose GPUs are behind an IOMMU (VM iommu). What a GPU does to memory that is not mapped for it
# is a line of the kernel's ("DMAR: … fault"), and fails the suite (suite.sh), here and in the suites after this one.
echo "KTAP version 1"
echo "1..4"
. "${0%/*}/bounds.sh"
failed=0
# is NUMBER NAME CODE
is() {
	if [ "$3" = 0 ]; then echo "ok $1 $2"; else echo "not ok $1 $2"; failed=1; fi
}
gpus=$(ls /sys/bus/pci/drivers/huvm | grep '^0000:')
dev=$(echo "$gpus" | tail -1)
gpu=$(($(echo "$gpus" | wc -l) - 1))
sys=/sys/bus/pci/devices

rc=0
for g in $gpus; do
	type=$(cat $sys/$g/iommu_group/type)
	echo "# $g: $type"
	[ "$type" = DMA ] || rc=1
done
[ -n "$gpus" ] || rc=1
is 1 translated $rc

limited uvmctl run scan --gpu $gpu --ratio 1.5 --iterations 2 --verify --blocks 16 >/tmp/run.log 2>&1
rc=$?
sed 's/^/# /' /tmp/run.log | tail -3
is 2 evicts_and_fetches $rc

# The machine does not sleep with a GPU bound, says why, and all goes on.
uvmctl run scan --gpu $gpu --ratio 1.5 --iterations 1000 --warmup 0 --blocks 16 >/tmp/run.log 2>&1 &
pid=$!
sleep 1
rc=0
grep -q freeze /sys/power/state || rc=1
why=$( (echo freeze >/sys/power/state) 2>&1) && rc=1
echo "# $why"
echo "$why" | grep -q 'busy' || rc=1
dmesg | grep -q 'huvm 0000:.*no suspend or hibernation' || rc=1
kill -0 $pid || rc=1
kill $pid
ended $pid
limited uvmctl run scan --gpu $gpu --ratio 1.5 --iterations 1 --verify --blocks 16 >/dev/null 2>&1 || rc=1
is 3 does_not_sleep $rc

# Power management may do with it what it likes while nobody drives it (the suites that follow keep that), and lets it be when it is bound.
rc=0
for g in $gpus; do echo auto >$sys/$g/power/control || rc=1; done
# stands STATUS
stands() {
	status=$(cat $sys/$dev/power/runtime_status)
	[ "$status" = $1 ] || { echo "# it is $status, not $1"; rc=1; }
}
for turn in 1 2 3; do
	stands active
	echo $dev >/sys/bus/pci/drivers/huvm/unbind || rc=1
	stands suspended
	echo $dev >/sys/bus/pci/drivers/huvm/bind || rc=1
	stands active
	limited uvmctl run scan --gpu $gpu --ratio 0.5 --iterations 1 --verify --blocks 16 >/dev/null 2>&1 || rc=1
done
is 4 idle_when_unbound $rc
exit $failed
