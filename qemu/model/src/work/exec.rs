// SPDX-License-Identifier: GPL-2.0
//! What a piece does to bytes.

use huvm_hw::ext::desc::{Op, TRACE_WRITE};

use super::desc::Instr;
use crate::fabric::Side;
use crate::gpu::Cx;
use crate::host::DmaError;
use crate::mmu::{Access, Span};

/// A strided operand of a piece, translated.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operand {
    pub(crate) va: u64,
    pub(crate) span: Span,
    /// Bytes from one element to the next.
    pub(crate) stride: u64,
}

/// An access whose address is data, translated.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Touch {
    pub(crate) va: u64,
    pub(crate) access: Access,
    pub(crate) span: Span,
}

/// Bytes that a piece moves in one memory; an atomic access is a read and a write.
pub(crate) struct Traffic {
    pub(crate) va: u64,
    /// `None`: sparse.
    pub(crate) side: Option<Side>,
    pub(crate) access: Access,
    pub(crate) bytes: u64,
}

/// A piece, translated.
#[derive(Clone, Debug)]
pub(crate) struct Work {
    pub(crate) elem_bytes: u64,
    /// Elements.
    pub(crate) count: u64,
    /// Destination and sources, as in `Instr::strided`.
    pub(crate) operands: [Option<Operand>; 4],
    pub(crate) scattered: Vec<Touch>,
    /// REDUCE: this piece stores the sum.
    pub(crate) store_sum: bool,
}

/// What CHECK found.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Mismatch {
    pub(crate) count: u64,
    pub(crate) first_va: u64,
}

impl Operand {
    /// Loads element `k`; sparse reads zero.
    pub(crate) fn load(&self, k: u64, elem: u64, cx: &mut Cx<'_>) -> Result<u64, DmaError> {
        let Some(place) = self.span.target.place() else {
            return Ok(0);
        };
        let at = place
            .checked_add(k.wrapping_mul(self.stride))
            .ok_or(DmaError)?;
        load(at, elem, cx)
    }

    /// Loads `n` elements.
    fn load_all(&self, n: u64, elem: u64, cx: &mut Cx<'_>) -> Result<Vec<u64>, DmaError> {
        let Some(place) = self.span.target.place() else {
            return Ok(vec![0; n as usize]);
        };
        if self.stride != elem {
            return (0..n).map(|k| self.load(k, elem, cx)).collect();
        }
        let mut bytes = vec![0u8; (n * elem) as usize];
        cx.read(place, &mut bytes)?;
        Ok(bytes.chunks_exact(elem as usize).map(word).collect())
    }

    /// Stores elements; sparse drops them.
    fn store_all(&self, values: &[u64], elem: u64, cx: &mut Cx<'_>) -> Result<(), DmaError> {
        let Some(place) = self.span.target.place() else {
            return Ok(());
        };
        if self.stride != elem {
            for (k, &v) in values.iter().enumerate() {
                let at = place
                    .checked_add((k as u64).wrapping_mul(self.stride))
                    .ok_or(DmaError)?;
                store(at, v, elem, cx)?;
            }
            return Ok(());
        }
        let mut bytes = Vec::with_capacity(values.len() * elem as usize);
        for v in values {
            bytes.extend_from_slice(v.to_le_bytes().get(..elem as usize).unwrap_or(&[]));
        }
        cx.write(place, &bytes)
    }
}

fn word(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |v, &b| (v << 8) | u64::from(b))
}

fn load(at: crate::host::Place, elem: u64, cx: &mut Cx<'_>) -> Result<u64, DmaError> {
    if elem == 8 {
        cx.read_u64(at)
    } else {
        cx.read_u32(at).map(u64::from)
    }
}

fn store(at: crate::host::Place, v: u64, elem: u64, cx: &mut Cx<'_>) -> Result<(), DmaError> {
    let bytes = v.to_le_bytes();
    cx.write(at, bytes.get(..elem as usize).unwrap_or(&[]))
}

impl Work {
    /// Whether it reads or writes memory.
    pub(crate) fn moves(&self) -> bool {
        self.operands.iter().any(Option::is_some) || !self.scattered.is_empty()
    }

