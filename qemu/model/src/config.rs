// SPDX-License-Identifier: GPL-2.0
//! What a GPU is made of: the options of the device and the timing profile of the machine.

use huvm_hw::ext;

/// Largest VRAM, bytes: page tables version 2 address 37 bits.
pub const VRAM_MAX_BYTES: u64 = 1 << 37;
/// Smallest VRAM, bytes.
pub const VRAM_MIN_BYTES: u64 = 64 << 20;
/// Copy engines, at least.
pub const CES_MIN: u32 = 2;
/// Copy engines, at most (GA100 has MMU engine ids for ten).
pub const CES_MAX: u32 = 10;

/// Options of one GPU (`Documentation/device.md` section 3).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GpuConfig {
    /// Index in the machine; `None` takes the first free one.
    pub index: Option<usize>,
    /// VRAM in bytes, a multiple of 1 MiB.
    pub vram_bytes: u64,
    /// Operations take time from the profile.
    pub timing: bool,
    /// Copies and workloads move no bytes.
    pub phantom: bool,
    /// Copy engines; `None` takes the profile's count.
    pub ces: Option<u32>,
    /// Realism switches on (late VALID, reordered and duplicate packets, negative TLB).
    pub realism: bool,
    /// Seed of the generator behind the chances.
    pub seed: u32,
}

impl Default for GpuConfig {
    fn default() -> Self {
        GpuConfig {
            index: None,
            vram_bytes: 256 << 20,
            timing: true,
            phantom: false,
            ces: None,
            realism: true,
            seed: 1,
        }
    }
}

/// Type of a link between two GPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkKind {
    /// Peer traffic crosses both host links.
    Pcie,
    /// A link of its own.
    Nvlink,
}

impl LinkKind {
    /// Code in the TOPOLOGY block.
    pub(crate) fn code(self) -> u32 {
        match self {
            LinkKind::Pcie => ext::topology::LINK_TYPE_PCIE,
            LinkKind::Nvlink => ext::topology::LINK_TYPE_NVLINK,
        }
    }
}

/// A link of the profile; it runs in both directions, each with the full bandwidth.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProfileLink {
    /// One end.
    pub a: usize,
    /// The other end.
    pub b: usize,
    /// Type.
    pub kind: LinkKind,
    /// Bandwidth per direction, 10^6 bytes per second.
    pub mbps: u32,
    /// Latency of an operation over it, ns.
    pub latency_ns: u32,
}

/// Timing profile: every figure that the model needs to tell how long something takes.
///
/// MB/s is 10^6 bytes per second.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    /// Name, for people.
    pub name: String,
    /// Identity recorded with results: see [`Profile::hash`].
    pub id: u32,
    /// Host link towards the GPU, MB/s.
    pub host_h2d_mbps: u32,
    /// Host link towards the host, MB/s.
    pub host_d2h_mbps: u32,
    /// Latency of a copy over the host link, ns.
    pub host_latency_ns: u32,
    /// Local memory, MB/s.
    pub vram_mbps: u32,
    /// Logical copy engines.
    pub ce_count: u32,
    /// What one copy engine can move, MB/s.
    pub ce_mbps: u32,
    /// Fixed cost of a copy-engine launch, ns. Of pipelined ones it runs beside the data of the one before.
    pub launch_ns: u32,
    /// From doorbell to the first method, ns.
    pub doorbell_ns: u32,
    /// From a failed translation to PUT moving, ns.
    pub fault_ns: u32,
    /// From a pulse to the message leaving, ns.
    pub intr_ns: u32,
    /// From a replay to the retry of the stalled accesses, ns.
    pub replay_ns: u32,
    /// A TLB invalidate, ns.
    pub invalidate_ns: u32,
    /// Instructions that each CPU of the machine executes in a microsecond; the model itself has no use for it.
    pub cpu_mips: u32,
    /// Blocks that a GPU runs at once.
    pub max_resident: u32,
    /// Entries that SIZE.SET_DEFAULT gives: non-replayable, replayable.
    pub fault_entries: [u32; 2],
    /// Links between GPUs.
    pub links: Vec<ProfileLink>,
}

