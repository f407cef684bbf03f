// SPDX-License-Identifier: GPL-2.0
//! Bit fields, and the three small macros that declare formats once: as constants and as a table that tests walk.

/// A field `hi:lo` of a 32-bit word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field32 {
    hi: u8,
    lo: u8,
}

impl Field32 {
    /// Bits `hi:lo`. Called in constants only, where the assertion is a build error.
    pub(crate) const fn new(hi: u8, lo: u8) -> Self {
        assert!(lo <= hi && hi < 32);
        Field32 { hi, lo }
    }

    /// Largest value that the field holds.
    pub const fn max(self) -> u32 {
        u32::MAX.wrapping_shr(31u32.wrapping_sub(self.hi.wrapping_sub(self.lo) as u32))
    }

    /// The field's value in `word`.
    pub const fn get(self, word: u32) -> u32 {
        word.wrapping_shr(self.lo as u32) & self.max()
    }

    /// Whether the field is not zero in `word`.
    pub const fn is_set(self, word: u32) -> bool {
        self.get(word) != 0
    }

    /// `value` at the field's place, other bits zero; bits above the field's width are dropped.
    pub const fn of(self, value: u32) -> u32 {
        (value & self.max()).wrapping_shl(self.lo as u32)
    }

    /// `word` with the field replaced; bits of `value` above the field's width are dropped.
    pub const fn set(self, word: u32, value: u32) -> u32 {
        (word & !self.of(u32::MAX)) | self.of(value)
    }

    /// As [`Self::of`], `None` if `value` does not fit.
    pub const fn checked(self, value: u32) -> Option<u32> {
        if value > self.max() {
            return None;
        }
        Some(self.of(value))
    }
}

/// A field `hi:lo` of a 64-bit word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field64 {
    hi: u8,
    lo: u8,
}

impl Field64 {
    /// Bits `hi:lo`. Called in constants only, where the assertion is a build error.
    pub(crate) const fn new(hi: u8, lo: u8) -> Self {
        assert!(lo <= hi && hi < 64);
        Field64 { hi, lo }
    }

    /// Largest value that the field holds.
    pub const fn max(self) -> u64 {
        u64::MAX.wrapping_shr(63u32.wrapping_sub(self.hi.wrapping_sub(self.lo) as u32))
    }

    /// The field's value in `word`.
    pub const fn get(self, word: u64) -> u64 {
        word.wrapping_shr(self.lo as u32) & self.max()
    }

    /// Whether the field is not zero in `word`.
    pub const fn is_set(self, word: u64) -> bool {
        self.get(word) != 0
    }

    /// `value` at the field's place, other bits zero; bits above the field's width are dropped.
    pub const fn of(self, value: u64) -> u64 {
        (value & self.max()).wrapping_shl(self.lo as u32)
    }

    /// `word` with the field replaced; bits of `value` above the field's width are dropped.
    pub const fn set(self, word: u64, value: u64) -> u64 {
        (word & !self.of(u64::MAX)) | self.of(value)
    }

    /// As [`Self::of`], `None` if `value` does not fit.
    pub const fn checked(self, value: u64) -> Option<u64> {
        if value > self.max() {
            return None;
        }
        Some(self.of(value))
    }
}

/// A field of a format of 32-bit words.
#[derive(Clone, Copy, Debug)]
pub struct Named32 {
    /// Name in the reference table.
    pub name: &'static str,
    /// Index of the word.
    pub word: usize,
    /// Place in the word.
    pub field: Field32,
}

/// A field of a format of 64-bit words.
#[derive(Clone, Copy, Debug)]
pub struct Named64 {
    /// Name in the reference table.
    pub name: &'static str,
    /// Index of the word.
    pub word: usize,
    /// Place in the word.
    pub field: Field64,
}

/// A register, or an array of registers, in BAR0 or in a block whose base the device reports.
#[derive(Clone, Copy, Debug)]
pub struct Register {
    /// Name of its module.
    pub name: &'static str,
    /// Offset of the first one.
    pub offset: u32,
    /// How many there are.
    pub count: u32,
    /// Bytes from one to the next.
    pub stride: u32,
    /// Its fields.
    pub fields: &'static [Named32],
}

