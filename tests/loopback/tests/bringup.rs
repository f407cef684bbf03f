// SPDX-License-Identifier: GPL-2.0
//! Bring-up: ids, memory size, engines, interrupts, BAR5, and a device that is gone.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests fail by panicking, helpers included"
)]

use huvm_hal::channel::{CopyFlags, SubmitFlags};
use huvm_hal::ext::discover::{discover, Extension};
use huvm_hal::ext::inject::{inject, Injection};
use huvm_hal::ext::{stats, throttle, time, topology, workload};
use huvm_hal::ga100::bringup::{identify, ptimer_ns};
use huvm_hal::ga100::fault::{Fault, FaultRing, RingKind};
use huvm_hal::ga100::invalidate::{cancel_all, invalidate_pdb, replay, ReplayKind};
use huvm_hal::ga100::irq;
use huvm_hal::ids::*;
use huvm_hal::seam::Mmio;
use huvm_hal::Error;
use huvm_loopback::driver::Driver;
use huvm_loopback::{Gpu, Loop};
use huvm_model::config::GpuConfig;

#[test]
fn identifies_ga100_with_its_memory_and_engines() {
    for (mib, ces) in [(64, 2), (256, 6), (16 << 10, 10), (128 << 10, 6)] {
        let l = Loop::new(&[GpuConfig {
            vram_bytes: mib << 20,
            ces: Some(ces),
            ..GpuConfig::default()
        }]);
        let id = identify(&l.gpu(0)).unwrap();
        assert_eq!((id.chip, id.vram_bytes), (0x170, mib << 20));
        let engines: Vec<_> = id.engines.iter().flatten().collect();
        assert_eq!(engines.len(), ces as usize);
        for (n, e) in engines.iter().enumerate() {
            assert_eq!((e.number, e.fault_id), (n as u8, 15 + n as u16));
            assert_eq!(e.runlist.channels, 2048);
        }
        let v = id.vectors;
        let got = [
            v.replayable,
            v.replayable_error,
            v.non_replayable,
            v.non_replayable_error,
        ];
        assert_eq!(got.map(|v| v.0), [64, 131, 132, 133]);
        assert_eq!((v.info_fault.0, v.access_counter.0), (134, 72));
    }
}

#[test]
fn extension_says_what_it_is() {
    let config = GpuConfig {
        vram_bytes: 128 << 20,
        realism: false,
        ..GpuConfig::default()
    };
    let l = Loop::new(&[config.clone(), config.clone(), config]);
    let e = discover(&l.gpu(1)).unwrap().unwrap();
    assert_eq!((e.gpu_index, e.gpu_count, e.vram_bytes), (1, 3, 128 << 20));
    assert!(e.timing && !e.phantom && !e.realism && e.has(0x3f));
    assert_ne!(e.uuid, discover(&l.gpu(0)).unwrap().unwrap().uuid);
    let caps = e.ce_caps.iter().flatten().collect::<Vec<_>>();
    assert!(
        !caps.is_empty() && caps.iter().any(|c| c.sys_read) && caps.iter().any(|c| c.sys_write)
    );
    let t = e.topology.unwrap();
    assert_eq!((t.host_h2d_mbps, t.host_latency_ns), (12_300, 16_700));
    // The profile links four GPUs; those to the absent one are down.
    let links: Vec<_> = (0..t.links)
        .map(|i| topology::link(&l.gpu(1), i).unwrap())
        .collect();
    let up: Vec<_> = links.iter().filter(|p| p.up).collect();
    assert_eq!(up.iter().map(|p| p.peer).collect::<Vec<_>>(), [0, 2]);
    assert!(up.iter().all(|p| p.read && p.write && p.mbps == 40_100));
    assert!(topology::link(&l.gpu(1), t.links).is_err());
    assert_eq!(e.workload.unwrap().slots, 64);
}

#[test]
fn peer_map_refuses_what_makes_no_sense() {
    let config = GpuConfig::default();
    let l = Loop::new(&[config.clone(), config]);
    let g = l.gpu(0);
    assert_eq!(topology::set_peer(&g, 3, Some(1)), Ok(()));
    assert_eq!(topology::set_peer(&g, 3, None), Ok(()));
    assert!(
        matches!(topology::set_peer(&g, 0, Some(0)), Err(Error::BadState(..))),
        "itself"
    );
    assert!(
        matches!(topology::set_peer(&g, 0, Some(5)), Err(Error::BadState(..))),
        "absent"
    );
}

/// A test interrupt on each message, masked, unmasked and re-armed.
#[test]
fn test_interrupts_come_on_the_right_message() {
    let l = Loop::one();
    let g = l.gpu(0);
    irq::quiesce(&g);
    irq::enable_top(&g, 0xf);
    for (vector, entry) in [(3, 0), (64, 1), (72, 1), (134, 2), (190, 2)] {
        let v = Vector(vector);
        irq::trigger(&g, v);
        l.settle();
        assert_eq!(l.take_messages(), [], "masked");
        assert_eq!(irq::pending(&g, entry).count(), 0);
        irq::unmask(&g, v);
        l.settle();
        assert_eq!(l.take_messages(), [(0, u32::from(entry))]);
        assert_eq!(irq::pending(&g, entry).collect::<Vec<_>>(), [v]);
        irq::rearm(&g, 0xf);
        l.settle();
        assert_eq!(
            l.take_messages(),
            [(0, u32::from(entry))],
            "still pending, sent again"
        );
        irq::clear(&g, v);
        irq::rearm(&g, 0xf);
        l.settle();
        assert_eq!(l.take_messages(), []);
        irq::mask(&g, v);
    }
    assert_eq!(irq::pending(&g, 4).count(), 0, "no such entry");
    assert!(l.take_errors().is_empty());
}

