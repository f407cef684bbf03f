// SPDX-License-Identifier: GPL-2.0
//! Numbers for people.

/// Bytes of a chunk of a GPU's memory.
pub const CHUNK: u64 = 2 << 20;
/// Bytes of a block of addresses: what a chunk holds.
pub const BLOCK: u64 = CHUNK;

/// Bytes in IEC units with one decimal; exact below 1 KiB.
pub fn bytes(n: u64) -> String {
    scaled(n, 1024.0, &["B", "KiB", "MiB", "GiB", "TiB"])
}

/// Nanoseconds in the largest unit that keeps three digits.
pub fn time(ns: u64) -> String {
    scaled(ns, 1000.0, &["ns", "us", "ms", "s"])
}

fn scaled(n: u64, step: f64, units: &[&str]) -> String {
    let mut value = n as f64;
    let mut chosen = units.first().copied().unwrap_or("");
    for unit in units.iter().skip(1) {
        // As it would be shown: what is rounded up to a whole unit is one.
        if (value * 10.0).round() / 10.0 < step {
            break;
        }
        value /= step;
        chosen = unit;
    }
    if Some(&chosen) == units.first() {
        format!("{n} {chosen}")
    } else {
        format!("{value:.1} {chosen}")
    }
}

/// A size as people write it: 4096, 64K, 16M, 2GiB (powers of 1024).
///
/// # Errors
/// What is wrong with the text.
pub fn parse_bytes(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let cut = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (digits, unit) = text.split_at(cut);
    if unit.starts_with(['.', ',']) {
        return Err(format!(
            "'{text}' is no whole number; use a smaller unit: 1536M for 1.5G"
        ));
    }
    let shift = match unit.trim_end_matches("iB").trim_end_matches('B') {
        "" => 0,
        "K" | "k" => 10,
        "M" | "m" => 20,
        "G" | "g" => 30,
        "T" | "t" => 40,
        other => return Err(format!("'{other}' is no unit; use K, M, G or T")),
    };
    let n: u64 = digits.parse().map_err(|_| format!("'{text}' is no size"))?;
    n.checked_mul(1 << shift)
        .ok_or_else(|| format!("'{text}' is too large"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_people_write_them() {
        assert_eq!(parse_bytes("4096"), Ok(4096));
        assert_eq!(parse_bytes("64K"), Ok(65536));
        assert_eq!(parse_bytes("2GiB"), Ok(2 << 30));
        assert!(parse_bytes("12X").is_err());
        for part in ["1.5G", "1,5G", "2.0", ".5G"] {
            let why = parse_bytes(part).unwrap_err();
            assert!(why.contains("whole number"), "{why}");
        }
        assert!(parse_bytes("").is_err());
        assert!(parse_bytes("99999999999999T").is_err());
    }

    #[test]
    fn numbers_are_shown_with_one_decimal() {
        assert_eq!(bytes(0), "0 B");
        assert_eq!(bytes(1023), "1023 B");
        assert_eq!(bytes(3 << 19), "1.5 MiB");
        assert_eq!(time(999), "999 ns");
        assert_eq!(time(1_500_000), "1.5 ms");
        // A thousand of a unit is one of the next, also when it is rounded up to that.
        assert_eq!(bytes((1 << 20) - 1), "1.0 MiB");
        assert_eq!(time(999_999), "1.0 ms");
        assert_eq!(time(999_949), "999.9 us");
    }

    #[test]
    fn sizes_are_read_and_written() {
        assert_eq!(parse_bytes("64K"), Ok(65536));
        assert_eq!(parse_bytes("2GiB"), Ok(2 << 30));
        assert_eq!(parse_bytes("17"), Ok(17));
        for bad in ["", "M", "1X", "1.5G", "1,5", "99999999T", "-1"] {
            assert!(parse_bytes(bad).is_err(), "{bad}");
        }
        assert_eq!(bytes(1023), "1023 B");
        assert_eq!(bytes(3 << 19), "1.5 MiB");
        assert_eq!(time(1_234_567), "1.2 ms");
    }
}
