/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Kernel facilities that are inline functions or macros, as functions that Rust can call.
 *
 * No function here decides anything: each is the facility that its comment names.
 */
#ifndef _HUVM_SHIM_H
#define _HUVM_SHIM_H

#include <linux/delay.h>
#include <linux/dma-mapping.h>
#include <linux/fs.h>
#include <linux/gfp.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/pci.h>
#include <linux/poll.h>
#include <linux/rwsem.h>
#include <linux/wait.h>

/* A 2 MiB or 64 KiB piece: taken if it is there, never fought for. */
static const gfp_t HUVM_GFP_LARGE = GFP_KERNEL_ACCOUNT | __GFP_COMP | __GFP_NORETRY | __GFP_NOWARN;
/* The same where reclaim would put the thread to sleep for what its client has too much of. */
static const gfp_t HUVM_GFP_LARGE_AT_ONCE =
	(GFP_KERNEL_ACCOUNT & ~__GFP_DIRECT_RECLAIM) | __GFP_COMP | __GFP_NORETRY | __GFP_NOWARN;
/* A 4 KiB page, the last resort, and records of a client: reclaim may work for it, but the OOM killer stays out. */
static const gfp_t HUVM_GFP_SMALL = GFP_KERNEL_ACCOUNT | __GFP_RETRY_MAYFAIL | __GFP_NOWARN;
/* Records that an open needs, which has the kernel's lock of all misc devices: reclaim works for it once, not over and over. */
static const gfp_t HUVM_GFP_OPEN = GFP_KERNEL_ACCOUNT | __GFP_NORETRY | __GFP_NOWARN;
/* The driver's own lists, which grow there. */
static const gfp_t HUVM_GFP_LIST = GFP_KERNEL | __GFP_NORETRY | __GFP_NOWARN;
/* Records of what is left when a client gives a part back: also beyond its limit. */
static const gfp_t HUVM_GFP_LEFT = GFP_KERNEL_ACCOUNT | __GFP_NORETRY | __GFP_NOWARN | __GFP_HIGH;

/* Coherent buffers: the driver's own, and those of a client. */
static const gfp_t HUVM_GFP_DMA = GFP_KERNEL | __GFP_NOWARN;
static const gfp_t HUVM_GFP_DMA_CHARGED = GFP_KERNEL_ACCOUNT | __GFP_RETRY_MAYFAIL | __GFP_NOWARN;

/* alloc_pages, __free_pages, page_to_pfn, page_address */
struct page *huvm_alloc_pages(gfp_t gfp, unsigned int order);
void huvm_free_pages(struct page *page, unsigned int order);
unsigned long huvm_page_to_pfn(struct page *page);
void *huvm_page_address(struct page *page);

/* get_mem_cgroup_from_mm(current->mm), mem_cgroup_put, set_active_memcg (returns the one before); whether any up to the root has
 * memory.max, and memory.high or memory.swap.high. NULL, and none, without memory cgroups. */
void *huvm_memcg_of_current(void);
void huvm_memcg_put(void *memcg);
void *huvm_memcg_enter(void *memcg);
#define HUVM_MEMCG_MAX 1
#define HUVM_MEMCG_HIGH 2
unsigned int huvm_memcg_limits(void *memcg);
/* root_mem_cgroup: what is charged to it is charged to nobody */
void *huvm_memcg_root(void);
/* current->active_memcg; current->memcg_nr_pages_over_high, which is 0 then; adds to that, in a kernel thread makes it 0 */
void *huvm_memcg_active(void);
unsigned int huvm_memcg_take_high(void);
void huvm_memcg_add_high(unsigned int pages);

/* dma_map_page, dma_unmap_page, dma_mapping_error, always bidirectional; dma_need_sync, but not for the sake of CONFIG_DMA_API_DEBUG */
dma_addr_t huvm_dma_map(struct device *dev, struct page *page, size_t len);
void huvm_dma_unmap(struct device *dev, dma_addr_t addr, size_t len);
int huvm_dma_mapping_error(struct device *dev, dma_addr_t addr);
bool huvm_dma_is_apart(struct device *dev, dma_addr_t addr);
/* dma_set_max_seg_size, dma_set_mask, dma_set_coherent_mask */
int huvm_dma_set_masks(struct device *dev, unsigned int bits, unsigned int coherent_bits,
		       unsigned int max_segment);

/* readl, writel, wmb, rmb, ioremap_wc, iounmap */
u32 huvm_readl(const void __iomem *at);
void huvm_writel(u32 value, void __iomem *at);
void huvm_wmb(void);
void huvm_rmb(void);
void __iomem *huvm_ioremap_wc(phys_addr_t at, size_t len);
void huvm_memcpy_fromio(void *to, const void __iomem *from, size_t len);
void huvm_iounmap(void __iomem *at);

/* An interrupt and a timer that puts it on again. new: kmalloc, NULL without memory. off: disable_irq_nosync, mod_timer; any context.
 * end: timer_shutdown_sync; from there on it stays as it is. free: kfree. */
struct huvm_irq_line;
struct huvm_irq_line *huvm_irq_line_new(unsigned int irq);
void huvm_irq_line_off(struct huvm_irq_line *line, u64 ns);
void huvm_irq_line_end(struct huvm_irq_line *line);
void huvm_irq_line_free(struct huvm_irq_line *line);

/* pci_name, pci_resource_flags */
const char *huvm_pci_name(struct pci_dev *pdev);
bool huvm_pci_bar_is_memory(struct pci_dev *pdev, unsigned int bar);

