// SPDX-License-Identifier: GPL-2.0
//! The list: name, what it does, where its pattern is known from.

use super::{Ask, Entry};
use crate::dnn::{gnmt, mobilenet, resnet, train, vgg};
use crate::graph::rmat::Kind;
use crate::graph::{bfs, louvain, pagerank, sssp, wcc};
use crate::ml::{faiss, kmeans, llm};
use crate::pattern::{
    backprop, conv, lavamd, lud, matvec, nw, pathfinder, random, stencil, stream,
};
use crate::Workload;

/// Array sizes and kernels of DebashisGanguly/gpgpu-sim_UVMSmart's benchmarks.
const UVMSMART: &str =
    "UVMSmart's reference inputs (github.com/DebashisGanguly/gpgpu-sim_UVMSmart)";
/// Parameters of the graphs.
const GRAPH500: &str = "Graph500 specification 2.0: A 0.57, B and C 0.19, D 0.05, edge factor 16";
/// Layers of the ResNets.
const RESNET: &str = "He et al., CVPR 2016, table 1";
/// Layers and schedule of GNMT.
const GNMT: &str = "Wu et al., arXiv 1609.08144; 1F1B of Narayanan et al., SOSP 2019";
/// Kernels of PolyBench/GPU.
const POLYBENCH: &str = "PolyBench/GPU 1.0 (Grauer-Gray et al., InPar 2012)";

const fn entry(
    name: &'static str,
    doc: &'static str,
    source: &'static str,
    make: fn(&Ask) -> Workload,
) -> Entry {
    Entry {
        name,
        doc,
        source,
        make,
    }
}

