// SPDX-License-Identifier: GPL-2.0
//! TOPOLOGY block: the links, and what a peer id means.

use huvm_hw::ext::topology as reg;

use crate::gpu::{Cx, Gpu};

impl Gpu {
    /// Reads a register of the block.
    pub(crate) fn topology_read(&self, offset: u32, cx: &Cx<'_>) -> u32 {
        let p = &cx.fabric.profile;
        match offset {
            reg::LINK_COUNT => return cx.fabric.links(cx.gpu).len() as u32,
            reg::HOST_H2D_MBPS => return p.host_h2d_mbps,
            reg::HOST_D2H_MBPS => return p.host_d2h_mbps,
            reg::HOST_LATENCY_NS => return p.host_latency_ns,
            reg::VRAM_MBPS => return p.vram_mbps,
            _ => {}
        }
        let peer = offset.wrapping_sub(reg::PEER_MAP0) / 4;
        if let Some(Some(gpu)) = self.peer_map.get(peer as usize) {
            return reg::PEER_VALID | *gpu as u32;
        }
        let Some(rel) = offset.checked_sub(reg::LINK0) else {
            return 0;
        };
        let Some(link) = cx
            .fabric
            .links(cx.gpu)
            .get((rel / reg::LINK_STRIDE) as usize)
        else {
            return 0;
        };
        let up = cx.fabric.link_up(cx.gpu, link.peer);
        match rel % reg::LINK_STRIDE {
            reg::LINK_PEER => link.peer as u32,
            reg::LINK_TYPE => link.kind.code(),
            reg::LINK_MBPS => link.mbps,
            reg::LINK_LATENCY_NS => link.latency_ns,
            reg::LINK_STATE => u32::from(up),
            // Read, write, atomics.
            reg::LINK_CAPS => 7,
            _ => 0,
        }
    }

    /// Writes a register of the block.
    pub(crate) fn topology_write(&mut self, offset: u32, value: u32, cx: &mut Cx<'_>) {
        let peer = offset.wrapping_sub(reg::PEER_MAP0) / 4;
        if let Some(entry) = self.peer_map.get_mut(peer as usize) {
            let gpu = (value & 0xff) as usize;
            let usable =
                value & reg::PEER_VALID != 0 && gpu != cx.gpu && cx.fabric.linked(cx.gpu, gpu);
            *entry = usable.then_some(gpu);
        }
    }

    /// The GPU behind a peer id, if an access can reach it now.
    pub(crate) fn peer(&self, id: u32, cx: &Cx<'_>) -> Option<usize> {
        let gpu = (*self.peer_map.get(id as usize)?)?;
        cx.fabric.link_up(cx.gpu, gpu).then_some(gpu)
    }
}
