// SPDX-License-Identifier: GPL-2.0
//! What the machine has.

/// Bytes of its memory.
pub(crate) fn memory() -> Option<u64> {
    read("MemTotal")
}

/// Bytes of memory that it can still give.
pub(crate) fn available() -> Option<u64> {
    read("MemAvailable")
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
