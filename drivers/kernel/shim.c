// SPDX-License-Identifier: GPL-2.0
/*
 * See shim.h. No logic here.
 */
#include <linux/capability.h>
#include <linux/cred.h>
#include <linux/debugfs.h>
#include <linux/interrupt.h>
#include <linux/io.h>
#include <linux/jiffies.h>
#include <linux/kthread.h>
#include <linux/memcontrol.h>
#include <linux/pagemap.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/sched/task.h>
#include <linux/slab.h>
#include <linux/sysfs.h>
#include <linux/timer.h>
#include <linux/uaccess.h>

#include "shim.h"

DEFINE_MUTEX(huvm_lock_gpus);
DEFINE_MUTEX(huvm_lock_channels);
DEFINE_MUTEX(huvm_lock_spaces);
DEFINE_MUTEX(huvm_lock_poison);
DEFINE_MUTEX(huvm_lock_other);

struct page *huvm_alloc_pages(gfp_t gfp, unsigned int order)
{
	return alloc_pages(gfp, order);
}

void huvm_free_pages(struct page *page, unsigned int order)
{
	__free_pages(page, order);
}

void *huvm_memcg_of_current(void)
{
	return get_mem_cgroup_from_mm(current->mm);
}

void huvm_memcg_put(void *memcg)
{
	mem_cgroup_put(memcg);
}

void *huvm_memcg_enter(void *memcg)
{
	return set_active_memcg(memcg);
}

unsigned int huvm_memcg_limits(void *memcg)
{
	unsigned int limits = 0;

#ifdef CONFIG_MEMCG
	for (struct mem_cgroup *m = memcg; m; m = parent_mem_cgroup(m)) {
		if (READ_ONCE(m->memory.max) != PAGE_COUNTER_MAX)
			limits |= HUVM_MEMCG_MAX;
		if (READ_ONCE(m->memory.high) != PAGE_COUNTER_MAX ||
		    READ_ONCE(m->swap.high) != PAGE_COUNTER_MAX)
			limits |= HUVM_MEMCG_HIGH;
	}
#endif
	return limits;
}

void *huvm_memcg_root(void)
{
	return root_mem_cgroup;
}

void *huvm_memcg_active(void)
{
#ifdef CONFIG_MEMCG
	return current->active_memcg;
#else
	return NULL;
#endif
}

unsigned int huvm_memcg_take_high(void)
{
	unsigned int pages = 0;

#ifdef CONFIG_MEMCG
	swap(pages, current->memcg_nr_pages_over_high);
#endif
	return pages;
}

void huvm_memcg_add_high(unsigned int pages)
{
#ifdef CONFIG_MEMCG
	if (current->flags & PF_KTHREAD)
		current->memcg_nr_pages_over_high = 0;
	else
		current->memcg_nr_pages_over_high += pages;
#endif
}

unsigned long huvm_page_to_pfn(struct page *page)
{
	return page_to_pfn(page);
}

void *huvm_page_address(struct page *page)
{
	return page_address(page);
}

dma_addr_t huvm_dma_map(struct device *dev, struct page *page, size_t len)
{
	return dma_map_page(dev, page, 0, len, DMA_BIDIRECTIONAL);
}

void huvm_dma_unmap(struct device *dev, dma_addr_t addr, size_t len)
{
	dma_unmap_page(dev, addr, len, DMA_BIDIRECTIONAL);
}

int huvm_dma_mapping_error(struct device *dev, dma_addr_t addr)
{
	return dma_mapping_error(dev, addr);
}

bool huvm_dma_is_apart(struct device *dev, dma_addr_t addr)
{
	/* With its checker on, the kernel wants to be asked to sync always: its own mark says whether that does anything. */
	return !dev_dma_skip_sync(dev) && dma_need_sync(dev, addr);
}

int huvm_dma_set_masks(struct device *dev, unsigned int bits, unsigned int coherent_bits,
		       unsigned int max_segment)
{
	dma_set_max_seg_size(dev, max_segment);
	return dma_set_mask(dev, DMA_BIT_MASK(bits)) ?:
	       dma_set_coherent_mask(dev, DMA_BIT_MASK(coherent_bits));
}

u32 huvm_readl(const void __iomem *at)
{
	return readl(at);
}

void huvm_writel(u32 value, void __iomem *at)
{
	writel(value, at);
}

void huvm_wmb(void)
{
	wmb();
}

void huvm_rmb(void)
{
	rmb();
}

void __iomem *huvm_ioremap_wc(phys_addr_t at, size_t len)
{
	return ioremap_wc(at, len);
}

