// SPDX-License-Identifier: GPL-2.0
//! Keys from the bytes that a terminal sends. The drawing library's own reader needs local sockets, which the kernel of a
//! small guest does not have.

use std::io::Read;
use std::sync::mpsc::{channel, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

/// A key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    Char(char),
    Up,
    Down,
    Left,
    Right,
    Home,
    End,
    PageUp,
    PageDown,
    Enter,
    Esc,
    Backspace,
    F(u8),
    /// Ctrl-C.
    Interrupt,
    /// A sequence that means nothing here.
    Other,
}

/// Longest sequence that is waited for.
const LONGEST: usize = 16;
/// How long the rest of a sequence may take; an Esc alone is that key then.
const REST: Duration = Duration::from_millis(100);

/// Takes one key from the front of `bytes`. `None`: there is not enough of it yet.
fn take(bytes: &mut Vec<u8>) -> Option<Key> {
    let (key, used) = match bytes.as_slice() {
        [] => return None,
        [0x1b, b'[', rest @ ..] => {
            // Parameters, then one letter or '~'.
            let end = rest.iter().position(|b| (0x40..=0x7e).contains(b))?;
            let (parameters, last) = (rest.get(..end)?, rest.get(end)?);
            (sequence(parameters, *last), end + 3)
        }
        [0x1b, b'O', last, ..] => (sequence(&[], *last), 3),
        [0x1b] | [0x1b, b'O'] => return None,
        [0x1b, ..] => (Key::Esc, 1),
        [3, ..] => (Key::Interrupt, 1),
        [b'\r' | b'\n', ..] => (Key::Enter, 1),
        [8 | 0x7f, ..] => (Key::Backspace, 1),
        [b, ..] if *b < 0x20 => (Key::Other, 1),
        [b, ..] => {
            let length = match b {
                0xf0.. => 4,
                0xe0.. => 3,
                0xc0.. => 2,
                _ => 1,
            };
            let text = std::str::from_utf8(bytes.get(..length)?).ok();
            match text.and_then(|t| t.chars().next()) {
                Some(c) => (Key::Char(c), length),
                None => (Key::Other, 1),
            }
        }
    };
    bytes.drain(..used.min(bytes.len()));
    Some(key)
}

fn sequence(parameters: &[u8], last: u8) -> Key {
    match (parameters, last) {
        (_, b'A') => Key::Up,
        (_, b'B') => Key::Down,
        (_, b'C') => Key::Right,
        (_, b'D') => Key::Left,
        (_, b'H') | (b"1" | b"7", b'~') => Key::Home,
        (_, b'F') | (b"4" | b"8", b'~') => Key::End,
        (b"5", b'~') => Key::PageUp,
        (b"6", b'~') => Key::PageDown,
        (b"17", b'~') => Key::F(6),
        (b"21", b'~') => Key::F(10),
        _ => Key::Other,
    }
}

/// Keys of the terminal at standard input.
pub(super) struct Keys {
    from: Receiver<Vec<u8>>,
    bytes: Vec<u8>,
    since: Instant,
}

impl Keys {
    /// Starts to read. The reading thread ends with the program or with the terminal.
    pub(super) fn new() -> Self {
        let (to, from) = channel();
        std::thread::spawn(move || {
            let mut stdin = std::io::stdin().lock();
            let mut buffer = [0; 64];
            while let Ok(n) = stdin.read(&mut buffer) {
                let read = buffer.get(..n).unwrap_or_default();
                if read.is_empty() || to.send(read.to_vec()).is_err() {
                    return;
                }
            }
        });
        Keys {
            from,
            bytes: Vec::new(),
            since: Instant::now(),
        }
    }

    /// The next key, if one comes in this time.
    pub(super) fn next(&mut self, wait: Duration) -> Option<Key> {
        if let Some(key) = take(&mut self.bytes) {
            return Some(key);
        }
        let wait = if self.bytes.is_empty() { wait } else { REST };
        match self.from.recv_timeout(wait) {
            Ok(more) => {
                self.bytes.extend(more);
                self.since = Instant::now();
                take(&mut self.bytes)
            }
            Err(e) => {
                if e == RecvTimeoutError::Disconnected {
                    std::thread::sleep(wait);
                }
                self.stale()
            }
        }
    }

    /// The rest of a sequence did not come: what is there was an Esc, or nothing.
    fn stale(&mut self) -> Option<Key> {
        let old = self.bytes.len() > LONGEST || self.since.elapsed() >= REST;
        if self.bytes.is_empty() || !old {
            return None;
        }
        let esc = self.bytes == [0x1b];
        self.bytes.clear();
        esc.then_some(Key::Esc)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(bytes: &[u8]) -> (Vec<Key>, usize) {
        let mut bytes = bytes.to_vec();
        let mut keys = Vec::new();
        while let Some(k) = take(&mut bytes) {
            keys.push(k);
        }
        (keys, bytes.len())
    }

    #[test]
    fn what_terminals_send_is_read() {
        for (bytes, key) in [
            (&b"q"[..], Key::Char('q')),
            ("é".as_bytes(), Key::Char('é')),
            ("汉".as_bytes(), Key::Char('汉')),
            (b"\x1b[A", Key::Up),
            (b"\x1bOB", Key::Down),
            (b"\x1b[1;5C", Key::Right),
            (b"\x1b[D", Key::Left),
            (b"\x1b[1~", Key::Home),
            (b"\x1bOF", Key::End),
            (b"\x1b[5~", Key::PageUp),
            (b"\x1b[6~", Key::PageDown),
            (b"\x1b[17~", Key::F(6)),
            (b"\x1b[21~", Key::F(10)),
            (b"\x1b[200~", Key::Other),
            (b"\r", Key::Enter),
            (b"\x7f", Key::Backspace),
            (b"\x03", Key::Interrupt),
            (b"\x01", Key::Other),
            (b"\xff", Key::Other),
        ] {
            let mut more = bytes.to_vec();
            if bytes == b"\xff" {
                more.extend(b"abc");
            }
            assert_eq!(all(&more).0.first(), Some(&key), "{bytes:?}");
        }
        let (keys, left) = all(b"a\x1b[B\x1b[Bq");
        assert_eq!(
            (keys, left),
            (
                vec![Key::Char('a'), Key::Down, Key::Down, Key::Char('q')],
                0
            )
        );
    }

    #[test]
    fn half_a_sequence_waits_for_the_rest() {
        for part in [&b"\x1b"[..], b"\x1b[", b"\x1b[1;", b"\x1bO", b"\xe6\xb1"] {
            assert_eq!(all(part), (vec![], part.len()), "{part:?}");
        }
    }

    #[test]
    fn what_stays_half_is_an_esc_or_nothing() {
        let (_to, from) = channel();
        let mut keys = Keys {
            from,
            bytes: vec![0x1b],
            since: Instant::now(),
        };
        assert_eq!(keys.next(Duration::ZERO), Some(Key::Esc));
        keys.bytes = b"\x1b[1;".to_vec();
        assert_eq!(keys.next(Duration::ZERO), None);
        assert!(keys.bytes.is_empty());
    }

    #[test]
    fn no_bytes_stop_it() {
        // Every pair of bytes, and long rubbish: each comes to an end.
        for a in 0..=255u8 {
            for b in 0..=255u8 {
                all(&[0x1b, a, b]);
                all(&[a, b]);
            }
        }
        all(&[b'['; 1000]);
        all(&[0x1b; 1000]);
    }
}
