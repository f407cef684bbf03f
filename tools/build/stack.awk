# SPDX-License-Identifier: GPL-2.0
# llvm-objdump -dr --no-show-raw-insn huvm.ko | gawk -v most=BYTES -f stack.awk: the deepest chain of calls from each way into the driver,
# by the frames of its functions; those deeper than BYTES are printed, with their functions, and the exit code is 1.
#
# What calls whom is read from the code. A function that calls through a pointer is taken to call the closures of those who call it.
# Other such calls are not seen, but each function that no other one calls is a way in, so what they lead to counts from there. What
# the kernel needs below the driver, and above it, is not counted.
# With -v all=1 the deepest chain of each way in is printed, whatever it takes.

# The branch that was seen last leads to `to`, unless a relocation says otherwise.
function settle() {
	if (to != "" && to != name) calls[name, ++many[name]] = to
	to = ""
}

# A name without the places that it refers back to, which differ with what comes before them.
function plain(f) {
	gsub(/B[0-9A-Za-z]*_/, "B_", f)
	return f
}

# Bytes of stack from f on, the deepest way; next_[f] is the next function on that way.
function depth(f, i, d, best) {
	if (f in known) return known[f]
	# None is to call itself, by way of others or not, but what drops what it holds.
	if (f in open) {
		if (f !~ /drop/) again[f]
		return 0
	}
	open[f]
	best = 0
	for (i = 1; i <= many[f]; i++) {
		if (!(calls[f, i] in frame)) continue
		d = depth(calls[f, i])
		if (d > best) {
			best = d
			next_[f] = calls[f, i]
		}
	}
	delete open[f]
	return known[f] = frame[f] + best
}

/^Disassembly of section / {
	section = substr($4, 1, length($4) - 1)
	next
}
/^[0-9a-f]+ <.*>:$/ {
	settle()
	name = substr($2, 2, length($2) - 3)
	if (section == ".text") starts[strtonum("0x" $1)] = name
	# The address that the call put there.
	frame[name] = 8
	branch = 0
	next
}
/R_X86_64_/ {
	to = ""
	if (branch && match($0, /R_X86_64_(PLT32|PC32)[ \t]+/)) {
		to = substr($0, RSTART + RLENGTH)
		# By its place in the section, from which a branch counts four bytes less; else by its name.
		if (to ~ /^\.text\+/) places[name, ++placed[name]] = strtonum(substr(to, 7)) + 4
		else {
			sub(/[-+]0x[0-9a-f]+$/, "", to)
			settle()
		}
		to = ""
	}
	next
}
{
	settle()
	branch = 0
}
/\tpush/ { frame[name] += 8 }
match($0, /\tsubq?[ \t]+\$0x[0-9a-f]+, ?%rsp/) {
	bytes = substr($0, RSTART, RLENGTH)
	gsub(/.*\$|,.*/, "", bytes)
	frame[name] += strtonum(bytes)
	seen = 1
}
/\t(call|j[a-z]+)q?[ \t]/ {
	branch = 1
	if ($0 ~ /\t(call|jmp)q?[ \t]+\*%/) points[name]
	# Without an offset: the first instruction of a function.
	if (match($0, /<[^>+]+>/)) to = substr($0, RSTART + 1, RLENGTH - 2)
}

END {
	settle()
	if (!seen) {
		print "no frame found"
		exit 1
	}
	for (f in placed) for (i = 1; i <= placed[f]; i++)
		if (places[f, i] in starts) calls[f, ++many[f]] = starts[places[f, i]]
	for (k in calls) {
		called[calls[k]]
		split(k, by, SUBSEP)
		if (calls[k] in points) callers[calls[k]] = callers[calls[k]] " " by[1]
	}
	# _RNC… is a closure of _R….
	for (f in frame) if (f ~ /^_RNC/ && !(f in called)) closures[f]
	for (d in callers) {
		n = split(callers[d], by, " ")
		for (i = 1; i <= n; i++) for (c in closures)
			if (index(plain(c), "_RNC" substr(plain(by[i]), 3)) == 1) {
				calls[d, ++many[d]] = c
				called[c]
			}
	}
	for (f in frame) if (!(f in called)) ways[f] = depth(f)
	# Those that only call each other.
	for (f in frame) if (!(f in known)) ways[f] = depth(f)
	for (f in again) print f " calls itself"
	bad = length(again)
	PROCINFO["sorted_in"] = "@val_num_desc"
	for (f in ways) {
		if (!all && ways[f] <= most) break
		print ways[f] " bytes of stack:"
		for (g = f; g != ""; g = next_[g]) print "\t" frame[g] "\t" g
		bad += ways[f] > most
	}
	exit bad != 0
}
