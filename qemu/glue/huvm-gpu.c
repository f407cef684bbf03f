/* SPDX-License-Identifier: GPL-2.0 */
/*
 * huvm-gpu: an emulated GPU (Documentation/device.md).
 *
 * This file does QOM, PCI, BARs, MSI-X, guest memory and the timer. What the device does is in
 * the model (qemu/model), reached through huvm-model.h.
 *
 * Properties:
 *   index=N          index of the GPU in the machine, 0..15; default: the first free one
 *   vram-mb=N        VRAM in MiB, 64..131072 (256)
 *   timing=on|off    operations take time from the profile, or complete at once (on)
 *   profile=FILE     timing profile, TOML; all GPUs name the same (built in: v100-p3)
 *   data=real|phantom  phantom: copies and workloads move no bytes (real)
 *   ces=N            copy engines, 2..10 (the profile's)
 *   realism=on|off   late, reordered and duplicated fault packets, negative TLB (on)
 *   seed=N           of the generator behind the chances (1)
 */
#include "qemu/osdep.h"
#include "qemu/log.h"
#include "qemu/module.h"
#include "qemu/timer.h"
#include "qemu/units.h"
#include "qemu/host-utils.h"
#include "system/cpu-timers.h"
#include "qapi/error.h"
#include "exec/address-spaces.h"
#include "hw/pci/msix.h"
#include "hw/pci/pci_device.h"
#include "hw/pci/pcie.h"
#include "hw/qdev-properties.h"
#include "migration/vmstate.h"
#include "huvm-model.h"
#include "trace.h"

#define TYPE_HUVM_GPU "huvm-gpu"
OBJECT_DECLARE_SIMPLE_TYPE(HuvmGpu, HUVM_GPU)

#define HUVM_VENDOR      0x1af4
#define HUVM_DEVICE      0x10f7
#define HUVM_CLASS       0x1200
#define HUVM_BAR0_SIZE   (16 * MiB)
#define HUVM_BAR3_SIZE   (32 * MiB)
#define HUVM_BAR5_SIZE   (1 * MiB)
#define HUVM_MSIX_TABLE  0xb90000
#define HUVM_MSIX_PBA    0xba0000
#define HUVM_VECTORS     6
#define HUVM_VSEC_OFFSET 0x100
#define HUVM_VSEC_SIZE   0x20
#define HUVM_FEATURES    0x3f

/* A BAR as the memory callbacks see it. */
typedef struct HuvmBar {
    HuvmGpu *gpu;
    unsigned bar;
} HuvmBar;

/* An aperture into VRAM: either the RAM itself, or the model that walks page tables. */
typedef struct HuvmAperture {
    MemoryRegion container;
    MemoryRegion direct;
    MemoryRegion walked;
} HuvmAperture;

struct HuvmGpu {
    PCIDevice parent_obj;

    MemoryRegion bar0;
    MemoryRegion bar5;
    MemoryRegion vram;
    HuvmAperture bar1;
    HuvmAperture bar3;
    HuvmBar bars[6];
    QEMUTimer *timer;
    int gpu;            /* index in the model, -1: not there */

    int32_t index;
    uint32_t vram_mb;
    uint32_t ces;
    uint32_t seed;
    bool timing;
    bool realism;
    char *profile;
    char *data;
};

static uint64_t huvm_gpu_now_ns(void *opaque)
{
    return qemu_clock_get_ns(QEMU_CLOCK_VIRTUAL);
}

static int huvm_gpu_dma_read(void *opaque, uint64_t addr, void *buf, uint64_t len)
{
    HuvmGpu *s = opaque;

    if (pci_dma_read(&s->parent_obj, addr, buf, len) != MEMTX_OK) {
        trace_huvm_gpu_dma_error(s->gpu, addr, len, 0);
        return -1;
    }
    return 0;
}

static int huvm_gpu_dma_write(void *opaque, uint64_t addr, const void *buf, uint64_t len)
{
    HuvmGpu *s = opaque;

    if (pci_dma_write(&s->parent_obj, addr, buf, len) != MEMTX_OK) {
        trace_huvm_gpu_dma_error(s->gpu, addr, len, 1);
        return -1;
    }
    return 0;
}

static void huvm_gpu_msix(void *opaque, uint32_t vector)
{
    HuvmGpu *s = opaque;

    trace_huvm_gpu_msix(s->gpu, vector);
    if (vector < HUVM_VECTORS && msix_enabled(&s->parent_obj)) {
        msix_notify(&s->parent_obj, vector);
    }
}

