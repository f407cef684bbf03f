#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# same.sh EXPERIMENT: are the figures the same each time? Runs it twice, the second time on a machine that has other things to
# do, and compares the rows byte for byte. Settings as for bench.sh.
. "$(dirname "$0")/lib.sh"
exp=${1:-demo}
[ "$exp" != all ] || die "one experiment is compared at a time" "use EXP=demo, or an experiment's name ('make help' has them)"
quick=${QUICK:-}
[ "$quick" != 0 ] || quick=
rows=$BUILD/results${quick:+-quick}/$exp.json
export FRESH=1
first=${rows%.json}.first.part

"$ROOT/tools/build/bench.sh" "$exp"
cp "$rows" "$first"
say "once more, beside $(nproc) busy loops"
for ((i = 0; i < $(nproc); i++)); do
	(while :; do :; done) &
done
# shellcheck disable=SC2064 # now
trap "kill $(jobs -p | tr '\n' ' ') 2>/dev/null || true" EXIT
"$ROOT/tools/build/bench.sh" "$exp"
if ! cmp -s "$first" "$rows"; then
	diff <(jq -S . "$first") <(jq -S . "$rows") | head -40 || true
	die "two runs of $exp differ in $rows" "see the lines above; the first run's rows are in $first"
fi
rm -f "$first"
say "$exp: $(jq length "$rows") rows, the same to the last digit in both runs"
