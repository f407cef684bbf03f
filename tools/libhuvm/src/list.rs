// SPDX-License-Identifier: GPL-2.0
//! Lists of page accesses, for a GPU to make them.

use crate::device::{Device, Place};
use crate::error::{Error, Result};
use crate::managed::Managed;
use crate::ops::WORD;
use crate::space::Use;
use crate::uapi;
use crate::work::Program;

/// Bytes of a page.
const PAGE: u64 = 4096;
/// Touches that a block makes at once, at most: the device takes so many records for a piece of an instruction.
const LANES: u32 = 32;

/// An access to a page of 4 KiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Touch {
    /// Number of the range.
    pub range: usize,
    /// Number of the page in it.
    pub page: u64,
    /// A write: adds 1 to the page's first word.
    pub write: bool,
}

/// Where ranges are. A copy, to write a list for them while a launch has them borrowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Places(Vec<(u64, u64)>);

impl Places {
    /// Of these ranges.
    pub fn of(ranges: &[Managed]) -> Places {
        Places(ranges.iter().map(|m| (m.va(), m.bytes())).collect())
    }

    /// What the device reads for a touch.
    fn record(&self, t: Touch) -> Result<u64> {
        let outside = || Error::Argument(format!("{t:?} is not inside"));
        let (va, bytes) = self.0.get(t.range).ok_or_else(outside)?;
        if t.page >= bytes / PAGE {
            return Err(outside());
        }
        // The page is below the range's end.
        Ok((va + t.page * PAGE) | u64::from(t.write))
    }
}

/// A list of touches that blocks make in turn, in managed memory that stays on the host: it takes no room from what it touches.
#[derive(Debug)]
pub struct List {
    memory: Managed,
    blocks: u32,
    /// Touches that a block makes at once.
    lanes: u32,
    places: Option<Places>,
    rows: u64,
}

impl List {
    /// Room for so many touches by `blocks` blocks.
    ///
    /// # Errors
    /// [`Error::Argument`], [`Error::Os`].
    pub fn new(device: &Device, touches: usize, blocks: u32) -> Result<List> {
        List::wide(device, touches, blocks, 1)
    }

    /// The same for blocks that make so many touches at once, 1 to 32, as a warp does: they wait for all of these pages. For
    /// data that is there most often: an emulated GPU has the less to do.
    ///
    /// # Errors
    /// As [`List::new`].
    pub fn wide(device: &Device, touches: usize, blocks: u32, lanes: u32) -> Result<List> {
        let mut list = List::room(device, touches, blocks, lanes)?;
        list.memory
            .advise(uapi::HUVM_ADVISE_PREFERRED, Place::Host.raw())?;
        Ok(list)
    }

    /// The same, wherever the pages will be.
    pub(crate) fn room(device: &Device, touches: usize, blocks: u32, lanes: u32) -> Result<List> {
        if !(1..=LANES).contains(&lanes) {
            return Err(Error::Argument(format!(
                "{lanes} touches at once: there are 1 to {LANES}"
            )));
        }
        let width = u64::from(blocks) * u64::from(lanes);
        let row = width * WORD;
        let bytes = (touches as u64)
            .div_ceil(width.max(1))
            .checked_mul(row)
            .and_then(|b| b.checked_next_multiple_of(PAGE))
            .ok_or_else(|| Error::Argument(format!("{touches} touches are too many")))?;
        Ok(List {
            memory: device.alloc(bytes)?,
            blocks,
            lanes,
            places: None,
            rows: 0,
        })
    }

    /// Maps the list's pages for a GPU: a launch touches each, so that the first that reads the list does not fault on it. What was
    /// written in it is gone.
    ///
    /// # Errors
    /// As [`Device::launch`]; the launch failed.
    pub fn map(&mut self, device: &Device, gpu: u32) -> Result<()> {
        self.name_itself();
        let program = Program::reading(self);
        device.launch(gpu, &program)?.wait_done()?;
        Ok(())
    }

