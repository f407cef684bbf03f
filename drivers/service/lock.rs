// SPDX-License-Identifier: GPL-2.0
//! The lock order, outermost first. lockdep checks it on the debug kernel.
//!
//! | # | lock | held over | may sleep |
//! | --- | --- | --- | --- |
//! | 0 | a GPU's self tests (`Gpu::selftest`) | one test, which takes any of the others | yes |
//! | 1 | `mmap_lock` or VMA lock (kernel's) | CPU faults, mmap, munmap | yes |
//! | 2a | a GPU's launch descriptors (`launch::Slots::buffers`) | starting or stopping one launch | yes |
//! | 3 | `Space::gpus` | looking up; putting a GPU in, and the space among its clients (10) | yes |
//! | 4 | `Space::layout` | looking up and making a block, ranges | yes |
//! | 5 | `Block` | changing one block; **never a wait for DMA on the usual road** ([`Block::settled`]) | yes |
//! | 6 | `SpaceGpu::tree` | changing page tables; making directories, and the invalidate (6a) that tells of them | yes |
//! | 6a | a GPU's commands (`Gpu::commands`) | one invalidate or replay until it is acknowledged: 2 s at most, then the GPU is lost, which may take a second | yes |
//! | 6b | what a GPU says of its memory (`Gpu::reports`) | taking it, and noting it (8) | yes |
//! | 7 | `i_mmap_rwsem` (kernel's) | taking CPU mappings away, under 5 | yes |
//! | 8 | `ChunkPool`, `HostPool` | O(1), adding | yes |
//! | 8a | a GPU's DMA mappings (`DmaDev::open`) | making or removing one; for writing, their end | yes |
//! | 9 | channel; what its copies stand on (`channel::Pool::space`); its restarts | building and submitting one push; mapping one buffer; one restart | yes |
//! | 9a | a GPU's peer names (`Gpu::naming`) | giving or taking one id | yes |
//! | 10 | registries of GPUs (asked under 5 for lenders) and spaces (walked under 5: the listeners to all events), clients, policies, streams and queue of prefetch, pages that failed (`channel::poison`) | looking up, adding; nothing but 11 under them | yes |
//! | 11 | leaves: event rings, channels' semaphores, a copy engine's last fault, launch tables, spare cursor, thrashing window, wait queues | O(1) | no |
//!
//! Rules beside the order:
//! - Two blocks are never locked at once. Who needs room while serving a block lets go of it, evicts
//!   ([`super::evict::make_room`]), and starts the block again with the chunk in hand, a bounded number of times.
//! - The rescue threads of a GPU ([`super::rescue`]), while others wait for a channel that was given up, and may hold any lock
//!   over that, only try locks of blocks, and only of those that may have sent what they gave away. Who holds the lock of one and
//!   waits for the channel lets go ([`Block::settled`], by `channel::wait_holding`). Beside that they wait for copies to the host.
//! - Who finds out that a GPU does not do as told ([`Gpu::mark_lost`](crate::device::Gpu)) may hold any lock but 8 and 10, and takes
//!   `ChunkPool` of each neighbour for O(chunks), once. Nothing is submitted under 8, so under 9 that is in order too.
//! - The fault service thread takes no `mmap_lock`, so a CPU fault that waits for a copy never waits for it.
//! - Memory reclaim calls nothing here but the shrinker of `HostPool`, which only tries its lock; so allocating under 5 to 9
//!   is safe.
//!
//! [`Block::settled`]: crate::memory::block::Block::settled
