// SPDX-License-Identifier: GPL-2.0
//! The capability in configuration space that announces BAR5 (Documentation/device.md 1).
//!
//! PCI Express keeps a list of extended capabilities from offset 0x100 on: a header word with id 15:0, version 19:16 and
//! the next one's offset 31:20. A vendor-specific one has a second word: VSEC id 15:0, revision 19:16, length 31:20.

use crate::{Error, Result};
use huvm_hw::ext::vsec;

/// Where the list begins and the space ends.
const SPACE: core::ops::Range<u16> = 0x100..0x1000;
/// Capabilities that fit; a longer list is a loop.
const MAX: usize = (SPACE.end - SPACE.start) as usize / 8;

/// What the capability says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Announced {
    /// BAR with the invented registers.
    pub bar: u8,
    /// Where in it they begin, bytes.
    pub offset: u32,
    /// Their bytes.
    pub length: u32,
    /// `FEATURE_*` bits of huvm_hw::ext::ident.
    pub features: u32,
}

/// Looks for the capability. `read` reads the word at an offset of configuration space, which has its extended part.
/// `None`: there is none, and the device is a plain documented one.
///
/// # Errors
/// [`Error::Gone`]; [`Error::BadDevice`] for a list without end, or a capability of ours of another size or version, or
/// that makes no sense.
pub fn announced(read: impl Fn(u16) -> u32) -> Result<Option<Announced>> {
    let mut at = SPACE.start;
    for _ in 0..MAX {
        let header = word(&read, at)?;
        if header == 0 {
            return Ok(None);
        }
        // CAST: fields of 16 and 12 bits.
        let (id, next) = (header as u16, (header >> 20) as u16 & !3);
        if id == vsec::CAP_ID
            && at < SPACE.end - vsec::LEN
            && word(&read, at + 4)? as u16 == vsec::ID
        {
            return parse(at, read).map(Some);
        }
        if !SPACE.contains(&next) {
            return Ok(None);
        }
        at = next;
    }
    Err(Error::BadDevice("extended capabilities", at.into()))
}

/// None of those that are read here ever holds all ones.
fn word(read: &impl Fn(u16) -> u32, at: u16) -> Result<u32> {
    match read(at) {
        u32::MAX => Err(Error::Gone),
        v => Ok(v),
    }
}