    /// Writes reads of its own pages.
    fn name_itself(&mut self) {
        self.places = None;
        let (va, pages) = (self.memory.va(), self.memory.bytes() / PAGE);
        let width = u64::from(self.blocks) * u64::from(self.lanes);
        self.rows = pages.div_ceil(width.max(1));
        // No more than there are words: a row is in the memory, and a page has 512.
        let all = (0..self.rows * width).map(|n| va + n.min(pages.saturating_sub(1)) * PAGE);
        for (word, page) in self.memory.as_mut_slice().iter_mut().zip(all) {
            *word = page;
        }
    }

    /// Touches of each block, for whoever they are.
    pub(crate) fn rows(&self) -> u64 {
        self.rows
    }

    /// Writes the list anew, for ranges that are at `places`. The last row, in which not every block has a touch, is filled up
    /// with reads of the last page.
    ///
    /// # Errors
    /// [`Error::Argument`] if there are no touches, more than there is room for, or one of them is outside; then there is no list.
    pub fn fill(&mut self, places: &Places, touches: &[Touch]) -> Result<()> {
        self.places = None;
        let width = self.blocks as usize * self.lanes as usize;
        let rows = touches.len().div_ceil(width);
        let whole = rows.saturating_mul(width);
        let words = self.memory.as_mut_slice();
        let (Some(last), true) = (touches.last(), whole <= words.len()) else {
            return Err(Error::Argument(format!(
                "{} touches: there must be 1 to {}",
                touches.len(),
                words.len()
            )));
        };
        let again = Touch {
            write: false,
            ..*last
        };
        let all = touches.iter().chain(std::iter::repeat(&again));
        for (word, touch) in words.iter_mut().zip(all.take(whole)) {
            *word = places.record(*touch)?;
        }
        self.rows = rows as u64;
        self.places = Some(places.clone());
        Ok(())
    }

    /// The blocks that make the touches.
    pub(crate) fn blocks(&self) -> u32 {
        self.blocks
    }

    /// Touches of each block, if the list was written for these ranges.
    pub(crate) fn rows_for(&self, ranges: &[Managed]) -> Result<u64> {
        match &self.places {
            Some(p) if *p == Places::of(ranges) => Ok(self.rows),
            _ => Err(Error::Argument(
                "the list was not written for these ranges".into(),
            )),
        }
    }

    /// The instruction that makes `rows` times as many touches a block as it makes at once, from row `first` on.
    pub(crate) fn instr(&self, first: u64, rows: u64) -> uapi::huvm_instr {
        let lanes = u64::from(self.lanes);
        let row = u64::from(self.blocks) * lanes * WORD;
        uapi::huvm_instr {
            op: uapi::HUVM_OP_TRACE,
            count: lanes,
            steps: rows,
            a: self.memory.va() + first * row,
            block_stride: lanes * WORD,
            step_stride: row,
            ..Default::default()
        }
    }

