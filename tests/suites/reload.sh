#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# Unload and reload a hundred times, with a launch in between each twenty-fifth time; unbind and bind a GPU; what the module is without
# test=1.
echo "KTAP version 1"
echo "1..3"
. "${0%/*}/bounds.sh"
rmmod huvm || { echo "not ok 1 reload_100_times"; exit 1; }
i=0
while [ $i -lt 100 ]; do
	insmod /lib/huvm.ko test=1 || break
	if [ $((i % 25)) = 0 ]; then
		limited uvmctl run scan --ratio 0.2 --iterations 1 --warmup 0 --verify --blocks 16 -j >/dev/null 2>&1 || break
	fi
	rmmod huvm || break
	i=$((i + 1))
done
failed=0
if [ $i = 100 ]; then echo "ok 1 reload_100_times"; else echo "# stopped at $i"; echo "not ok 1 reload_100_times"; failed=1; fi
insmod /lib/huvm.ko test=1
dev=$(ls /sys/bus/pci/drivers/huvm | grep '^0000:' | tail -1)
ok=1
for i in 1 2 3 4 5; do
	echo "$dev" >/sys/bus/pci/drivers/huvm/unbind || ok=0
	echo "$dev" >/sys/bus/pci/drivers/huvm/bind || ok=0
done
uvmctl gpu list >/dev/null || ok=0
if [ $ok = 1 ]; then echo "ok 2 unbind_and_bind"; else echo "not ok 2 unbind_and_bind"; failed=1; fi
# As users load it there are no calls for tests.
rmmod huvm && insmod /lib/huvm.ko && /suites/uapi without_test
if [ $? = 0 ]; then echo "ok 3 no_calls_for_tests"; else echo "not ok 3 no_calls_for_tests"; failed=1; fi
exit $failed
