// SPDX-License-Identifier: GPL-2.0
//! The list: family, name, what it does, where its pattern is known from.

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
const GRAPH500: &str =
    "Graph500 specification 2.0: A 0.57, B and C 0.19, D 0.05; its edge factor 16 is the least here, up to 33 fill what is asked for";
/// Layers of the ResNets.
const RESNET: &str = "He et al., CVPR 2016, table 1";
/// Layers and schedule of GNMT.
const GNMT: &str = "Wu et al., arXiv 1609.08144; 1F1B of Narayanan et al., SOSP 2019";
/// Kernels of PolyBench/GPU.
const POLYBENCH: &str = "PolyBench/GPU 1.0 (Grauer-Gray et al., InPar 2012)";

/// Kernels of Polybench, Rodinia and the CUDA SDK.
const KERNEL: &str = "kernel";
/// Accesses at random.
const RANDOM: &str = "random";
/// Analytics on graphs.
const GRAPH: &str = "graph";
/// Training of neural networks.
const TRAINING: &str = "training";
/// Queries of a trained model or an index.
const SERVING: &str = "serving";

const fn entry(
    family: &'static str,
    name: &'static str,
    doc: &'static str,
    source: &'static str,
    make: fn(&Ask) -> Workload,
) -> Entry {
    Entry {
        name,
        family,
        doc,
        source,
        make,
    }
}

/// An algorithm on a graph whose vertices have their numbers permuted, as in a social network.
macro_rules! social {
    ($name:literal, $doc:literal, $make:path) => {
        entry(
            GRAPH,
            $name,
            concat!($doc, "; R-MAT, numbers permuted"),
            GRAPH500,
            |ask| $make($name, Kind::Social, ask),
        )
    };
}

/// The same on a graph in crawl order, as of the web.
macro_rules! web {
    ($name:literal, $doc:literal, $make:path) => {
        entry(
            GRAPH,
            $name,
            concat!($doc, "; R-MAT in crawl order"),
            GRAPH500,
            |ask| $make($name, Kind::Web, ask),
        )
    };
}

/// Training of a network's layers.
macro_rules! training {
    ($name:literal, $source:expr, $layers:path) => {
        entry(
            TRAINING,
            $name,
            "training: forward, backward, Adam",
            $source,
            |ask| train::make($name, $layers(), ask),
        )
    };
}

/// A stage of GNMT's pipeline.
macro_rules! gnmt {
    ($name:literal, $layers:literal, $stage:literal, $keeps:literal) => {
        entry(
            TRAINING,
            $name,
            concat!(
                "GNMT of ",
                $layers,
                " layers, stage ",
                $stage,
                " of 4: batches kept: ",
                $keeps
            ),
            GNMT,
            |ask| gnmt::make($name, $layers, $stage, ask),
        )
    };
}

