// SPDX-License-Identifier: GPL-2.0
//! huvm_hal: see Documentation/design.md.
