// SPDX-License-Identifier: GPL-2.0
//! huvm_policy: see Documentation/design.md.
