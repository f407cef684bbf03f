// SPDX-License-Identifier: GPL-2.0
//! `topo`: GPUs, the links between them, and who lends how much to whom.

use super::gpu;
use crate::exit::Result;
use crate::out::Out;
use crate::row::{extra, field, Cell, Field, Row, Table};
use libhuvm::{uapi, Device};
use serde::{Deserialize, Serialize};

/// A GPU, with what it lends and borrows. A driver older than interface 1.1 does not tell that; one that is lost has nothing
/// to lend.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct Node {
    index: u32,
    pci: String,
    state: String,
    vram_bytes: u64,
    lends: Option<bool>,
    lend_limit_bytes: Option<u64>,
    lend_keep_bytes: Option<u64>,
    lent_bytes: Option<u64>,
    borrowed_bytes: Option<u64>,
}

impl Row for Node {
    fn fields(&self) -> Vec<Field> {
        let bytes = |n: Option<u64>| n.map_or(Cell::None, Cell::Bytes);
        vec![
            field("index", "GPU", Cell::count(self.index)),
            field("pci", "PCI", Cell::text(&self.pci)),
            field(
                "state",
                "STATE",
                Cell::state(&self.state, self.state == "ok"),
            ),
            field("vram_bytes", "VRAM", Cell::Bytes(self.vram_bytes)),
            field("lends", "LENDS", self.lends.map_or(Cell::None, Cell::Flag)),
            field("lend_limit_bytes", "LIMIT", bytes(self.lend_limit_bytes)),
            extra("lend_keep_bytes", bytes(self.lend_keep_bytes)),
            field("lent_bytes", "LENT", bytes(self.lent_bytes)),
            field("borrowed_bytes", "BORROWED", bytes(self.borrowed_bytes)),
        ]
    }
}

/// A link of a GPU.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct Link {
    gpu: u32,
    peer: u32,
    r#type: String,
    mbps: u32,
    latency_ns: u32,
    /// `null` where no GPU is at the other end, or one that is lost: the link is down for its sake.
    up: Option<bool>,
    /// What `gpu` has lent to `peer` now.
    #[serde(default)]
    lent_bytes: Option<u64>,
}