    /// Bytes by memory. The records of a TRACE are none: they stand for the program's instructions, which a GPU has in its caches.
    pub(crate) fn touches(&self, op: Op) -> impl Iterator<Item = Traffic> + '_ {
        let operands = self.operands.iter().filter(move |_| op != Op::Trace);
        let strided = operands
            .enumerate()
            .filter_map(|(which, o)| o.as_ref().map(|o| (which, o)))
            .flat_map(move |(which, o)| {
                let accesses: &[Access] = match (which, op) {
                    (0, Op::AtomicAdd) => &[Access::Read, Access::Write],
                    (0, _) => &[Access::Write],
                    _ => &[Access::Read],
                };
                accesses.iter().map(|&access| Traffic {
                    va: o.va,
                    side: o.span.target.side(),
                    access,
                    bytes: self.count * self.elem_bytes,
                })
            });
        let scattered = self.scattered.iter().map(|t| Traffic {
            va: t.va,
            side: t.span.target.side(),
            access: t.access,
            bytes: self.elem_bytes,
        });
        strided.chain(scattered)
    }

    fn source(&self, which: usize, cx: &mut Cx<'_>) -> Result<Vec<u64>, u64> {
        match self.operands.get(which) {
            Some(Some(o)) => o
                .load_all(self.count, self.elem_bytes, cx)
                .map_err(|_| o.va),
            _ => Ok(Vec::new()),
        }
    }

    fn store(&self, values: &[u64], cx: &mut Cx<'_>) -> Result<(), u64> {
        match self.operands.first() {
            Some(Some(o)) => o.store_all(values, self.elem_bytes, cx).map_err(|_| o.va),
            _ => Ok(()),
        }
    }

    /// imm0 + imm1·i for each element of an operand based at `base`.
    fn ramp(&self, i: &Instr, which: usize, base: u64) -> Vec<u64> {
        let Some(Some(o)) = self.operands.get(which) else {
            return Vec::new();
        };
        (0..self.count)
            .map(|k| {
                let at = o.va.wrapping_add(k.wrapping_mul(o.stride));
                let n = at.wrapping_sub(base) / self.elem_bytes;
                self.narrow(i.imm0.wrapping_add(i.imm1.wrapping_mul(n)))
            })
            .collect()
    }

    fn narrow(&self, v: u64) -> u64 {
        if self.elem_bytes == 8 {
            v
        } else {
            v & 0xffff_ffff
        }
    }

    /// Executes the piece. The error is the address of an access that the machine refused.
    pub(crate) fn run(&self, i: &Instr, sum: &mut u64, cx: &mut Cx<'_>) -> Result<Mismatch, u64> {
        let mut bad = Mismatch::default();
        if self.store_sum {
            self.store(&[self.narrow(*sum)], cx)?;
            return Ok(bad);
        }
        match i.op {
            Op::Delay => {}
            Op::Fill => self.store(&self.ramp(i, 0, i.dst), cx)?,
            Op::Check => {
                let got = self.source(1, cx)?;
                let want = self.ramp(i, 1, i.a);
                for (k, (g, w)) in got.iter().zip(&want).enumerate() {
                    if g != w {
                        if bad.count == 0 {
                            let va = self.operands.get(1).copied().flatten().map_or(0, |o| o.va);
                            let step = (k as u64).wrapping_mul(i.elem_stride);
                            bad.first_va = va.wrapping_add(step);
                        }
                        bad.count += 1;
                    }
                }
            }
            Op::Copy => {
                let a = self.source(1, cx)?;
                self.store(&a, cx)?;
            }
            Op::Add | Op::Triad | Op::Scale => {
                let a = self.source(1, cx)?;
                let b = self.source(2, cx)?;
                let f = |a: u64, b: u64| match i.op {
                    Op::Add => a.wrapping_add(b),
                    Op::Triad => a.wrapping_add(i.imm0.wrapping_mul(b)),
                    _ => i.imm0.wrapping_mul(a).wrapping_add(i.imm1),
                };
                let b = b.iter().copied().chain(std::iter::repeat(0));
                let out: Vec<u64> = a.iter().zip(b).map(|(&a, b)| f(a, b)).collect();
                self.store(&out, cx)?;
            }
            // In one go: the engine does nothing else meanwhile, nor does another GPU's. The link to the host has no atomic operations
            // (hw-interface 8): who counts on them there is told.
            Op::AtomicAdd => {
                let of = self.operands.first().copied().flatten();
                if of.is_some_and(|o| {
                    matches!(o.span.target.place(), Some(crate::host::Place::Sys { .. }))
                }) {
                    cx.guest_error("atomic operation on system memory");
                }
                let mut sums = self.source(0, cx)?;
                for v in &mut sums {
                    *v = v.wrapping_add(i.imm0);
                }
                self.store(&sums, cx)?;
            }
            Op::Reduce => {
                for v in self.source(1, cx)? {
                    *sum = sum.wrapping_add(v);
                }
            }
            Op::Gather => {
                let mut out = Vec::with_capacity(self.scattered.len());
                for t in &self.scattered {
                    out.push(match t.span.target.place() {
                        Some(p) => load(p, self.elem_bytes, cx).map_err(|_| t.va)?,
                        None => 0,
                    });
                }
                self.store(&out, cx)?;
            }
            Op::Scatter => {
                let a = self.source(1, cx)?;
                for (t, v) in self.scattered.iter().zip(a) {
                    if let Some(p) = t.span.target.place() {
                        store(p, v, self.elem_bytes, cx).map_err(|_| t.va)?;
                    }
                }
            }
            Op::Trace => self.trace(cx)?,
        }
        Ok(bad)
    }

    fn trace(&self, cx: &mut Cx<'_>) -> Result<(), u64> {
        debug_assert_eq!(TRACE_WRITE, 1);
        for t in &self.scattered {
            let Some(p) = t.span.target.place() else {
                continue;
            };
            let v = load(p, 8, cx).map_err(|_| t.va)?;
            if t.access == Access::Write {
                store(p, v.wrapping_add(1), 8, cx).map_err(|_| t.va)?;
            }
        }
        Ok(())
    }
}
