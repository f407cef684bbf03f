// SPDX-License-Identifier: GPL-2.0
//! What a client may have of that which a GPU has few of, beside others: subcontexts, launches, blocks that run, memory.
//!
//! Places that are held for long (subcontexts, launches) are bounded always, since nobody can take them from who has them. What runs
//! (blocks) is divided among those who want it now: one alone has all of it.
//!
//! Memory lies between the two: chunks are held, and can be taken, at the price of bringing their data in again. Anybody may have
//! as many as he can get; but while several use a GPU, who has no more than his share keeps it, and evictions for others go past him
//! ([`Stakes`]). So memory is never left unused, and no more is passed over than the shares of those who use the GPU.

/// Clients of a GPU, at most: subcontexts.
pub const CLIENTS: usize = 64;

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

/// Whether `owner` may take one more of `all` places, of which `held` says who has one: a process as many as it leaves free, a user
/// three times as many. So alone they end with half of all, and three quarters; and where others have some, with as much of what
/// those leave. (Dynamic thresholds: Choudhury and Hahne, IEEE/ACM Transactions on Networking 6(2), 1998.)
pub fn may_take(owner: &Owner, all: usize, held: impl Iterator<Item = Owner>) -> bool {
    if owner.unbounded {
        return true;
    }
    let (mut process, mut user, mut free) = (0usize, 0usize, all);
    for o in held {
        process = process.saturating_add(usize::from(o.process == owner.process));
        user = user.saturating_add(usize::from(o.user == owner.user));
        free = free.saturating_sub(1);
    }
    process < free && user < free.saturating_mul(3)
}

/// A space with launches that run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Runner {
    /// Whose it is.
    pub owner: Owner,
    /// Its subcontext.
    pub veid: u8,
}

/// Whether a space is the first of its user, and of its process. So users and processes are counted in one go.
#[derive(Clone, Copy, Debug)]
struct First {
    of_user: bool,
    of_process: bool,
}

/// The spaces that share something of a GPU, each once.
#[derive(Clone, Debug)]
pub struct Runners {
    of: [Runner; CLIENTS],
    first: [First; CLIENTS],
    many: usize,
}

impl Runners {
    /// Nobody. A constant, so that it is made in one place and not put together out of parts on the caller's stack.
    const NOBODY: Self = {
        let owner = Owner {
            process: 0,
            user: 0,
            unbounded: false,
        };
        Self {
            of: [Runner { owner, veid: 0 }; CLIENTS],
            first: [First {
                of_user: true,
                of_process: true,
            }; CLIENTS],
            many: 0,
        }
    };

    /// Nobody.
    pub const fn new() -> Self {
        Self::NOBODY
    }

    /// One more, if it is not there yet.
    pub fn add(&mut self, runner: Runner) {
        let mut first = First {
            of_user: true,
            of_process: true,
        };
        for r in self.all() {
            let user = r.owner.user == runner.owner.user;
            if r.veid == runner.veid {
                return;
            }
            first.of_user &= !user;
            first.of_process &= !(user && r.owner.process == runner.owner.process);
        }
        let place = self.of.get_mut(self.many);
        if let (Some(place), Some(f)) = (place, self.first.get_mut(self.many)) {
            (*place, *f) = (runner, first);
            self.many += 1;
        }
    }

    /// All of them.
    pub fn all(&self) -> &[Runner] {
        self.of.get(..self.many).unwrap_or(&[])
    }

    /// The one with this subcontext.
    pub fn find(&self, veid: u8) -> Option<&Runner> {
        self.all().iter().find(|r| r.veid == veid)
    }
}

impl Default for Runners {
    fn default() -> Self {
        Self::new()
    }
}

/// How many blocks of `me`, one of `all`, may run at once where `max` may: users have the same each, so have the processes of a
/// user, and the spaces of a process. At least one; `None`: as many as there are, nobody else is there.
pub fn blocks_of(me: &Runner, all: &Runners, max: u32) -> Option<u32> {
    if all.many < 2 {
        return None;
    }
    let user = |r: &Runner| r.owner.user == me.owner.user;
    let (mut users, mut processes, mut spaces) = (0u32, 0u32, 0u32);
    for (r, first) in all.all().iter().zip(&all.first) {
        users = users.saturating_add(u32::from(first.of_user));
        processes = processes.saturating_add(u32::from(first.of_process && user(r)));
        let mine = user(r) && r.owner.process == me.owner.process;
        spaces = spaces.saturating_add(u32::from(mine));
    }
    let mine = max.checked_div(users.max(1)).unwrap_or(0);
    let mine = mine.checked_div(processes.max(1)).unwrap_or(0);
    Some(mine.checked_div(spaces.max(1)).unwrap_or(0).max(1))
}

