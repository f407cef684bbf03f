# SPDX-License-Identifier: GPL-2.0
# huvm: every command. Each does what it needs first; a second run starts in seconds.
#
# Settings: HUVM_CACHE (third-party builds), KSRC / KDIR (own kernel source / build), QEMU (own QEMU with the device),
# KCONF=fast|debug, and for run: GPUS VRAM MEM SMP TIMING PROFILE DATA REALISM ICOUNT RUN (see tools/build/run.sh).

KCONF ?= fast
B := tools/build

.PHONY: help deps kernel qemu module image run demo bench test check clean distclean
help: ## this list
	@sed -n 's/^\([a-z]*\):.*## /  make \1\t/p' $(MAKEFILE_LIST) | expand -t 18

demo: image-fast ## a GPU computes on 0.8, 1.5 and 3 times its memory, then with three neighbours' idle memory; every byte is verified
	@$(B)/bench.sh demo

bench: image-fast ## an experiment in virtual time: EXP=harvest; results and targets, rows in build/results
	@$(B)/bench.sh $(or $(EXP),harvest)

test: deps ## all tests: host, then every suite in a VM on the debug kernel
	@tests/run

check: deps ## the fast checks: formatting, clippy (host and kernel), unit tests
	@$(B)/check.sh

run: image-$(KCONF) ## a guest with GPUS=1 GPU and a shell; RUN="command" runs that instead
	@KCONF=$(KCONF) $(B)/run.sh

deps: ## Debian packages and bindgen
	@$(B)/deps.sh -q
kernel: deps ## the guest kernel, KCONF=fast or debug
	@$(B)/kernel.sh $(KCONF)
qemu: deps ## QEMU with the huvm-gpu device
	@qemu/build.sh
module: deps ## huvm.ko for KCONF
	@$(B)/module.sh $(KCONF) $(if $(CLIPPY),CLIPPY=1)
image: image-$(KCONF) ## the guest's initramfs for KCONF

image-fast image-debug: image-%: deps
	@$(B)/kernel.sh $*
	@qemu/build.sh
	@$(B)/module.sh $*
	@$(B)/image.sh $*

clean: ## what was built in this folder
	rm -rf build target
distclean: clean ## also the third-party builds in the cache
	rm -rf "$${HUVM_CACHE:-$${XDG_CACHE_HOME:-$$HOME/.cache}/huvm}"