static void huvm_gpu_bar_virtual(void *opaque, uint32_t bar, int on)
{
    HuvmGpu *s = opaque;
    HuvmAperture *a = bar == 1 ? &s->bar1 : &s->bar3;

    trace_huvm_gpu_bar_virtual(s->gpu, bar, on);
    memory_region_transaction_begin();
    memory_region_set_enabled(&a->direct, !on);
    memory_region_set_enabled(&a->walked, on);
    memory_region_transaction_commit();
}

static int huvm_gpu_bus_translated(void *opaque)
{
    HuvmGpu *s = opaque;

    return pci_device_iommu_address_space(&s->parent_obj) != &address_space_memory;
}

static void huvm_gpu_guest_error(void *opaque, const char *text, size_t len)
{
    HuvmGpu *s = opaque;

    qemu_log_mask(LOG_GUEST_ERROR, "huvm-gpu %d: %.*s\n", s->gpu, (int)len, text);
}

/*
 * Without -icount the model may have more to do than there is time for, and its timer is due all
 * the time. The timer runs under the big lock, which is not fair: whoever lets go of it and takes
 * it again at once, as the main loop does then, keeps processors that wait for it out for minutes.
 * So the main loop sleeps between two calls, half as long as the call took.
 */
#define HUVM_REST_MIN_NS 20000

static int64_t huvm_gpu_timer_began = -1;   /* host time, ns; -1: not in the timer */

static void huvm_gpu_set_timer(void *opaque, uint64_t deadline_ns)
{
    HuvmGpu *s = opaque;

    if (deadline_ns > INT64_MAX) {
        timer_del(s->timer);
        return;
    }
    if (!icount_enabled()) {
        int64_t now = qemu_clock_get_ns(QEMU_CLOCK_VIRTUAL);
        int64_t rest = HUVM_REST_MIN_NS;

        if (huvm_gpu_timer_began >= 0) {
            rest = MAX(rest, (get_clock() - huvm_gpu_timer_began) / 2);
        } else if (timer_pending(s->timer)) {
            /* An access: what is armed already is not put off, else a guest that polls stops time. */
            deadline_ns = MIN(deadline_ns, timer_expire_time_ns(s->timer));
            rest = 0;
        }
        deadline_ns = MAX(deadline_ns, now + rest);
    }
    timer_mod_ns(s->timer, deadline_ns);
}

static const HuvmHostOps huvm_gpu_host_ops = {
    .now_ns = huvm_gpu_now_ns,
    .dma_read = huvm_gpu_dma_read,
    .dma_write = huvm_gpu_dma_write,
    .msix = huvm_gpu_msix,
    .bar_virtual = huvm_gpu_bar_virtual,
    .bus_translated = huvm_gpu_bus_translated,
    .guest_error = huvm_gpu_guest_error,
    .set_timer = huvm_gpu_set_timer,
};

static void huvm_gpu_timer(void *opaque)
{
    huvm_gpu_timer_began = get_clock();
    huvm_model_timer();
    huvm_gpu_timer_began = -1;
}

static uint64_t huvm_gpu_read(void *opaque, hwaddr addr, unsigned size)
{
    HuvmBar *b = opaque;
    uint64_t value = huvm_model_read(b->gpu->gpu, b->bar, addr, size);

    trace_huvm_gpu_read(b->gpu->gpu, b->bar, addr, size, value);
    return value;
}

static void huvm_gpu_write(void *opaque, hwaddr addr, uint64_t value, unsigned size)
{
    HuvmBar *b = opaque;

    trace_huvm_gpu_write(b->gpu->gpu, b->bar, addr, size, value);
    huvm_model_write(b->gpu->gpu, b->bar, addr, value, size);
}

/*
 * The model sees each access as the guest made it: a register access of a wrong width is a guest
 * error that it counts, and windows into memory take every width.
 */
static const MemoryRegionOps huvm_gpu_ops = {
    .read = huvm_gpu_read,
    .write = huvm_gpu_write,
    .endianness = DEVICE_LITTLE_ENDIAN,
    .valid = { .min_access_size = 1, .max_access_size = 8 },
    .impl = { .min_access_size = 1, .max_access_size = 8 },
};

