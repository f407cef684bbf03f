#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# crates.sh from|to FOLDER: what cargo compiled of registries' crates depends on the compiler, their versions and the profiles, not
# on the checkout. from: a cargo target folder that is not there yet begins with the cache's. to: the cache takes the folder's,
# once. What does not fit cargo builds anew.
. "$(dirname "$0")/lib.sh"
folder=$2
kept=$CACHE/crates-${folder##*/}-$( (cd "$ROOT" && cat Cargo.lock Cargo.toml && rustc -V && guest_rustflags) | short_hash)

from() {
	[ -d "$kept" ] && [ ! -e "$folder" ] || return 0
	rm -rf "$folder.part"
	mkdir -p "${folder%/*}"
	cp -a --reflink=auto "$kept" "$folder.part"
	mv "$folder.part" "$folder"
}

# The files of each unit, by the hash in their names. The checkout's own crates are left out, and so is what only a person reads.
units() {
	local own fp unit
	own=$(cd "$ROOT" && cargo metadata --locked --no-deps --format-version 1 | jq -r '.packages[].name')
	while read -r fp; do
		for unit in "$fp"/*; do
			grep -qxF "$(basename "${unit%-*}")" <<<"$own" ||
				printf '%s\n' "$unit" "${fp%/*}/build/${unit##*/}" "${fp%/*}"/deps/*"-${unit##*-}"*
		done
	done < <(find . -maxdepth 3 -name .fingerprint)
}

to() {
	[ ! -d "$kept" ] || return 0
	need_space "$CACHE" 2 "the crates of registries, compiled"
	# Of other versions or another compiler.
	rm -rf "$CACHE/crates-${folder##*/}"-*
	mkdir "$kept.part"
	cd "$folder"
	units | while read -r f; do [ ! -e "$f" ] || printf '%s\n' "$f"; done | tar -cf - -T - .rustc_info.json | tar -C "$kept.part" -xf -
	mv "$kept.part" "$kept"
}
locked "crates-${folder##*/}" "$1"
