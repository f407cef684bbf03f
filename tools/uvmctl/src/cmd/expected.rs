// SPDX-License-Identifier: GPL-2.0
//! What a workload's jobs do, and what their memory holds when they have: both take the CPU longer than the GPU, and jobs that do
//! the same share them.

use crate::exit::{Failure, Result};
use crate::signals;
use huvm_workloads::shadow::Shadow;
use huvm_workloads::{Alloc, Step, Steps, Touch, Workload};
use libhuvm::Managed;
use std::borrow::Borrow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Most that is kept of steps, bytes of touches; a pass with which it would be more is drawn for each job.
const KEPT: usize = 512 << 20;

/// A workload that jobs run, and what each of them must end with.
pub(crate) struct Expected {
    pub(crate) workload: Workload,
    /// Its steps, by passes; `None` where they are not kept.
    steps: Option<Mutex<Kept>>,
    /// The last memory that was computed: after so many passes.
    known: Mutex<Option<(u32, Arc<Shadow>)>>,
}

#[derive(Default)]
struct Kept {
    passes: Vec<(u32, Arc<[Step]>)>,
    bytes: usize,
    /// One was too much: no more are tried.
    full: bool,
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What `allocs` hold after so many passes, whose steps are `of` their numbers.
///
/// # Errors
/// Those of `of`; interrupted; an allocation is larger than this machine's addresses.
pub(crate) fn memory_after<I>(
    allocs: &[Alloc],
    passes: u32,
    of: impl Fn(u32) -> Result<I>,
) -> Result<Shadow>
where
    I: IntoIterator,
    I::Item: Borrow<Step>,
{
    let mut shadow = Shadow::new(allocs).map_err(Failure::Wrong)?;
    for nr in 0..passes {
        for step in of(nr)? {
            signals::check()?;
            shadow.step(step.borrow());
        }
    }
    Ok(shadow)
}

/// Words of `ranges` that are not as expected.
pub(crate) fn count_wrong(ranges: &[Managed], expected: &Shadow) -> u64 {
    let wrong = ranges.iter().enumerate().map(|(k, range)| {
        let pairs = range.as_slice().iter().zip(expected.words(k));
        pairs.filter(|(is, want)| is != want).count() as u64
    });
    wrong.sum()
}

impl Expected {
    /// For one job.
    pub(crate) fn of(workload: Workload) -> Arc<Expected> {
        Arc::new(Expected {
            workload,
            steps: None,
            known: Mutex::default(),
        })
    }

    /// For any number of jobs, one after the other.
    pub(crate) fn of_many(workload: Workload) -> Arc<Expected> {
        Arc::new(Expected {
            workload,
            steps: Some(Mutex::default()),
            known: Mutex::default(),
        })
    }

    /// Steps of a pass.
    ///
    /// # Errors
    /// Interrupted.
    pub(crate) fn pass(&self, nr: u32) -> Result<Steps> {
        match &self.steps {
            None => Ok(self.workload.pass(nr)),
            Some(kept) => lock(kept).pass(&self.workload, nr, KEPT),
        }
    }

    /// Whether anything was computed: its memory is there then.
    pub(crate) fn is_known(&self) -> bool {
        lock(&self.known).is_some()
    }

    /// Memory after so many passes.
    ///
    /// # Errors
    /// Interrupted; an allocation is larger than this machine's addresses.
    pub(crate) fn after(&self, passes: u32) -> Result<Arc<Shadow>> {
        let mut known = lock(&self.known);
        match &*known {
            Some((of, shadow)) if *of == passes => return Ok(shadow.clone()),
            _ => {}
        }
        // Two of them at a time would be one too many.
        *known = None;
        let shadow = Arc::new(memory_after(&self.workload.allocs, passes, |nr| {
            self.pass(nr)
        })?);
        *known = Some((passes, shadow.clone()));
        Ok(shadow)
    }
}

impl Kept {
    /// Steps of a pass of `workload`; keeps them if all that is kept are then `most` bytes or fewer.
    fn pass(&mut self, workload: &Workload, nr: u32, most: usize) -> Result<Steps> {
        let steps = match self.passes.iter().find(|(of, _)| *of == nr) {
            Some((_, steps)) => steps.clone(),
            None if self.full => return Ok(workload.pass(nr)),
            None => match self.draw(workload, nr, most)? {
                Some(steps) => steps,
                None => return Ok(workload.pass(nr)),
            },
        };
        let each = (0..steps.len()).map_while(move |i| steps.get(i).cloned());
        Ok(Box::new(each))
    }

    fn draw(&mut self, workload: &Workload, nr: u32, most: usize) -> Result<Option<Arc<[Step]>>> {
        let (mut steps, mut bytes) = (Vec::new(), self.bytes);
        for step in workload.pass(nr) {
            signals::check()?;
            if let Step::Trace(t) = &step {
                bytes = bytes.saturating_add(size_of_val::<[Touch]>(&t.touches));
            }
            if bytes > most {
                self.full = true;
                return Ok(None);
            }
            steps.push(step);
        }
        let steps: Arc<[Step]> = steps.into();
        self.bytes = bytes;
        self.passes.push((nr, steps.clone()));
        Ok(Some(steps))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use huvm_workloads::{find, Ask};

    /// Catches one that is computed for each job, and one of other passes that is taken for it.
    #[test]
    fn it_is_computed_once_for_the_same_passes() {
        let workload = || find("nw").unwrap().make(&Ask::bytes(4 << 20)).unwrap();
        let shared = Expected::of(workload());
        assert!(!shared.is_known());
        let one = shared.after(1).unwrap();
        assert!(shared.is_known());
        assert!(Arc::ptr_eq(&one, &shared.after(1).unwrap()));
        let two = shared.after(2).unwrap();
        assert_ne!(one, two);
        assert_eq!(two, Expected::of(workload()).after(2).unwrap());
        assert_eq!(one, shared.after(1).unwrap());
    }

    /// Catches a pass that is taken for another, steps that are lost or told twice, and more kept than may be.
    #[test]
    fn steps_are_those_of_the_workload() {
        let workload = find("bfs").unwrap().make(&Ask::bytes(8 << 20)).unwrap();
        let of = |nr| workload.pass(nr).collect::<Vec<Step>>();
        let touches = |steps: &[Step]| -> usize {
            let of = |s: &Step| match s {
                Step::Trace(t) => t.touches.len(),
                _ => 0,
            };
            steps.iter().map(of).sum()
        };
        assert_ne!(of(0), of(1));
        let one = touches(&of(0)) * size_of::<Touch>();
        assert!(one > 0);
        for (most, passes) in [(usize::MAX, 2), (one, 1), (one - 1, 0)] {
            let mut kept = Kept::default();
            for _ in 0..2 {
                for nr in [0, 1] {
                    let steps: Vec<Step> = kept.pass(&workload, nr, most).unwrap().collect();
                    assert_eq!(steps, of(nr));
                }
            }
            assert_eq!(kept.passes.len(), passes, "{most}");
            assert!(kept.bytes <= most);
        }
    }
}
