# SPDX-License-Identifier: GPL-2.0
# huvm: every command. Each does what it needs first; a second run starts in seconds.
#
# Settings: HUVM_CACHE (third-party builds), KSRC / KDIR (own kernel source / build), QEMU (own QEMU with the device),
# KCONF=fast|debug, and for run: GPUS VRAM MEM SMP TIMING PROFILE DATA REALISM ICOUNT IOMMU LIMIT RUN (see tools/build/run.sh).

KCONF ?= fast
T := tools/build

.PHONY: help deps kernel qemu module image run demo bench bench-compare results test test-full test-same soak test-mutants test-race fuzz check clean distclean
help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /  make \1\t/p' $(MAKEFILE_LIST) | expand -t 26

demo: image-fast ## a GPU computes on 0.8, 1.5 and 3 times its memory, then with three neighbours' idle memory; every byte is verified
	@$(T)/bench.sh demo

bench: image-fast ## the experiments, in virtual time: all, or EXP=harvest, oversub, inter-job …; QUICK=1, PROFILE=; rows in build/results
	@$(T)/bench.sh $(or $(EXP),all)

bench-compare: deps ## two sets of results row by row: A= and B= are folders or files (B= build/results); THRESHOLD=percent: fail if B is slower
	@$(T)/results.sh compare $(or $(A),$(error A= is wanted: a folder of results, or a file)) $(or $(B),build/results) $(addprefix --threshold ,$(THRESHOLD))

results: deps ## Documentation/results.md and pictures, from the rows in build/results, which go to Documentation/results beside those of before
	@set -e; if ls build/results/*.json >/dev/null 2>&1; then $(T)/results.sh fill; $(T)/results.sh plot; \
		for f in build/results/*.json build/results/*.targets.txt build/results/*.jsonl.gz; do [ ! -f "$$f" ] || cp "$$f" Documentation/results/; done; fi
	@mkdir -p build/recordings
	@set -e; for f in Documentation/results/*.jsonl.gz; do [ -f "$$f" ] || continue; n=build/recordings/$$(basename "$$f" .gz); \
		gzip -dc "$$f" >"$$n"; $(T)/results.sh timeline "$$n" --out Documentation/plots; done
	@$(T)/results.sh doc Documentation/results

# Below, exec: who ends make ends a shell of its own, and not what runs in it.
test: deps ## all tests: the host's, and every suite in VMs on the debug kernel
	@tests/run

test-full: image-fast ## the same with every case of the matrix and more rounds; random calls guided by KCOV; make fuzz; the demo twice, to the digit
	@exec env FULL=1 tests/run
	@exec env HOST=0 KCONF=race CALLS=100000 tests/run kcov
	@$(T)/fuzz.sh
	@$(T)/same.sh demo

test-same: image-fast ## are figures the same each time? EXP=demo (or an experiment), idle and on a busy machine
	@$(T)/same.sh $(or $(EXP),demo)

soak: deps ## random clients, policies, pressure, kills, injections, reloads for HOURS= or MINUTES= (60; debug kernel; KCONF=fast); SEED=n again
	@exec env SOAK=$$(( $(or $(HOURS),0) * 3600 + $(or $(MINUTES),$(if $(HOURS),0,60)) * 60 )) KCONF=$(if $(filter file,$(origin KCONF)),debug,$(KCONF)) tests/run

test-mutants: deps ## can the tests fail? The bugs of tests/mutants, put in one at a time, and which test catches each; M=name: that one
	@$(T)/mutants.sh $(M)

test-race: deps ## data races: the suites on a kernel with KCSAN, which sees the driver's Rust code too; VM= some of tests/suites/suites.list
	@exec env HOST=0 KCONF=race tests/run $(VM)

fuzz: deps ## coverage-guided fuzzing of what parses device, guest and user bytes, on the host; FUZZ=guest, device, files, tool; S=seconds each
	@SECONDS_EACH=$(or $(S),60) $(T)/fuzz.sh $(FUZZ)

check: deps ## the fast checks: formatting, clippy (host and kernel), unit tests
	@$(T)/check.sh

run: image-$(KCONF) ## a guest with GPUS=1 GPU and a shell; RUN="command" runs that instead
	@KCONF=$(KCONF) RUN="$${RUN:+insmod /lib/huvm.ko && $$RUN}" $(T)/run.sh

deps: ## Debian packages and bindgen
	@$(T)/deps.sh -q
kernel: deps ## the guest kernel, KCONF=fast or debug
	@$(T)/kernel.sh $(KCONF)
qemu: deps ## QEMU with the huvm-gpu device
	@qemu/build.sh
module: deps ## huvm.ko for KCONF
	@$(T)/module.sh $(KCONF)
image: image-$(KCONF) ## the guest's initramfs for KCONF

image-fast image-debug: image-%: deps
	@$(T)/kernel.sh $*
	@qemu/build.sh
	@$(T)/module.sh $*
	@$(T)/image.sh $*

clean: ## what was built in this folder
	rm -rf build target
distclean: clean ## also the third-party builds in the cache
	rm -rf "$${HUVM_CACHE:-$${XDG_CACHE_HOME:-$$HOME/.cache}/huvm}"
