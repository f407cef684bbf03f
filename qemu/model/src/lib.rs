// SPDX-License-Identifier: GPL-2.0
//! huvm_model: see Documentation/design.md.
