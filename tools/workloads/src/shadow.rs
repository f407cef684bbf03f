// SPDX-License-Identifier: GPL-2.0
//! The CPU's copy of a workload's memory: runs the same steps as the GPU, to know what the result must be.

use crate::{Alloc, At, First, Instr, Op, Program, Step, PAGE, WORD};

/// Memory of a workload, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shadow {
    arrays: Vec<Vec<u64>>,
}

impl Shadow {
    /// As the memory is before the first step.
    ///
    /// # Errors
    /// An allocation is larger than this machine's addresses.
    pub fn new(allocs: &[Alloc]) -> Result<Shadow, String> {
        let mut arrays = Vec::new();
        for a in allocs {
            let words = usize::try_from(a.bytes / WORD).map_err(|e| e.to_string())?;
            let mut array = vec![0; words];
            if let First::Cpu(init) = &a.first {
                init.fill(0, &mut array);
            }
            arrays.push(array);
        }
        Ok(Shadow { arrays })
    }

    /// Words of allocation `alloc`; none if there is no such.
    pub fn words(&self, alloc: usize) -> &[u64] {
        self.arrays.get(alloc).map_or(&[], Vec::as_slice)
    }

    /// Does a step. Its program must have passed [`Program::check`]; what is outside an allocation reads 0 and is not written.
    pub fn step(&mut self, step: &Step) {
        match step {
            Step::Launch(p) => self.launch(p, 0..u64::from(p.blocks)),
            Step::Trace(t) => {
                for touch in t.touches.iter().filter(|t| t.write) {
                    let at = At::start(touch.alloc).plus(u64::from(touch.page) * PAGE);
                    self.bump(at);
                }
            }
            Step::Cpu { at, bytes, write } => {
                if *write {
                    let first = at.offset / PAGE;
                    for page in first..(at.offset + bytes).div_ceil(PAGE) {
                        self.bump(At::start(at.alloc).plus(page * PAGE));
                    }
                }
            }
            Step::Discard { alloc } => {
                if let Some(a) = self.arrays.get_mut(*alloc as usize) {
                    a.fill(0);
                }
            }
        }
    }

    /// Runs blocks one after the other, in this order. The engine runs them side by side, so a program's result must not depend
    /// on it.
    pub fn launch(&mut self, p: &Program, blocks: impl Iterator<Item = u64>) {
        for k in blocks {
            for i in &p.instrs {
                self.instr(i, k);
            }
        }
    }

    fn instr(&mut self, i: &Instr, k: u64) {
        let mut sum = 0u64;
        for step in 0..i.steps {
            let from = k * i.block_stride + step * i.step_stride;
            for e in 0..i.count {
                let by = from + e * WORD;
                match i.op {
                    Op::Copy { dst, a } => self.put(dst.plus(by), self.get(a.plus(by))),
                    Op::Add { dst, a, b } => {
                        let v = self.get(a.plus(by)).wrapping_add(self.get(b.plus(by)));
                        self.put(dst.plus(by), v);
                    }
                    Op::Triad { dst, a, b, mul } => {
                        let b = self.get(b.plus(by)).wrapping_mul(mul);
                        self.put(dst.plus(by), self.get(a.plus(by)).wrapping_add(b));
                    }
                    Op::Scale { dst, a, mul, add } => {
                        let v = self.get(a.plus(by)).wrapping_mul(mul).wrapping_add(add);
                        self.put(dst.plus(by), v);
                    }
                    Op::Reduce { a, .. } => sum = sum.wrapping_add(self.get(a.plus(by))),
                    Op::Delay { .. } => return,
                }
            }
        }
        if let Op::Reduce { dst, .. } = i.op {
            self.put(dst.plus(k * WORD), sum);
        }
    }

    fn get(&self, at: At) -> u64 {
        self.arrays
            .get(at.alloc as usize)
            .and_then(|a| a.get((at.offset / WORD) as usize))
            .copied()
            .unwrap_or(0)
    }

    fn put(&mut self, at: At, v: u64) {
        if let Some(word) = self
            .arrays
            .get_mut(at.alloc as usize)
            .and_then(|a| a.get_mut((at.offset / WORD) as usize))
        {
            *word = v;
        }
    }

    fn bump(&mut self, at: At) {
        self.put(at, self.get(at).wrapping_add(1));
    }
}