#[test]
fn timers_agree_and_go_on() {
    let l = Loop::one();
    let g = l.gpu(0);
    l.pass_ns(5_000_000_000);
    let t = ptimer_ns(&g).unwrap();
    assert_eq!(t, l.now_ns() & !0x1f);
    assert_eq!(time::now_ns(&g).unwrap(), l.now_ns());
    assert!(time::timing(&g).unwrap());
}

#[test]
fn throttle_reads_back() {
    let l = Loop::one();
    let g = l.gpu(0);
    assert_eq!(throttle::active_limit(&g), Ok(None));
    throttle::set_active_limit(&g, Some(7)).unwrap();
    assert_eq!(throttle::active_limit(&g), Ok(Some(7)));
    throttle::set_veid_limit(&g, Veid(63), Some(1)).unwrap();
    throttle::set_active_limit(&g, None).unwrap();
    assert_eq!(throttle::active_limit(&g), Ok(None));
}

#[test]
fn default_ring_sizes_are_the_devices() {
    let l = Loop::one();
    let g = l.gpu(0);
    let n = |k| FaultRing::<huvm_loopback::Mem>::default_entries(&g, k).unwrap();
    assert_eq!(
        (n(RingKind::NonReplayable), n(RingKind::Replayable)),
        (1024, 4096)
    );
}

fn gone(l: &Loop) -> Gpu {
    let g = l.gpu(0);
    inject(&g, Injection::Gone).unwrap();
    assert_eq!(g.read32(huvm_hal::seam::Bar::Regs, 0), u32::MAX);
    g
}

/// Every duty on a device that is gone: an error at once, no endless wait, no panic.
#[test]
fn a_lost_device_gives_clean_errors() {
    let l = Loop::one();
    let mut d = Driver::new(&l, 0, 2, 256).unwrap();
    let ext: Extension = d.ext;
    let g = gone(&l);
    let no_wait = &mut || panic!("waited for a device that is gone");
    assert_eq!(identify(&g), Err(Error::Gone));
    assert_eq!(ptimer_ns(&g), Err(Error::Gone));
    assert_eq!(discover(&g), Err(Error::Gone));
    assert_eq!(time::now_ns(&g), Err(Error::Gone));
    assert_eq!(stats::all(&g), Err(Error::Gone));
    assert_eq!(throttle::active_limit(&g), Err(Error::Gone));
    assert_eq!(topology::set_peer(&g, 0, Some(1)), Err(Error::Gone));
    assert_eq!(topology::link(&g, 0), Err(Error::Gone));
    assert_eq!(
        invalidate_pdb(&g, SysAddr(0x1000), no_wait),
        Err(Error::Gone)
    );
    assert_eq!(
        replay(&g, ReplayKind::StartAckAll, no_wait),
        Err(Error::Gone)
    );
    assert_eq!(cancel_all(&g, no_wait), Err(Error::Gone));
    let mut faults = [Fault::default(); 4];
    assert_eq!(
        d.replayable.drain(&g, &mut faults, no_wait),
        Err(Error::Gone)
    );
    assert_eq!(d.replayable.flush(&g, no_wait), Err(Error::Gone));
    assert_eq!(d.replayable.overflowed(&g), Err(Error::Gone));
    assert_eq!(d.replayable.recover(&g), Err(Error::Gone));
    assert_eq!(d.replayable.disable(&g, no_wait), Err(Error::Gone));
    assert_eq!(d.replayable.enable(&g), Err(Error::Gone));
    let rl = d.engines[0].runlist;
    assert_eq!(rl.init(&g, no_wait), Err(Error::Gone));
    assert_eq!(rl.preempt(&g, no_wait), Err(Error::Gone));
    assert_eq!(rl.state(&g, Chid(3)), Err(Error::Gone));
    assert_eq!(rl.clear_faulted(&g, Chid(3)), Err(Error::Gone));
    for entry in 0..4 {
        assert_eq!(irq::pending(&g, entry).count(), 0);
    }
    irq::quiesce(&g);
    let w = ext.workload.unwrap();
    assert_eq!(
        w.start(&g, 0, SysAddr(0), SysAddr(0), Veid(0)),
        Err(Error::Gone)
    );
    assert_eq!(w.report(&g, 0), Err(Error::Gone));
    assert_eq!(w.take_done(&g), Err(Error::Gone));
    assert_eq!(w.status(&g, 0), Err(Error::Gone));
    let _ = workload::Status::Idle;
    // A push goes nowhere; the wait for it ends; the channel can be given up.
    let (a, b) = (l.alloc(4096), l.alloc(4096));
    let loc = |m: &huvm_loopback::Mem| Loc::Sys(SysAddr(huvm_hal::seam::DmaMem::dma_addr(m)));
    d.push(0, SubmitFlags::default(), |p| {
        p.copy(loc(&a), loc(&b), 4096, CopyFlags { pipelined: false })
    })
    .unwrap();
    assert_eq!(d.finish(0), Err(Error::Timeout("channel idle")));
    d.channel(0).abandon();
    assert_eq!(d.finish(0), Ok(()));
}
