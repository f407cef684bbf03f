// SPDX-License-Identifier: GPL-2.0
//! Inference, search and clustering. Shares marked as chosen are this project's.

pub(crate) mod faiss;
pub(crate) mod kmeans;
pub(crate) mod llm;