/// All workloads.
pub const CATALOG: &[Entry] = &[
    entry(
        "stream-triad",
        "z = x + 3·y, one pass",
        UVMSMART,
        stream::triad,
    ),
    entry("add-vectors", "z = x + y, one pass", UVMSMART, stream::add),
    entry(
        "2dconv",
        "rows i-1 to i+1 of A make row i of B, one pass",
        POLYBENCH,
        conv::conv2d,
    ),
    entry(
        "3dconv",
        "planes k-1 to k+1 make plane k, two arrays in turn",
        UVMSMART,
        conv::conv3d,
    ),
    entry(
        "hotspot",
        "temperature and power of a chip: three arrays in a cycle",
        UVMSMART,
        stencil::hotspot,
    ),
    entry(
        "srad",
        "speckle reduction: the CPU looks at the image between iterations",
        UVMSMART,
        stencil::srad,
    ),
    entry(
        "fdtd",
        "finite differences in 2-D: three fields, two at a time",
        UVMSMART,
        stencil::fdtd,
    ),
    entry(
        "pathfinder",
        "a wall streamed once, two small hot rows",
        UVMSMART,
        pathfinder::make,
    ),
    entry(
        "backprop",
        "weights forward, then both copies updated in the same order",
        UVMSMART,
        backprop::make,
    ),
    entry(
        "nw",
        "anti-diagonals of tiles over two matrices, down and up",
        UVMSMART,
        nw::make,
    ),
    entry(
        "atax",
        "A by columns of pages, then by rows",
        POLYBENCH,
        matvec::atax,
    ),
    entry("mvt", "both orders on one matrix", POLYBENCH, matvec::mvt),
    entry(
        "bicg",
        "A by rows, then by columns of pages",
        POLYBENCH,
        matvec::bicg,
    ),
    entry(
        "gesummv",
        "two matrices by columns of pages",
        POLYBENCH,
        matvec::gesummv,
    ),
    entry(
        "lud",
        "tiles: pivot row and column hot, the rest swept, smaller each step",
        UVMSMART,
        lud::make,
    ),
    entry(
        "lavamd",
        "boxes of 100 particles with their 26 neighbours",
        "Rodinia 3.1, lavaMD (Che et al., IISWC 2009)",
        lavamd::make,
    ),
    entry(
        "ra",
        "input swept, table read and output written at random",
        UVMSMART,
        random::ra,
    ),
    entry(
        "uniform",
        "pages read evenly at random",
        "its definition",
        random::uniform,
    ),
    entry(
        "zipf",
        "pages read at random, chunks of 2 MiB by Zipf's law with exponent 0.9",
        "its definition",
        random::zipf,
    ),
    entry(
        "pagerank",
        "PageRank by pulling, 20 iterations; R-MAT, numbers permuted",
        GRAPH500,
        |ask| pagerank::make("pagerank", Kind::Social, ask),
    ),
    entry(
        "pagerank-web",
        "PageRank by pulling, 20 iterations; R-MAT in crawl order",
        GRAPH500,
        |ask| pagerank::make("pagerank-web", Kind::Web, ask),
    ),
    entry(
        "bfs",
        "breadth-first search, level by level; R-MAT, numbers permuted",
        GRAPH500,
        |ask| bfs::make("bfs", Kind::Social, ask),
    ),
    entry(
        "bfs-web",
        "breadth-first search, level by level; R-MAT in crawl order",
        GRAPH500,
        |ask| bfs::make("bfs-web", Kind::Web, ask),
    ),
    entry(
        "wcc",
        "connected components by label propagation; R-MAT, numbers permuted",
        GRAPH500,
        |ask| wcc::make("wcc", Kind::Social, ask),
    ),
    entry(
        "wcc-web",
        "connected components by label propagation; R-MAT in crawl order",
        GRAPH500,
        |ask| wcc::make("wcc-web", Kind::Web, ask),
    ),
    entry(
        "sssp",
        "shortest paths by relaxation; R-MAT, numbers permuted",
        GRAPH500,
        |ask| sssp::make("sssp", Kind::Social, ask),
    ),
    entry(
        "sssp-web",
        "shortest paths by relaxation; R-MAT in crawl order",
        GRAPH500,
        |ask| sssp::make("sssp-web", Kind::Web, ask),
    ),
    entry(
        "louvain",
        "communities: sweeps over smaller and smaller graphs; R-MAT, numbers permuted",
        GRAPH500,
        |ask| louvain::make("louvain", Kind::Social, ask),
    ),
    entry(
        "louvain-web",
        "communities: sweeps over smaller and smaller graphs; R-MAT in crawl order",
        GRAPH500,
        |ask| louvain::make("louvain-web", Kind::Web, ask),
    ),
    entry(
        "vgg16",
        "training: forward, backward, Adam",
        "Simonyan and Zisserman, ICLR 2015, table 1, D",
        |ask| train::make("vgg16", vgg::vgg16(), ask),
    ),
    entry(
        "resnet50",
        "training: forward, backward, Adam",
        RESNET,
        |ask| train::make("resnet50", resnet::resnet50(), ask),
    ),
    entry(
        "resnet101",
        "training: forward, backward, Adam",
        RESNET,
        |ask| train::make("resnet101", resnet::resnet101(), ask),
    ),
    entry(
        "mobilenet",
        "training: forward, backward, Adam",
        "Howard et al., arXiv 1704.04861, table 1",
        |ask| train::make("mobilenet", mobilenet::mobilenet(), ask),
    ),
    entry(
        "gnmt8-0",
        "GNMT of 8 layers, stage 0 of 4: keeps 4 batches",
        GNMT,
        |ask| gnmt::make("gnmt8-0", 8, 0, ask),
    ),
    entry(
        "gnmt8-1",
        "GNMT of 8 layers, stage 1 of 4: keeps 3 batches",
        GNMT,
        |ask| gnmt::make("gnmt8-1", 8, 1, ask),
    ),
    entry(
        "gnmt8-2",
        "GNMT of 8 layers, stage 2 of 4: keeps 2 batches",
        GNMT,
        |ask| gnmt::make("gnmt8-2", 8, 2, ask),
    ),
    entry(
        "gnmt8-3",
        "GNMT of 8 layers, stage 3 of 4: keeps 1 batches",
        GNMT,
        |ask| gnmt::make("gnmt8-3", 8, 3, ask),
    ),
    entry(
        "gnmt16-0",
        "GNMT of 16 layers, stage 0 of 4: keeps 4 batches",
        GNMT,
        |ask| gnmt::make("gnmt16-0", 16, 0, ask),
    ),
    entry(
        "gnmt16-1",
        "GNMT of 16 layers, stage 1 of 4: keeps 3 batches",
        GNMT,
        |ask| gnmt::make("gnmt16-1", 16, 1, ask),
    ),
    entry(
        "gnmt16-2",
        "GNMT of 16 layers, stage 2 of 4: keeps 2 batches",
        GNMT,
        |ask| gnmt::make("gnmt16-2", 16, 2, ask),
    ),
    entry(
        "gnmt16-3",
        "GNMT of 16 layers, stage 3 of 4: keeps 1 batches",
        GNMT,
        |ask| gnmt::make("gnmt16-3", 16, 3, ask),
    ),
    entry(
        "llm-decode",
        "tokens: all layers in a cycle, growing keys and values",
        "Llama 2, arXiv 2307.09288",
        llm::dense,
    ),
    entry(
        "llm-moe",
        "tokens: 2 of 8 experts a layer",
        "Mixtral, arXiv 2401.04088",
        llm::experts,
    ),
    entry(
        "faiss",
        "queries of an inverted index: lists of 2 MiB anywhere",
        "Johnson et al., IEEE Trans. Big Data 2021",
        faiss::make,
    ),
    entry(
        "kmeans",
        "points streamed, centroids hot, 10 iterations",
        "Rodinia 3.1, kmeans (Che et al., IISWC 2009)",
        kmeans::make,
    ),
];