impl Row for Link {
    fn fields(&self) -> Vec<Field> {
        let state = match self.up {
            Some(true) => Cell::state("up", true),
            Some(false) => Cell::state("down", false),
            None => Cell::text("no GPU"),
        };
        vec![
            field("gpu", "GPU", Cell::count(self.gpu)),
            field("peer", "PEER", Cell::count(self.peer)),
            field("type", "TYPE", Cell::text(&self.r#type)),
            field("mbps", "MB/S", Cell::count(self.mbps)),
            field("latency_ns", "LATENCY", Cell::Nanos(self.latency_ns.into())),
            field("state", "STATE", state),
            extra("up", self.up.map_or(Cell::None, Cell::Flag)),
            extra(
                "lent_bytes",
                self.lent_bytes.map_or(Cell::None, Cell::Bytes),
            ),
        ]
    }
}

/// What one GPU has lent to another now.
#[derive(Serialize, Deserialize)]
struct Loan {
    lender: u32,
    borrower: u32,
    bytes: u64,
}

/// The whole picture.
#[derive(Default, Serialize, Deserialize)]
struct Topo {
    gpus: Vec<Node>,
    links: Vec<Link>,
    /// Pairs with something lent; `null` from a driver that does not tell.
    lending: Option<Vec<Loan>>,
}

/// Who lends to whom, of what each GPU answered; `None` from a driver older than the call. A GPU that is lost meanwhile
/// lends nothing.
fn lending(
    chunk: u64,
    answers: impl Iterator<Item = libhuvm::Result<uapi::huvm_lend_info>>,
) -> Result<Option<Lending>> {
    let mut all = Lending {
        chunk,
        ..Lending::default()
    };
    for answer in answers {
        let l = match answer {
            Ok(l) => l,
            Err(e) if e.gpu_gone() => continue,
            Err(e) if e.errno() == Some(25) => return Ok(None), // ENOTTY
            Err(e) => return Err(e.into()),
        };
        for (borrower, n) in (0u32..).zip(l.lent_chunks).filter(|(_, n)| *n != 0) {
            all.loans.push(Loan {
                lender: l.gpu,
                borrower,
                bytes: n.saturating_mul(chunk),
            });
        }
        all.infos.push(l);
    }
    Ok(Some(all))
}

/// Who lends to whom now.
fn loans(device: &Device, gpus: &[uapi::huvm_gpu_info]) -> Result<Option<Lending>> {
    let chunk = device.version()?.chunk_bytes;
    lending(chunk, gpus.iter().map(|g| device.lend_info(g.gpu)))
}

/// What the driver says about lending.
#[derive(Default)]
struct Lending {
    loans: Vec<Loan>,
    infos: Vec<uapi::huvm_lend_info>,
    chunk: u64,
}

/// Sum of the loans that are meant.
fn sum<'a>(loans: impl IntoIterator<Item = &'a Loan>, of: impl Fn(&Loan) -> bool) -> u64 {
    let those = loans.into_iter().filter(|l| of(l));
    those.fold(0, |sum, l| sum.saturating_add(l.bytes))
}

fn node(g: &uapi::huvm_gpu_info, lending: Option<&Lending>) -> Node {
    let mut n = Node {
        index: g.gpu,
        pci: Device::pci_name(g),
        state: gpu::state(g).into(),
        vram_bytes: g.vram_bytes,
        ..Node::default()
    };
    if let Some(all) = lending {
        n.lent_bytes = Some(sum(&all.loans, |l| l.lender == g.gpu));
        n.borrowed_bytes = Some(sum(&all.loans, |l| l.borrower == g.gpu));
        if let Some(l) = all.infos.iter().find(|l| l.gpu == g.gpu) {
            // Of one that is lost nothing can be had.
            if g.state == uapi::HUVM_GPU_OK {
                n.lends = Some(l.lends != 0);
                n.lend_limit_bytes = Some(l.limit_chunks.saturating_mul(all.chunk));
            }
            n.lend_keep_bytes = Some(l.keep_chunks.saturating_mul(all.chunk));
        }
    }
    n
}

fn link(
    gpu: u32,
    l: &uapi::huvm_link_info,
    gpus: &[uapi::huvm_gpu_info],
    lending: Option<&Lending>,
) -> Link {
    Link {
        gpu,
        peer: l.peer,
        r#type: if l.type_ == uapi::HUVM_LINK_NVLINK {
            "nvlink"
        } else {
            "pcie"
        }
        .into(),
        mbps: l.mbps,
        latency_ns: l.latency_ns,
        up: gpu::there(gpus, l.peer).then_some(l.up != 0),
        lent_bytes: lending.map(|all| sum(&all.loans, |x| x.lender == gpu && x.borrower == l.peer)),
    }
}

/// The links of these GPUs. One that is lost meanwhile has none.
fn of(
    device: &Device,
    gpus: &[uapi::huvm_gpu_info],
    lending: Option<&Lending>,
) -> Result<Vec<Link>> {
    let mut links = Vec::new();
    for g in gpus.iter().filter(|g| g.state == uapi::HUVM_GPU_OK) {
        let some = match device.links(g.gpu) {
            Ok(some) => some,
            Err(e) if e.gpu_gone() => continue,
            Err(e) => return Err(e.into()),
        };
        links.extend(some.iter().map(|l| link(g.gpu, l, gpus, lending)));
    }
    Ok(links)
}

/// All links.
pub(super) fn links(device: &Device) -> Result<Vec<Link>> {
    let gpus = device.gpus()?;
    of(device, &gpus, loans(device, &gpus)?.as_ref())
}

fn gather(device: &Device) -> Result<Topo> {
    let gpus = device.gpus()?;
    let lending = loans(device, &gpus)?;
    Ok(Topo {
        gpus: gpus.iter().map(|g| node(g, lending.as_ref())).collect(),
        links: of(device, &gpus, lending.as_ref())?,
        lending: lending.map(|all| all.loans),
    })
}

/// Lenders down, borrowers across.
fn matrix(t: &Topo, loans: &[Loan], exact: bool) -> Table {
    let mut head = vec!["LENDER".to_owned()];
    head.extend(t.gpus.iter().map(|g| format!("TO-GPU-{}", g.index)));
    let rows = t.gpus.iter().map(|lender| {
        let to = t.gpus.iter().map(|borrower| {
            let pair = |l: &Loan| l.lender == lender.index && l.borrower == borrower.index;
            match sum(loans, pair) {
                0 => Cell::None,
                n => Cell::Bytes(n),
            }
        });
        std::iter::once(Cell::text(format!("gpu {}", lender.index)))
            .chain(to)
            .collect()
    });
    Table::raw(head, rows.collect::<Vec<Vec<Cell>>>(), exact)
}

