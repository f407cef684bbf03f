// SPDX-License-Identifier: GPL-2.0
//! Why a GPU, or a channel of it, was lost, and what to do, in words.

use libhuvm::uapi;

/// Of a reason (`enum huvm_lost`) and what it names: a sentence that follows "GPU 0 was lost:".
pub(super) fn why(reason: u64, named: u64) -> String {
    match u32::try_from(reason).unwrap_or(u32::MAX) {
        uapi::HUVM_LOST_NONE => "the driver does not say why".into(),
        uapi::HUVM_LOST_GONE => "it does not answer, and is off the bus or without power".into(),
        uapi::HUVM_LOST_RESET => "it was reset under the driver".into(),
        uapi::HUVM_LOST_INVALIDATE => "a TLB invalidate was not acknowledged".into(),
        uapi::HUVM_LOST_REPLAY => "a replay of faults was not acknowledged".into(),
        uapi::HUVM_LOST_CHANNEL => {
            format!("a copy engine goes on with channel {named}, which it was told to leave")
        }
        uapi::HUVM_LOST_LAUNCH => {
            format!("it does not say that the launch in slot {named} has ended")
        }
        uapi::HUVM_LOST_SEMAPHORE => {
            format!("the semaphore of channel {named} says what cannot be")
        }
        uapi::HUVM_LOST_FAULT_RING => "a fault ring gave nothing but errors".into(),
        uapi::HUVM_LOST_UNBOUND => "its driver let go of it in good order".into(),
        other => format!("reason {other}, which a later uvmctl has words for"),
    }
}

/// What to do with a lost GPU, of that reason and with that PCI address.
pub(super) fn remedy(reason: u32, address: &str) -> String {
    let driver = "/sys/bus/pci/drivers/huvm";
    match reason {
        uapi::HUVM_LOST_GONE => format!(
            "reset the machine; 'echo {address} > {driver}/unbind' lets go of the GPU until then"
        ),
        _ => format!(
            "'echo {address} > {driver}/unbind', which resets it, then the same to {driver}/bind"
        ),
    }
}

/// Of an `enum huvm_channel_end`: why a channel was given up.
pub(super) fn channel_end(why: u64) -> &'static str {
    match u32::try_from(why).unwrap_or(u32::MAX) {
        uapi::HUVM_CHANNEL_STALLED => "the channel completed nothing for 10 s and was given up",
        uapi::HUVM_CHANNEL_FAULTED => "the channel faulted again and again and was given up",
        _ => "the channel was given up",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_has_words_of_its_own() {
        let all: Vec<String> = (uapi::HUVM_LOST_NONE..=uapi::HUVM_LOST_FAULT_RING)
            .map(|r| why(r.into(), 77))
            .collect();
        for (n, text) in all.iter().enumerate() {
            assert!(!text.contains("a later uvmctl"), "{n}: {text}");
            assert!(!all[..n].contains(text), "{n}: {text}");
        }
        assert!(why(uapi::HUVM_LOST_CHANNEL.into(), 77).contains("channel 77"));
        assert!(why(1 << 40, 0).contains("a later uvmctl"));
    }
}
