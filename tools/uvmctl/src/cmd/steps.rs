// SPDX-License-Identifier: GPL-2.0
//! A workload of the catalog as launches.

use super::expected::{count_wrong, Expected};
use super::job::{Load, Seat};
use crate::exit::{Failure, Result};
use crate::host;
use crate::signals;
use huvm_workloads::touches::RESIDENT;
use huvm_workloads::{First, Op as Does, Step, Workload, PAGE, WORD};
use libhuvm::{uapi, At, Device, Instr, Launch, List, Managed, Op, Places, Program, Touch};
use std::borrow::Borrow;
use std::collections::VecDeque;
use std::sync::Arc;

/// Touches of a launch: as many as the catalog's chunks have. A longer step is cut.
const TOUCHES: usize = 32_768;
/// Blocks that make them: as many as run at once.
const BLOCKS: u32 = RESIDENT as u32;
/// Most bytes of lists that are written before the first pass, and which part of the memory that there is: 384 MiB are 50 million
/// touches, five passes of the catalog's longest over 218 MiB.
const LISTS: u64 = 384 << 20;
const LISTS_PART: u64 = 4;
/// Words of a page.
const PAGE_WORDS: usize = (PAGE / WORD) as usize;

/// A workload with its memory.
pub(crate) struct Steps {
    shared: Arc<Expected>,
    ranges: Vec<Managed>,
    places: Places,
    /// The next passes, whose lists are written.
    ready: VecDeque<Vec<Ready>>,
    /// Those that were made: to unmap their lists takes time, which is no pass's.
    made: Vec<Vec<Ready>>,
}

/// What comes next, ready to be started.
pub(crate) enum Ready {
    /// A program, with addresses still to come.
    Launch(u32, Vec<Instr>),
    /// A list that was written, and what it computes, ns.
    Trace(List, u64),
    /// The CPU's part: the step itself.
    Cpu(Step),
}

impl Steps {
    /// Allocates, and fills what the CPU fills, if the data has `contents`.
    ///
    /// # Errors
    /// As [`host::has_room`]; no memory.
    pub(crate) fn new(device: &Device, shared: Arc<Expected>, contents: bool) -> Result<Steps> {
        let workload = &shared.workload;
        if contents {
            host::has_room(filled(workload))?;
        }
        let mut ranges = Vec::new();
        for a in &workload.allocs {
            let mut range = device.alloc(a.bytes)?;
            match &a.first {
                First::Cpu(init) if contents => init.fill(0, range.as_mut_slice()),
                First::Cpu(_) | First::Gpu => {}
            }
            ranges.push(range);
        }
        Ok(Steps {
            shared,
            places: Places::of(&ranges),
            ranges,
            ready: VecDeque::new(),
            made: Vec::new(),
        })
    }
}

/// Bytes that the CPU fills: all of them are in its memory at one time.
pub(crate) fn filled(workload: &Workload) -> u64 {
    let filled = workload.allocs.iter();
    let filled = filled.filter(|a| matches!(a.first, First::Cpu(_)));
    filled.fold(0, |sum, a| sum.saturating_add(a.bytes))
}

fn at(at: huvm_workloads::At) -> At {
    At {
        range: at.alloc as usize,
        offset: at.offset,
    }
}

fn instr(i: &huvm_workloads::Instr) -> Instr {
    let op = match i.op {
        Does::Copy { dst, a } => Op::Copy {
            dst: at(dst),
            a: at(a),
        },
        Does::Add { dst, a, b } => Op::Add {
            dst: at(dst),
            a: at(a),
            b: at(b),
        },
        Does::Triad { dst, a, b, mul } => Op::Triad {
            dst: at(dst),
            a: at(a),
            b: at(b),
            mul,
        },
        Does::Scale { dst, a, mul, add } => Op::Scale {
            dst: at(dst),
            a: at(a),
            mul,
            add,
        },
        Does::Reduce { dst, a } => Op::Reduce {
            dst: at(dst),
            a: at(a),
        },
        Does::Delay { ns } => Op::Delay { ns },
    };
    Instr {
        op,
        count: i.count,
        steps: i.steps,
        block_stride: i.block_stride,
        step_stride: i.step_stride,
    }
}

