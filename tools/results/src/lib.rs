// SPDX-License-Identifier: GPL-2.0
//! What is made of results: what optimal replacement would have moved on the same trace ([`replay`]), rows
//! of experiments ([`rows`]), two sets of them side by side ([`compare`]), pictures
//! of rows and of recorded events ([`plot`]), the page of results ([`doc`]).
//!
//! A tool of the host: it never asks the driver. Same input, same bytes out, on any machine: no clock, no thread, no
//! order of a hash table.
#![forbid(unsafe_code)]

pub mod compare;
pub mod doc;
pub mod draw;
pub mod events;
pub mod failure;
pub mod fill;
pub mod plot;
pub mod replay;
pub mod rows;
pub mod table;

pub use huvm_workloads::units;
