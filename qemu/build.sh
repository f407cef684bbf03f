#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# Builds QEMU with the huvm-gpu device. QEMU itself is built once per machine, in the cache; the device (glue/ and the
# model's static library) is relinked when it changed. The result is build/qemu/qemu-system-x86_64. --print: its path.
. "$(dirname "$0")/../tools/build/lib.sh"

if [ -n "${QEMU:-}" ]; then
	[ -x "$QEMU" ] || die "QEMU=$QEMU is not a program" "point QEMU at a qemu-system-x86_64 with the huvm-gpu device"
	v=$("$QEMU" --version | sed -n 's/.*version \([0-9.]*\).*/\1/p')
	series_is "$v" "$QEMU_SERIES" || die "QEMU=$QEMU is version ${v:-unknown}, huvm is tested with $QEMU_SERIES" "bring a $QEMU_SERIES, or leave QEMU= out"
	"$QEMU" -device help 2>/dev/null | grep -q '"huvm-gpu"' ||
		die "QEMU=$QEMU has no huvm-gpu device" "build it from qemu/glue, qemu/model-ffi and qemu/patches, or leave QEMU= out"
	[ "${1:-}" != --print ] || echo "$QEMU"
	exit 0
fi

bin=$BUILD/qemu/qemu-system-x86_64
flags=(--target-list=x86_64-softmmu --without-default-features --enable-tcg --enable-fdt=system
	--disable-install-blobs --disable-download)

fetch() {
	[ -z "$(find "$CACHE" -maxdepth 1 -type d -name "qemu-src-$QEMU_SERIES.*" 2>/dev/null)" ] || return 0
	need_space "$CACHE" 4 "QEMU"
	apt_private
	local v dir=$CACHE/qemu.part
	v=$(apt-cache "${APT_PRIVATE[@]}" showsrc qemu 2>/dev/null | sed -n "s/^Version: \(.*[:]$QEMU_SERIES\..*\)/\1/p" | head -1)
	[ -n "$v" ] || die "Debian has no source of QEMU $QEMU_SERIES any more" "bring a QEMU with the device: QEMU=/path"
	say "fetching the QEMU source $v from Debian (40 MB)"
	rm -rf "$dir"
	trap 'rm -rf "$CACHE/qemu.part"' EXIT
	mkdir -p "$dir"
	(cd "$dir" && logged "$CACHE/logs/qemu-fetch.log" apt-get "${APT_PRIVATE[@]}" source --download-only "qemu=$v")
	(cd "$dir" && logged "$CACHE/logs/qemu-unpack.log" dpkg-source --no-check -x ./*.dsc tree)
	local upstream=${v#*:}
	mv "$dir/tree" "$CACHE/qemu-src-${upstream//[~+:]/_}"
}

python_() {
	# meson from PyPI where Debian's is too old for QEMU.
	if /usr/bin/meson --version 2>/dev/null | grep -qE '^(1\.([5-9]|[1-9][0-9])|[2-9])'; then
		echo /usr/bin/python3
		return
	fi
	local venv=$CACHE/meson-1.8
	if [ ! -x "$venv/bin/meson" ]; then
		rm -rf "$venv"
		logged "$CACHE/logs/venv.log" /usr/bin/python3 -m venv "$venv" >&2
		logged "$CACHE/logs/meson.log" "$venv/bin/pip" install --disable-pip-version-check 'meson>=1.5,<1.9' tomli >&2
	fi
	echo "$venv/bin/python3"
}

model_library() {
	(cd "$ROOT" && CARGO_TARGET_DIR=$BUILD/cargo logged "$BUILD/logs/model.log" \
		cargo build --release --locked -p huvm_model_ffi)
}

# The patches, onto the files as Debian has them; those are kept beside.
patched() {
	local src=$1 f p at=$1.patched
	rm -rf "$at"
	for f in $(sed -n 's|^+++ b/||p' "$ROOT"/qemu/patches/*.patch | sort -u); do
		[ -f "$src/$f.debian" ] || { cp "$src/$f" "$src/$f.part" && mv "$src/$f.part" "$src/$f.debian"; }
		mkdir -p "$at/${f%/*}"
		cp "$src/$f.debian" "$at/$f"
	done
	for p in "$ROOT"/qemu/patches/*.patch; do
		patch -s -p1 -d "$at" <"$p" || die "${p##*/} does not fit ${src##*/}" "remove $src and try again"
	done
	for f in $(cd "$at" && find . -type f); do install_file "$at/$f" "$src/$f"; done
	rm -rf "$at"
}

install_file() { cmp -s "$1" "$2" || cp "$1" "$2"; }

build() {
	local src key out hook glue
	src=$(find "$CACHE" -maxdepth 1 -type d -name "qemu-src-$QEMU_SERIES.*" | sort -V | tail -1)
	key=$( (echo "${flags[@]}"; gcc --version | head -1) | short_hash)
	out=$CACHE/qemu-build-${src##*/qemu-src-}-$key
	glue=$src/hw/misc/huvm
	mkdir -p "$glue" "$out"
	# The device, where QEMU's build looks for it. Unchanged files keep their time, so nothing is rebuilt for them.
	for f in "$ROOT"/qemu/glue/*; do install_file "$f" "$glue/${f##*/}"; done
	install_file "$BUILD/cargo/release/libhuvm_model_ffi.a" "$glue/libhuvm_model_ffi.a"
	hook="subdir('huvm')"
	grep -qxF "$hook" "$src/hw/misc/meson.build" || echo "$hook" >>"$src/hw/misc/meson.build"
	grep -q "'hw/misc/huvm'" "$src/meson.build" ||
		sed -i "s/^    'hw\/misc',/    'hw\/misc',\n    'hw\/misc\/huvm',/" "$src/meson.build"
	patched "$src"
	if [ ! -f "$out/build.ninja" ]; then
		say "configuring QEMU ${src##*/qemu-src-}"
		(cd "$out" && logged "$out/configure.log" "$src/configure" "--python=$(python_)" "${flags[@]}")
	fi
	[ -f "$out/qemu-system-x86_64" ] || say "building QEMU (about 4 minutes on 2 cores)"
	logged "$out/build.log" ninja -C "$out" -j "$JOBS" qemu-system-x86_64
	mkdir -p "$BUILD/qemu"
	cp "$out/qemu-system-x86_64" "$bin.part"
	mv "$bin.part" "$bin"
}

key=$( (cat "$0"; find "$ROOT/qemu/glue" "$ROOT/qemu/patches" "$ROOT/qemu/model" "$ROOT/qemu/model-ffi" "$ROOT/drivers/hw" "$ROOT/Cargo.lock" \
	-type f | LC_ALL=C sort | xargs cat; rustc -V) | short_hash)
if [ "$(cat "$bin.key" 2>/dev/null)" != "$key" ] || [ ! -x "$bin" ]; then
	{
		locked qemu-source fetch
		say "building the device model"
		model_library
		locked qemu build
		"$bin" -device help 2>/dev/null | grep -q '"huvm-gpu"' || die "the QEMU just built has no huvm-gpu device" "look at qemu/glue/meson.build"
		echo "$key" >"$bin.key"
	} >&2
fi
[ "${1:-}" != --print ] || echo "$bin"