pub(super) fn show(out: &Out) -> Result<()> {
    let t: Topo = out.read("topo", gather)?;
    out.show("topo", &t, &t.links, || {
        let mut text = out.render(&t.gpus);
        text.push('\n');
        if t.links.is_empty() {
            text.push_str("no links between GPUs\n");
        } else {
            text.push_str(&out.render(&t.links));
        }
        text.push('\n');
        match t.lending.as_deref() {
            None => text.push_str("this driver does not tell who lends to whom\n"),
            Some([]) => text.push_str("nothing is lent now\n"),
            Some(loans) => text.push_str(&out.draw(matrix(&t, loans, out.exact))),
        }
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gpu_that_leaves_meanwhile_lends_nothing() {
        let failed = |errno| {
            Err(libhuvm::Error::Os {
                what: "asking".into(),
                errno,
            })
        };
        let mut one = uapi::huvm_lend_info {
            gpu: 1,
            ..Default::default()
        };
        one.lent_chunks[0] = 3;
        // GPU 0 left, GPU 2 is lost.
        let answers = vec![failed(19), Ok(one), failed(5)];
        let all = lending(2 << 20, answers.into_iter()).unwrap().unwrap();
        assert_eq!((all.loans.len(), all.infos.len()), (1, 1));
        assert_eq!((all.loans[0].lender, all.loans[0].bytes), (1, 6 << 20));
        // An older driver does not know the call; any other failure is one.
        assert!(lending(2 << 20, vec![failed(25)].into_iter())
            .unwrap()
            .is_none());
        assert!(lending(2 << 20, vec![Ok(one), failed(1)].into_iter()).is_err());
    }

    #[test]
    fn a_link_to_no_gpu_is_neither_up_nor_down() {
        let gpu = |gpu, state| uapi::huvm_gpu_info {
            gpu,
            state,
            ..Default::default()
        };
        let gpus = [
            gpu(0, uapi::HUVM_GPU_OK),
            gpu(1, uapi::HUVM_GPU_LOST),
            gpu(2, uapi::HUVM_GPU_OK),
        ];
        let state = |peer, up| {
            let l = uapi::huvm_link_info {
                peer,
                up,
                ..Default::default()
            };
            let l = link(0, &l, &gpus, None);
            let fields = l.fields();
            let state = fields.into_iter().find(|f| f.name == "state").unwrap();
            (l.up, state.cell)
        };
        assert_eq!(state(2, 1), (Some(true), Cell::state("up", true)));
        assert_eq!(state(2, 0), (Some(false), Cell::state("down", false)));
        // One is lost, the other not there.
        for peer in [1, 3] {
            assert_eq!(state(peer, 0), (None, Cell::text("no GPU")), "{peer}");
        }
    }

    #[test]
    fn sums_do_not_mix_lender_and_borrower() {
        let loan = |lender, borrower, bytes| Loan {
            lender,
            borrower,
            bytes,
        };
        let all = Lending {
            loans: vec![loan(1, 0, 4), loan(2, 0, 8), loan(0, 2, 16)],
            infos: Vec::new(),
            chunk: 2,
        };
        let g = uapi::huvm_gpu_info::default();
        let n = node(&g, Some(&all));
        assert_eq!((n.lent_bytes, n.borrowed_bytes), (Some(16), Some(12)));
        assert_eq!(n.lends, None);
        assert_eq!(node(&g, None).lent_bytes, None);
    }

    #[test]
    fn a_lost_gpu_has_nothing_to_lend() {
        let all = Lending {
            infos: vec![uapi::huvm_lend_info {
                lends: 1,
                limit_chunks: 31,
                keep_chunks: 1,
                ..Default::default()
            }],
            chunk: 2,
            ..Lending::default()
        };
        for (state, lends, limit) in [
            (uapi::HUVM_GPU_OK, Some(true), Some(62)),
            (uapi::HUVM_GPU_LOST, None, None),
        ] {
            let g = uapi::huvm_gpu_info {
                state,
                ..Default::default()
            };
            let n = node(&g, Some(&all));
            assert_eq!((n.lends, n.lend_limit_bytes), (lends, limit));
            assert_eq!(n.lend_keep_bytes, Some(2));
        }
    }
}
