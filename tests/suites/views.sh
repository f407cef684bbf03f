#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# debugfs: spaces, blocks and chunks agree with what a client does, while it does it.
echo "KTAP version 1"
echo "1..3"
failed=0
result() { if [ "$1" = 0 ]; then echo "ok $2"; else echo "not ok $2"; failed=1; fi; }
d=/sys/kernel/debug/huvm
uvmctl run scan --ratio 1.5 --iterations 1000 --warmup 0 --blocks 16 >/dev/null 2>&1 &
pid=$!
sleep 3
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
kill -9 $pid
wait $pid 2>/dev/null
exit $failed
