// SPDX-License-Identifier: GPL-2.0
//! huvm_loopback: see Documentation/design.md.