fn parse(at: u16, read: impl Fn(u16) -> u32) -> Result<Announced> {
    let must = |ok: bool, what, raw| match ok {
        true => Ok(()),
        false => Err(Error::BadDevice(what, raw)),
    };
    let head = word(&read, at + 4)?;
    let same = u32::from(vsec::ID) | u32::from(vsec::REV) << 16 | u32::from(vsec::LEN) << 20;
    must(head == same, "VSEC header", head)?;
    let magic = word(&read, at + vsec::MAGIC_AT)?;
    must(magic == vsec::MAGIC, "VSEC magic", magic)?;
    let version = word(&read, at + vsec::VERSION_AT)?;
    must(version & 0xffff == vsec::VERSION, "VSEC version", version)?;
    let found = Announced {
        // CAST: 3 bits.
        bar: (version >> 16 & 7) as u8,
        offset: word(&read, at + vsec::OFFSET_AT)?,
        length: word(&read, at + vsec::LENGTH_AT)?,
        features: word(&read, at + vsec::FEATURES_AT)?,
    };
    must(found.bar < 6, "VSEC BAR", version)?;
    let fits = found.offset.checked_add(found.length).is_some();
    must(
        fits && found.offset % 4096 == 0,
        "VSEC offset",
        found.offset,
    )?;
    must(found.length >= 4096, "VSEC length", found.length)?;
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    /// Ours at 0x148, after one of somebody else at 0x100.
    fn space() -> BTreeMap<u16, u32> {
        BTreeMap::from([
            (0x100, 0x000b | 1 << 16 | 0x148 << 20),
            (0x104, 0x1234 | 0x10 << 20),
            (0x148, 0x000b | 1 << 16),
            (0x14c, 0x4855 | 1 << 16 | 0x20 << 20),
            (0x150, 0x4d56_5548),
            (0x154, 1 | 5 << 16),
            (0x158, 0),
            (0x15c, 0x10_0000),
            (0x160, 0x3f),
        ])
    }

    fn look(s: &BTreeMap<u16, u32>) -> Result<Option<Announced>> {
        announced(|at| s.get(&at).copied().unwrap_or(0))
    }

    #[test]
    fn finds_ours_behind_others() {
        let want = Announced {
            bar: 5,
            offset: 0,
            length: 0x10_0000,
            features: 0x3f,
        };
        assert_eq!(look(&space()), Ok(Some(want)));
    }

    #[test]
    fn none_is_a_plain_device() {
        assert_eq!(look(&BTreeMap::new()), Ok(None));
        let mut s = space();
        s.insert(0x14c, 0x4856 | 1 << 16 | 0x20 << 20);
        assert_eq!(look(&s), Ok(None), "another VSEC");
        let mut s = space();
        s.insert(0x100, 0x000b | 1 << 16 | 0x40 << 20);
        assert_eq!(look(&s), Ok(None), "the list leaves the extended part");
    }

    /// One word of a good capability changed: what is blamed.
    #[test]
    fn each_rule_refuses() {
        for (at, val, what) in [
            (0x14c, 0x4855 | 2 << 16 | 0x20 << 20, "VSEC header"),
            (0x14c, 0x4855 | 1 << 16 | 0x1c << 20, "VSEC header"),
            (0x150, 0x4d56_5549, "VSEC magic"),
            (0x154, 2 | 5 << 16, "VSEC version"),
            (0x154, 1 | 6 << 16, "VSEC BAR"),
            (0x158, 4, "VSEC offset"),
            (0x158, 0xffff_f000, "VSEC offset"),
            (0x15c, 0xffc, "VSEC length"),
            (
                0x148,
                0x0001 | 1 << 16 | 0x100 << 20,
                "extended capabilities",
            ),
        ] {
            let mut s = space();
            s.insert(at, val);
            match look(&s) {
                Err(Error::BadDevice(w, _)) => assert_eq!(w, what, "{at:#x}"),
                other => panic!("{at:#x}: {other:?}"),
            }
        }
        assert_eq!(announced(|_| u32::MAX), Err(Error::Gone));
    }

    /// A word that is not read once is never taken for a device without the capability, nor for another one of ours.
    #[test]
    fn a_word_unread_is_gone() {
        let s = space();
        let right = look(&s);
        let reads = core::cell::Cell::new(0);
        for n in 0..20 {
            reads.set(0);
            let did = announced(|at| {
                reads.set(reads.get() + 1);
                match reads.get() == n + 1 {
                    true => u32::MAX,
                    false => s.get(&at).copied().unwrap_or(0),
                }
            });
            if reads.get() <= n {
                assert_eq!(did, right);
                assert!(n > 8);
                return;
            }
            assert_eq!(did, Err(Error::Gone), "read {n}");
        }
        panic!("too many reads");
    }

    /// Whatever a device says: an answer, after a bounded number of reads inside the space.
    #[test]
    fn any_space_ends() {
        let mut seed = 1u32;
        for _ in 0..2000 {
            let words: Vec<u32> = (0..1024)
                .map(|_| {
                    seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    // Mostly headers of ours, so that the walk goes on.
                    if seed & 0x300 == 0 {
                        seed
                    } else {
                        seed & 0xfff0_0000 | 0x1_000b
                    }
                })
                .collect();
            let reads = core::cell::Cell::new(0);
            let _any = announced(|at| {
                reads.set(reads.get() + 1);
                assert!(at % 4 == 0 && (0x100..0x1000).contains(&at));
                words[usize::from(at / 4)]
            });
            assert!(reads.get() < 2048);
        }
    }
}
