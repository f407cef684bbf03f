// SPDX-License-Identifier: GPL-2.0
//! A client that touches new blocks on a GPU: each touch is a fault in a block of its own, which takes a chunk.
//!
//! Blocks come in a shuffled order, so that nobody fetches ahead; of each one page is written.

use crate::exit::{Failure, Result};
use crate::signals;
use crate::units::BLOCK;
use huvm_workloads::rng::Shuffle;
use libhuvm::{Device, List, Managed, Places, Program, Touch};

/// Pages of a block.
const PAGES: u64 = BLOCK / 4096;
/// Touches of a launch that fills, blocks that make them, and touches of each at once.
const FILL: (usize, u32, u32) = (4096, 16, 8);
/// Touches of a launch that is measured: one block makes them, one after the other.
pub(super) const STEP: u64 = 8;

/// Data of one client on one GPU.
pub(super) struct Toucher {
    device: Device,
    pub(super) gpu: u32,
    range: [Managed; 1],
    places: Places,
    order: Shuffle,
    /// Blocks touched so far.
    next: u64,
    blocks: u64,
    wide: List,
    narrow: List,
}

impl Toucher {
    /// With room for so many blocks, none of them touched; but for one, so that the lists' own pages are mapped.
    pub(super) fn new(device: &Device, gpu: u32, blocks: u64) -> Result<Toucher> {
        let blocks = blocks.max(1);
        let range = [device.alloc(blocks.saturating_mul(BLOCK))?];
        let (touches, wide, lanes) = FILL;
        let mut toucher = Toucher {
            device: device.clone(),
            gpu,
            places: Places::of(&range),
            range,
            order: Shuffle::new(blocks, 1),
            next: 0,
            blocks,
            wide: List::wide(device, touches, wide, lanes)?,
            narrow: List::new(device, STEP as usize, 1)?,
        };
        toucher.fill(1)?;
        let again = [toucher.touch(0)];
        toucher.narrow.fill(&toucher.places, &again)?;
        launch(&toucher.device, gpu, &mut toucher.range, &toucher.narrow)?;
        Ok(toucher)
    }

    /// The `n`th touch.
    fn touch(&self, n: u64) -> Touch {
        Touch {
            range: 0,
            page: self.order.of(n).saturating_mul(PAGES),
            write: true,
        }
    }

    /// The next touches, at most so many.
    fn take(&mut self, wanted: u64) -> Result<Vec<Touch>> {
        let end = self.next.saturating_add(wanted);
        if end > self.blocks {
            return Err(Failure::Wrong("a client has no more blocks".into()));
        }
        let all = (self.next..end).map(|n| self.touch(n)).collect();
        self.next = end;
        Ok(all)
    }

    /// Touches until so many blocks were touched in all, many at once.
    pub(super) fn fill(&mut self, until: u64) -> Result<()> {
        while self.next < until {
            let left = until - self.next;
            let touches = self.take(left.min(FILL.0 as u64))?;
            self.wide.fill(&self.places, &touches)?;
            launch(&self.device, self.gpu, &mut self.range, &self.wide)?;
        }
        Ok(())
    }

    /// Touches [`STEP`] blocks, one at a time; the time that it took, ns.
    pub(super) fn step(&mut self) -> Result<u64> {
        let touches = self.take(STEP)?;
        self.narrow.fill(&self.places, &touches)?;
        launch(&self.device, self.gpu, &mut self.range, &self.narrow)
    }
}

fn launch(device: &Device, gpu: u32, range: &mut [Managed; 1], list: &List) -> Result<u64> {
    signals::check()?;
    let program = Program::replay(range, list, 0)?;
    Ok(device.launch(gpu, &program)?.wait_done()?.time_ns())
}
