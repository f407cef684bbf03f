// SPDX-License-Identifier: GPL-2.0
//! Method buffers: what a copy engine saves of a launch when its channel is switched out in the middle of it (hw-interface.md 1.1, 4.6).
//!
//! A real one saves what it goes on with. This one goes on by itself, and saves words that are its own: where they are not any more when
//! the channel comes back, somebody else uses that memory. Address 0, which a driver leaves that knows of no buffer, is none.

use crate::ce::MTHD_BUFFER_FAULT;
use crate::gpu::{Cx, Gpu};
use crate::host::Place;
use crate::window::Aperture;

impl Gpu {
    /// Words that a channel's engine saves: as many as public nvgpu makes room for. Each engine here is one physical one.
    fn ce_words(&self) -> u64 {
        (9 + 1 + 3) * u64::from(self.ce_count()) + 2
    }

    /// Where a channel's method buffer is.
    fn method_buffer(&mut self, runlist: usize, chid: u32, cx: &mut Cx<'_>) -> Option<Place> {
        let va = self.channel(runlist, chid)?.instance?.method_buffer;
        let bytes = 4 * self.ce_words();
        let va = Some(va).filter(|va| *va != 0)?;
        self.aperture_place(Aperture::Bar2, va, bytes, true, cx)
    }

    /// The channel is switched out in the middle of a launch.
    pub(crate) fn ce_save(&mut self, runlist: usize, chid: u32, cx: &mut Cx<'_>) {
        let bytes = saved_bytes(cx.now as u32, self.ce_words());
        let at = self.method_buffer(runlist, chid, cx);
        let saved = at.is_some_and(|at| cx.write(at, &bytes).is_ok());
        if !saved {
            return self.ce_breaks(runlist, chid, cx);
        }
        if let Some(c) = self.channel(runlist, chid) {
            c.saved = Some(cx.now as u32);
        }
    }

    /// The channel comes back; whether it goes on.
    pub(crate) fn ce_restore(&mut self, runlist: usize, chid: u32, cx: &mut Cx<'_>) -> bool {
        let Some(seed) = self.channel(runlist, chid).and_then(|c| c.saved.take()) else {
            return true;
        };
        let want = saved_bytes(seed, self.ce_words());
        let mut got = vec![0; want.len()];
        let at = self.method_buffer(runlist, chid, cx);
        let restored = at.is_some_and(|at| cx.read(at, &mut got).is_ok()) && got == want;
        if !restored {
            self.ce_breaks(runlist, chid, cx);
        }
        restored
    }

    /// There is no way to save or to restore: the engine refuses, as it does a bad launch.
    fn ce_breaks(&mut self, runlist: usize, chid: u32, cx: &mut Cx<'_>) {
        cx.guest_error("channel without a method buffer of its own");
        if let Some(c) = self.channel(runlist, chid) {
            c.dead = true;
        }
        self.ce_status(runlist, MTHD_BUFFER_FAULT, cx);
    }
}

fn saved_bytes(seed: u32, words: u64) -> Vec<u8> {
    (0..words as u32)
        .flat_map(|i| (seed ^ i.wrapping_mul(0x9e37_79b9)).to_le_bytes())
        .collect()
}
