# SPDX-License-Identifier: GPL-2.0
# Shared by the build scripts: places, tools, messages. Source it; it does nothing but make the cache folder.
# shellcheck shell=bash disable=SC2034
set -euo pipefail

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
BUILD=$ROOT/build
CACHE=${HUVM_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/huvm}
JOBS=${JOBS:-$(nproc)}
BINDGEN_VERSION=0.72.1
KERNEL_SERIES=7.3
QEMU_SERIES=10.0

# Debian's own compilers, always: kernel, module and host crates must be built by one rustc.
PATH=/usr/bin:/bin:/usr/sbin:/sbin
unset RUSTUP_TOOLCHAIN RUSTC RUSTFLAGS RUSTC_WRAPPER CARGO CARGO_TARGET_DIR
export PATH
# A registry that stalls for half a minute (seen) is asked again; cargo itself would give up at the third time.
export CARGO_NET_RETRY=${CARGO_NET_RETRY:-10}

say() { printf '[huvm] %s\n' "$*"; }
# die WHAT REMEDY: one line, with what to do next.
die() { printf '[huvm] error: %s; to do: %s\n' "$1" "$2" >&2; exit 1; }

mkdir -p "$CACHE" 2>/dev/null || die "cannot create the cache $CACHE" "set HUVM_CACHE to a folder that you can write"

# need_space DIR GIB FOR-WHAT
need_space() {
	local have
	mkdir -p "$1"
	have=$(df --output=avail -BG "$1" | tail -1 | tr -dc 0-9)
	[ "$have" -ge "$2" ] || die "$3 needs $2 GiB free under $1, there are $have" \
		"free some space, or set HUVM_CACHE to a folder on a larger disk"
}

# locked NAME COMMAND…: one at a time per machine and cache entry.
locked() {
	local name=$1
	shift
	mkdir -p "$CACHE/locks"
	(
		flock -n 9 || { say "waiting for another build of $name"; flock 9; }
		"$@"
	) 9>"$CACHE/locks/$name"
}

# logged FILE COMMAND…: output to FILE; on failure its end is shown. A line each half minute tells that it lives.
logged() {
	local log=$1 rc=0
	shift
	mkdir -p "$(dirname "$log")"
	"$@" >"$log" 2>&1 </dev/null &
	local pid=$! began=$SECONDS next=30
	# A background process does not hear Ctrl-C by itself.
	trap 'kill "$pid" 2>/dev/null; wait "$pid" 2>/dev/null; exit 130' INT TERM
	while kill -0 "$pid" 2>/dev/null; do
		sleep 0.2
		if [ $((SECONDS - began)) -ge $next ]; then
			say "  … $next s"
			next=$((next + 30))
		fi
	done
	wait "$pid" || rc=$?
	trap - INT TERM
	[ "$rc" != 0 ] || return 0
	grep -E 'error|Error|No space|Could not' "$log" | tail -5 >&2 || true
	tail -15 "$log" >&2
	if grep -q 'No space left' "$log"; then
		die "the disk is full" "free some space and start again; what is built stays"
	elif grep -qE 'Could not resolve|Could not connect|Temporary failure|Failed to fetch|Unable to fetch|Network is unreachable|download of .* failed|failed to download|NewConnectionError' "$log"; then
		die "a package server cannot be reached (whole log: $log)" "see to this machine's network or mirror and start again; what is built stays"
	fi
	die "this step failed (whole log: $log)" "read the lines above; start again when mended, finished steps stay"
}

# series_is VERSION SERIES: is 7.3.4 a 7.3?
series_is() { case $1 in "$2" | "$2".* | "$2"-*) ;; *) return 1 ;; esac; }

# Key of this checkout, for locks on what is built in it.
here() { printf %s "$ROOT" | short_hash; }

sudo_() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi; }

debian() { (. /etc/os-release && [ "${ID:-}" = debian ] && echo "${VERSION_ID:-0}") || echo 0; }

# Suffix of LLVM's tools, as make's LLVM= wants it.
llvm() { if [ -x /usr/bin/clang-19 ] && [ -x /usr/bin/ld.lld-19 ]; then echo -19; else echo 1; fi; }
clang_() { if [ "$(llvm)" = -19 ]; then echo clang-19; else echo clang; fi; }

bindgen_() {
	if [ -x "$CACHE/bindgen-$BINDGEN_VERSION/bin/bindgen" ]; then
		echo "$CACHE/bindgen-$BINDGEN_VERSION/bin/bindgen"
	else
		echo /usr/bin/bindgen
	fi
}