/// All workloads.
pub const CATALOG: &[Entry] = &[
    entry(
        KERNEL,
        "stream-triad",
        "z = x + 3·y, one pass",
        UVMSMART,
        stream::triad,
    ),
    entry(
        KERNEL,
        "add-vectors",
        "z = x + y, one pass",
        UVMSMART,
        stream::add,
    ),
    entry(
        KERNEL,
        "2dconv",
        "rows i-1 to i+1 of A make row i of B, one pass",
        POLYBENCH,
        conv::conv2d,
    ),
    entry(
        KERNEL,
        "3dconv",
        "planes k-1 to k+1 make plane k, two arrays in turn",
        UVMSMART,
        conv::conv3d,
    ),
    entry(
        KERNEL,
        "hotspot",
        "temperature and power of a chip: three arrays in a cycle",
        UVMSMART,
        stencil::hotspot,
    ),
    entry(
        KERNEL,
        "srad",
        "speckle reduction: the CPU looks at the image between iterations",
        UVMSMART,
        stencil::srad,
    ),
    entry(
        KERNEL,
        "fdtd",
        "finite differences in 2-D: three fields, two at a time",
        UVMSMART,
        stencil::fdtd,
    ),
    entry(
        KERNEL,
        "pathfinder",
        "a wall streamed once, two small hot rows",
        UVMSMART,
        pathfinder::make,
    ),
    entry(
        KERNEL,
        "backprop",
        "weights forward, then both copies updated in the same order",
        UVMSMART,
        backprop::make,
    ),
    entry(
        KERNEL,
        "nw",
        "anti-diagonals of tiles over two matrices, down and up",
        UVMSMART,
        nw::make,
    ),
    entry(
        KERNEL,
        "atax",
        "A by columns of pages, then by rows",
        POLYBENCH,
        matvec::atax,
    ),
    entry(
        KERNEL,
        "mvt",
        "both orders on one matrix",
        POLYBENCH,
        matvec::mvt,
    ),
    entry(
        KERNEL,
        "bicg",
        "A by rows, then by columns of pages",
        POLYBENCH,
        matvec::bicg,
    ),
    entry(
        KERNEL,
        "gesummv",
        "two matrices by columns of pages",
        POLYBENCH,
        matvec::gesummv,
    ),
    entry(
        KERNEL,
        "lud",
        "tiles: pivot row and column hot, the rest swept, smaller each step",
        UVMSMART,
        lud::make,
    ),
    entry(
        KERNEL,
        "lavamd",
        "boxes of 100 particles with their 26 neighbours",
        "Rodinia 3.1, lavaMD (Che et al., IISWC 2009)",
        lavamd::make,
    ),
    entry(
        KERNEL,
        "kmeans",
        "points streamed, centroids hot, 10 iterations",
        "Rodinia 3.1, kmeans (Che et al., IISWC 2009)",
        kmeans::make,
    ),
    entry(
        RANDOM,
        "ra",
        "input swept, table read and output written at random",
        UVMSMART,
        random::ra,
    ),
    entry(
        RANDOM,
        "uniform",
        "pages read evenly at random",
        "its definition",
        random::uniform,
    ),
    entry(
        RANDOM,
        "zipf",
        "pages read at random, chunks of 2 MiB by Zipf's law with exponent 0.9",
        "its definition",
        random::zipf,
    ),
    social!(
        "pagerank",
        "PageRank by pulling, 20 iterations",
        pagerank::make
    ),
    web!(
        "pagerank-web",
        "PageRank by pulling, 20 iterations",
        pagerank::make
    ),
    social!("bfs", "breadth-first search, level by level", bfs::make),
    web!("bfs-web", "breadth-first search, level by level", bfs::make),
    social!(
        "wcc",
        "connected components by label propagation",
        wcc::make
    ),
    web!(
        "wcc-web",
        "connected components by label propagation",
        wcc::make
    ),
    social!("sssp", "shortest paths by relaxation", sssp::make),
    web!("sssp-web", "shortest paths by relaxation", sssp::make),
    social!(
        "louvain",
        "communities: sweeps over smaller and smaller graphs",
        louvain::make
    ),
    web!(
        "louvain-web",
        "communities: sweeps over smaller and smaller graphs",
        louvain::make
    ),
    training!(
        "vgg16",
        "Simonyan and Zisserman, ICLR 2015, table 1, D",
        vgg::vgg16
    ),
    training!("resnet50", RESNET, resnet::resnet50),
    training!("resnet101", RESNET, resnet::resnet101),
    training!(
        "mobilenet",
        "Howard et al., arXiv 1704.04861, table 1",
        mobilenet::mobilenet
    ),
    gnmt!("gnmt8-0", 8, 0, 4),
    gnmt!("gnmt8-1", 8, 1, 3),
    gnmt!("gnmt8-2", 8, 2, 2),
    gnmt!("gnmt8-3", 8, 3, 1),
    gnmt!("gnmt16-0", 16, 0, 4),
    gnmt!("gnmt16-1", 16, 1, 3),
    gnmt!("gnmt16-2", 16, 2, 2),
    gnmt!("gnmt16-3", 16, 3, 1),
    entry(
        SERVING,
        "llm-decode",
        "tokens: all layers in a cycle, growing keys and values",
        "Llama 2, arXiv 2307.09288",
        llm::dense,
    ),
    entry(
        SERVING,
        "llm-moe",
        "tokens: 2 of 8 experts a layer",
        "Mixtral, arXiv 2401.04088",
        llm::experts,
    ),
    entry(
        SERVING,
        "faiss",
        "queries of an inverted index: lists of 2 MiB anywhere",
        "Johnson et al., IEEE Trans. Big Data 2021",
        faiss::make,
    ),
];
