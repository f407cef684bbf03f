// SPDX-License-Identifier: GPL-2.0
//! What the machine has.

use crate::exit::{Failure, Result};

/// Bytes of its memory.
pub(crate) fn memory() -> Option<u64> {
    read("MemTotal")
}

/// Bytes of memory that it can still give.
pub(crate) fn available() -> Option<u64> {
    read("MemAvailable")
}

/// Whether the machine has memory left for data that the CPU fills. Of several such data: asked before each, when those before are filled.
///
/// # Errors
/// Usage, if it has not: the kernel would kill who fills it.
pub(crate) fn has_room(bytes: u64) -> Result<()> {
    room(bytes, available().or_else(memory))
}

fn room(bytes: u64, memory: Option<u64>) -> Result<()> {
    match memory {
        Some(memory) if memory < bytes => {
            let [bytes, memory] = [bytes, memory].map(|b| b >> 20);
            Err(Failure::Usage(format!(
                "the CPU fills the data first: {bytes} MiB, and this machine has {memory} MiB of memory free; take a smaller --size or --ratio"
            )))
        }
        _ => Ok(()),
    }
}

fn read(name: &str) -> Option<u64> {
    field(&std::fs::read_to_string("/proc/meminfo").ok()?, name)
}

pub(crate) fn field(text: &str, name: &str) -> Option<u64> {
    let value = |l: &str| l.strip_prefix(name)?.strip_prefix(':').map(str::to_owned);
    let line = text.lines().find_map(value)?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_machine_has_no_memory_for_is_refused() {
        let of = |bytes, memory| room(bytes, memory).map_err(|e| e.code());
        assert_eq!(of(4 << 20, Some(4 << 20)), Ok(()));
        assert_eq!(of((4 << 20) + 1, Some(4 << 20)), Err(2));
        // Where nobody says how much there is.
        assert_eq!(of(u64::MAX, None), Ok(()));
    }

    /// Catches a name taken for a longer one, KiB taken for bytes, and an overflow.
    #[test]
    fn fields_of_meminfo() {
        let text =
            "MemTotalX:  7 kB\nMemTotal:       4013952 kB\nHuge: 3\nMuch: 99999999999999999 kB\n";
        assert_eq!(field(text, "MemTotal"), Some(4_013_952 << 10));
        assert_eq!(field(text, "MemAvailable"), None);
        assert_eq!(field(text, "Huge"), None);
        assert_eq!(field(text, "Much"), None);
    }
}
