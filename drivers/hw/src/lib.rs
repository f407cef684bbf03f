// SPDX-License-Identifier: GPL-2.0
//! huvm_hw: see Documentation/design.md.