void huvm_memcpy_fromio(void *to, const void __iomem *from, size_t len)
{
	memcpy_fromio(to, from, len);
}

void huvm_iounmap(void __iomem *at)
{
	iounmap(at);
}

const char *huvm_pci_name(struct pci_dev *pdev)
{
	return pci_name(pdev);
}

bool huvm_pci_bar_is_memory(struct pci_dev *pdev, unsigned int bar)
{
	return bar < PCI_STD_NUM_BARS && pci_resource_flags(pdev, bar) & IORESOURCE_MEM;
}

void huvm_vma_adopt(struct vm_area_struct *vma, const struct vm_operations_struct *ops,
		    void *private)
{
	vma->vm_ops = ops;
	vma->vm_private_data = private;
	/* File offset == address, so that one file's address_space names each page once. */
	vma->vm_pgoff = vma->vm_start >> PAGE_SHIFT;
	vm_flags_mod(vma, HUVM_VM_FLAGS, VM_MAYEXEC);
}

unsigned long huvm_vma_start(const struct vm_area_struct *vma)
{
	return vma->vm_start;
}

unsigned long huvm_vma_end(const struct vm_area_struct *vma)
{
	return vma->vm_end;
}

unsigned long huvm_vma_pgoff(const struct vm_area_struct *vma)
{
	return vma->vm_pgoff;
}

void *huvm_vma_private(const struct vm_area_struct *vma)
{
	return vma->vm_private_data;
}

void huvm_vma_set_private(struct vm_area_struct *vma, void *private)
{
	vma->vm_private_data = private;
}

unsigned int huvm_vma_kind(const struct vm_area_struct *vma)
{
	return (vma->vm_flags & VM_SHARED ? 1 : 0) | (vma->vm_flags & VM_WRITE ? 2 : 0) |
	       (vma->vm_flags & VM_EXEC ? 4 : 0);
}

vm_fault_t huvm_insert_pfn(struct vm_area_struct *vma, unsigned long addr, unsigned long pfn,
			   bool writable)
{
	/*
	 * With pfn_mkwrite set, vm_page_prot has no write permission (vma_wants_writenotify), so
	 * plain vmf_insert_pfn maps read-only.
	 */
	if (!writable)
		return vmf_insert_pfn(vma, addr, pfn);
	return vmf_insert_pfn_prot(vma, addr, pfn, vm_get_page_prot(vma->vm_flags));
}

enum huvm_pmd huvm_pmd_state(struct vm_fault *vmf, unsigned long pfn)
{
	pmd_t pmd = pmdp_get_lockless(vmf->pmd);

	if (pmd_none(pmd))
		return HUVM_PMD_NONE;
	if (!pmd_leaf(pmd))
		return HUVM_PMD_TABLE;
	return pmd_pfn(pmd) == pfn ? HUVM_PMD_SAME : HUVM_PMD_OTHER;
}

struct vm_area_struct *huvm_vmf_vma(const struct vm_fault *vmf)
{
	return vmf->vma;
}

unsigned long huvm_vmf_address(const struct vm_fault *vmf)
{
	return vmf->address;
}

bool huvm_vmf_write(const struct vm_fault *vmf)
{
	return vmf->flags & FAULT_FLAG_WRITE;
}

static const struct address_space_operations huvm_no_aops = {};

void huvm_mapping_init(struct address_space *mapping, struct inode *host)
{
	address_space_init_once(mapping);
	init_rwsem(&mapping->invalidate_lock);
	mapping->host = host;
	mapping->a_ops = &huvm_no_aops;
	mapping_set_gfp_mask(mapping, GFP_HIGHUSER);
}

bool huvm_mapping_mapped(struct address_space *mapping)
{
	return mapping_mapped(mapping);
}

long huvm_wait(struct wait_queue_head *wq, huvm_cond_t cond, void *arg, long jiffies)
{
	return wait_event_timeout(*wq, cond(arg), jiffies);
}

long huvm_wait_idle(struct wait_queue_head *wq, huvm_cond_t cond, void *arg, long jiffies)
{
	return wait_event_idle_timeout(*wq, cond(arg), jiffies);
}

long huvm_wait_killable(struct wait_queue_head *wq, huvm_cond_t cond, void *arg, long jiffies)
{
	return wait_event_killable_timeout(*wq, cond(arg), jiffies);
}

long huvm_wait_interruptible(struct wait_queue_head *wq, huvm_cond_t cond, void *arg,
			     long jiffies)
{
	return wait_event_interruptible_timeout(*wq, cond(arg), jiffies);
}

