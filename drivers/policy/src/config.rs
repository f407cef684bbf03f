// SPDX-License-Identifier: GPL-2.0
//! Every knob once, and a set of values for them.
//!
//! [`KNOBS`] is the one table: the driver's checks, its ioctl and sysfs, and through these `uvmctl`, all read it. A
//! [`Policy`] is one value per knob, always within range; the driver keeps one per scope (machine, GPU, VA space) and
//! the code that decides asks it by [`KnobId`], or through a typed view such as
//! [`ReplayPolicy::of`](crate::batch::ReplayPolicy::of).
//!
//! Numbers of knobs are part of the user interface: new ones are added at the end, and none is reused.

mod table;

pub use table::{KnobId, KNOBS, KNOB_COUNT};

/// What a knob's value means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KnobKind {
    /// A number of the knob's unit.
    Number,
    /// One of these words: the first is the value `min`, the next `min` + 1 and so on.
    Choice(&'static [&'static str]),
}

/// Words of a knob that is a switch: 0 and 1.
pub const OFF_ON: &[&str] = &["off", "on"];

/// One knob.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Knob {
    /// Number: the knob's place in [`KNOBS`].
    pub id: KnobId,
    /// Name, for people and programs: lower case, words joined by `_`, the unit in it where it has one. Below 32 bytes.
    pub name: &'static str,
    /// Unit of the value; empty for a choice.
    pub unit: &'static str,
    /// Number or choice.
    pub kind: KnobKind,
    /// Smallest value.
    pub min: u64,
    /// Largest value.
    pub max: u64,
    /// Value under the preset `demand`, and in every preset that does not change it.
    pub default: u64,
    /// False while nothing acts on the knob: it can be set and read, and has no effect, and `doc` says so.
    pub live: bool,
    /// What it does, one sentence below 128 bytes.
    pub doc: &'static str,
    /// Where the default comes from.
    pub source: &'static str,
}

/// Why a knob was not set. Nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KnobError {
    /// The value is not within the knob's range.
    OutOfRange {
        /// The knob.
        id: KnobId,
        /// The value refused.
        value: u64,
        /// Smallest value allowed.
        min: u64,
        /// Largest value allowed.
        max: u64,
    },
    /// The text is neither a decimal number nor one of the knob's words.
    BadText {
        /// The knob.
        id: KnobId,
    },
}

impl Knob {
    /// `value`, if it is in range.
    ///
    /// # Errors
    /// [`KnobError::OutOfRange`].
    pub const fn check(&self, value: u64) -> Result<u64, KnobError> {
        if self.min <= value && value <= self.max {
            Ok(value)
        } else {
            Err(KnobError::OutOfRange {
                id: self.id,
                value,
                min: self.min,
                max: self.max,
            })
        }
    }

    /// The value that a text means: a decimal number, or for a choice one of its words.
    ///
    /// # Errors
    /// [`KnobError::BadText`] if it is neither, [`KnobError::OutOfRange`] if the number is out of range.
    pub fn parse(&self, text: &str) -> Result<u64, KnobError> {
        if let KnobKind::Choice(words) = self.kind {
            let values = self.min..=self.max;
            if let Some((value, _)) = values.zip(words).find(|(_, w)| **w == text) {
                return Ok(value);
            }
        }
        // `parse` alone would take a leading plus sign.
        if text.bytes().all(|b| b.is_ascii_digit()) {
            if let Ok(value) = text.parse() {
                return self.check(value);
            }
        }
        Err(KnobError::BadText { id: self.id })
    }

    /// The word for `value`; `None` for a number, and for a value out of range.
    pub fn word(&self, value: u64) -> Option<&'static str> {
        match self.kind {
            KnobKind::Number => None,
            KnobKind::Choice(words) => {
                let place = usize::try_from(value.checked_sub(self.min)?).ok()?;
                words.get(place).copied()
            }
        }
    }

    /// `value` as text that [`parse`](Self::parse) reads back: the word of a choice, else the number.
    pub const fn show(&'static self, value: u64) -> KnobText {
        KnobText { knob: self, value }
    }
}

/// A value of a knob as text, see [`Knob::show`].
#[derive(Clone, Copy, Debug)]
pub struct KnobText {
    knob: &'static Knob,
    value: u64,
}

