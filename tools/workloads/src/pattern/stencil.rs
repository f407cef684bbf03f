// SPDX-License-Identifier: GPL-2.0
//! Stencils over square fields, iterated: cycles of several arrays.

use super::{starts, MINUS};
use crate::grid::sweep;
use crate::size::{empty, filled, isqrt};
use crate::{Ask, At, Op, Step, Workload, WORD};

fn triad(dst: At, b: At, mul: u64) -> Op {
    Op::Triad {
        dst,
        a: dst,
        b,
        mul,
    }
}

/// Rodinia's hotspot: `T1 = power + T0's five points`, then `T0` from `T1`. Four kernels (UVMSmart: 8 steps, 2 a kernel, hence a
/// halo of two rows).
pub(crate) fn hotspot(ask: &Ask) -> Workload {
    let n = isqrt(ask.bytes / WORD / 3);
    let allocs = vec![
        filled("temp0", n * n, 0),
        empty("temp1", n * n),
        filled("power", n * n, 1),
    ];
    Workload::new("hotspot", allocs, ask.passes_or(4), move |pass| {
        let [mut src, mut dst, power] = starts();
        if pass % 2 == 1 {
            (src, dst) = (dst, src);
        }
        let halo = 2 * n * WORD;
        Box::new(
            sweep(n.saturating_sub(4) * n, |o| {
                let to = dst.plus(o + halo);
                let first = Op::Add {
                    dst: to,
                    a: src.plus(o),
                    b: src.plus(o + 2 * halo),
                };
                vec![
                    first,
                    triad(to, src.plus(o + halo), 2),
                    triad(to, power.plus(o + halo), 1),
                ]
            })
            .into_iter(),
        )
    })
}

/// Rodinia's SRAD v2: the CPU reads the image before each iteration; one kernel makes four differences and a coefficient, the
/// other updates the image from them. Four iterations.
pub(crate) fn srad(ask: &Ask) -> Workload {
    let n = isqrt(ask.bytes / WORD / 6);
    let names = ["dN", "dS", "dW", "dE", "c"];
    let mut allocs = vec![filled("J", n * n, 0)];
    allocs.extend(names.map(|name| empty(name, n * n)));
    let image = n * n * WORD;
    Workload::new("srad", allocs, ask.passes_or(4), move |_| {
        let [j, d_n, d_s, d_w, d_e, c] = starts();
        let row = n * WORD;
        let inner = n.saturating_sub(2) * n;
        let mut steps = vec![Step::Cpu {
            at: j,
            bytes: image,
            write: false,
        }];
        steps.extend(sweep(inner, |o| {
            let here = o + row;
            let mid = j.plus(here);
            let around = [
                (d_n, o),
                (d_s, o + 2 * row),
                (d_w, here - WORD),
                (d_e, here + WORD),
            ];
            let mut ops: Vec<Op> = around
                .into_iter()
                .map(|(dst, from)| Op::Triad {
                    dst: dst.plus(here),
                    a: j.plus(from),
                    b: mid,
                    mul: MINUS,
                })
                .collect();
            ops.push(Op::Add {
                dst: c.plus(here),
                a: d_n.plus(here),
                b: d_e.plus(here),
            });
            ops
        }));
        steps.extend(sweep(inner, |o| {
            let here = o + row;
            let to = j.plus(here);
            let from = [
                d_n.plus(here),
                d_s.plus(here),
                d_w.plus(here),
                d_e.plus(here),
                c.plus(here),
                c.plus(here + row),
            ];
            from.into_iter().map(|b| triad(to, b, 3)).collect()
        }));
        Box::new(steps.into_iter())
    })
}

/// PolyBench's FDTD-2D: three fields, two at a time, three kernels a step, 5 steps.
pub(crate) fn fdtd(ask: &Ask) -> Workload {
    let n = isqrt(ask.bytes / WORD / 3);
    let allocs = vec![
        filled("ex", n * n, 0),
        filled("ey", n * n, 1),
        filled("hz", n * n, 2),
    ];
    Workload::new("fdtd", allocs, ask.passes_or(5), move |_| {
        let [ex, ey, hz] = starts();
        let row = n * WORD;
        let mut steps = sweep(n.saturating_sub(1) * n, |o| {
            let to = ey.plus(o + row);
            vec![triad(to, hz.plus(o + row), MINUS), triad(to, hz.plus(o), 1)]
        });
        steps.extend(sweep(n * n - 1, |o| {
            let to = ex.plus(o + WORD);
            vec![
                triad(to, hz.plus(o + WORD), MINUS),
                triad(to, hz.plus(o), 1),
            ]
        }));
        steps.extend(sweep(n.saturating_sub(1) * n, |o| {
            let to = hz.plus(o);
            vec![
                triad(to, ex.plus(o + WORD), MINUS),
                triad(to, ex.plus(o), 1),
                triad(to, ey.plus(o + row), MINUS),
                triad(to, ey.plus(o), 1),
            ]
        }));
        Box::new(steps.into_iter())
    })
}
