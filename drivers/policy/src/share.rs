// SPDX-License-Identifier: GPL-2.0
//! What a client may have of that which a GPU has few of, beside others: subcontexts, launches, blocks that run.
//!
//! Places that are held for long (subcontexts, launches) are bounded always, since nobody can take them from who has them. What runs
//! (blocks) is divided among those who want it now: one alone has all of it.

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

/// A space with launches that run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Runner {
    /// Whose it is.
    pub owner: Owner,
    /// Its subcontext.
    pub veid: u8,
}

/// How many blocks of `me`, one of `all`, may run at once where `max` may: users have the same each, so have the processes of a
/// user, and the spaces of a process. At least one; `None`: as many as there are, nobody else is there.
///
/// `all` names a space once.
pub fn blocks_of(me: &Runner, all: &[Runner], max: u32) -> Option<u32> {
    // Those that are equal to an earlier one are counted once.
    let distinct = |of: &dyn Fn(&Runner) -> bool, same: &dyn Fn(&Runner, &Runner) -> bool| {
        let mut n = 0u32;
        for (i, r) in all.iter().enumerate().filter(|(_, r)| of(r)) {
            let before = all.iter().take(i);
            n += u32::from(!before.filter(|b| of(b)).any(|b| same(b, r)));
        }
        n.max(1)
    };
    if all.len() < 2 {
        return None;
    }
    let user = |r: &Runner| r.owner.user == me.owner.user;
    let process = |r: &Runner| user(r) && r.owner.process == me.owner.process;
    let users = distinct(&|_| true, &|a, b| a.owner.user == b.owner.user);
    let processes = distinct(&user, &|a, b| a.owner.process == b.owner.process);
    let spaces = distinct(&process, &|a, b| a.veid == b.veid);
    let mine = max.checked_div(users).unwrap_or(0);
    let mine = mine.checked_div(processes).unwrap_or(0);
    Some(mine.checked_div(spaces).unwrap_or(0).max(1))
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

    #[test]
    fn one_process_of_many_files_has_its_share_once() {
        let of = |process, user, veid| Runner {
            owner: owner(process, user),
            veid,
        };
        let alone = [of(1, 7, 0)];
        assert_eq!(blocks_of(&alone[0], &alone, 80), None);
        // User 7 has two processes, one of them three spaces; user 8 has one.
        let all = [
            of(1, 7, 0),
            of(1, 7, 1),
            of(1, 7, 2),
            of(2, 7, 3),
            of(3, 8, 4),
        ];
        let shares: Vec<_> = all.iter().map(|r| blocks_of(r, &all, 80)).collect();
        assert_eq!(shares, [Some(6), Some(6), Some(6), Some(20), Some(40)]);
        let none: Vec<_> = all.iter().map(|r| blocks_of(r, &all, 0)).collect();
        assert_eq!(none, [Some(1); 5]);
    }

    #[test]
    fn two_spaces_of_a_process_share_as_well() {
        let r = |veid| Runner {
            owner: owner(1, 7),
            veid,
        };
        let all = [r(0), r(1)];
        assert_eq!(blocks_of(&all[0], &all, 80), Some(40));
    }
}
