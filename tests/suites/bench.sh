#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# In the guest: loads the module, runs `uvmctl` with these arguments, prints its JSON between marks for the host to keep.
insmod /lib/huvm.ko || exit 1
# Through cat: no progress bars on a serial line.
set -o pipefail
uvmctl "$@" --output /results/bench.json 2>&1 | cat
rc=$?
echo HUVM-JSON-BEGIN
cat /results/bench.json
echo HUVM-JSON-END
rmmod huvm || rc=1
exit $rc
