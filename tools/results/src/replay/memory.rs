// SPDX-License-Identifier: GPL-2.0
//! A GPU's memory: who is there, and what that costs.

use super::policy::{At, Policy, NEVER};
use super::trace::{Act, Trace};
use serde::Serialize;

/// What happened in the passes that count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Traffic {
    /// Bytes to the GPU.
    pub in_bytes: u64,
    /// Bytes from the GPU.
    pub out_bytes: u64,
    /// Touches by the GPU; several of one chunk in a row count once.
    pub touches: u64,
    /// Touches of a chunk that was not there.
    pub misses: u64,
    /// Of these, chunks that read as zero: nothing had to come.
    pub zero_fills: u64,
    /// Chunks that had to leave.
    pub evictions: u64,
}

impl Traffic {
    /// Both directions.
    pub fn bytes(&self) -> u64 {
        self.in_bytes.saturating_add(self.out_bytes)
    }
}

/// A chunk's state.
#[derive(Clone, Copy, Default)]
struct State {
    resident: bool,
    /// Written since it came.
    dirty: bool,
    /// It has contents, wherever they are.
    contents: bool,
}

/// Number of the act that uses the chunk of each act next, if keeping it until then is of use: not if the CPU writes it or it
/// is dead before.
fn next_uses(trace: &Trace) -> Vec<u32> {
    let mut next_of = vec![NEVER; trace.chunks().len()];
    let mut all: Vec<u32> = Vec::with_capacity(trace.acts().len());
    for (i, (chunk, act)) in trace.acts().enumerate().rev() {
        let Some(next) = next_of.get_mut(chunk as usize) else {
            all.push(NEVER);
            continue;
        };
        all.push(*next);
        match act {
            // CAST: traces are shorter than 2^32.
            Act::Read | Act::Write => *next = i as u32,
            Act::HostRead => {}
            Act::HostWrite | Act::Discard => *next = NEVER,
        }
    }
    all.reverse();
    all
}

/// Runs a trace through a memory of so many chunks. Passes before `from` run as well, and do not count.
///
/// A memory of no chunk counts as one of one.
pub fn replay(trace: &Trace, room: usize, policy: &mut dyn Policy, from: u32) -> Traffic {
    let mut states: Vec<State> = trace
        .chunks()
        .iter()
        .map(|c| State {
            contents: c.filled,
            ..State::default()
        })
        .collect();
    let bytes_of = |chunk: u32| trace.chunks().get(chunk as usize).map_or(0, |c| c.bytes);
    let (room, counted) = (room.max(1), trace.before_pass(from));
    let mut there = 0;
    let mut sum = Traffic::default();
    let mut before = sum;
    let acts = trace.acts().zip(next_uses(trace)).enumerate();
    for (i, ((chunk, act), next)) in acts {
        if i == counted {
            before = sum;
        }
        let Some(mut s) = states.get(chunk as usize).copied() else {
            continue;
        };
        match act {
            Act::Read | Act::Write => {
                sum.touches += 1;
                let hit = s.resident;
                if !hit {
                    sum.misses += 1;
                    if there >= room {
                        let left = policy.victim();
                        let left = left.and_then(|v| Some((v, states.get_mut(v as usize)?)));
                        if let Some((victim, v)) = left {
                            sum.evictions += 1;
                            sum.out_bytes += if v.dirty { bytes_of(victim) } else { 0 };
                            (v.resident, v.dirty) = (false, false);
                            there -= 1;
                        }
                    }
                    if s.contents {
                        sum.in_bytes += bytes_of(chunk);
                    } else {
                        sum.zero_fills += 1;
                    }
                    there += 1;
                }
                s.resident = true;
                s.dirty |= act == Act::Write;
                s.contents |= act == Act::Write;
                let at = At {
                    // CAST: traces are shorter than 2^32.
                    now: i as u32,
                    next,
                    dirty: s.dirty,
                };
                if hit {
                    policy.touched(chunk, at);
                } else {
                    policy.brought(chunk, at);
                }
            }
            Act::HostRead | Act::HostWrite => {
                sum.out_bytes += if s.dirty { bytes_of(chunk) } else { 0 };
                s.dirty = false;
                if act == Act::HostWrite {
                    s.contents = true;
                    there -= usize::from(s.resident);
                    s.resident = false;
                    policy.gone(chunk);
                }
            }
            Act::Discard => {
                there -= usize::from(s.resident);
                s = State::default();
                policy.gone(chunk);
            }
        }
        if let Some(state) = states.get_mut(chunk as usize) {
            *state = s;
        }
    }
    if counted >= trace.acts().len() {
        before = sum;
    }
    Traffic {
        in_bytes: sum.in_bytes - before.in_bytes,
        out_bytes: sum.out_bytes - before.out_bytes,
        touches: sum.touches - before.touches,
        misses: sum.misses - before.misses,
        zero_fills: sum.zero_fills - before.zero_fills,
        evictions: sum.evictions - before.evictions,
    }
}
