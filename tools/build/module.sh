#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# module.sh fast|debug|race [make arguments]: builds huvm.ko into build/module-<kernel>.
. "$(dirname "$0")/lib.sh"
conf=${1:-fast}
shift || true
kdir=$("$ROOT/tools/build/kernel.sh" "$conf" --print)
out=$BUILD/module-$conf
mkdir -p "$out"
# Where the kernel's headers lie is not in it.
source=$(readlink -e "$kdir/source" || echo "$kdir")
locked "module-$conf-$(here)" logged "$BUILD/logs/module-$conf.log" make -C "$kdir" "M=$ROOT" "MO=$out" "LLVM=$(llvm)" "BINDGEN=$(bindgen_)" \
	"CLIPPY_CONF_DIR=$ROOT" "KCPPFLAGS=-fmacro-prefix-map=$source/=" "-j$JOBS" "$@" modules

# A kernel stack has 16 KiB, twice that with KASAN, and need not have a guard behind it: the driver takes half of one at most, and on a
# kernel whose instrumentation makes frames larger five eighths; the rest is for what the kernel calls it from, and what it calls.
case $conf in
debug) most=16384 ;;
race) most=10240 ;;
*) most=8192 ;;
esac
suffix=$(llvm)
"llvm-objdump${suffix#1}" -dr --no-show-raw-insn "$out/huvm.ko" | gawk -v most=$most -f "$ROOT/tools/build/stack.awk" >"$BUILD/logs/stack-$conf.log" ||
	die "the module can take more than $most bytes of a kernel stack: $(head -30 "$BUILD/logs/stack-$conf.log")" \
		"box what is large, or keep it out of the functions on the way (#[inline(never)])"
say "module: ${out#"$ROOT"/}/huvm.ko"