impl Profile {
    /// Identity of a profile's text: the upper half of its 64-bit FNV-1a hash.
    pub fn hash(text: &[u8]) -> u32 {
        let mut h = 0xcbf2_9ce4_8422_2325u64;
        for &b in text {
            h = (h ^ u64::from(b)).wrapping_mul(0x0000_0100_0000_01b3);
        }
        (h >> 32) as u32
    }

    /// Links of every pair of `gpus` GPUs.
    pub fn all_to_all(gpus: usize, kind: LinkKind, mbps: u32, latency_ns: u32) -> Vec<ProfileLink> {
        let mut links = Vec::new();
        for a in 0..gpus {
            for b in a + 1..gpus {
                links.push(ProfileLink {
                    a,
                    b,
                    kind,
                    mbps,
                    latency_ns,
                });
            }
        }
        links
    }

    /// Says what is wrong with the figures, if anything is.
    pub fn check(&self) -> Result<(), String> {
        for (name, value) in [
            ("host-link h2d-mbps", self.host_h2d_mbps),
            ("host-link d2h-mbps", self.host_d2h_mbps),
            ("memory mbps", self.vram_mbps),
            ("copy-engine mbps", self.ce_mbps),
            ("cpu mips", self.cpu_mips),
            ("workload max-resident", self.max_resident),
        ] {
            if value == 0 {
                return Err(format!("{name} must not be 0"));
            }
        }
        if !(CES_MIN..=CES_MAX).contains(&self.ce_count) {
            return Err(format!(
                "copy-engine count {} is not in {CES_MIN}..={CES_MAX}",
                self.ce_count
            ));
        }
        if self.cpu_mips > 100_000 {
            return Err(format!("cpu mips {} is above 100000", self.cpu_mips));
        }
        if self.max_resident > 4096 {
            return Err(format!(
                "workload max-resident {} is above 4096",
                self.max_resident
            ));
        }
        for n in self.fault_entries {
            if !(32..1 << 20).contains(&n) {
                return Err(format!("fault-buffer entries {n} is not in 32..1048576"));
            }
        }
        for (i, l) in self.links.iter().enumerate() {
            if l.a == l.b || l.a >= ext::MAX_GPUS || l.b >= ext::MAX_GPUS {
                return Err(format!("link {i}: {} to {} is no pair of GPUs", l.a, l.b));
            }
            if l.mbps == 0 {
                return Err(format!("link {i}: mbps must not be 0"));
            }
            let twice = self
                .links
                .iter()
                .skip(i + 1)
                .any(|m| (m.a, m.b) == (l.a, l.b) || (m.a, m.b) == (l.b, l.a));
            if twice {
                return Err(format!("link {i}: {} to {} appears twice", l.a, l.b));
            }
        }
        Ok(())
    }
}

impl Default for Profile {
    /// The built-in profile: the figures of `qemu/profiles/v100-p3.toml`, which names their sources.
    fn default() -> Self {
        Profile {
            name: "v100-p3".to_owned(),
            id: Profile::hash(b"built-in v100-p3"),
            host_h2d_mbps: 12_300,
            host_d2h_mbps: 12_300,
            host_latency_ns: 16_700,
            vram_mbps: 900_000,
            ce_count: 6,
            ce_mbps: 50_000,
            launch_ns: 333,
            doorbell_ns: 1_000,
            fault_ns: 2_000,
            intr_ns: 1_500,
            replay_ns: 2_000,
            invalidate_ns: 1_000,
            cpu_mips: 2300,
            max_resident: 80,
            fault_entries: [1024, 4096],
            links: Profile::all_to_all(4, LinkKind::Nvlink, 40_100, 5_100),
        }
    }
}
