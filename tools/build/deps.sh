#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# Installs the Debian packages that everything needs, and bindgen where Debian's is too old.
. "$(dirname "$0")/lib.sh"

common=(make gcc libc6-dev flex bison bc libelf-dev libssl-dev xz-utils cpio kmod lz4 busybox-static rsync file gawk
	libglib2.0-dev libpixman-1-dev libfdt-dev zlib1g-dev ninja-build pkg-config python3 python3-venv python3-tomli
	seabios qemu-system-data dpkg-dev debian-archive-keyring ca-certificates jq)
case $(debian) in
12) packages=("${common[@]}" rustc-web rust-web-src cargo-web rust-web-clippy rustfmt-web clang-19 lld-19 llvm-19 libclang-19-dev) ;;
13) packages=("${common[@]}" rustc rust-src cargo rust-clippy rustfmt bindgen clang lld llvm libclang-dev meson) ;;
*) die "this is not Debian 12 or 13" "use one of them (a container will do)" ;;
esac

missing=()
for p in "${packages[@]}"; do
	dpkg-query -W -f '${Status}' "$p" 2>/dev/null | grep -q 'ok installed' || missing+=("$p")
done
if [ ${#missing[@]} != 0 ]; then
	[ "$(id -u)" = 0 ] || command -v sudo >/dev/null ||
		die "packages are missing (${missing[*]}) and there is no sudo" "run 'make deps' as root once"
	# Asks for the password here, where it can be seen.
	[ "$(id -u)" = 0 ] || sudo -v || die "sudo did not let you install packages" "run 'make deps' as root once"
	say "installing ${#missing[@]} Debian packages (about a minute)"
	logged "$CACHE/logs/deps-update.log" sudo_ apt-get update
	logged "$CACHE/logs/deps.log" sudo_ env DEBIAN_FRONTEND=noninteractive \
		apt-get install -y --no-install-recommends "${missing[@]}"
fi

version_ge() { [ "$(printf '%s\n%s\n' "$1" "$2" | sort -V | head -1)" = "$2" ]; }
install_bindgen() {
	local to=$CACHE/bindgen-$BINDGEN_VERSION
	[ ! -x "$to/bin/bindgen" ] || return 0
	say "building bindgen $BINDGEN_VERSION (about 2 minutes)"
	rm -rf "$to.part"
	logged "$CACHE/logs/bindgen.log" cargo install --locked --root "$to.part" --version "$BINDGEN_VERSION" bindgen-cli
	mv "$to.part" "$to"
}
have=$(/usr/bin/bindgen --version 2>/dev/null | awk '{print $2}' || true)
if ! version_ge "${have:-0}" 0.71.1; then
	need_space "$CACHE" 2 "bindgen"
	locked bindgen install_bindgen
fi
[ "${1:-}" = -q ] || say "dependencies are there: $(rustc -V), $("$(clang_)" --version | head -1), $("$(bindgen_)" --version)"
