#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# Reports of the detector of data races (KCSAN), told apart. Sourced by suite.sh, in the guest, and by tools/build/check.sh, which looks whether
# tests/races/reports.log is told apart as tests/races/told.txt says.
# What Linux races with itself in (Documentation/reliability.md, section 5), also where the driver has called it.
known_races='^(tick_nohz_.*|_*tmigr_.*|.*hrtimer_.*|ktime_get.*|timekeeping_.*|osq_.*|memcpy_and_pad|kernfs_.*|lockref_.*|alloc_empty_file|set_nlink'
known_races="$known_races|__fput|lru_add|mas_wmb_replace|kthread_unpark|ring_buffer_.*)\$"
# These read a task's flags, and nothing of the driver's: whoever sets his own meanwhile, as `capable` does, races with them.
readers_of_flags=' kthread_is_per_cpu( |$)'
# races LOG: the reports of the detector of data races, as `how functions`. ours: of a function of the driver's; called: none of the
# functions is the driver's, but it called one, and none is known to race, on what is the kernel's own; kernel: the others.
races() {
	awk -v known="$known_races" -v flags="$readers_of_flags" '
		function told(   n, i, of, how) {
			how = "kernel"
			if (title ~ /\[huvm\]/)
				how = "ours"
			else if (stack && title !~ flags) {
				n = split(title, of, / +\/ +/)
				sub(/^[a-z-]+ in /, "", of[1])
				how = "called"
				for (i = 1; i <= n; i++)
					if (of[i] ~ known)
						how = "kernel"
			}
			print how, title
			title = ""
		}
		/BUG: KCSAN: / { if (title) told(); title = $0; sub(/.*BUG: KCSAN: /, "", title); sub(/[ \r]+$/, "", title); stack = 0; next }
		title && /\[huvm\]/ { stack = 1 }
		title && /==========/ { told() }
		END { if (title) told() }
	' "$1" | sort -u
}
