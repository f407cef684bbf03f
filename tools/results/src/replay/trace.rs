// SPDX-License-Identifier: GPL-2.0
//! The trace of a workload, in chunks.

use crate::failure::{Failure, Result};
use huvm_workloads::{touches, First, Step, Workload, PAGE};

/// Most acts of a trace: 1 GiB of them, and as much again for a policy that looks ahead. Five passes of `pagerank` over 24 GiB.
const MOST: usize = 1 << 28;

/// What happens to a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// The GPU reads it.
    Read,
    /// The GPU writes it, or reads and writes it.
    Write,
    /// The CPU reads it.
    HostRead,
    /// The CPU writes it.
    HostWrite,
    /// Its contents are dead.
    Discard,
}

/// A chunk of an allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// Bytes of the allocation in it.
    pub bytes: u64,
    /// It has contents before the first act; else it reads as zero.
    pub filled: bool,
}

/// Acts in order, pass by pass. Each allocation begins with a chunk of its own, as each managed range does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    chunks: Vec<Chunk>,
    /// Chunk << 3 | act.
    acts: Vec<u32>,
    /// Number of acts before each pass.
    passes: Vec<usize>,
}

impl Trace {
    /// One without acts.
    pub fn new(chunks: Vec<Chunk>) -> Trace {
        Trace {
            chunks,
            ..Trace::default()
        }
    }

    /// All passes of a workload, in chunks of so many bytes (a multiple of 4 KiB).
    ///
    /// # Errors
    /// A chunk of no size, or a trace that is too long.
    pub fn of(w: &Workload, chunk: u64) -> Result<Trace> {
        Trace::of_passes(w, chunk, 0..w.passes)
    }

    /// Some passes of a workload, by number, as [`Self::of`].
    ///
    /// # Errors
    /// As there.
    pub fn of_passes(w: &Workload, chunk: u64, passes: impl Iterator<Item = u32>) -> Result<Trace> {
        if chunk == 0 || chunk % PAGE != 0 {
            return Err(Failure::Usage(format!(
                "a chunk of {chunk} bytes: it must be a multiple of {PAGE}"
            )));
        }
        let mut chunks = Vec::new();
        let mut firsts = Vec::new();
        for a in &w.allocs {
            firsts.push(chunks.len() as u64);
            let filled = matches!(a.first, First::Cpu(_));
            for at in (0..a.bytes).step_by(usize::try_from(chunk).unwrap_or(usize::MAX)) {
                let bytes = chunk.min(a.bytes - at);
                chunks.push(Chunk { bytes, filled });
            }
        }
        if chunks.len() > MOST {
            return Err(too_long());
        }
        // CAST: at most `MOST` chunks.
        let number = |alloc: u32, byte: u64| {
            let first = firsts.get(alloc as usize).copied().unwrap_or(0);
            (first + byte / chunk) as u32
        };
        let mut trace = Trace::new(chunks);
        for pass in passes {
            trace.begin_pass();
            for step in w.pass(pass) {
                match &step {
                    Step::Launch(_) | Step::Trace(_) => touches::visit(&step, &mut |t| {
                        let act = if t.write { Act::Write } else { Act::Read };
                        trace.push(number(t.alloc, u64::from(t.page) * PAGE), act);
                    }),
                    Step::Cpu { at, bytes, write } => {
                        let act = if *write {
                            Act::HostWrite
                        } else {
                            Act::HostRead
                        };
                        let end = at.offset.saturating_add(*bytes).saturating_sub(1);
                        if *bytes != 0 {
                            for n in number(at.alloc, at.offset)..=number(at.alloc, end) {
                                trace.push(n, act);
                            }
                        }
                    }
                    Step::Discard { alloc } => {
                        let bytes = w.allocs.get(*alloc as usize).map_or(0, |a| a.bytes);
                        let first = number(*alloc, 0);
                        for n in (0u32..).take(bytes.div_ceil(chunk) as usize) {
                            trace.push(first.saturating_add(n), Act::Discard);
                        }
                    }
                }
                if trace.acts.len() > MOST {
                    return Err(too_long());
                }
            }
        }
        Ok(trace)
    }

    /// `chunks` of so many bytes, filled by the CPU, touched in turn in each pass.
    pub fn cycle(chunks: u32, bytes: u64, passes: u32, act: Act) -> Trace {
        let filled = true;
        let mut trace = Trace::new(vec![Chunk { bytes, filled }; chunks as usize]);
        for _ in 0..passes {
            trace.begin_pass();
            (0..chunks).for_each(|n| trace.push(n, act));
        }
        trace
    }

    /// What follows belongs to the next pass.
    pub fn begin_pass(&mut self) {
        self.passes.push(self.acts.len());
    }

    /// One act more. The GPU's touches of one chunk, one right after the other, are one: no policy can tell.
    pub fn push(&mut self, chunk: u32, act: Act) {
        let coded = chunk << 3 | act as u32;
        let new_pass = self.passes.last() == Some(&self.acts.len());
        if let (false, Some(last)) = (new_pass, self.acts.last_mut()) {
            let merges = *last >> 3 == chunk
                && matches!(act_of(*last), Act::Read | Act::Write)
                && matches!(act, Act::Read | Act::Write);
            if merges {
                *last = coded.max(*last);
                return;
            }
        }
        self.acts.push(coded);
    }

    /// Its chunks.
    pub fn chunks(&self) -> &[Chunk] {
        &self.chunks
    }

    /// Acts of all passes: chunk and act.
    pub fn acts(&self) -> impl DoubleEndedIterator<Item = (u32, Act)> + ExactSizeIterator + '_ {
        self.acts.iter().map(|a| (a >> 3, act_of(*a)))
    }

    /// Acts before a pass; all, if it has no such pass.
    pub fn before_pass(&self, pass: u32) -> usize {
        let at = self.passes.get(pass as usize).copied();
        at.unwrap_or(self.acts.len())
    }

    /// Passes.
    pub fn passes(&self) -> usize {
        self.passes.len()
    }

    /// Bytes of all its chunks.
    pub fn footprint(&self) -> u64 {
        self.chunks.iter().map(|c| c.bytes).sum()
    }
}

fn act_of(coded: u32) -> Act {
    match coded & 7 {
        0 => Act::Read,
        1 => Act::Write,
        2 => Act::HostRead,
        3 => Act::HostWrite,
        _ => Act::Discard,
    }
}

fn too_long() -> Failure {
    Failure::Usage(format!(
        "the trace has more than {MOST} acts; ask for fewer passes or fewer bytes"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn touches_in_a_row_are_one_and_passes_stay_apart() {
        let mut t = Trace::cycle(2, 1, 0, Act::Read);
        t.begin_pass();
        t.push(0, Act::Read);
        t.push(0, Act::Write);
        t.push(0, Act::Read);
        t.push(0, Act::HostRead);
        t.push(0, Act::HostRead);
        t.begin_pass();
        t.push(0, Act::Read);
        let acts: Vec<_> = t.acts().collect();
        assert_eq!(
            acts,
            [
                (0, Act::Write),
                (0, Act::HostRead),
                (0, Act::HostRead),
                (0, Act::Read)
            ]
        );
        assert_eq!(
            (t.before_pass(0), t.before_pass(1), t.before_pass(2)),
            (0, 3, 4)
        );
    }
}
