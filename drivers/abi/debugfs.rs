// SPDX-License-Identifier: GPL-2.0
//! `/sys/kernel/debug/huvm`: `spaces`, `blocks`, `chunks`, `waits`, for people who look for a bug. Text, bounded, no promise of
//! stability; programs read the calls of `uapi/huvm.h`.

use crate::account::waits;
use crate::device::registry;
use crate::kernel::debugfs::{Folder, Text};
use crate::memory::block::Block;
use crate::memory::{registry as spaces, BLOCK_BYTES};
use huvm_policy::chunk::{ChunkState, ALL_STATES};
use kernel::fmt;
use kernel::prelude::*;

/// Blocks that one reading shows.
const BLOCKS_MAX: u32 = 1024;
/// Victims that one reading shows per GPU.
const VICTIMS_MAX: usize = 16;

/// The folder and its files, until dropped.
pub(crate) struct Views(#[expect(dead_code, reason = "dropped")] Folder);

impl Views {
    /// Makes them. Without debugfs there are none, which is no error.
    pub(crate) fn new() -> Views {
        Views(
            Folder::new(c"huvm")
                .with::<Spaces>()
                .with::<Blocks>()
                .with::<Chunks>()
                .with::<Waits>(),
        )
    }
}

/// Makes a file of a name and the function that writes it.
macro_rules! view {
    ($view:ident, $name:literal, $show:path) => {
        struct $view;

        impl Text for $view {
            const NAME: &'static CStr = $name;

            fn show(f: &mut fmt::Formatter<'_>) -> fmt::Result {
                $show(f)
            }
        }
    };
}

view!(Spaces, c"spaces", show_spaces);
view!(Blocks, c"blocks", show_blocks);
view!(Chunks, c"chunks", show_chunks);
view!(Waits, c"waits", waits::show);

fn show_spaces(f: &mut fmt::Formatter<'_>) -> fmt::Result {
    writeln!(
        f,
        "id pid gpu_mask managed_kib host_kib gpu_kib streams advised:abandoned:useful:late:wasted"
    )?;
    let mut id = 0;
    while let Some(space) = spaces::next_space(id) {
        let u = space.usage();
        let c = space.streams.counts();
        writeln!(
            f,
            "{} {} {:#x} {} {} {} {} {}:{}:{}:{}:{}",
            space.id(),
            space.pid(),
            u.gpu_mask,
            u.managed_bytes >> 10,
            u.host_bytes >> 10,
            u.gpu_bytes.iter().sum::<u64>() >> 10,
            c.streams,
            c.advised,
            c.abandoned,
            c.useful,
            c.late,
            c.wasted
        )?;
        id = space.id().saturating_add(1);
    }
    Ok(())
}

fn show_blocks(f: &mut fmt::Formatter<'_>) -> fmt::Result {
    writeln!(
        f,
        "space va managed host cpu_mapped lost flight gpu:chunk:valid:mapped spare:gpu:chunk:valid"
    )?;
    let mut left = BLOCKS_MAX;
    let mut id = 0;
    while let Some(space) = spaces::next_space(id) {
        let mut at = 0;
        while let Some(block) = space.next_block(at) {
            if left == 0 {
                return writeln!(f, "(more)");
            }
            left -= 1;
            show_block(space.id(), &block, f)?;
            at = block.va().saturating_add(BLOCK_BYTES);
        }
        id = space.id().saturating_add(1);
    }
    Ok(())
}

fn show_block(space: u64, block: &Block, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let s = block.lock();
    write!(
        f,
        "{} {:#x} {} {} {} {} {}",
        space,
        block.va(),
        s.managed.count().get(),
        s.host_valid.count().get(),
        s.cpu_mapped.count().get(),
        s.lost.count().get(),
        if s.inflight.is_some() { "copying" } else { "-" }
    )?;
    for p in s.parts.iter() {
        write!(f, " {}:", p.gpu())?;
        match p.chunk {
            Some(c) => write!(f, "{}", c.0)?,
            None => write!(f, "-")?,
        }
        write!(f, ":{}:{}", p.valid.count().get(), p.mapped.count().get())?;
    }
    if let Some(s) = s.spare.as_ref() {
        let (gpu, n) = (s.gpu.index(), s.valid.count().get());
        write!(f, " spare:{}:{}:{}", gpu, s.chunk.0, n)?;
    }
    writeln!(f)
}

fn show_chunks(f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let Ok(gpus) = registry::snapshot() else {
        return writeln!(f, "(no memory)");
    };
    for gpu in gpus.iter() {
        let mut n = [0; ALL_STATES.len()];
        gpu.chunks().counts(&ALL_STATES, &mut n);
        write!(f, "gpu {} chunks {}:", gpu.index(), gpu.chunks().count())?;
        for (state, n) in ALL_STATES.iter().zip(n).filter(|(_, n)| *n != 0) {
            write!(f, " {} {}", n, name(*state))?;
        }
        writeln!(f)?;
        for (to, n) in gpu.chunks().lent_to().iter().enumerate() {
            if *n != 0 {
                writeln!(f, "  lent to gpu {}: {}", to, n)?;
            }
        }
        let mut next = KVec::new();
        if gpu.chunks().next_victims(&mut next, VICTIMS_MAX).is_err() {
            return writeln!(f, "(no memory)");
        }
        for (chunk, va, pid) in next.iter() {
            writeln!(f, "  victim chunk {} block {:#x} pid {}", chunk, va, pid)?;
        }
    }
    Ok(())
}

fn name(s: ChunkState) -> &'static str {
    match s {
        ChunkState::Unusable => "unusable",
        ChunkState::Free => "free",
        ChunkState::Pinned => "pinned",
        ChunkState::Used => "used",
        ChunkState::Unused => "unused",
        ChunkState::Discarded => "discarded",
        ChunkState::Evicting => "evicting",
        ChunkState::LentOnly => "lent-only",
        ChunkState::LentRemovable => "lent-removable",
        ChunkState::Retired => "retired",
    }
}
