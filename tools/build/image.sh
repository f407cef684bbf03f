#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# image.sh fast|debug: the guest's initramfs: busybox, the module, uvmctl, the suites. Output: build/image-<kernel>.cpio.gz
# And build/image-bench.cpio.gz, of the fast kernel: without the tests and the examples. So what was measured stays the same to the digit, and
# need not be measured again, when a test changes.
. "$(dirname "$0")/lib.sh"
conf=${1:-fast}
root=$BUILD/image-$conf
out=$BUILD/image-$conf.cpio.gz
ko=$BUILD/module-$conf/huvm.ko
kdir=$("$ROOT/tools/build/kernel.sh" "$conf" --print)
[ -f "$ko" ] || die "there is no module for the $conf kernel" "run 'make module KCONF=$conf'"
need_space "$BUILD" 1 "the guest image"

# All suites in one program, which goes by the name that it is called by: their libraries are in the image once.
suites() {
	local dir=$BUILD/suites c o objects=()
	local flags=(-O1 -g0 -Wall -Wextra -Wno-missing-field-initializers -Werror -pthread "-I$ROOT/uapi" "-I$dir")
	mkdir -p "$dir"
	for c in "$ROOT"/tests/suites/*.c; do
		o=$dir/$(basename "$c" .c).o
		objects+=("$o")
		if [ ! -f "$o" ] || [ -n "$(find "$c" "$ROOT"/tests/suites/*.h "$ROOT"/uapi/*.h -newer "$o")" ]; then
			gcc "${flags[@]}" "-Dmain=suite_$(basename "$c" .c)" -c -o "$o" "$c" ||
				die "suite ${c##*/} does not compile" "see the lines above"
		fi
	done
	for c in "$ROOT"/tests/suites/*.c; do echo "SUITE($(basename "$c" .c))"; done >"$dir/list.h"
	gcc "${flags[@]}" -static -s -o "$dir/suites" "$ROOT/tests/guest/suites.c" "${objects[@]}" ||
		die "the suites do not link" "see the lines above"
}

# guest_cargo ARGUMENTS…: cargo, for programs that run in a bare initramfs.
guest_cargo() {
	(cd "$ROOT" && RUSTFLAGS=$(guest_rustflags) CARGO_TARGET_DIR=$BUILD/cargo-guest \
		logged "$BUILD/logs/uvmctl.log" cargo "$@" --release --locked --target x86_64-unknown-linux-gnu)
}

# The examples of libhuvm, built as the user guide says.
examples() {
	guest_cargo build -p libhuvm --example vector_add
	guest_cargo rustc -p libhuvm --features capi --crate-type staticlib
	logged "$BUILD/logs/examples.log" gcc -O2 -Wall -Wextra -Werror -static -Wl,--gc-sections "-I$ROOT/uapi" "-I$ROOT/tools/libhuvm/include" -o "$BUILD/vector_add_c" \
		"$ROOT/tools/libhuvm/examples/vector_add.c" "$release/liblibhuvm.a" -lpthread -ldl -lm
}

# pack FILE [PATTERN]: makes an archive of what is there, but for what fits the pattern.
pack() {
	(cd "$root" && find . | grep -vP "${2:-^$}" | LC_ALL=C sort | cpio -o -H newc --quiet --reproducible -R 0:0 | gzip -1n) >"$1.part"
	mv "$1.part" "$1"
}

build() {
	local release=$BUILD/cargo-guest/x86_64-unknown-linux-gnu/release
	"$ROOT/tools/build/crates.sh" from "$BUILD/cargo-guest"
	guest_cargo build -p uvmctl
	examples
	"$ROOT/tools/build/crates.sh" to "$BUILD/cargo-guest"

	rm -rf "$root"
	mkdir -p "$root"/{bin,dev,proc,sys,tmp,suites,lib,root,results}
	cp /bin/busybox "$root/bin/busybox"
	for tool in $(/bin/busybox --list); do
		[ "$tool" = busybox ] || ln -sf busybox "$root/bin/$tool"
	done
	cp "$release/uvmctl" "$root/bin/uvmctl"
	cp "$BUILD/vector_add_c" "$root/bin/vector_add_c"
	cp "$release/examples/vector_add" "$root/bin/vector_add_rust"
	strip "$root/bin/uvmctl" "$root"/bin/vector_add_*
	strip --strip-debug -o "$root/lib/huvm.ko" "$ko"
	suites
	cp "$BUILD/suites/suites" "$root/suites/"
	for c in "$ROOT"/tests/suites/*.c; do ln -s suites "$root/suites/$(basename "$c" .c)"; done
	cp "$ROOT"/tests/suites/*.sh "$root/suites/" 2>/dev/null || true
	# Where distributions have it, for uvmctl doctor.
	mkdir -p "$root/boot"
	cp "$kdir/.config" "$root/boot/config-$(cat "$kdir/include/config/kernel.release")"
	cp "$ROOT/tests/guest/init" "$root/init"
	chmod +x "$root/init" "$root"/suites/*
	# The same contents give the same bytes: in virtual time a different image is a different run.
	find "$root" -exec touch -h -d @0 {} +
	pack "$out"
	[ "$conf" != fast ] || pack "$BUILD/image-bench.cpio.gz" '^\./(suites/(?!bench\.sh$)|bin/vector_add_)'
}
locked "image-$(here)" build
