#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# On a machine whose devices work on copies of the host's memory (swiotlb=force) no GPU is driven, and the log says why.
echo "KTAP version 1"
echo "1..1"
n=$(ls /sys/bus/pci/drivers/huvm | grep -c '^0000:')
if [ "$n" = 0 ] && dmesg | grep -q 'huvm 0000:.*bounce buffers'; then
	echo "ok 1 refused"
else
	echo "# $n GPUs are driven"
	echo "not ok 1 refused"
	exit 1
fi
