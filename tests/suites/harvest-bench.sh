#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# In the guest: one borrower on GPU 0 streaming over RATIO times its memory, the other GPUs idle, one row per policy.
insmod /lib/huvm.ko || exit 1
set -o pipefail
rc=0
row() {
	echo "== $1"
	shift
	uvmctl policy set --preset stock-595 >/dev/null || rc=1
	for k in "$@"; do
		uvmctl policy set "$k" >/dev/null || rc=1
	done
	uvmctl run scan --gpu 0 --ratio "${RATIO:-1.5}" --iterations 3 --warmup 1 --verify ${RUN_ARGS:-} 2>&1 | cat || rc=1
	uvmctl stat --gpu 0 2>&1 | grep -E 'bytes|evict|spare|reclaim|write_back|service|wait_ns|fault_batches|prefetch' | cat
}
row stock-595
row H harvest_borrow=on harvest_lend=on
row H+PE harvest_borrow=on harvest_lend=on pre_evict=on pre_evict_share_percent=15
row LPF stream_prefetch=next-line
row H+LPF harvest_borrow=on harvest_lend=on stream_prefetch=next-line
row H+PE+LPF harvest_borrow=on harvest_lend=on pre_evict=on pre_evict_share_percent=15 stream_prefetch=next-line
rmmod huvm || rc=1
exit $rc
