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
say "module: ${out#"$ROOT"/}/huvm.ko"