/// Chunks that are worth keeping together: a share of fewer protects nobody. With so few, clients that need some at a time would each
/// evict their own for ever.
pub const SHARE_LEAST: u32 = 8;

/// How many of `chunks` are the share of `me`, one of `all` that use the GPU, divided as blocks are. `None`: nobody else is there, or
/// it is too little to be kept.
pub fn chunks_of(me: &Runner, all: &Runners, chunks: u32) -> Option<u32> {
    blocks_of(me, all, chunks).filter(|n| *n >= SHARE_LEAST)
}

/// What a client has of a GPU's chunks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Stake {
    held: u32,
    /// 0: it has no share.
    share: u32,
}

/// Who has how many chunks of a GPU, and what their shares are. Clients go by their subcontexts; one that there is not has nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stakes([Stake; CLIENTS]);

impl Stakes {
    /// Nobody has anything, nor a share.
    pub const fn new() -> Self {
        Self([Stake { held: 0, share: 0 }; CLIENTS])
    }

    fn of(&self, client: u8) -> Stake {
        self.0.get(usize::from(client)).copied().unwrap_or_default()
    }

    /// The client has one chunk more.
    pub fn comes(&mut self, client: u8) {
        if let Some(s) = self.0.get_mut(usize::from(client)) {
            s.held = s.held.saturating_add(1);
        }
    }

    /// The client has one chunk less.
    pub fn goes(&mut self, client: u8) {
        if let Some(s) = self.0.get_mut(usize::from(client)) {
            s.held = s.held.saturating_sub(1);
        }
    }

    /// What the shares are now; 0: none.
    pub fn divide(&mut self, shares: &[u32; CLIENTS]) {
        for (s, share) in self.0.iter_mut().zip(shares) {
            s.share = *share;
        }
    }

    /// Chunks that the client has.
    pub fn held(&self, client: u8) -> u32 {
        self.of(client).held
    }

    /// The client's share, if it has one.
    pub fn share(&self, client: u8) -> Option<u32> {
        Some(self.of(client).share).filter(|s| *s != 0)
    }

    /// Whether `owner` keeps its chunk, of which room is to be made for `by` (`None`: nobody in particular): it has no more than its
    /// share. For itself it gives one up if it has all of that; as long as it has less, somebody else has more than his.
    pub fn keeps(&self, owner: u8, by: Option<u8>) -> bool {
        self.share(owner).is_some_and(|share| {
            let held = self.held(owner);
            if by == Some(owner) {
                held < share
            } else {
                held <= share
            }
        })
    }
}

