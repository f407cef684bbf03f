// SPDX-License-Identifier: GPL-2.0
//! Access-counter notifications: drain.
