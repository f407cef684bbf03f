// SPDX-License-Identifier: GPL-2.0
//! Which memory an address is in. The codes differ by context (hw-interface 11, trap 6), so each has its own type.

use crate::bits::codes;

codes! {
    /// Aperture of a leaf entry (4.4).
    PteAperture {
        /// This GPU's memory.
        Vid = 0,
        /// Another GPU's memory.
        Peer = 1,
        /// System memory, coherent.
        SysCoherent = 2,
        /// System memory, not coherent.
        SysNonCoherent = 3,
    }
}

codes! {
    /// Aperture of a directory entry (4.2).
    PdeAperture {
        /// No table; with VOL, sparse.
        Invalid = 0,
        /// This GPU's memory.
        Vid = 1,
        /// System memory, coherent.
        SysCoherent = 2,
        /// System memory, not coherent.
        SysNonCoherent = 3,
    }
}

codes! {
    /// TARGET of SET_SRC_PHYS_MODE and SET_DST_PHYS_MODE (5.2).
    CeTarget {
        /// This GPU's memory.
        Local = 0,
        /// System memory, coherent.
        SysCoherent = 1,
        /// System memory, not coherent.
        SysNonCoherent = 2,
        /// Another GPU's memory.
        Peer = 3,
    }
}

codes! {
    /// Target of instance blocks, MEM_OP's PDB, USERD and runlists (2.1, 4.6, 6.7); also of an instance in packets (1.2).
    MemTarget {
        /// This GPU's memory.
        Vid = 0,
        /// System memory, coherent.
        SysCoherent = 2,
        /// System memory, not coherent.
        SysNonCoherent = 3,
    }
}

codes! {
    /// Physical aperture in fault and access-counter packets (1.2, 3.2).
    PhysAperture {
        /// This GPU's memory.
        Vid = 0,
        /// Another GPU's memory.
        Peer = 1,
        /// System memory, coherent.
        SysCoherent = 2,
        /// System memory, not coherent.
        SysNonCoherent = 3,
    }
}
