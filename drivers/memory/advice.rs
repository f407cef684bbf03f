// SPDX-License-Identifier: GPL-2.0
//! Advice about the pages of a block (`enum huvm_advice`), page by page: a range that ends inside a block advises its own
//! pages alone. A block that nobody advised about has none, at no cost.

use super::{PageIndex, PageMask, Place};
use crate::kernel::memcg::CHARGED;
use kernel::prelude::*;

/// What is advised about one page.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct PageAdvice {
    /// Where it should live.
    pub(crate) preferred: Option<Place>,
    /// GPUs that keep a mapping, a bit each.
    pub(crate) accessed_by: u32,
    /// Reads duplicate it.
    pub(crate) read_mostly: bool,
}

/// # Invariants
/// No mask of `preferred` or `accessed_by` is empty; a place and a GPU occur once; a page is in one mask of `preferred` at
/// most.
struct Masks {
    preferred: KVec<(Place, PageMask)>,
    accessed_by: KVec<(u8, PageMask)>,
    read_mostly: PageMask,
}

/// Advice about the pages of a block.
pub(crate) struct Advice(Option<KBox<Masks>>);

/// Adds `pages` to the mask of `key`. Without memory nothing changes.
fn add<K: Copy + PartialEq>(list: &mut KVec<(K, PageMask)>, key: K, pages: &PageMask) -> Result {
    if let Some((_, m)) = list.iter_mut().find(|(k, _)| *k == key) {
        *m |= *pages;
        return Ok(());
    }
    Ok(list.push((key, *pages), CHARGED)?)
}

/// Takes `pages` from the masks of which `of` says so.
fn take<K: Copy>(list: &mut KVec<(K, PageMask)>, pages: &PageMask, of: impl Fn(K) -> bool) {
    for (k, m) in list.iter_mut() {
        if of(*k) {
            *m = m.and_not(pages);
        }
    }
    list.retain(|(_, m)| !m.is_empty());
}

fn union<K>(list: &KVec<(K, PageMask)>, of: impl Fn(&K) -> bool) -> PageMask {
    let mut all = PageMask::EMPTY;
    for (_, m) in list.iter().filter(|(k, _)| of(k)) {
        all |= *m;
    }
    all
}

impl Advice {
    /// None about any page.
    pub(crate) const NONE: Advice = Advice(None);

    /// Whether there is none about any page.
    pub(crate) fn is_none(&self) -> bool {
        self.0.is_none()
    }

    /// About one page.
    pub(crate) fn of(&self, page: PageIndex) -> PageAdvice {
        let Some(a) = &self.0 else {
            return PageAdvice::default();
        };
        let preferred = a.preferred.iter().find(|(_, m)| m.test(page));
        let mappers = a.accessed_by.iter().filter(|(_, m)| m.test(page));
        PageAdvice {
            preferred: preferred.map(|(p, _)| *p),
            accessed_by: mappers.fold(0, |all, (g, _)| {
                all | 1u32.checked_shl((*g).into()).unwrap_or(0)
            }),
            read_mostly: a.read_mostly.test(page),
        }
    }

    /// Pages about which the same is advised as about `page`, which is one of them.
    pub(crate) fn same_as(&self, page: PageIndex) -> PageMask {
        let mut same = PageMask::FULL;
        let Some(a) = &self.0 else {
            return same;
        };
        let mut narrow = |m: &PageMask| {
            same = if m.test(page) {
                same.and(m)
            } else {
                same.and_not(m)
            };
        };
        a.preferred.iter().for_each(|(_, m)| narrow(m));
        a.accessed_by.iter().for_each(|(_, m)| narrow(m));
        narrow(&a.read_mostly);
        same
    }

    /// Pages whose reads duplicate.
    pub(crate) fn read_mostly(&self) -> PageMask {
        self.0.as_ref().map_or(PageMask::EMPTY, |a| a.read_mostly)
    }

    /// Pages that should live at a place other than `here`.
    pub(crate) fn prefer_another(&self, here: Place) -> PageMask {
        let a = self.0.as_ref();
        a.map_or(PageMask::EMPTY, |a| union(&a.preferred, |p| *p != here))
    }

    /// Pages that should live at `place`.
    pub(crate) fn prefer(&self, place: Place) -> PageMask {
        let a = self.0.as_ref();
        a.map_or(PageMask::EMPTY, |a| union(&a.preferred, |p| *p == place))
    }

    /// Pages of which some GPU keeps a mapping.
    pub(crate) fn accessed(&self) -> PageMask {
        let a = self.0.as_ref();
        a.map_or(PageMask::EMPTY, |a| union(&a.accessed_by, |_| true))
    }

    /// Says where `pages` should live.
    ///
    /// # Errors
    /// `ENOMEM`; nothing changes then.
    pub(crate) fn set_preferred(&mut self, place: Option<Place>, pages: &PageMask) -> Result {
        if let Some(place) = place {
            self.grow(|a| add(&mut a.preferred, place, pages))?;
        }
        self.drop_from(|a| take(&mut a.preferred, pages, |p| Some(p) != place));
        Ok(())
    }

    /// Says whether GPU `g` keeps a mapping of `pages`.
    ///
    /// # Errors
    /// `ENOMEM`; nothing changes then.
    pub(crate) fn set_accessed_by(&mut self, g: u8, on: bool, pages: &PageMask) -> Result {
        if on {
            return self.grow(|a| add(&mut a.accessed_by, g, pages));
        }
        self.drop_from(|a| take(&mut a.accessed_by, pages, |other| other == g));
        Ok(())
    }

    /// Says whether reads of `pages` duplicate.
    ///
    /// # Errors
    /// `ENOMEM`; nothing changes then.
    pub(crate) fn set_read_mostly(&mut self, on: bool, pages: &PageMask) -> Result {
        if on {
            return self.grow(|a| {
                a.read_mostly |= *pages;
                Ok(())
            });
        }
        self.drop_from(|a| a.read_mostly = a.read_mostly.and_not(pages));
        Ok(())
    }

    /// Forgets what was advised about `pages`: they are in no range any more.
    pub(crate) fn forget(&mut self, pages: &PageMask) {
        self.drop_from(|a| {
            take(&mut a.preferred, pages, |_| true);
            take(&mut a.accessed_by, pages, |_| true);
            a.read_mostly = a.read_mostly.and_not(pages);
        });
    }

    /// Adds something; if that fails nothing is left behind.
    fn grow(&mut self, f: impl FnOnce(&mut Masks) -> Result) -> Result {
        let a = match self.0.take() {
            Some(a) => a,
            None => KBox::new(
                Masks {
                    preferred: KVec::new(),
                    accessed_by: KVec::new(),
                    read_mostly: PageMask::EMPTY,
                },
                CHARGED,
            )?,
        };
        let did = f(self.0.insert(a));
        self.drop_from(|_| {});
        did
    }

    /// Takes something away; without any advice left there is none.
    fn drop_from(&mut self, f: impl FnOnce(&mut Masks)) {
        let Some(a) = self.0.as_mut() else {
            return;
        };
        f(a);
        let left =
            !a.preferred.is_empty() || !a.accessed_by.is_empty() || !a.read_mostly.is_empty();
        if !left {
            self.0 = None;
        }
    }
}