impl Default for Stakes {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn among(all: &[Runner]) -> Runners {
        let mut r = Runners::new();
        for one in all {
            r.add(*one);
        }
        r
    }
    use std::{vec, vec::Vec};

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
        // Another user has as much of what is left, and so on.
        assert_eq!(take(&mut held, owner(4, 8)), 8);
        assert_eq!(take(&mut held, owner(5, 8)), 4);
        assert_eq!(take(&mut held, owner(6, 8)), 0);
        assert_eq!(take(&mut held, owner(7, 9)), 2);
        assert_eq!(take(&mut held, owner(8, 10)), 1);
        assert_eq!(take(&mut held, owner(9, 11)), 1);
        assert_eq!(take(&mut held, owner(10, 12)), 0);
        let root = Owner {
            unbounded: true,
            ..owner(11, 7)
        };
        assert!(may_take(&root, 64, held.iter().copied()));
        assert_eq!(take(&mut Vec::new(), owner(1, 7)), 32);
        assert!(may_take(&owner(1, 7), 1, core::iter::empty()));
        assert_eq!(take(&mut vec![root; 70], owner(1, 7)), 0);
    }

    #[test]
    fn one_process_of_many_files_has_its_share_once() {
        let of = |process, user, veid| Runner {
            owner: owner(process, user),
            veid,
        };
        let alone = [of(1, 7, 0)];
        assert_eq!(blocks_of(&alone[0], &among(&alone), 80), None);
        // User 7 has two processes, one of them three spaces; user 8 has one.
        let all = [
            of(1, 7, 0),
            of(1, 7, 1),
            of(1, 7, 2),
            of(2, 7, 3),
            of(3, 8, 4),
        ];
        let shares: Vec<_> = all.iter().map(|r| blocks_of(r, &among(&all), 80)).collect();
        assert_eq!(shares, [Some(6), Some(6), Some(6), Some(20), Some(40)]);
        let none: Vec<_> = all.iter().map(|r| blocks_of(r, &among(&all), 0)).collect();
        assert_eq!(none, [Some(1); 5]);
    }

    #[test]
    fn who_shares_is_named_once() {
        let r = |veid, process| Runner {
            owner: owner(process, 1),
            veid,
        };
        let mut all = Runners::new();
        assert_eq!(all.all(), []);
        assert_eq!(all.find(0), None, "what is not filled is nobody");
        for veid in (0..64).chain(0..64) {
            all.add(r(veid, u64::from(veid)));
        }
        all.add(r(7, 99));
        all.add(r(200, 99));
        assert_eq!(all.all().len(), CLIENTS, "there are no more places");
        assert_eq!(all.find(7), Some(&r(7, 7)), "the first one stays");
        assert_eq!(all.find(200), None);
    }

    #[test]
    fn a_share_of_memory_is_worth_keeping_or_none() {
        let r = |veid| Runner {
            owner: owner(u64::from(veid), u32::from(veid)),
            veid,
        };
        let all: Vec<_> = (0..4).map(r).collect();
        assert_eq!(chunks_of(&all[0], &among(&all[..1]), 4096), None);
        assert_eq!(chunks_of(&all[0], &among(&all), 4096), Some(1024));
        assert_eq!(
            chunks_of(&all[0], &among(&all), 4 * SHARE_LEAST),
            Some(SHARE_LEAST)
        );
        assert_eq!(chunks_of(&all[0], &among(&all), 4 * SHARE_LEAST - 1), None);
        // Whose processes are many has no more, and the other's share is as large as it was.
        let many = (0..60).map(|veid| Runner {
            owner: owner(u64::from(veid), u32::from(veid != 0)),
            veid,
        });
        let many: Vec<_> = many.collect();
        assert_eq!(chunks_of(&many[0], &among(&many), 32), Some(16));
        assert_eq!(chunks_of(&many[1], &among(&many), 32), None);
    }

    #[test]
    fn who_has_no_more_than_his_share_keeps_it() {
        let mut s = Stakes::new();
        let mut shares = [0; CLIENTS];
        (shares[1], shares[2]) = (10, 10);
        let hold = |s: &mut Stakes, client, n| {
            while s.held(client) < n {
                s.comes(client);
            }
            while s.held(client) > n {
                s.goes(client);
            }
        };
        hold(&mut s, 1, 10);
        assert!(!s.keeps(1, Some(2)), "without shares nobody keeps anything");
        s.divide(&shares);
        for (held, for_others, for_itself) in [
            (0, true, true),
            (9, true, true),
            (10, true, false),
            (11, false, false),
        ] {
            hold(&mut s, 1, held);
            assert_eq!(s.keeps(1, Some(2)), for_others, "{held}");
            assert_eq!(s.keeps(1, None), for_others, "{held}");
            assert_eq!(s.keeps(1, Some(1)), for_itself, "{held}");
        }
        // Without a share: what is idle, or no client at all.
        hold(&mut s, 3, 1);
        assert!(!s.keeps(3, Some(1)) && !s.keeps(200, None));
        s.comes(200);
        s.goes(200);
        assert_eq!(
            (s.held(200), s.share(200), s.share(3), s.share(2)),
            (0, None, None, Some(10))
        );
        s.divide(&[0; CLIENTS]);
        hold(&mut s, 1, 1);
        assert!(!s.keeps(1, Some(2)));
    }

    #[test]
    fn two_spaces_of_a_process_share_as_well() {
        let r = |veid| Runner {
            owner: owner(1, 7),
            veid,
        };
        let all = [r(0), r(1)];
        assert_eq!(blocks_of(&all[0], &among(&all), 80), Some(40));
    }
}
