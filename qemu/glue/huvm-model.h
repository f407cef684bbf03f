/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The C edge of the device model (qemu/model-ffi, libhuvm_model_ffi.a).
 *
 * One machine per process holds all GPUs. The caller serialises all calls (QEMU: the big lock).
 * A call that arrives while another one is running (a device's DMA that reaches a register of a
 * sibling) reads all ones or is dropped. Nothing here aborts: a model that fails marks its GPU
 * as gone.
 */
#ifndef HUVM_MODEL_H
#define HUVM_MODEL_H

#include <stddef.h>
#include <stdint.h>

/* What the model asks of the device around it. All functions get `opaque` first. */
typedef struct HuvmHostOps {
    /* The clock, ns. */
    uint64_t (*now_ns)(void *opaque);
    /* System memory by bus address; 0 on success. */
    int (*dma_read)(void *opaque, uint64_t addr, void *buf, uint64_t len);
    int (*dma_write)(void *opaque, uint64_t addr, const void *buf, uint64_t len);
    /* Sends a message interrupt. */
    void (*msix)(void *opaque, uint32_t vector);
    /* BAR 1 or 3 is read and written through the model (on: page tables, or a GPU that is gone) or maps VRAM. */
    void (*bar_virtual)(void *opaque, uint32_t bar, int on);
    /* 1 if bus addresses of this device are translated (an IOMMU): no other device's mean the same. */
    int (*bus_translated)(void *opaque);
    /* Logs a guest error; the text is not terminated. */
    void (*guest_error)(void *opaque, const char *text, size_t len);
    /* Calls huvm_model_timer() at this time, ns; UINT64_MAX: not at all. Replaces earlier calls. */
    void (*set_timer)(void *opaque, uint64_t deadline_ns);
} HuvmHostOps;

typedef struct HuvmGpuConfig {
    int32_t index;        /* -1: first free */
    uint32_t vram_mb;
    uint32_t ces;         /* 0: the profile's */
    uint32_t seed;
    uint8_t timing;
    uint8_t phantom;
    uint8_t realism;
    uint8_t reserved;
    const char *profile;  /* path of a TOML file, NULL: built in */
} HuvmGpuConfig;

/*
 * Adds a GPU. `vram` points to vram_mb MiB that stay valid until huvm_model_remove().
 * Returns its index, or -1 with a message in `err` (terminated, at most `err_len` bytes).
 */
int huvm_model_add(const HuvmGpuConfig *config, const HuvmHostOps *ops, void *opaque,
                   void *vram, char *err, size_t err_len);
/* Instructions per microsecond of the machine's CPUs, by its profile; 0 without a GPU. */
uint32_t huvm_model_cpu_mips(void);
/* From inside a call too: nothing of the GPU is used from here on. */
void huvm_model_remove(int gpu);
void huvm_model_reset(int gpu);
/* 1 if the GPU fell off the bus (INJECT.GONE): its configuration space answers no more either. */
int huvm_model_is_gone(int gpu);
uint64_t huvm_model_read(int gpu, uint32_t bar, uint64_t offset, uint32_t size);
void huvm_model_write(int gpu, uint32_t bar, uint64_t offset, uint64_t value, uint32_t size);
void huvm_model_timer(void);

#endif
