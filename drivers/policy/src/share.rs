// SPDX-License-Identifier: GPL-2.0
//! What a client may have of that which a GPU has few of, and that nobody can take from who has it: subcontexts, launches.

/// Whose a space is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The process; any number that no other one has at the time.
    pub process: u64,
    /// The user.
    pub user: u32,
    /// An administrator's: no bound.
    pub unbounded: bool,
}

/// Places of `all` that one process may hold: half, and the only one where there is one.
pub const fn of_process(all: usize) -> usize {
    all.div_ceil(2)
}

/// Places of `all` that all processes of a user may hold: three quarters.
pub const fn of_user(all: usize) -> usize {
    all - all / 4
}

/// Whether `owner` may take one more of `all` places, of which `held` says who has one.
pub fn may_take(owner: &Owner, all: usize, held: impl Iterator<Item = Owner>) -> bool {
    if owner.unbounded {
        return true;
    }
    let (mut process, mut user) = (0usize, 0usize);
    for o in held {
        process = process.saturating_add(usize::from(o.process == owner.process));
        user = user.saturating_add(usize::from(o.user == owner.user));
    }
    process < of_process(all) && user < of_user(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    fn owner(process: u64, user: u32) -> Owner {
        Owner {
            process,
            user,
            unbounded: false,
        }
    }

    #[test]
    fn nobody_takes_all_places() {
        let mut held: Vec<Owner> = Vec::new();
        let take = |held: &mut Vec<Owner>, o: Owner| {
            let mut n = 0;
            while may_take(&o, 64, held.iter().copied()) && held.len() < 64 {
                held.push(o);
                n += 1;
            }
            n
        };
        assert_eq!(take(&mut held, owner(1, 7)), 32);
        // Another process of that user has what is left of the user's.
        assert_eq!(take(&mut held, owner(2, 7)), 16);
        assert_eq!(take(&mut held, owner(3, 7)), 0);
        // Another user always finds some.
        assert_eq!(take(&mut held, owner(4, 8)), 16);
        let root = Owner {
            unbounded: true,
            ..owner(5, 7)
        };
        assert!(may_take(&root, 64, held.iter().copied()));
        assert_eq!(take(&mut Vec::new(), owner(1, 7)), 32);
        assert!(may_take(&owner(1, 7), 1, core::iter::empty()));
    }
}
