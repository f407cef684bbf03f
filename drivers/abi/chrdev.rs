// SPDX-License-Identifier: GPL-2.0
//! `/dev/huvm`: open, mmap, read, poll, fdinfo, and the faults of its mappings.

use crate::kernel::ffi::uapi;
use crate::kernel::file::{FileHandler, Mapping};
use crate::kernel::user;
use crate::kernel::vma::{Inserter, NewVma, Outcome, VmHandler};
use crate::kernel::wait::{WaitQueue, FOREVER};
use crate::memory::space::Space;
use crate::service::cpu_fault;
use core::mem::size_of;
use kernel::prelude::*;
use kernel::seq_file::SeqFile;
use kernel::seq_print;
use kernel::sync::Arc;

/// poll(2) says: a read would return at once.
const POLLIN: u32 = 0x1 | 0x40;
/// poll(2) says: nothing more comes.
const POLLHUP: u32 = 0x10;

impl FileHandler for Space {
    fn open(mapping: Mapping) -> Result<Arc<Self>> {
        Space::create(mapping)
    }

    fn release(this: Arc<Self>) {
        this.close();
    }

    fn mmap(this: &Arc<Self>, vma: &mut NewVma<'_>) -> Result {
        let (start, end) = (vma.start(), vma.end());
        if !this.is_owner() {
            return Err(EPERM);
        }
        let writable = vma.is_writable();
        let fit = vma.check()?;
        this.add_range(start, end, writable)?;
        // Last: nobody closes a VMA whose mmap failed.
        fit.install(this.clone());
        Ok(())
    }

    fn ioctl(this: &Arc<Self>, cmd: u32, arg: usize) -> Result<isize> {
        super::ioctl::dispatch(this, cmd, arg).map(|()| 0)
    }

    fn read(this: &Arc<Self>, to: u64, len: usize, nonblock: bool) -> Result<usize> {
        let record = size_of::<uapi::huvm_event>();
        if len < record || !this.events.is_on() {
            return Err(EINVAL);
        }
        let mut done = 0;
        while len - done >= record {
            match this.events.oldest() {
                Some(e) => {
                    // A record that does not reach the reader stays; one that another reader took is written over.
                    let at = to.checked_add(done as u64).ok_or(EFAULT)?;
                    match user::write_slice(at, &[e]) {
                        Ok(()) if this.events.take(e.seq) => done += record,
                        Ok(()) => {}
                        Err(_) if done != 0 => break,
                        Err(e) => return Err(e),
                    }
                }
                None if done != 0 => break,
                None if nonblock => return Err(EAGAIN),
                None => {
                    this.events.wait_queue().wait_interruptible(FOREVER, || {
                        this.events.has_some() || !this.events.is_on()
                    })?;
                    if !this.events.is_on() {
                        break;
                    }
                }
            }
        }
        Ok(done)
    }

    fn wait_queue(&self) -> &WaitQueue {
        self.events.wait_queue()
    }

    fn ready(&self) -> u32 {
        if self.events.has_some() {
            POLLIN
        } else if self.events.has_ended() {
            // Who sleeps in poll when another thread turns the stream off; read says so at once, too.
            POLLIN | POLLHUP
        } else {
            0
        }
    }

    fn show_fdinfo(this: &Arc<Self>, m: &SeqFile) {
        let u = this.usage();
        seq_print!(m, "huvm-client:\t{}\n", this.id());
        seq_print!(m, "huvm-managed:\t{} KiB\n", u.managed_bytes >> 10);
        seq_print!(m, "huvm-host:\t{} KiB\n", u.host_bytes >> 10);
        for (i, bytes) in u.gpu_bytes.iter().enumerate() {
            if u.gpu_mask & (1 << i) != 0 {
                seq_print!(m, "huvm-gpu{}:\t{} KiB\n", i, bytes >> 10);
            }
        }
    }
}

impl VmHandler for Space {
    fn fault(this: &Arc<Self>, va: u64, write: bool, ins: &mut Inserter<'_>) -> Outcome {
        cpu_fault::page(this, va, write, ins)
    }

    fn huge_fault(this: &Arc<Self>, va: u64, write: bool, ins: &mut Inserter<'_>) -> Outcome {
        cpu_fault::huge(this, va, write, ins)
    }

    fn closed(this: &Arc<Self>, start: u64, end: u64) {
        this.remove_range(start, end);
    }

    fn access(this: &Arc<Self>, va: u64, buf: &mut [u8], write: bool) -> Result<usize> {
        cpu_fault::access(this, va, buf, write)
    }
}