/// Low and high halves of a 64-bit value.
pub const fn split(v: u64) -> (u32, u32) {
    // CAST: the two halves.
    (v as u32, (v >> 32) as u32)
}

/// The 64-bit value of two halves.
pub const fn join(lo: u32, hi: u32) -> u64 {
    lo as u64 | (hi as u64) << 32
}

/// `NAME = (word, hi, lo);` each: a `Field32` constant, and all of them in `FIELDS`.
macro_rules! fields32 {
    ($($(#[$m:meta])* $name:ident = ($w:literal, $hi:literal, $lo:literal);)*) => {
        $(
            $(#[$m])*
            #[doc = concat!("Bits ", stringify!($hi), ":", stringify!($lo), " of word ", stringify!($w), ".")]
            pub const $name: $crate::bits::Field32 = $crate::bits::Field32::new($hi, $lo);
        )*
        /// Every field of the format.
        pub const FIELDS: &[$crate::bits::Named32] = &[$(
            $crate::bits::Named32 { name: stringify!($name), word: $w, field: $name },
        )*];
    };
}
pub(crate) use fields32;

/// `NAME = (word, hi, lo);` each: a `Field64` constant, and all of them in `FIELDS`.
macro_rules! fields64 {
    ($($(#[$m:meta])* $name:ident = ($w:literal, $hi:literal, $lo:literal);)*) => {
        $(
            $(#[$m])*
            #[doc = concat!("Bits ", stringify!($hi), ":", stringify!($lo), " of quadword ", stringify!($w), ".")]
            pub const $name: $crate::bits::Field64 = $crate::bits::Field64::new($hi, $lo);
        )*
        /// Every field of the format.
        pub const FIELDS: &[$crate::bits::Named64] = &[$(
            $crate::bits::Named64 { name: stringify!($name), word: $w, field: $name },
        )*];
    };
}
pub(crate) use fields64;

/// `name @ offset [count; stride] { FIELD = hi, lo; }` each: a module with OFFSET, `at`, the fields; all in `REGISTERS`.
macro_rules! registers {
    ($($(#[$m:meta])* $name:ident @ $off:literal $([$count:expr; $stride:expr])? {
        $($f:ident = ($hi:literal, $lo:literal);)*
    })*) => {
        $(
            $(#[$m])*
            pub mod $name {
                /// Offset of the (first) register.
                pub const OFFSET: u32 = $off;
                /// Number of registers and bytes from one to the next.
                pub const SHAPE: (u32, u32) = { let _s = (1u32, 4u32); $(let _s = ($count, $stride);)? _s };
                /// Offset of register `i`, `None` beyond the last.
                pub const fn at(i: u32) -> Option<u32> {
                    if i >= SHAPE.0 {
                        return None;
                    }
                    Some(OFFSET.wrapping_add(i.wrapping_mul(SHAPE.1)))
                }
                $crate::bits::fields32! { $($f = (0, $hi, $lo);)* }
            }
        )*
        /// Every register of this unit.
        pub const REGISTERS: &[$crate::bits::Register] = &[$(
            $crate::bits::Register {
                name: stringify!($name),
                offset: $name::OFFSET,
                count: $name::SHAPE.0,
                stride: $name::SHAPE.1,
                fields: $name::FIELDS,
            },
        )*];
    };
}
pub(crate) use registers;

/// An enum over the codes of one field, with `raw`, `from_raw` and `ALL`.
macro_rules! codes {
    ($(#[$m:meta])* $name:ident { $($(#[$vm:meta])* $v:ident = $code:literal,)* }) => {
        $(#[$m])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum $name {
            $(
                $(#[$vm])*
                #[doc = concat!("Code ", stringify!($code), ".")]
                $v = $code,
            )*
        }

        impl $name {
            /// Every code there is.
            pub const ALL: &'static [$name] = &[$($name::$v,)*];

            /// The field's value.
            pub const fn raw(self) -> u32 {
                // CAST: the discriminant.
                self as u32
            }

            /// The meaning of a field's value, `None` for one that the reference does not list.
            pub const fn from_raw(raw: u32) -> Option<$name> {
                match raw {
                    $($code => Some($name::$v),)*
                    _ => None,
                }
            }
        }
    };
}
pub(crate) use codes;
