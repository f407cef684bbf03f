// SPDX-License-Identifier: GPL-2.0
//! libhuvm: see Documentation/design.md.
