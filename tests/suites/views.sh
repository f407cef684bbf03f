#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# debugfs: spaces, blocks and chunks agree with what a client does, while it does it. No file of the driver's shows an address of the
# kernel's.
echo "KTAP version 1"
echo "1..4"
. "${0%/*}/bounds.sh"
failed=0
result() { if [ "$1" = 0 ]; then echo "ok $2"; else echo "not ok $2"; failed=1; fi; }
d=/sys/kernel/debug/huvm
uvmctl run scan --ratio 1.5 --iterations 1000 --warmup 0 --blocks 16 >/dev/null 2>&1 &
pid=$!
t=0
until grep -q "victim chunk .* pid $pid" $d/chunks || [ $t -ge 600 ]; do sleep 0.1; t=$((t + 1)); done
i=0
ok=1
while [ $i -lt 20 ]; do
	cat $d/spaces $d/blocks $d/chunks >/tmp/views || ok=0
	i=$((i + 1))
done
grep -q " $pid 0x1 " $d/spaces && [ $ok = 1 ]
result $? "1 spaces_name_the_client"
[ "$(wc -l <$d/blocks)" -gt 20 ] && grep -q '^[0-9]* 0x[0-9a-f]* 512 ' $d/blocks
result $? "2 blocks_of_the_client"
grep -q '^gpu 0 chunks 32: .*used' $d/chunks && grep -q "victim chunk .* pid $pid" $d/chunks
result $? "3 chunks_and_victims"
# All that can be read of the driver, as root, while it works.
t=/sys/kernel/tracing
address='ffff[89a-f][0-9a-f]{11}'
files="$d/* /proc/$pid/fdinfo/* $t/events/huvm/*/format /sys/class/misc/huvm/policy/* /sys/bus/pci/drivers/huvm/0000*/huvm/*"
ok=1
echo 1 >$t/events/huvm/enable || ok=0
t0=0
until [ "$(head -n 2000 $t/trace | grep -c ' huvm_')" -gt 100 ] || [ $t0 -ge 600 ]; do sleep 0.1; t0=$((t0 + 1)); done
echo 0 >$t/events/huvm/enable
head -n 2000 $t/trace >/tmp/trace
# shellcheck disable=SC2086 # names
cat $files /tmp/trace >/tmp/shown || ok=0
grep -E "$address" /tmp/shown | head -5 | sed 's/^/# /'
# It was all there, an address would be found, and there is none.
echo "# $(wc -c </tmp/shown) bytes, $(grep -c ' huvm_' /tmp/trace) events"
[ "$(grep -c '^huvm-client:' /tmp/shown)" -gt 0 ] && [ "$(grep -c ' huvm_' /tmp/trace)" -gt 100 ] || ok=0
echo 0xffff888012345678 | grep -qE "$address" || ok=0
[ $ok = 1 ] && ! grep -qE "$address" /tmp/shown
result $? "4 no_kernel_addresses"
kill -9 $pid
ended $pid
exit $failed
