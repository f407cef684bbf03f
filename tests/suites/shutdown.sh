#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# The machine is rebooted while every GPU works. shutdown.after judges, on the host, by what the log says until the end.
echo "KTAP version 1"
echo "1..3"
# shutdown.after reads it.
dmesg | grep -E 'BUG:|WARNING:|KASAN|INFO: |Oops' | grep -vE '(Spectre|MDS|TAA|SRBDS|MMIO Stale Data|RETBleed|ITS|Speculative Return Stack Overflow|VMSCAPE)[ :]' | sed 's/^/# before: /'
dmesg -n 7
gpus=$(ls /sys/bus/pci/drivers/huvm | grep -c '^0000:')
echo "# gpus $gpus"
pids=
g=0
while [ $g -lt "$gpus" ]; do
	# The first reads and writes the host's memory by itself all the time, the others migrate.
	if [ $g = 0 ]; then how="--preset zero-copy"; else how=; fi
	uvmctl run scan --gpu $g $how --ratio 1.5 --iterations 1000 --warmup 0 --blocks 16 >/tmp/run-$g.log 2>&1 &
	pids="$pids $!"
	g=$((g + 1))
done
# They work some time after they have registered their GPUs.
for p in $pids; do
	t=0
	until grep -q " $p 0x[1-9a-f]" /sys/kernel/debug/huvm/spaces || [ $t -ge 60 ]; do sleep 1; t=$((t + 1)); done
done
sleep 4
ok=1
for p in $pids; do kill -0 "$p" && grep -q " $p 0x[1-9a-f]" /sys/kernel/debug/huvm/spaces || ok=0; done
[ $ok = 1 ] || cat /tmp/run-*.log | sed 's/^/# /'
[ $ok = 1 ] && echo "ok 1 every_gpu_works" || echo "not ok 1 every_gpu_works"
# What follows is the end of the machine, not of a command.
echo "HUVM-EXIT 0"
reboot -f
sleep 100