impl core::fmt::Display for KnobText {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self.knob.word(self.value) {
            Some(word) => f.pad(word),
            None => core::fmt::Display::fmt(&self.value, f),
        }
    }
}

/// The text in a C string field of fixed size, as users give names; `None` if it is not terminated, or no UTF-8.
pub fn text_in(field: &[u8]) -> Option<&str> {
    let len = field.iter().position(|c| *c == 0)?;
    core::str::from_utf8(field.get(..len)?).ok()
}

/// The knob of this name.
pub fn knob_by_name(name: &str) -> Option<&'static Knob> {
    KNOBS.iter().find(|k| k.name == name)
}

/// The knob with this number.
pub fn knob_by_index(index: u32) -> Option<&'static Knob> {
    KNOBS.get(usize::try_from(index).ok()?)
}

impl KnobId {
    /// True for a knob of a GPU as a whole: its thread reads it for all who use the GPU, and for what the GPU lends. A process
    /// has no value of its own.
    pub const fn is_of_gpu(self) -> bool {
        matches!(
            self,
            Self::FaultBatchMax
                | Self::FaultBatchesPerRun
                | Self::FaultThrottledPerRun
                | Self::FaultDuplicatePercent
                | Self::FaultCoalesce
                | Self::ReplayPolicy
                | Self::PrefetchFaultLapse
                | Self::ChunkBatch
                | Self::ReserveChunks
                | Self::CopyOverlap
                | Self::FetchApart
                | Self::WriteBackSkip
                | Self::PreEvict
                | Self::PreEvictLow
                | Self::PreEvictHigh
                | Self::PreEvictShare
                | Self::PreEvictInFlight
                | Self::PreEvictHold
                | Self::AccessCounters
                | Self::AccessCounterBatchMax
                | Self::AccessCounterThreshold
                | Self::AccessCounterRegion
                | Self::HarvestLend
                | Self::LendLimitPercent
                | Self::LendLimitSize
                | Self::LendRate
                | Self::LendSlowdown
                | Self::LendReserve
                | Self::WriteBack
                | Self::WriteBackInFlight
                | Self::LargePagePool
                | Self::FairMemory
        )
    }

    /// The number, as the user interface has it.
    pub const fn index(self) -> u32 {
        // CAST: widening.
        self as u32
    }

    /// The knob's row.
    pub fn knob(self) -> &'static Knob {
        let [first, ..] = &table::ROWS;
        // Every id has a row, so the fallback is never taken; it only keeps this free of a panic.
        KNOBS.get(self as usize).unwrap_or(first)
    }
}

/// One value for each knob.
///
/// Invariant: each is within its knob's range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    values: [u64; KNOB_COUNT],
}

impl Policy {
    /// Every knob at its default.
    pub const fn new() -> Self {
        Self {
            values: table::DEFAULTS,
        }
    }

    /// Value of a knob.
    pub fn get(&self, id: KnobId) -> u64 {
        self.values.get(id as usize).copied().unwrap_or(0)
    }

    /// True if a switch is on (any value but zero).
    pub fn is_on(&self, id: KnobId) -> bool {
        self.get(id) != 0
    }

    /// Value of a knob as a 32-bit number, the largest one if it is larger.
    pub fn get_u32(&self, id: KnobId) -> u32 {
        u32::try_from(self.get(id)).unwrap_or(u32::MAX)
    }

    /// Sets a knob.
    ///
    /// # Errors
    /// [`KnobError::OutOfRange`]; the old value stays.
    pub fn set(&mut self, id: KnobId, value: u64) -> Result<(), KnobError> {
        let value = id.knob().check(value)?;
        if let Some(v) = self.values.get_mut(id as usize) {
            *v = value;
        }
        Ok(())
    }

    /// Every knob with its value, in the order of [`KNOBS`].
    pub fn iter(&self) -> impl Iterator<Item = (&'static Knob, u64)> + '_ {
        KNOBS.iter().zip(self.values.iter().copied())
    }
}

impl Default for Policy {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::{String, ToString};