# Everything that makes a kernel or module built here unusable with another toolchain.
toolchain_id() { rustc -V; "$(clang_)" --version | head -1; "$(bindgen_)" --version; }

short_hash() { sha256sum | cut -c1-12; }

# How programs for the guest are compiled: static ones, since its initramfs has no libraries; and the same bytes wherever crates and checkout
# lie (an id of the build is made of debug information, too).
guest_rustflags() {
	echo "-C target-feature=+crt-static -C link-arg=-Wl,--build-id=none --remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=cargo"
}

# made_of fast|debug|race [IMAGE]: all that every guest of that kernel is made of, one after the other, for a hash.
made_of() {
	cat "$("$ROOT/tools/build/kernel.sh" "$1" --print)/arch/x86/boot/bzImage" "$("$ROOT/qemu/build.sh" --print)" "$BUILD/image-${2:-$1}.cpio.gz" \
		"$ROOT/tools/build/run.sh"
}

# The file of a timing profile: a name in qemu/profiles, or a path, from / on.
profile_file() { case $1 in /*) echo "$1" ;; *) echo "$ROOT/qemu/profiles/$1.toml" ;; esac; }

# 1 for a VM whose GPUs are behind an IOMMU, by its name; 0 for the others.
iommu_of() { case $1 in iommu*) echo 1 ;; *) echo 0 ;; esac; }

# Instructions a microsecond that a timing profile gives each CPU; one that does not say has those of v100-p3, as in the device.
mips_of() {
	{ cat "$(profile_file "$1")" 2>/dev/null || true; cat "$ROOT/qemu/profiles/v100-p3.toml"; } | sed -n 's/^mips = //p' | sed -n 1p
}

# provoked VM: which lines of the device's about the driver are no failure of this VM.
provoked() {
	case $1 in
	# Suites hostile, stuck and soak take GPUs off the bus while their jobs fault: by their times, it is then that this is said, once.
	bringup | several | soak) echo '^huvm-gpu [0-9]+: fault buffer lies in no memory$' ;;
	*) echo '^$' ;;
	esac
}

# told_in FILE SUITE…: arguments of QEMU's, by which what the device says of the driver goes into FILE; or into the log, for a suite that
# looks there itself.
told_in() {
	local file=$1 s
	shift
	for s in "$@"; do
		[ ! -f "$ROOT/tests/suites/$s.after" ] || { echo "-d guest_errors" && return; }
	done
	echo "-d guest_errors -D $file"
}

# The frequency of this machine's time stamp counter, kHz; nothing where there is none.
tsc_khz() {
	local tool=$BUILD/tsc_khz
	if [ "$ROOT/tools/build/tsc_khz.c" -nt "$tool" ]; then
		mkdir -p "$BUILD" && gcc -O2 -o "$tool.$$" "$ROOT/tools/build/tsc_khz.c" && mv "$tool.$$" "$tool"
	fi
	"$tool"
}

# Private apt: other suites of Debian, read from the machine's own mirror, without touching its configuration.
apt_private() {
	local dir=$CACHE/apt uri
	mkdir -p "$dir/etc" "$dir/lists/partial" "$dir/cache/archives/partial"
	if [ ! -s "$dir/etc/huvm.sources" ]; then
		uri=$(apt-get indextargets --format "\$(REPO_URI)" 'Created-By: Packages' 'Origin: Debian' 2>/dev/null |
			grep -v security | head -1)
		printf 'Types: deb deb-src\nURIs: %s\nSuites: trixie trixie-backports\nComponents: main\nSigned-By: %s\n' \
			"${uri:-http://deb.debian.org/debian}" /usr/share/keyrings/debian-archive-keyring.gpg \
			>"$dir/etc/huvm.sources"
	fi
	APT_PRIVATE=(-o "Dir::Etc::sourcelist=$dir/none" -o "Dir::Etc::sourceparts=$dir/etc"
		-o "Dir::State::lists=$dir/lists" -o "Dir::Cache=$dir/cache" -o APT::Sandbox::User=
		-o Dir::Etc::preferences=/dev/null -o Dir::Etc::preferencesparts=/dev/null
		-o Debug::NoLocking=1 -o Acquire::Retries=3)
	if [ -z "$(find "$dir/lists" -name '*Sources*' -mtime -7 2>/dev/null | head -1)" ]; then
		say "reading the lists of Debian's trixie and trixie-backports"
		logged "$CACHE/logs/apt.log" apt-get "${APT_PRIVATE[@]}" update
		[ -n "$(find "$dir/lists" -name '*Sources*' | head -1)" ] ||
			die "Debian's mirror cannot be reached" "connect this machine to it, or bring KSRC= and QEMU= of your own"
	fi
}
