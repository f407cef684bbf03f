#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# regen.sh [--check]: writes src/uapi.rs anew from uapi/huvm.h; --check: only says whether it is of that. Needs bindgen 0.71 or later (make deps).
set -e
cd "$(dirname "$0")"
bindgen=${BINDGEN:-$(ls "${HUVM_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/huvm}"/bindgen-*/bin/bindgen 2>/dev/null | tail -1)}
part=$(mktemp)
trap 'rm -f "$part"' EXIT
{
	echo "// SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note"
	echo "// Generated from uapi/huvm.h and uapi/huvm_test.h by tools/libhuvm/regen.sh; do not edit."
	"${bindgen:-bindgen}" ../../uapi/huvm_test.h --allowlist-type 'huvm_.*' --allowlist-var 'HUVM_.*' --no-prepend-enum-name \
		--with-derive-default --no-doc-comments --rust-target 1.85 --rust-edition 2021 --formatter none \
		--disable-header-comment -- -I../../uapi
} >"$part"
if [ "$1" = --check ]; then
	cmp -s "$part" src/uapi.rs || { echo "src/uapi.rs is not of uapi/huvm.h: run tools/libhuvm/regen.sh" >&2; exit 1; }
else
	cat "$part" >src/uapi.rs
fi
