#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# Boots the guest. Settings come from the environment:
#   KCONF=fast|debug  GPUS=1  VRAM=256 (MiB)  MEM=2G  SMP=2  TIMING=on|off  DATA=real|phantom  REALISM=on|off
#   PROFILE=v100-p3 (a name in qemu/profiles, or the path of a file, from / on)
#   ICOUNT=1 (deterministic virtual time)  LIMIT=300 (s)  RUN="command" (else a shell)  NAME=log name  GENV="A=1 B=2"
#   IOMMU=1 (the GPUs see memory through an IOMMU)
#   QEMU_ARGS="more for QEMU"  CMDLINE="more for the kernel"  IMAGE=another guest image
# Exit code: that of RUN; 124 when the limit passed; 125 when the guest ended without saying how, or QEMU itself failed.
. "$(dirname "$0")/lib.sh"
KCONF=${KCONF:-fast}
kdir=$("$ROOT/tools/build/kernel.sh" "$KCONF" --print)
qemu=$("$ROOT/qemu/build.sh" --print)
image=${IMAGE:-$BUILD/image-$KCONF.cpio.gz}
[ -f "$image" ] || die "there is no guest image" "run 'make image KCONF=$KCONF'"

profile=$(profile_file "${PROFILE:=v100-p3}")
[ -f "$profile" ] || die "there is no timing profile '$PROFILE'" "use one of: $(cd "$ROOT/qemu/profiles" && ls ./*.toml | sed 's,^./,,; s,.toml$,,' | tr '\n' ' ')"
# Memory that the guest does not touch is not asked of the host (reserve=off).
args=(-machine "q35,memory-backend=ram" -object "memory-backend-ram,id=ram,size=${MEM:-2G},reserve=off"
	-nodefaults -display none -no-reboot -L /usr/share/seabios -L /usr/share/qemu
	-kernel "$kdir/arch/x86/boot/bzImage" -initrd "$image" -m "${MEM:-2G}" -smp "${SMP:-2}")
cmdline="console=ttyS0 quiet log_buf_len=4M panic=-1 nokaslr norandmaps random.trust_cpu=off"
# Without five-level paging: with it KASAN takes an interrupt early in the boot for a wild access, and turns lockdep off.
# Without the "fast" string instructions: the kernel then copies and clears by words. Emulated, each byte is a turn of a loop, and
# under -icount it takes the time of an instruction.
cpu=max,-la57,-erms,-fsrm,-fzrm,-fsrs
if [ "${ICOUNT:-0}" = 1 ]; then
	args+=(-accel "tcg,thread=single" -icount "shift=0,sleep=off" -rtc "base=2026-01-01T00:00:00,clock=vm"
		-cpu "$cpu,-rdrand,-rdseed")
else
	args+=(-accel "tcg,thread=multi" -cpu "$cpu")
	# On a loaded host the guest may see no tick for a while, and would then do without its IO-APIC.
	cmdline+=" no_timer_check"
	# There it also misjudges its time stamp counter, which is the host's: its clock has been seen to run twelve times too fast.
	khz=$(tsc_khz)
	[ -z "$khz" ] || cmdline+=" tsc_early_khz=$khz"
fi
# Linux 7.3 can stand still at its start, both CPUs without interrupts: the watchdog of the TSC waits for a CPU that waits in
# stop_machine for it, and its bound is by a clock, jiffies, that nobody moves on.
cmdline+=" tsc=nowatchdog"
# Without the slab allocator's arrays of free objects: an array keeps the address of what was taken from it last, and kmemleak, which reads
# those too, takes a lost object for one that is still known. There are none where objects are checked; Z, what lies beside them, costs little.
[ "$KCONF" != debug ] || cmdline+=" slab_debug=Z"
# The kernel's checker of DMA counts no more than eight mappings of one page.
[ "${GPUS:-1}" -le 8 ] || cmdline+=" dma_debug=off"
if [ "${IOMMU:-0}" = 1 ]; then
	# Before the devices that are behind it. Told of each unmapping at once, it takes what a GPU does there after that for a fault.
	args+=(-device "intel-iommu,intremap=off")
	cmdline+=" iommu.strict=1"
fi
for ((i = 0; i < ${GPUS:-1}; i++)); do
	args+=(-device "huvm-gpu,id=gpu$i,index=$i,vram-mb=${VRAM:-256},timing=${TIMING:-on},data=${DATA:-real},realism=${REALISM:-on},profile=$profile")
done
# shellcheck disable=SC2206 # words
args+=(${QEMU_ARGS:-})
cmdline+=" ${CMDLINE:-}"
for e in ${GENV:-}; do cmdline+=" huvm.env=$e"; done
if [ -z "${RUN:-}" ]; then
	exec "$qemu" "${args[@]}" -serial mon:stdio -append "$cmdline"
fi
mkdir -p "$BUILD/logs"
log=$BUILD/logs/${NAME:-run}.log
rc=0 began=$SECONDS
timeout --foreground -k 5 "${LIMIT:-300}" "$qemu" "${args[@]}" -serial stdio -monitor none \
	-append "$cmdline huvm.run=${RUN// /%20}" </dev/null 2>&1 | sed -u 's/\r//g' | tee "$log" || rc=${PIPESTATUS[0]}
# Killed, but not at its limit: by a machine without memory.
if [ "$rc" = 124 ] || { [ "$rc" = 137 ] && [ $((SECONDS - began)) -ge "${LIMIT:-300}" ]; }; then
	echo "[huvm] no end after ${LIMIT:-300} s while running: $RUN" | tee -a "$log" >&2
	exit 124
fi
end=$(sed -n 's/^HUVM-EXIT \([0-9]*\)$/\1/p' "$log" | tail -1)
[ -n "$end" ] || { echo "[huvm] the guest ended without saying how; QEMU's exit code: $rc (log: $log)" | tee -a "$log" >&2; exit 125; }
# The device can still fail at power-off, when the guest has said its last.
[ "$rc" = 0 ] || { echo "[huvm] the guest ended with $end, but QEMU with $rc (log: $log)" | tee -a "$log" >&2; exit 125; }
exit "$end"
