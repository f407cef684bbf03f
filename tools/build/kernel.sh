#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# kernel.sh fast|debug|race: builds Linux with Rust for the guest, in the cache. Prints the build folder with --print.
. "$(dirname "$0")/lib.sh"

conf=${1:-fast}
print=${2:-}
[ -f "$ROOT/tests/config/$conf.config" ] || die "there is no kernel configuration '$conf'" "use fast, debug or race"

# A kernel of the user's own.
if [ -n "${KDIR:-}" ]; then
	[ -f "$KDIR/.config" ] || die "KDIR=$KDIR is not a kernel build folder" "point KDIR at the folder with .config and Module.symvers"
	grep -q '^CONFIG_RUST=y' "$KDIR/.config" || die "the kernel in $KDIR has no CONFIG_RUST" "enable Rust support there and rebuild it"
	[ -f "$KDIR/Module.symvers" ] || die "$KDIR was never built (no Module.symvers)" "build it: make LLVM=$(llvm)"
	ls "$KDIR"/rust/*.rmeta >/dev/null 2>&1 || die "$KDIR lacks rust/*.rmeta" "use the build folder itself, not a headers package"
	v=$(cat "$KDIR/include/config/kernel.release" 2>/dev/null || echo unknown)
	series_is "$v" "$KERNEL_SERIES" || die "KDIR is Linux $v, huvm needs $KERNEL_SERIES" "bring a $KERNEL_SERIES tree"
	[ -f "$KDIR/arch/x86/boot/bzImage" ] || die "KDIR=$KDIR has no arch/x86/boot/bzImage" "build it: make LLVM=$(llvm) bzImage"
	[ "$print" != --print ] || echo "$KDIR"
	exit 0
fi

source_tree() {
	if [ -n "${KSRC:-}" ]; then
		local v
		v=$(make -s -C "$KSRC" kernelversion 2>/dev/null) ||
			die "KSRC=$KSRC is not a kernel source tree" "point it at the folder with the kernel's top Makefile"
		series_is "$v" "$KERNEL_SERIES" || die "KSRC is Linux $v, huvm needs $KERNEL_SERIES" "bring a $KERNEL_SERIES tree"
		[ ! -e "$KSRC/.config" ] ||
			die "KSRC=$KSRC has been built in place, so it cannot be built elsewhere" "make -C $KSRC mrproper, or use it as KDIR="
		tree=$KSRC
		version=$v-$(readlink -f "$KSRC" | short_hash)
		return
	fi
	# A tree fetched before is good enough; the newest wins.
	tree=$(find "$CACHE" -maxdepth 1 -type d -name "linux-$KERNEL_SERIES.*" ! -name '*.part' 2>/dev/null | sort -V | tail -1)
	if [ -z "$tree" ]; then
		locked linux-source fetch_source
		tree=$(find "$CACHE" -maxdepth 1 -type d -name "linux-$KERNEL_SERIES.*" ! -name '*.part' | sort -V | tail -1)
	fi
	version=${tree##*/linux-}
}

fetch_source() {
	local deb v
	[ -z "$(find "$CACHE" -maxdepth 1 -type d -name "linux-$KERNEL_SERIES.*" ! -name '*.part' 2>/dev/null)" ] || return 0
	need_space "$CACHE" 12 "the kernel (source and two builds)"
	apt_private
	say "fetching the Linux $KERNEL_SERIES source from Debian (170 MB)"
	rm -rf "$CACHE/linux.part"
	trap 'rm -rf "$CACHE/linux.part"' EXIT
	mkdir -p "$CACHE/linux.part"
	(cd "$CACHE/linux.part" && logged "$CACHE/logs/linux-fetch.log" apt-get "${APT_PRIVATE[@]}" download "linux-source-$KERNEL_SERIES")
	deb=$(find "$CACHE/linux.part" -name '*.deb' | head -1)
	[ -n "$deb" ] || die "Debian has no linux-source-$KERNEL_SERIES for this machine" "bring a tree: KSRC=/path/to/linux-$KERNEL_SERIES"
	v=$(dpkg-deb -f "$deb" Version)
	say "unpacking Linux $v (half a minute)"
	dpkg-deb -x "$deb" "$CACHE/linux.part/x"
	mkdir "$CACHE/linux.part/tree"
	tar -C "$CACHE/linux.part/tree" --strip-components=1 -xf "$CACHE/linux.part/x/usr/src/linux-source-$KERNEL_SERIES.tar.xz"
	mv "$CACHE/linux.part/tree" "$CACHE/linux-${v//[~+:]/_}"
}

# With --print the one line on stdout is the folder; what is said on the way there is for people.
[ "$print" != --print ] || exec 3>&1 1>&2
source_tree
fragments=("$ROOT/tests/config/base.config" "$ROOT/tests/config/$conf.config")
# Who builds it, where and when is not in it: the same source, options and compiler make the same bytes, and so the same figures, anywhere.
stamps=(KBUILD_BUILD_TIMESTAMP="Thu Jan 1 00:00:00 UTC 1970" KBUILD_BUILD_VERSION=1 KBUILD_BUILD_USER=huvm KBUILD_BUILD_HOST=huvm)
key=$( (cat "${fragments[@]}" && echo "$version" "${stamps[@]}" && toolchain_id) | short_hash)
out=$CACHE/kernel-$version-$conf-$key
if [ "$print" = --print ]; then
	[ -f "$out/.huvm-done" ] || "$0" "$conf"
	echo "$out" >&3
	exit 0
fi
[ ! -f "$out/.huvm-done" ] || exit 0

build() {
	[ ! -f "$out/.huvm-done" ] || return 0
	need_space "$CACHE" 4 "the $conf kernel"
	local mk=(make -C "$tree" "O=$out" "LLVM=$(llvm)" "BINDGEN=$(bindgen_)" "${stamps[@]}" "-j$JOBS") minutes=6
	[ "$conf" = fast ] || minutes=12
	# What an interrupted build of an older configuration left; the lock says that none is running.
	for old in "$CACHE"/kernel-*-"$conf"-*/; do
		[ -f "$old/.huvm-done" ] || [ "${old%/}" = "$out" ] || rm -rf "$old"
	done
	mkdir -p "$out"
	cat "${fragments[@]}" >"$out/huvm.config"
	logged "$out/config.log" "${mk[@]}" KCONFIG_ALLCONFIG="$out/huvm.config" allnoconfig
	# Kconfig drops what it cannot set without a word; we do not.
	local lost=""
	while read -r line; do
		case $line in
		CONFIG_*=*) grep -qxF "$line" "$out/.config" || lost+=" ${line%%=*}" ;;
		"# CONFIG_"*" is not set") ! grep -q "^${line:2:-11}=" "$out/.config" || lost+=" ${line:2:-11}" ;;
		esac
	done <"$out/huvm.config"
	if [ -n "$lost" ]; then
		rm -f "$out/.config"
		die "these options of tests/config did not survive Kconfig:$lost" "mend the fragment (a dependency is missing?)"
	fi
	say "building the $conf kernel, Linux $version (about $minutes minutes on 2 cores)"
	logged "$out/build.log" "${mk[@]}" bzImage modules
	# External modules need headers, scripts and rust/, not objects.
	find "$out" -name '*.o' ! -path '*/scripts/*' ! -path '*/tools/*' -delete
	rm -f "$out"/vmlinux.unstripped "$out"/.tmp_vmlinux*
	touch "$out/.huvm-done"
}
locked "kernel-$conf" build
