// SPDX-License-Identifier: GPL-2.0
//! huvm_model_ffi: see Documentation/design.md.