static void huvm_gpu_init_aperture(HuvmGpu *s, HuvmAperture *a, unsigned bar, const char *name,
                                   uint64_t size, uint64_t vram)
{
    g_autofree char *direct = g_strdup_printf("%s-direct", name);
    g_autofree char *walked = g_strdup_printf("%s-walked", name);

    memory_region_init(&a->container, OBJECT(s), name, size);
    memory_region_init_alias(&a->direct, OBJECT(s), direct, &s->vram, 0, MIN(size, vram));
    memory_region_init_io(&a->walked, OBJECT(s), &huvm_gpu_ops, &s->bars[bar], walked, size);
    memory_region_add_subregion_overlap(&a->container, 0, &a->direct, 0);
    memory_region_add_subregion_overlap(&a->container, 0, &a->walked, 1);
    memory_region_set_enabled(&a->walked, false);
    pci_register_bar(&s->parent_obj, bar,
                     PCI_BASE_ADDRESS_SPACE_MEMORY | PCI_BASE_ADDRESS_MEM_TYPE_64 |
                     PCI_BASE_ADDRESS_MEM_PREFETCH, &a->container);
}

/* The vendor-specific capability that announces BAR5 (device.md section 1). */
static void huvm_gpu_init_vsec(PCIDevice *pdev)
{
    uint8_t *cap = pdev->config + HUVM_VSEC_OFFSET;

    pcie_add_capability(pdev, PCI_EXT_CAP_ID_VNDR, 1, HUVM_VSEC_OFFSET, HUVM_VSEC_SIZE);
    pci_set_long(cap + 0x04, 0x4855 | (1 << 16) | (HUVM_VSEC_SIZE << 20));
    pci_set_long(cap + 0x08, 0x4d565548);
    pci_set_long(cap + 0x0c, 1 | (5 << 16));
    pci_set_long(cap + 0x10, 0);
    pci_set_long(cap + 0x14, HUVM_BAR5_SIZE);
    pci_set_long(cap + 0x18, HUVM_FEATURES);
}

static void huvm_gpu_realize(PCIDevice *pdev, Error **errp)
{
    HuvmGpu *s = HUVM_GPU(pdev);
    HuvmGpuConfig config = {
        .index = s->index,
        .vram_mb = s->vram_mb,
        .ces = s->ces,
        .seed = s->seed,
        .timing = s->timing,
        .realism = s->realism,
        .profile = s->profile,
    };
    uint64_t vram = (uint64_t)s->vram_mb * MiB;
    char err[256];

    s->gpu = -1;
    if (s->vram_mb < 64 || s->vram_mb > 131072) {
        error_setg(errp, "vram-mb must be 64 to 131072");
        return;
    }
    if (s->data && !g_str_equal(s->data, "real") && !g_str_equal(s->data, "phantom")) {
        error_setg(errp, "data must be real or phantom");
        return;
    }
    config.phantom = s->data && g_str_equal(s->data, "phantom");

    for (unsigned i = 0; i < ARRAY_SIZE(s->bars); i++) {
        s->bars[i].gpu = s;
        s->bars[i].bar = i;
    }
    if (!memory_region_init_ram_flags_nomigrate(&s->vram, OBJECT(s), "huvm-vram", vram,
                                                RAM_NORESERVE, errp)) {
        return;
    }
    memory_region_init_io(&s->bar0, OBJECT(s), &huvm_gpu_ops, &s->bars[0], "huvm-bar0",
                          HUVM_BAR0_SIZE);
    memory_region_init_io(&s->bar5, OBJECT(s), &huvm_gpu_ops, &s->bars[5], "huvm-bar5",
                          HUVM_BAR5_SIZE);
    pci_register_bar(pdev, 0, PCI_BASE_ADDRESS_SPACE_MEMORY, &s->bar0);
    huvm_gpu_init_aperture(s, &s->bar1, 1, "huvm-bar1", pow2ceil(vram), vram);
    huvm_gpu_init_aperture(s, &s->bar3, 3, "huvm-bar3", HUVM_BAR3_SIZE, vram);
    pci_register_bar(pdev, 5, PCI_BASE_ADDRESS_SPACE_MEMORY, &s->bar5);

    if (pcie_endpoint_cap_init(pdev, 0) < 0) {
        error_setg(errp, "no room for the PCI Express capability");
        return;
    }
    pcie_cap_flr_init(pdev);
    huvm_gpu_init_vsec(pdev);
    if (msix_init(pdev, HUVM_VECTORS, &s->bar0, 0, HUVM_MSIX_TABLE, &s->bar0, 0, HUVM_MSIX_PBA,
                  0, errp)) {
        pcie_cap_exit(pdev);
        return;
    }
    for (unsigned i = 0; i < HUVM_VECTORS; i++) {
        msix_vector_use(pdev, i);
    }
    s->timer = timer_new_ns(QEMU_CLOCK_VIRTUAL, huvm_gpu_timer, s);
    s->gpu = huvm_model_add(&config, &huvm_gpu_host_ops, s, memory_region_get_ram_ptr(&s->vram),
                            err, sizeof(err));
    if (s->gpu < 0) {
        error_setg(errp, "%s", err);
        timer_free(s->timer);
        msix_uninit(pdev, &s->bar0, &s->bar0);
        pcie_cap_exit(pdev);
        return;
    }
    /* The machine's CPUs are of its profile too (qemu/patches/icount-at-once.patch). */
    icount_set_mips(huvm_model_cpu_mips());
    trace_huvm_gpu_realize(s->gpu, s->vram_mb);
}

