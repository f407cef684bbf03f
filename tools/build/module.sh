#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# module.sh fast|debug [make arguments]: builds huvm.ko into build/module-<kernel>.
. "$(dirname "$0")/lib.sh"
conf=${1:-fast}
shift || true
kdir=$("$ROOT/tools/build/kernel.sh" "$conf" --print)
out=$BUILD/module-$conf
mkdir -p "$out"
locked "module-$conf-$(here)" logged "$BUILD/logs/module-$conf.log" make -C "$kdir" "M=$ROOT" "MO=$out" "LLVM=$(llvm)" "BINDGEN=$(bindgen_)" \
	"CLIPPY_CONF_DIR=$ROOT" "-j$JOBS" "$@" modules

# A kernel stack has 16 KiB, and no guard but a panic: one function takes 4.5 KiB of it at most.
frames() {
	local suffix
	suffix=$(llvm)
	suffix=${suffix#1}
	"llvm-objdump$suffix" -d --no-show-raw-insn "$out/huvm.ko" | awk -v most=00001200 '
		/^[0-9a-f]+ </ { name = $2 }
		match($0, /subq?[ \t]+\$0x[0-9a-f]+, ?%rsp/) {
			seen = 1
			bytes = substr($0, RSTART, RLENGTH)
			sub(/.*0x/, "", bytes)
			sub(/,.*/, "", bytes)
			if (substr("00000000" bytes, length(bytes) + 1) > most) print name, "0x" bytes " bytes of stack"
		}
		END { if (!seen) print "no frame found" }'
}
large=$(frames)
[ -z "$large" ] || die "functions of the module take too much stack: $large" "box what is large, or split the function"
say "module: ${out#"$ROOT"/}/huvm.ko"
