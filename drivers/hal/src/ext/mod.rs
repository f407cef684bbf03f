// SPDX-License-Identifier: GPL-2.0
//! What is invented (BAR5, Documentation/device.md). The driver comes up with none of it present.

pub mod discover;
pub mod inject;
pub mod program;
pub mod stats;
pub mod throttle;
pub mod time;
pub mod topology;
pub mod workload;