/// The steps of a pass, with those cut whose list would be too long.
fn cut(steps: impl Iterator<Item = Step>) -> impl Iterator<Item = Step> {
    steps.flat_map(|step| {
        let parts: Vec<Step> = match step {
            Step::Trace(t) if t.touches.len() > TOUCHES => {
                let all = t.touches.len() as u128;
                let share = |n: usize| (u128::from(t.compute_ns) * n as u128 / all) as u64;
                let part = |touches: &[huvm_workloads::Touch]| {
                    Step::Trace(huvm_workloads::Trace {
                        touches: touches.to_vec(),
                        compute_ns: share(touches.len()),
                    })
                };
                t.touches.chunks(TOUCHES).map(part).collect()
            }
            other => vec![other],
        };
        parts
    })
}

/// Writes what is to be written before a step can start on a GPU, which finds it mapped. `shape`: blocks that make touches, and how many
/// each makes at once.
pub(crate) fn prepare(
    (device, gpu): (&Device, u32),
    step: Step,
    places: &Places,
    shape: (u32, u32),
) -> Result<Ready> {
    Ok(match step {
        Step::Launch(p) => Ready::Launch(p.blocks, p.instrs.iter().map(instr).collect()),
        Step::Trace(t) => {
            let touch = |t: &huvm_workloads::Touch| Touch {
                range: t.alloc as usize,
                page: t.page.into(),
                write: t.write,
            };
            let touches: Vec<Touch> = t.touches.iter().map(touch).collect();
            let mut list = List::wide(device, touches.len(), shape.0, shape.1)?;
            list.map(device, gpu)?;
            list.fill(places, &touches)?;
            Ready::Trace(list, t.compute_ns)
        }
        other => Ready::Cpu(other),
    })
}

/// Bytes of a step's list.
fn listed(step: &Step) -> u64 {
    match step {
        Step::Trace(t) => (t.touches.len() as u64).saturating_mul(WORD),
        _ => 0,
    }
}

fn range(ranges: &mut [Managed], alloc: u32) -> Result<&mut Managed> {
    let range = ranges.get_mut(alloc as usize);
    range.ok_or_else(|| Failure::Wrong(format!("there is no allocation {alloc}")))
}

/// What the CPU does between launches.
pub(crate) fn by_cpu(step: &Step, ranges: &mut [Managed]) -> Result<()> {
    match *step {
        Step::Cpu { at, bytes, write } => {
            let words = range(ranges, at.alloc)?.as_mut_slice();
            let first = at.offset / PAGE;
            let pages = at.offset.saturating_add(bytes).div_ceil(PAGE) - first;
            let all = words.iter_mut().step_by(PAGE_WORDS);
            // CAST: pages of memory that is mapped.
            for word in all.skip(first as usize).take(pages as usize) {
                if write {
                    *word = word.wrapping_add(1);
                } else {
                    std::hint::black_box(*word);
                }
            }
        }
        Step::Discard { alloc } => range(ranges, alloc)?.advise(uapi::HUVM_ADVISE_DISCARD, 0)?,
        Step::Launch(_) | Step::Trace(_) => {}
    }
    Ok(())
}

/// Starts what is ready on the GPU.
fn start<'m>(at: &Seat, ready: &'m Ready, ranges: &'m mut [Managed]) -> Result<Option<Launch<'m>>> {
    let program = match ready {
        Ready::Launch(blocks, instrs) => Program::over(ranges, *blocks, instrs)?,
        Ready::Trace(list, ns) => Program::replay(ranges, list, *ns)?,
        Ready::Cpu(_) => return Ok(None),
    };
    Ok(Some(at.device.launch(at.gpu, &program)?))
}

/// Makes steps one after the other, as long as `goes_on`. While the GPU is at one, the next is asked for.
pub(crate) fn play<R: Borrow<Ready>>(
    at: &Seat,
    ranges: &mut [Managed],
    mut steps: impl Iterator<Item = Result<R>>,
    goes_on: impl Fn() -> bool,
) -> Result<()> {
    let mut done = 0u64;
    let mut next = steps.next().transpose()?;
    while let Some(ready) = next {
        if !goes_on() {
            break;
        }
        signals::check()?;
        let launch = start(at, ready.borrow(), ranges)?;
        next = steps.next().transpose()?;
        launch.map(Launch::wait_done).transpose()?;
        if let Ready::Cpu(step) = ready.borrow() {
            by_cpu(step, ranges)?;
        }
        done += 1;
        if !at.bar.is_hidden() {
            at.bar.set_message(format!("step {done}"));
        }
    }
    Ok(())
}

