# SPDX-License-Identifier: GPL-2.0
# bounds.sh: bounds of what suites in shell wait for. A command that stands would end with its VM only, hours later, and nameless.

# limited COMMAND…: runs it, for a minute of a fast machine at most. Who reads its exit code is told that it was killed (137).
limited() { timeout -s KILL $((60 * ${HUVM_TIME_SCALE:-3})) "$@"; }
# ended PID: waits for it as long, and kills it then. Its exit code.
ended() {
	t=0
	while kill -0 "$1" 2>/dev/null && [ $t -lt $((600 * ${HUVM_TIME_SCALE:-3})) ]; do sleep 0.1; t=$((t + 1)); done
	! kill -9 "$1" 2>/dev/null || echo "# $1 did not end"
	wait "$1"
}
