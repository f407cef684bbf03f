#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# A GPU is removed (sysfs) while a client oversubscribes it: its launch ends with an error, the machine goes on; then a rescan brings the
# GPU back. (Data comes home first, as when it is unbound: suite leave.)
echo "KTAP version 1"
echo "1..3"
. "${0%/*}/bounds.sh"
failed=0
dev=$(ls /sys/bus/pci/drivers/huvm | grep '^0000:' | tail -1)
last=$(ls /sys/bus/pci/drivers/huvm | grep -c '^0000:')
gpu=$((last - 1))
uvmctl run scan --gpu $gpu --ratio 1.5 --iterations 1000 --warmup 0 --blocks 16 >/tmp/run.log 2>&1 &
pid=$!
# It works some time after it has registered the GPU.
t=0
until grep -q " $pid 0x[1-9a-f]" /sys/kernel/debug/huvm/spaces || [ $t -ge 60 ]; do sleep 1; t=$((t + 1)); done
sleep 2
works=1
kill -0 $pid && grep -q " $pid 0x[1-9a-f]" /sys/kernel/debug/huvm/spaces || works=0
echo 1 >/sys/bus/pci/devices/$dev/remove
ended $pid
rc=$?
sed 's/^/# /' /tmp/run.log | tail -3
# By an error that it was told, not by a signal.
if [ $works = 1 ] && [ $rc -gt 0 ] && [ $rc -lt 128 ] && [ ! -e /sys/bus/pci/devices/$dev ]; then echo "ok 1 removed_under_load"
else echo "# it worked: $works, exit code $rc"; echo "not ok 1 removed_under_load"; failed=1; fi
if [ $gpu = 0 ] || limited uvmctl run scan --gpu 0 --ratio 0.5 --iterations 1 --verify --blocks 16 >/dev/null 2>&1; then
	echo "ok 2 others_go_on"
else
	echo "not ok 2 others_go_on"
	failed=1
fi
echo 1 >/sys/bus/pci/rescan
sleep 1
if [ -e /sys/bus/pci/drivers/huvm/$dev ] && limited uvmctl run scan --gpu $gpu --ratio 0.5 --iterations 1 --verify --blocks 16 >/dev/null 2>&1; then
	echo "ok 3 comes_back"
else
	echo "not ok 3 comes_back"
	failed=1
fi
exit $failed
