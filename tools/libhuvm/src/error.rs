// SPDX-License-Identifier: GPL-2.0
//! What can go wrong, and what to do about it.

use std::ffi::CStr;

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no `/dev/huvm`.
    #[error("cannot open /dev/huvm: the driver is not loaded")]
    NotLoaded,
    /// `/dev/huvm` may not be opened by this user.
    #[error("cannot open /dev/huvm: permission denied")]
    NotPermitted,
    /// Driver and library speak different interfaces.
    #[error("the driver's interface is version {driver}, this library's is {library}")]
    Abi {
        /// HUVM_ABI_MAJOR of the driver.
        driver: u32,
        /// HUVM_ABI_MAJOR of this library.
        library: u32,
    },
    /// A system call failed.
    #[error("{what}: {}", std::io::Error::from_raw_os_error(*errno))]
    Os {
        /// What was tried.
        what: String,
        /// The errno.
        errno: i32,
    },
    /// An argument breaks a rule of this library.
    #[error("{0}")]
    Argument(String),
    /// A launch did not end well.
    #[error("the launch {0}")]
    Launch(String),
    /// Nor did this one: what its program did at this address was not allowed.
    #[error("the launch failed: fatal fault at {0:#x}")]
    Fatal(u64),
    /// Nor this one: the only copy of what is at this address was in memory that failed.
    #[error("the launch failed: the only copy of {0:#x} was in GPU memory that failed (ECC)")]
    Ecc(u64),
    /// Nor did this one: its GPU's memory is full, and nothing of it could go.
    #[error("the launch failed: no room could be made on the GPU")]
    NoRoom,
    /// Nor this one: its GPU was lost meanwhile.
    #[error("the launch failed: the GPU was lost")]
    GpuLost,
}

/// Result with [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

/// What to do about an error of the kernel's that means the same to programs in C.
pub(crate) fn hint_of(errno: i32) -> Option<&'static CStr> {
    Some(match errno {
        libc::ENODEV => c"'uvmctl gpu list' shows the GPUs there are",
        libc::ENOMEM => c"use a smaller size, or free some memory",
        libc::ETIMEDOUT => {
            c"it took too long and was ended: use less data; 'uvmctl doctor', as root, says whether anything hangs"
        }
        libc::ENOSPC => {
            c"a GPU serves 64 open files, at most 32 of a process and 48 of a user; close some"
        }
        libc::EBUSY => {
            c"a GPU has 64 launches, at most 32 of a process and 48 of a user; wait for some"
        }
        libc::ENOTTY | libc::EOPNOTSUPP => {
            c"this driver or GPU cannot do it; if it should, load the module that was built with this tool"
        }
        _ => return None,
    })
}

/// What to do about a lost GPU.
const LOST: &str = "'uvmctl doctor' says what is lost of the GPU, and what to do";

impl Error {
    /// The errno behind it, if there is one.
    pub fn errno(&self) -> Option<i32> {
        match self {
            Error::Os { errno, .. } => Some(*errno),
            // What every call about that GPU is.
            Error::GpuLost => Some(libc::EIO),
            _ => None,
        }
    }

    /// Whether the GPU that was asked for is lost, or there no more.
    pub fn gpu_gone(&self) -> bool {
        matches!(self.errno(), Some(libc::EIO | libc::ENODEV))
    }

    /// What to do next, if that is known.
    pub fn hint(&self) -> Option<&'static str> {
        Some(match self {
            Error::NotLoaded => "load it with 'insmod huvm.ko' (in the guest: /lib/huvm.ko), then look at 'uvmctl doctor'",
            Error::NotPermitted => "run as root, or give yourself access to /dev/huvm",
            Error::Abi { .. } => "use the uvmctl that was built with the driver",
            Error::Os { what, errno } => match *errno {
                libc::EBUSY if what.starts_with("limiting") => "others use this GPU: 'uvmctl client list' shows them",
                libc::EBUSY if !what.starts_with("launching") => return None,
                libc::ESRCH => "'uvmctl client list' shows the processes there are",
                libc::EIO => LOST,
                libc::EPERM => "run it as root (CAP_SYS_ADMIN); of a file of its own a process may do it itself",
                libc::ERANGE => "'uvmctl policy list' shows the ranges",
                errno => hint_of(errno)?.to_str().ok()?,
            },
            Error::GpuLost => LOST,
            Error::NoRoom => {
                "free memory of the host or of the cgroup, or use less data; 'uvmctl policy show' says whether eviction is on"
            }
            Error::Fatal(_) => {
                "its program touched an address in no range, or wrote to one that is mapped read-only; 'uvmctl range show PID' shows what is there"
            }
            Error::Ecc(_) => {
                "'uvmctl mem show' counts what is out of service; make the data anew, and run it again"
            }
            Error::Launch(_) => "see the kernel's log (dmesg), and 'uvmctl doctor'",
            Error::Argument(_) => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gpu_is_gone_when_it_is_lost_or_left() {
        let os = |errno| Error::Os {
            what: "asking".into(),
            errno,
        };
        for errno in [libc::EIO, libc::ENODEV] {
            assert!(os(errno).gpu_gone(), "{errno}");
        }
        for errno in [libc::ENOTTY, libc::ENOENT, libc::EPERM] {
            assert!(!os(errno).gpu_gone(), "{errno}");
        }
        assert!(Error::GpuLost.gpu_gone());
        assert!(!Error::NotLoaded.gpu_gone());
    }

    #[test]
    fn who_has_his_share_is_told_how_much_it_is() {
        let hint = |what: &str, errno| {
            let what = what.into();
            Error::Os { what, errno }.hint().unwrap_or("none")
        };
        assert!(hint("registering GPU 0", libc::ENOSPC).contains("at most 32 of a process and 48"));
        assert!(hint("launching on GPU 0", libc::EBUSY).contains("wait for some"));
        // Busy with something else.
        assert!(hint("limiting a GPU's memory", libc::EBUSY).contains("client list"));
        assert_eq!(hint("unregistering GPU 0", libc::EBUSY), "none");
    }
}
