// SPDX-License-Identifier: GPL-2.0
//! From touches to steps.

use crate::{Step, Touch, Trace, PAGE, WORD};

/// Touches a step: their list takes 256 KiB, what they touch up to 128 MiB.
pub(crate) const CHUNK: usize = 32_768;

/// Time to read a page from a V100's memory, ps: 900 GB/s (NVIDIA, Tesla V100 data sheet, 2018).
pub(crate) const PAGE_PS: u64 = PAGE * 1000 / 900;

/// Words a page.
pub(crate) const PAGE_WORDS: u64 = PAGE / WORD;

/// A touch of the page that holds a byte.
pub(crate) fn touch(alloc: u32, byte: u64, write: bool) -> Touch {
    Touch {
        alloc,
        page: (byte / PAGE) as u32,
        write,
    }
}

/// Touches of all pages of a run of bytes, in order.
pub(crate) fn run(alloc: u32, from: u64, bytes: u64, write: bool) -> impl Iterator<Item = Touch> {
    let end = (from + bytes).div_ceil(PAGE);
    let first = if bytes == 0 { end } else { from / PAGE };
    (first..end).map(move |page| Touch {
        alloc,
        page: page as u32,
        write,
    })
}

/// Trace steps of a sequence of touches, `ps` of computing a touch.
pub(crate) fn steps(
    touches: impl Iterator<Item = Touch> + Send + 'static,
    ps: u64,
) -> impl Iterator<Item = Step> + Send {
    let mut touches = touches.peekable();
    std::iter::from_fn(move || {
        touches.peek()?;
        let touches: Vec<Touch> = touches.by_ref().take(CHUNK).collect();
        let compute_ns = (touches.len() as u64).saturating_mul(ps) / 1000;
        Some(Step::Trace(Trace {
            touches,
            compute_ns,
        }))
    })
}

/// Touches of a kernel.
pub(crate) type Kernel = Box<dyn Iterator<Item = Touch> + Send>;

/// Trace steps of kernels, each of which begins when the one before is over.
pub(crate) fn kernels(
    each: impl Iterator<Item = Kernel> + Send,
    ps: u64,
) -> impl Iterator<Item = Step> + Send {
    each.flat_map(move |kernel| steps(kernel, ps))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_has_the_pages_it_reaches() {
        let pages = |from, bytes| {
            run(1, from, bytes, false)
                .map(|t| t.page)
                .collect::<Vec<_>>()
        };
        assert_eq!(pages(4095, 2), [0, 1]);
        assert_eq!(pages(4096, 4096), [1]);
        assert!(pages(5000, 0).is_empty());
    }

    #[test]
    fn a_kernel_waits_for_the_one_before() {
        let touches = |n: u32| {
            (0..n).map(|page| Touch {
                alloc: 0,
                page,
                write: false,
            })
        };
        let of = [5, CHUNK as u32 + 1, 0, 1].map(|n| Box::new(touches(n)) as Kernel);
        let lengths: Vec<usize> = kernels(of.into_iter(), 1000)
            .map(|s| match s {
                Step::Trace(t) => t.touches.len(),
                _ => panic!("a trace"),
            })
            .collect();
        assert_eq!(lengths, [5, CHUNK, 1, 1]);
    }

    #[test]
    fn chunks_keep_the_order() {
        let n = 3 * CHUNK as u32 + 5;
        let pages = (0..n).map(|page| Touch {
            alloc: 0,
            page,
            write: false,
        });
        let mut next = 0;
        for step in steps(pages, 1000) {
            let Step::Trace(t) = step else {
                panic!("no trace")
            };
            assert_eq!(t.compute_ns, t.touches.len() as u64);
            for touch in t.touches {
                assert_eq!(touch.page, next);
                next += 1;
            }
        }
        assert_eq!(next, n);
    }
}