void huvm_wake_up_all(struct wait_queue_head *wq)
{
	wake_up_all(wq);
}

void huvm_poll_wait(struct file *file, struct wait_queue_head *wq, struct poll_table_struct *pt)
{
	poll_wait(file, wq, pt);
}

long huvm_ns_to_jiffies(u64 ns)
{
	/* nsecs_to_jiffies64 rounds down. */
	u64 j = nsecs_to_jiffies64(ns) + 1;

	return min_t(u64, j, MAX_SCHEDULE_TIMEOUT - 1);
}

u64 huvm_now_ns(void)
{
	return ktime_get_ns();
}

struct huvm_irq_line {
	unsigned int irq;
	struct timer_list timer;
};

static void huvm_irq_line_on(struct timer_list *timer)
{
	enable_irq(container_of(timer, struct huvm_irq_line, timer)->irq);
}

struct huvm_irq_line *huvm_irq_line_new(unsigned int irq)
{
	struct huvm_irq_line *line = kmalloc(sizeof(*line), GFP_KERNEL);

	if (line) {
		line->irq = irq;
		timer_setup(&line->timer, huvm_irq_line_on, 0);
	}
	return line;
}

void huvm_irq_line_off(struct huvm_irq_line *line, u64 ns)
{
	disable_irq_nosync(line->irq);
	mod_timer(&line->timer, jiffies + nsecs_to_jiffies(ns) + 1);
}

void huvm_irq_line_end(struct huvm_irq_line *line)
{
	timer_shutdown_sync(&line->timer);
}

void huvm_irq_line_free(struct huvm_irq_line *line)
{
	kfree(line);
}

void huvm_sleep_us(unsigned long us)
{
	usleep_range(us, us + us / 4);
}

void huvm_relax(void)
{
	cpu_relax();
}

void huvm_cond_resched(void)
{
	cond_resched();
}

struct mm_struct *huvm_current_mm(void)
{
	return current->mm;
}

void huvm_mmgrab(struct mm_struct *mm)
{
	mmgrab(mm);
}

void huvm_mmdrop(struct mm_struct *mm)
{
	mmdrop(mm);
}

bool huvm_mm_is_over(struct mm_struct *mm)
{
	return !atomic_read(&mm->mm_users);
}

u32 huvm_current_tgid(void)
{
	return task_tgid_nr(current);
}

u32 huvm_current_uid(void)
{
	return from_kuid_munged(&init_user_ns, current_uid());
}

void huvm_current_comm(char *to, size_t len)
{
	strscpy_pad(to, current->group_leader->comm, len);
}

bool huvm_fatal_signal_pending(void)
{
	return fatal_signal_pending(current);
}

bool huvm_signal_pending(void)
{
	return signal_pending(current);
}

bool huvm_capable_admin(void)
{
	return capable(CAP_SYS_ADMIN);
}

bool huvm_is_admin(void)
{
	return capable_noaudit(CAP_SYS_ADMIN);
}

void huvm_get_task(struct task_struct *task)
{
	get_task_struct(task);
}

void huvm_put_task(struct task_struct *task)
{
	put_task_struct(task);
}

struct task_struct *huvm_kthread_create(int (*fn)(void *data), void *data, const char *name)
{
	return kthread_create(fn, data, "%s", name);
}

bool huvm_kthread_should_stop(void)
{
	return (current->flags & PF_KTHREAD) && kthread_should_stop();
}

bool huvm_is_kthread(void)
{
	return current->flags & PF_KTHREAD;
}

const char *huvm_dev_name(const struct device *dev)
{
	return dev_name(dev);
}

int huvm_sysfs_folder(struct device *dev, const struct attribute_group *group, bool there)
{
	struct kernfs_node *folder;

	if (there)
		return sysfs_create_group(&dev->kobj, group);
	/* Removing what could not be created would warn. */
	folder = sysfs_get_dirent(dev->kobj.sd, group->name);
	if (folder) {
		sysfs_put(folder);
		sysfs_remove_group(&dev->kobj, group);
	}
	return 0;
}

struct dentry *huvm_debugfs_dir(const char *name)
{
	return debugfs_create_dir(name, NULL);
}

void huvm_debugfs_file(const char *name, struct dentry *dir, const struct file_operations *fops)
{
	debugfs_create_file(name, 0400, dir, NULL, fops);
}

void huvm_debugfs_remove(struct dentry *dir)
{
	debugfs_remove(dir);
}

int huvm_check_zeroed_user(const void __user *from, size_t len)
{
	return check_zeroed_user(from, len);
}