/* vm_flags_set, vm_flags_clear(VM_MAYEXEC) and the fields of a VMA */
#define HUVM_VM_FLAGS (VM_PFNMAP | VM_IO | VM_DONTEXPAND | VM_DONTCOPY | VM_DONTDUMP)
void huvm_vma_adopt(struct vm_area_struct *vma, const struct vm_operations_struct *ops,
		    void *private);
unsigned long huvm_vma_start(const struct vm_area_struct *vma);
unsigned long huvm_vma_end(const struct vm_area_struct *vma);
unsigned long huvm_vma_pgoff(const struct vm_area_struct *vma);
void *huvm_vma_private(const struct vm_area_struct *vma);
void huvm_vma_set_private(struct vm_area_struct *vma, void *private);
/* VM_SHARED, VM_WRITE, VM_EXEC of a VMA as bits 0, 1, 2 */
unsigned int huvm_vma_kind(const struct vm_area_struct *vma);

/* vmf_insert_pfn_prot with the protection of a shared writable mapping, or vmf_insert_pfn */
vm_fault_t huvm_insert_pfn(struct vm_area_struct *vma, unsigned long addr, unsigned long pfn,
			   bool writable);
enum huvm_pmd {
	HUVM_PMD_NONE,		/* nothing there */
	HUVM_PMD_SAME,		/* a 2 MiB entry for this pfn */
	HUVM_PMD_OTHER,		/* a 2 MiB entry for another pfn */
	HUVM_PMD_TABLE,		/* a page table */
};
/* pmd_none, pmd_leaf, pmd_pfn of the entry that a huge fault is about */
enum huvm_pmd huvm_pmd_state(struct vm_fault *vmf, unsigned long pfn);
struct vm_area_struct *huvm_vmf_vma(const struct vm_fault *vmf);
unsigned long huvm_vmf_address(const struct vm_fault *vmf);
bool huvm_vmf_write(const struct vm_fault *vmf);

/* address_space_init_once and the fields that an inode's own mapping has set */
void huvm_mapping_init(struct address_space *mapping, struct inode *host);
bool huvm_mapping_mapped(struct address_space *mapping);

/* wait_event_timeout, _idle_timeout, _killable_timeout, _interruptible_timeout with a callback as condition */
typedef bool (*huvm_cond_t)(void *arg);
long huvm_wait(struct wait_queue_head *wq, huvm_cond_t cond, void *arg, long jiffies);
long huvm_wait_idle(struct wait_queue_head *wq, huvm_cond_t cond, void *arg, long jiffies);
long huvm_wait_killable(struct wait_queue_head *wq, huvm_cond_t cond, void *arg, long jiffies);
long huvm_wait_interruptible(struct wait_queue_head *wq, huvm_cond_t cond, void *arg,
			     long jiffies);
void huvm_wake_up_all(struct wait_queue_head *wq);
void huvm_poll_wait(struct file *file, struct wait_queue_head *wq, struct poll_table_struct *pt);
/* nsecs_to_jiffies, rounded up, below MAX_SCHEDULE_TIMEOUT */
long huvm_ns_to_jiffies(u64 ns);

/* ktime_get_ns, usleep_range, cpu_relax, cond_resched */
u64 huvm_now_ns(void);
void huvm_sleep_us(unsigned long us);
void huvm_relax(void);
void huvm_cond_resched(void);

/* current: mm (may be NULL), tgid, comm, uid in the initial namespace, fatal_signal_pending, signal_pending */
struct mm_struct *huvm_current_mm(void);
void huvm_mmgrab(struct mm_struct *mm);
void huvm_mmdrop(struct mm_struct *mm);
/* mm_users is 0 */
bool huvm_mm_is_over(struct mm_struct *mm);
u32 huvm_current_tgid(void);
u32 huvm_current_uid(void);
void huvm_current_comm(char *to, size_t len);
bool huvm_fatal_signal_pending(void);
bool huvm_signal_pending(void);
bool huvm_capable_admin(void);
/* The same, and nobody is told that it was asked: nothing is refused for it. */
bool huvm_is_admin(void);

/* get_task_struct, put_task_struct, for a thread that may end before it is joined */
void huvm_get_task(struct task_struct *task);
void huvm_put_task(struct task_struct *task);

/* kthread_create(fn, data, "%s", name); kthread_should_stop, false in a thread of a process */
struct task_struct *huvm_kthread_create(int (*fn)(void *data), void *data, const char *name);
bool huvm_kthread_should_stop(void);
bool huvm_is_kthread(void);

/* DEFINE_MUTEX */
extern struct mutex huvm_lock_gpus, huvm_lock_channels, huvm_lock_spaces, huvm_lock_poison, huvm_lock_other;

/* dev_name */
const char *huvm_dev_name(const struct device *dev);
/* sysfs_create_group, or sysfs_remove_group if the group is there */
int huvm_sysfs_folder(struct device *dev, const struct attribute_group *group, bool there);

/* debugfs_create_dir in the root, debugfs_create_file (mode 0400, no data; dir may be an error), debugfs_remove */
struct dentry *huvm_debugfs_dir(const char *name);
void huvm_debugfs_file(const char *name, struct dentry *dir, const struct file_operations *fops);
void huvm_debugfs_remove(struct dentry *dir);

/* check_zeroed_user */
int huvm_check_zeroed_user(const void __user *from, size_t len);

#endif /* _HUVM_SHIM_H */
