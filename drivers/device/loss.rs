// SPDX-License-Identifier: GPL-2.0
//! Why a GPU is lost.
//!
//! A new reason needs a variant here, its number in `uapi/huvm.h` (`enum huvm_lost`), and its words in `uvmctl` (`loss.rs`).

use crate::kernel::ffi::uapi;
use huvm_hal::ids::ChannelId;
use kernel::fmt;

/// Why a GPU is lost: a number for programs, and words for the log. Some name what was waited for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Loss {
    /// Its registers read all ones: it is off the bus, or without power.
    Gone,
    /// It was reset under the driver.
    Reset,
    /// A TLB invalidate was not acknowledged.
    Invalidate,
    /// A replay was not acknowledged.
    Replay,
    /// A copy engine goes on with this channel, which it was told to leave.
    Channel(ChannelId),
    /// This channel's semaphore says what was never submitted, or less than before.
    Semaphore(ChannelId),
    /// A fault ring gives nothing but errors.
    FaultRing,
    /// It does not say that the launch in this slot has ended: one that was aborted, or with a status that means nothing.
    Launch(u32),
    /// Its driver lets go of it in good order.
    Unbound,
}

impl Loss {
    /// `enum huvm_lost`.
    const fn code(self) -> u32 {
        match self {
            Loss::Gone => uapi::HUVM_LOST_GONE,
            Loss::Reset => uapi::HUVM_LOST_RESET,
            Loss::Invalidate => uapi::HUVM_LOST_INVALIDATE,
            Loss::Replay => uapi::HUVM_LOST_REPLAY,
            Loss::Channel(_) => uapi::HUVM_LOST_CHANNEL,
            Loss::Semaphore(_) => uapi::HUVM_LOST_SEMAPHORE,
            Loss::FaultRing => uapi::HUVM_LOST_FAULT_RING,
            Loss::Launch(_) => uapi::HUVM_LOST_LAUNCH,
            Loss::Unbound => uapi::HUVM_LOST_UNBOUND,
        }
    }

    /// What the reason names: a channel, a slot; else 0.
    fn detail(self) -> u32 {
        match self {
            Loss::Channel(id) | Loss::Semaphore(id) => id.0.into(),
            Loss::Launch(slot) => slot,
            Loss::Gone | Loss::Reset | Loss::Invalidate | Loss::Replay => 0,
            Loss::FaultRing | Loss::Unbound => 0,
        }
    }

    /// In one word, which is not 0, so that a GPU has one reason whoever finds it.
    pub(super) fn pack(self) -> u64 {
        u64::from(self.detail()) << 32 | u64::from(self.code())
    }

    /// Of such a word the number of the reason (0: not lost), and what it names.
    pub(super) fn unpack(word: u64) -> (u32, u32) {
        // CAST: the halves.
        (word as u32, (word >> 32) as u32)
    }
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Loss::Gone => f.write_str("it does not answer"),
            Loss::Reset => f.write_str("it is reset"),
            Loss::Invalidate => f.write_str("a TLB invalidate was not acknowledged"),
            Loss::Replay => f.write_str("a replay was not acknowledged"),
            Loss::Channel(id) => write!(
                f,
                "an engine goes on with channel {}, which it was told to leave",
                id.0
            ),
            Loss::Semaphore(id) => {
                write!(f, "the semaphore of channel {} says what cannot be", id.0)
            }
            Loss::FaultRing => f.write_str("a fault ring does not work"),
            Loss::Launch(slot) => write!(
                f,
                "it does not say that the launch in slot {slot} has ended"
            ),
            Loss::Unbound => f.write_str("its driver lets go of it"),
        }
    }
}