impl Load for Steps {
    fn bytes(&self) -> u64 {
        self.shared.workload.footprint()
    }

    /// Writes the lists of as many of the first passes as there is room for.
    fn ready(&mut self, at: &Seat, passes: u32) -> Result<u32> {
        let room = host::available().map_or(LISTS, |free| LISTS.min(free / LISTS_PART));
        let mut bytes = 0u64;
        at.bar.set_message("writing lists");
        for nr in 0..passes {
            let mut pass = Vec::new();
            for step in cut(self.shared.pass(nr)?) {
                signals::check()?;
                bytes = bytes.saturating_add(listed(&step));
                if bytes > room {
                    return Ok(nr);
                }
                pass.push(prepare(
                    (&at.device, at.gpu),
                    step,
                    &self.places,
                    (BLOCKS, 1),
                )?);
            }
            self.ready.push_back(pass);
        }
        Ok(passes)
    }

    /// A pass that is not ready has its lists written while the GPU is at the step before.
    fn pass(&mut self, at: &Seat, nr: u32) -> Result<()> {
        if let Some(pass) = self.ready.pop_front() {
            self.made.push(pass);
            let steps = self.made.last().into_iter().flatten().map(Ok);
            return play(at, &mut self.ranges, steps, || true);
        }
        let written = cut(self.shared.pass(nr)?)
            .map(|step| prepare((&at.device, at.gpu), step, &self.places, (BLOCKS, 1)));
        play(at, &mut self.ranges, written, || true)
    }

    fn uncheckable(&self) -> Option<String> {
        if self.shared.is_known() {
            return None;
        }
        let needed = self.bytes();
        let free = host::available()?;
        (free < needed).then(|| {
            format!("the CPU's copy needs {needed} bytes, there are {free} bytes of free memory")
        })
    }

    fn wrong(&self, passes: u32) -> Result<u64> {
        Ok(count_wrong(
            &self.ranges,
            self.shared.after(passes)?.as_ref(),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use huvm_workloads::{find, Ask, Trace};

    /// Catches a step that is lost, reordered or counted twice when it is cut, and computing time that grows.
    #[test]
    fn a_long_trace_is_cut_and_keeps_its_order() {
        let touch = |page| huvm_workloads::Touch {
            alloc: 0,
            page,
            write: false,
        };
        let n = 2 * TOUCHES as u32 + 7;
        let long = Trace {
            touches: (0..n).map(touch).collect(),
            compute_ns: 1_000_000,
        };
        let discard = Step::Discard { alloc: 3 };
        let steps = vec![discard.clone(), Step::Trace(long), discard.clone()];
        let parts: Vec<Step> = cut(steps.into_iter()).collect();
        assert_eq!(parts.len(), 5);
        assert!(parts.first() == Some(&discard) && parts.last() == Some(&discard));
        let (mut next, mut ns) = (0, 0);
        for part in &parts[1..4] {
            let Step::Trace(t) = part else { panic!() };
            assert!(t.touches.len() <= TOUCHES);
            for t in &t.touches {
                assert_eq!(t.page, next);
                next += 1;
            }
            ns += t.compute_ns;
        }
        assert_eq!(next, n);
        assert!((999_990..=1_000_000).contains(&ns), "{ns}");
    }

    /// Catches an array that the GPU touches first taken for one that the CPU fills, and the other way round.
    #[test]
    fn what_the_cpu_fills_is_counted() {
        let of = |name: &str| {
            let w = find(name).unwrap().make(&Ask::bytes(256 << 20)).unwrap();
            filled(&w) as f64 / w.footprint() as f64
        };
        // All of the one's matrix; of the other's two the first.
        assert_eq!(of("lud"), 1.0);
        assert_eq!(of("2dconv"), 0.5);
        // A graph is there before it is walked.
        assert!(of("pagerank") > 0.8);
    }

    /// Catches a workload whose chunks outgrow the lists here.
    #[test]
    fn the_catalogs_chunks_fit_a_list() {
        let w = find("zipf").unwrap().make(&Ask::bytes(256 << 20)).unwrap();
        let lens = w.pass(0).map(|s| match s {
            Step::Trace(t) => t.touches.len(),
            _ => 0,
        });
        assert_eq!(lens.max(), Some(TOUCHES));
    }
}