    #[test]
    fn every_row_is_in_its_place_and_in_order() {
        for (i, k) in KNOBS.iter().enumerate() {
            assert_eq!(k.id as usize, i, "{}", k.name);
            assert_eq!(k.id.knob(), k);
            assert_eq!(knob_by_index(i as u32), Some(k));
            assert_eq!(knob_by_name(k.name), Some(k));
            assert!(k.min <= k.default && k.default <= k.max, "{}", k.name);
            if let KnobKind::Choice(words) = k.kind {
                assert_eq!(words.len() as u64, k.max - k.min + 1, "{}", k.name);
                assert!(k.unit.is_empty(), "{}", k.name);
            }
        }
        assert_eq!(knob_by_index(KNOB_COUNT as u32), None);
        assert_eq!(knob_by_name("nonsense"), None);
    }

    /// The sizes of the character fields of `struct huvm_knob`, their NUL included.
    #[test]
    fn texts_fit_the_user_interface() {
        const NAME_LEN: usize = 32;
        const DOC_LEN: usize = 128;
        for k in KNOBS {
            assert!(
                k.name.len() < NAME_LEN && k.unit.len() < NAME_LEN,
                "{}",
                k.name
            );
            assert!(k.doc.len() < DOC_LEN, "{}: {}", k.name, k.doc.len());
            assert!(k.doc.ends_with('.') && k.doc.is_ascii(), "{}", k.name);
            // Who lists the knobs learns which do nothing.
            assert_eq!(k.doc.ends_with(" (no effect yet)."), !k.live, "{}", k.name);
            assert!(!k.source.is_empty(), "{}", k.name);
            let ok = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_';
            assert!(k.name.bytes().all(ok), "{}", k.name);
            if let KnobKind::Choice(words) = k.kind {
                assert!(words.join(",").len() < DOC_LEN, "{}", k.name);
                for w in words {
                    assert!(!w.is_empty() && !w.contains(',') && !w.contains(' '));
                }
            }
        }
    }

    #[test]
    fn values_out_of_range_are_refused_and_change_nothing() {
        for k in KNOBS {
            let mut p = Policy::new();
            assert_eq!(p.get(k.id), k.default);
            for bad in [k.min.checked_sub(1), k.max.checked_add(1), Some(u64::MAX)] {
                let Some(value) = bad.filter(|b| k.check(*b).is_err()) else {
                    continue;
                };
                assert_eq!(
                    p.set(k.id, value),
                    Err(KnobError::OutOfRange {
                        id: k.id,
                        value,
                        min: k.min,
                        max: k.max
                    })
                );
            }
            assert_eq!(p, Policy::new());
            for good in [k.min, k.max, k.default] {
                p.set(k.id, good).unwrap();
                assert_eq!(p.get(k.id), good);
            }
            assert_eq!(p, Policy::new(), "setting {} changed another knob", k.name);
            assert!(
                k.max < u64::MAX,
                "no knob needs it, and the check above skips it"
            );
        }
    }

    #[test]
    fn text_round_trips() {
        for k in KNOBS {
            for value in [k.min, k.max, k.default] {
                let text: String = k.show(value).to_string();
                assert_eq!(k.parse(&text), Ok(value), "{} {text}", k.name);
                assert_eq!(k.parse(&value.to_string()), Ok(value), "{} {value}", k.name);
            }
            for bad in [
                "",
                " ",
                "+1",
                "-1",
                "1.5",
                "0x1",
                "yes, please",
                "18446744073709551616",
            ] {
                assert_eq!(
                    k.parse(bad),
                    Err(KnobError::BadText { id: k.id }),
                    "{bad:?}"
                );
            }
        }
        let k = knob_by_name("replay_policy").unwrap();
        assert_eq!(k.parse("batch-flush"), Ok(2));
        assert_eq!(std::format!("{:>12}|", k.show(3)), "        once|");
        assert_eq!(k.word(4), None);
        assert_eq!(k.word(u64::MAX), None);
    }

    #[test]
    fn the_policy_lists_every_knob_once() {
        let mut p = Policy::new();
        p.set(KnobId::FaultBatchMax, 17).unwrap();
        assert_eq!(p.iter().count(), KNOB_COUNT);
        for (k, v) in p.iter() {
            assert_eq!(v, p.get(k.id));
        }
        assert!(p.is_on(KnobId::EvictEnable) && !p.is_on(KnobId::ZeroCopy));
    }
}