    /// The list itself, which is read.
    pub(crate) fn uses(&self) -> Use {
        self.memory.uses(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::managed::tests::device;

    fn touch(range: usize, page: u64, write: bool) -> Touch {
        Touch { range, page, write }
    }

    #[test]
    fn records_are_addresses_in_the_order_of_the_touches() {
        let device = device();
        let ranges = [8192, 4096].map(|b| device.alloc(b).unwrap());
        let mut list = List::room(&device, 5, 2, 1).unwrap();
        let touches = [touch(0, 1, false), touch(1, 0, true), touch(0, 0, true)];
        list.fill(&Places::of(&ranges), &touches).unwrap();
        let (x, y) = (ranges[0].va(), ranges[1].va());
        // The second block reads the last page again, and writes nothing.
        assert_eq!(list.memory.as_slice()[..4], [x + 4096, y | 1, x | 1, x]);
        assert_eq!(list.rows_for(&ranges).unwrap(), 2);
        let i = list.instr(1, 1);
        assert_eq!((i.a, i.count, i.steps), (list.memory.va() + 16, 1, 1));
        assert_eq!((i.block_stride, i.step_stride), (8, 16));
    }

    /// Catches a page that stays unmapped, a touch of what is not the list's, and rows beyond its end.
    #[test]
    fn a_list_names_its_own_pages() {
        let device = device();
        for (touches, blocks, lanes) in [(5, 2, 1), (32_768, 80, 1), (1, 40, 32), (16_384, 40, 8)] {
            let mut list = List::room(&device, touches, blocks, lanes).unwrap();
            list.name_itself();
            let words = list.rows() * u64::from(blocks * lanes);
            let (va, bytes) = (list.memory.va(), list.memory.bytes());
            assert!(words * WORD <= bytes);
            let named = &list.memory.as_slice()[..words as usize];
            let mut named = named.to_vec();
            named.dedup();
            let pages: Vec<u64> = (0..bytes / PAGE).map(|n| va + n * PAGE).collect();
            assert_eq!(named, pages);
            assert!(list.rows_for(&[]).is_err());
        }
    }

    #[test]
    fn touches_outside_are_refused_and_leave_no_list() {
        let device = device();
        let ranges = [device.alloc(8192).unwrap()];
        let places = Places::of(&ranges);
        let mut list = List::room(&device, 512, 1, 1).unwrap();
        let good = [touch(0, 1, true)];
        for bad in [
            &[][..],
            &[touch(0, 2, false)],
            &[touch(1, 0, false)],
            &[touch(0, u64::MAX, false)],
            &[good[0]; 513],
            // The first record was written already.
            &[good[0], touch(0, 2, false)],
        ] {
            list.fill(&places, &good).unwrap();
            assert!(list.rows_for(&ranges).is_ok());
            assert!(matches!(list.fill(&places, bad), Err(Error::Argument(_))));
            assert!(list.rows_for(&ranges).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_list_is_for_the_ranges_it_was_written_for() {
        let device = device();
        let mut ranges = vec![device.alloc(8192).unwrap(), device.alloc(4096).unwrap()];
        let mut list = List::room(&device, 1, 1, 1).unwrap();
        list.fill(&Places::of(&ranges), &[touch(0, 1, true)])
            .unwrap();
        ranges.swap(0, 1);
        assert!(list.rows_for(&ranges).is_err());
        assert!(list.rows_for(&ranges[..1]).is_err());
        ranges.swap(0, 1);
        assert!(list.rows_for(&ranges).is_ok());
    }

    /// Catches rows that are counted by touches, and blocks that read each other's.
    #[test]
    fn a_block_of_several_lanes_reads_touches_that_follow_each_other() {
        let device = device();
        let ranges = [device.alloc(8192).unwrap()];
        let mut list = List::room(&device, 9, 2, 4).unwrap();
        list.fill(&Places::of(&ranges), &[touch(0, 1, true); 9])
            .unwrap();
        // Two rows of two blocks, filled up with reads.
        assert_eq!(list.rows_for(&ranges).unwrap(), 2);
        let va = ranges[0].va() + 4096;
        assert_eq!(
            list.memory.as_slice()[8..16],
            [&[va | 1][..], &[va; 7]].concat()
        );
        let i = list.instr(1, 1);
        assert_eq!((i.a, i.count, i.steps), (list.memory.va() + 64, 4, 1));
        assert_eq!((i.block_stride, i.step_stride), (32, 64));
        assert!(List::room(&device, 9, 2, 0).is_err());
        assert!(List::room(&device, 9, 2, 33).is_err());
    }

    #[test]
    fn a_list_needs_blocks_and_room() {
        let device = device();
        assert!(List::room(&device, 5, 0, 1).is_err());
        assert!(List::room(&device, 0, 4, 1).is_err());
        assert!(List::room(&device, usize::MAX, u32::MAX, 1).is_err());
    }
}