static void huvm_gpu_exit(PCIDevice *pdev)
{
    HuvmGpu *s = HUVM_GPU(pdev);

    trace_huvm_gpu_exit(s->gpu);
    huvm_model_remove(s->gpu);
    s->gpu = -1;
    timer_free(s->timer);
    msix_unuse_all_vectors(pdev);
    msix_uninit(pdev, &s->bar0, &s->bar0);
    pcie_cap_exit(pdev);
}

static uint32_t huvm_gpu_read_config(PCIDevice *pdev, uint32_t at, int len)
{
    if (huvm_model_is_gone(HUVM_GPU(pdev)->gpu)) {
        return MAKE_64BIT_MASK(0, 8 * len);
    }
    return pci_default_read_config(pdev, at, len);
}

static void huvm_gpu_write_config(PCIDevice *pdev, uint32_t at, uint32_t value, int len)
{
    if (huvm_model_is_gone(HUVM_GPU(pdev)->gpu)) {
        return;
    }
    pci_default_write_config(pdev, at, value, len);
    pcie_cap_flr_write_config(pdev, at, value, len);
}

static void huvm_gpu_reset_hold(Object *obj, ResetType type)
{
    HuvmGpu *s = HUVM_GPU(obj);

    trace_huvm_gpu_reset(s->gpu);
    huvm_model_reset(s->gpu);
}

static const VMStateDescription huvm_gpu_vmstate = {
    .name = TYPE_HUVM_GPU,
    .unmigratable = 1,
};

static const Property huvm_gpu_properties[] = {
    DEFINE_PROP_INT32("index", HuvmGpu, index, -1),
    DEFINE_PROP_UINT32("vram-mb", HuvmGpu, vram_mb, 256),
    DEFINE_PROP_BOOL("timing", HuvmGpu, timing, true),
    DEFINE_PROP_STRING("profile", HuvmGpu, profile),
    DEFINE_PROP_STRING("data", HuvmGpu, data),
    DEFINE_PROP_UINT32("ces", HuvmGpu, ces, 0),
    DEFINE_PROP_BOOL("realism", HuvmGpu, realism, true),
    DEFINE_PROP_UINT32("seed", HuvmGpu, seed, 1),
};

static void huvm_gpu_class_init(ObjectClass *klass, void *data)
{
    DeviceClass *dc = DEVICE_CLASS(klass);
    PCIDeviceClass *k = PCI_DEVICE_CLASS(klass);
    ResettableClass *rc = RESETTABLE_CLASS(klass);

    k->realize = huvm_gpu_realize;
    k->exit = huvm_gpu_exit;
    k->config_read = huvm_gpu_read_config;
    k->config_write = huvm_gpu_write_config;
    k->vendor_id = HUVM_VENDOR;
    k->device_id = HUVM_DEVICE;
    k->subsystem_vendor_id = HUVM_VENDOR;
    k->subsystem_id = HUVM_DEVICE;
    k->class_id = HUVM_CLASS;
    rc->phases.hold = huvm_gpu_reset_hold;
    dc->desc = "huvm emulated GPU";
    dc->vmsd = &huvm_gpu_vmstate;
    device_class_set_props(dc, huvm_gpu_properties);
    set_bit(DEVICE_CATEGORY_MISC, dc->categories);
}

static const TypeInfo huvm_gpu_info = {
    .name = TYPE_HUVM_GPU,
    .parent = TYPE_PCI_DEVICE,
    .instance_size = sizeof(HuvmGpu),
    .class_init = huvm_gpu_class_init,
    .interfaces = (InterfaceInfo[]) {
        { INTERFACE_PCIE_DEVICE },
        { },
    },
};

static void huvm_gpu_register(void)
{
    type_register_static(&huvm_gpu_info);
}
type_init(huvm_gpu_register)
