// SPDX-License-Identifier: GPL-2.0
//! Who runs in an experiment: presets, and the techniques of the HUVM paper one by one and on top of each other.
//!
//! A technique takes part once the driver acts on its knob. So a row that says `LP` is never a row in which nothing
//! listened.

use super::super::policy;
use crate::exit::{Failure, Result};
use crate::out::Out;
use huvm_policy::config::knob_by_name;
use libhuvm::device::Knob;
use libhuvm::{uapi, Device, Scope};

/// The preset of the whole paper.
pub(in crate::cmd) const WHOLE: &str = "memharvester";
/// The default preset.
pub(in crate::cmd) const BEST: &str = "huvm";
/// NVIDIA's driver of today.
pub(in crate::cmd) const BASE: &str = "stock-595";
/// What the techniques are switched on beside: NVIDIA's driver as the HUVM paper has it, but that any fault brings its whole block, as in all
/// policies of that paper's own driver (github.com/casys-kaist/HUVM, scripts/fig7, docs/README-parameters.md), and a lender takes what comes.
const BENEATH: (&str, [(&str, u64); 2]) = (
    "stock-460",
    [
        ("prefetch_threshold_percent", 1),
        ("lend_slowdown_percent", 100),
    ],
);

/// A technique, as a switch.
struct Technique {
    short: &'static str,
    knob: &'static str,
    value: u64,
    /// Others without which it has nothing to do.
    needs: &'static [&'static str],
}

/// In the order in which the ladder adds them.
const TECHNIQUES: [Technique; 6] = [
    Technique {
        short: "H",
        knob: "harvest_borrow",
        value: 1,
        needs: &[],
    },
    Technique {
        short: "PE",
        knob: "pre_evict",
        value: 1,
        needs: &[],
    },
    Technique {
        short: "LP",
        knob: "large_page_evict",
        value: 1,
        needs: &[],
    },
    Technique {
        short: "PLF",
        knob: "parallel_fetch",
        value: 1,
        needs: &["H"],
    },
    Technique {
        short: "LPF",
        knob: "stream_prefetch",
        // Stride, as in the preset.
        value: 2,
        needs: &[],
    },
    Technique {
        short: "MPF",
        knob: "prefetch_multi_path",
        value: 1,
        needs: &["H", "LPF"],
    },
];

/// A policy: a preset and what is switched on beside it.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::cmd) struct Policy {
    /// As the rows name it.
    pub(in crate::cmd) name: String,
    preset: &'static str,
    knobs: Vec<(&'static str, u64)>,
}

impl Policy {
    fn preset(name: &'static str) -> Self {
        Policy {
            name: name.into(),
            preset: name,
            knobs: Vec::new(),
        }
    }

    fn of(techniques: &[&Technique]) -> Self {
        let names: Vec<_> = techniques.iter().map(|t| t.short).collect();
        Policy {
            name: names.join("+"),
            preset: BENEATH.0,
            knobs: BENEATH
                .1
                .into_iter()
                .chain(techniques.iter().map(|t| (t.knob, t.value)))
                .collect(),
        }
    }

    /// The same with a knob at another value, by another name.
    pub(in crate::cmd) fn with(mut self, name: &str, knob: &'static str, value: u64) -> Self {
        self.knobs.push((knob, value));
        self.name = name.into();
        self
    }

    /// Those of `asked`, the command line's, that it is: itself by its name, and as `NAME:KNOB=VALUE:...` with other knobs, by that
    /// name. Itself where nothing is asked for.
    ///
    /// # Errors
    /// Usage: no such knob, or no such value of it.
    pub(in crate::cmd) fn variants(self, asked: &[String]) -> Result<Vec<Policy>> {
        if asked.is_empty() {
            return Ok(vec![self]);
        }
        let mut all = Vec::new();
        for name in asked {
            let mut parts = name.split(':');
            if parts.next() != Some(self.name.as_str()) {
                continue;
            }
            let mut variant = self.clone();
            for change in parts {
                let (knob, value) = assignment(change)?;
                variant = variant.with(name, knob, value);
            }
            all.push(variant);
        }
        Ok(all)
    }

    /// Whether its GPU borrows.
    pub(in crate::cmd) fn borrows(&self) -> bool {
        [WHOLE, BEST].contains(&self.preset) || self.knobs.contains(&("harvest_borrow", 1))
    }

    /// What a GPU lends beside it: nothing to one that does not borrow.
    fn lending(&self, lend: Lend) -> [(&'static str, u64); 2] {
        let (on, limit) = match lend {
            Lend::UpTo(mib) if self.borrows() => (1, mib),
            Lend::Free if self.borrows() => (1, 0),
            _ => (0, 0),
        };
        [("harvest_lend", on), ("lend_limit_mib", limit)]
    }

    /// In full: the preset, and each knob that is not as it says.
    pub(in crate::cmd) fn recipe(&self) -> String {
        let knobs = self.knobs.iter().map(|(k, v)| format!(" {k}={v}"));
        self.preset.to_owned() + &knobs.collect::<String>()
    }
}

/// # Errors
/// Usage: one of `asked`, the command line's, is none of `found`, what [`Policy::variants`] made of them of those that are `there`.
pub(in crate::cmd) fn all_found<'a>(
    asked: &[String],
    found: impl Iterator<Item = &'a Policy> + Clone,
    there: &[String],
) -> Result<()> {
    let Some(none) = asked.iter().find(|a| found.clone().all(|p| p.name != **a)) else {
        return Ok(());
    };
    let mut names: Vec<&str> = Vec::new();
    for name in there {
        if !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    Err(Failure::Usage(format!(
        "'{none}' is none of the presets that are compared here: {}",
        names.join(", ")
    )))
}

/// `KNOB=VALUE`, the value as users write it.
pub(crate) fn assignment(text: &str) -> Result<(&'static str, u64)> {
    let bad = |why: &str| Failure::Usage(format!("'{text}': {why}"));
    let (name, value) = text
        .split_once('=')
        .ok_or_else(|| bad("a change of a preset is KNOB=VALUE"))?;
    let knob = knob_by_name(name)
        .ok_or_else(|| bad("there is no such knob; 'uvmctl policy list' has them"))?;
    let value = knob.parse(value);
    let value = value.map_err(|_| bad("the knob takes no such value"))?;
    Ok((knob.name, value))
}

/// What each neighbour lends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::cmd) enum Lend {
    /// Nothing.
    Nothing,
    /// So many MiB at most.
    UpTo(u64),
    /// What is free.
    Free,
}

/// The policy of a machine before an experiment: values that its owner gave to all, and to single GPUs.
#[derive(Debug, PartialEq)]
pub(in crate::cmd) struct Own(Vec<(Scope, Vec<(u32, u64)>)>);

impl Own {
    /// What is in force.
    fn of(device: &Device) -> Result<Self> {
        let knobs = device.knobs()?;
        let gpus = device.gpus()?;
        let scopes = gpus.iter().map(|g| Scope::Gpu(g.gpu));
        let values = |scope: Scope, its: u32| -> Result<(Scope, Vec<(u32, u64)>)> {
            let mut all = Vec::new();
            for knob in &knobs {
                let (value, origin) = device.policy(scope, knob.index)?;
                if origin == its {
                    all.push((knob.index, value));
                }
            }
            Ok((scope, all))
        };
        let global = values(Scope::Global, uapi::HUVM_SCOPE_GLOBAL)?;
        let each = scopes.map(|s| values(s, uapi::HUVM_SCOPE_GPU));
        let each = each.collect::<Result<Vec<_>>>()?;
        Ok(Own([global].into_iter().chain(each).collect()))
    }

    /// Puts it back, if anything of it was changed. What is of a GPU that is gone is passed by.
    fn put_back(&self, device: &Device) -> Result<()> {
        if *self == Own::of(device)? {
            return Ok(());
        }
        for (scope, values) in &self.0 {
            let all = || -> libhuvm::Result<()> {
                device.reset_policy(*scope, None)?;
                let mut values = values.iter();
                values.try_for_each(|(knob, value)| device.set_policy(*scope, *knob, *value))
            };
            match all() {
                Err(e) if e.gpu_gone() && *scope != Scope::Global => {}
                other => other?,
            }
        }
        Ok(())
    }

    /// What `experiments` give, with the policy put back, whatever came of them.
    pub(in crate::cmd) fn around<T>(
        out: &Out,
        experiments: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        let Ok(device) = out.device() else {
            // They say what is wrong: with what was asked for, first of all.
            return experiments();
        };
        let own = Own::of(&device)?;
        drop(device);
        let done = experiments();
        let back = out.device().and_then(|device| own.put_back(&device));
        let done = done?;
        back?;
        Ok(done)
    }
}

/// Puts a policy in force on these GPUs, alike on all of them, as on a machine whose owner chose it: each borrows where it needs to
/// and lends what is free.
pub(in crate::cmd) fn deploy(
    device: &Device,
    gpus: &[u32],
    policy: &Policy,
    lend: Lend,
) -> Result<()> {
    let lending = policy.lending(lend);
    let knobs = device.knobs()?;
    apply(device, &knobs, Scope::Global, policy, &[])?;
    let mut each = gpus.iter();
    each.try_for_each(|gpu| apply(device, &knobs, Scope::Gpu(*gpu), policy, &lending))
}

/// Puts a policy in force in a scope, then some more knobs. The global one counts where no GPU has a say: for memory that the CPU touches
/// first, of whose pages a preset may have those of 4 KiB alone (`host_chunk_sizes`).
fn apply(
    device: &Device,
    knobs: &[Knob],
    scope: Scope,
    policy: &Policy,
    more: &[(&str, u64)],
) -> Result<()> {
    policy::choose(device, scope, policy.preset)?;
    for (name, value) in policy.knobs.iter().chain(more) {
        let knob = policy::find(knobs, name)?;
        device.set_policy(scope, knob.index, *value)?;
    }
    Ok(())
}

/// A borrower and its neighbours.
#[derive(Debug)]
pub(in crate::cmd) struct Machine {
    /// The GPU that computes.
    pub(in crate::cmd) borrower: u32,
    /// The GPUs that it has a link to.
    pub(in crate::cmd) lenders: Vec<u32>,
}

impl Machine {
    /// GPU `borrower` and all that it is linked with.
    pub(in crate::cmd) fn around(device: &Device, borrower: u32) -> Result<Self> {
        let links = device.links(borrower)?;
        let linked = |g: &u32| links.iter().any(|l| l.peer == *g && l.up != 0);
        Ok(Machine {
            borrower,
            lenders: device
                .gpus()?
                .iter()
                .map(|g| g.gpu)
                .filter(linked)
                .collect(),
        })
    }

    /// All of its GPUs.
    pub(in crate::cmd) fn gpus(&self) -> impl Iterator<Item = u32> + '_ {
        std::iter::once(self.borrower).chain(self.lenders.iter().copied())
    }

    /// Puts a policy in force on every GPU. The neighbours borrow nothing themselves; a policy that does not borrow finds
    /// none that lends.
    pub(in crate::cmd) fn choose(
        &self,
        device: &Device,
        policy: &Policy,
        lend: Lend,
    ) -> Result<()> {
        let mut lender = vec![("harvest_borrow", 0)];
        lender.extend(policy.lending(lend));
        let knobs = device.knobs()?;
        apply(device, &knobs, Scope::Global, policy, &[])?;
        for gpu in self.gpus() {
            let more = if gpu == self.borrower {
                &[][..]
            } else {
                &lender
            };
            apply(device, &knobs, Scope::Gpu(gpu), policy, more)?;
        }
        Ok(())
    }
}

/// The policies that this driver has.
pub(in crate::cmd) struct Lineup {
    presets: Vec<String>,
    live: Vec<&'static Technique>,
}

impl Lineup {
    /// What the driver has.
    pub(in crate::cmd) fn of(device: &Device) -> Result<Self> {
        let presets = device.presets()?.into_iter().map(|(name, _)| name);
        let knobs = device.knobs()?;
        let has = |name: &str| knobs.iter().any(|k| k.name == name);
        Ok(Self::from(presets.collect(), |name| {
            // The driver tells its knobs' names, but not which of them it acts on; the table it was built from does.
            has(name) && knob_by_name(name).is_some_and(|k| k.live)
        }))
    }

    pub(super) fn from(presets: Vec<String>, live: impl Fn(&str) -> bool) -> Self {
        Lineup {
            presets,
            live: TECHNIQUES.iter().filter(|t| live(t.knob)).collect(),
        }
    }

    /// A preset, if the driver has it.
    pub(in crate::cmd) fn preset(&self, name: &'static str) -> Option<Policy> {
        let has = self.presets.iter().any(|p| p == name);
        has.then(|| Policy::preset(name))
    }

    /// Those of the presets `compared` that the driver has, and of these what is asked for ([`Policy::variants`]).
    ///
    /// # Errors
    /// Usage: one of `asked` is none of them, or as [`Policy::variants`]; not found: the driver has none of them.
    pub(in crate::cmd) fn chosen(
        &self,
        compared: &[&'static str],
        asked: &[String],
    ) -> Result<Vec<Policy>> {
        let (mut all, mut there) = (Vec::new(), Vec::new());
        for preset in compared.iter().filter_map(|p| self.preset(p)) {
            there.push(preset.name.clone());
            all.extend(preset.variants(asked)?);
        }
        all_found(asked, all.iter(), &there)?;
        if all.is_empty() {
            return Err(Failure::NotFound(
                "the driver has none of the presets that are compared here".into(),
                "'uvmctl policy list' has the driver's".into(),
            ));
        }
        Ok(all)
    }

    /// Each technique alone, with what it cannot do without.
    pub(in crate::cmd) fn alone(&self) -> Vec<Policy> {
        let with_needs = |t: &&'static Technique| {
            let needed = |o: &&&'static Technique| o.short == t.short || t.needs.contains(&o.short);
            let all: Vec<&Technique> = self.live.iter().filter(needed).copied().collect();
            (all.len() == t.needs.len() + 1).then(|| Policy::of(&all))
        };
        self.live.iter().filter_map(with_needs).collect()
    }

    /// The techniques on top of each other, from two on; without [`Self::whole`].
    pub(in crate::cmd) fn ladder(&self) -> Vec<Policy> {
        let whole = self.whole();
        (2..=self.live.len())
            .filter_map(|n| self.live.get(..n).map(Policy::of))
            .filter(|p| *p != whole)
            .collect()
    }

    /// The preset of the whole paper; without it every technique that there is.
    pub(in crate::cmd) fn whole(&self) -> Policy {
        self.preset(WHOLE).unwrap_or_else(|| Policy::of(&self.live))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(policies: &[Policy]) -> Vec<&str> {
        policies.iter().map(|p| p.name.as_str()).collect()
    }

    fn lineup(presets: &[&str], live: &[&str]) -> Lineup {
        Lineup::from(presets.iter().map(|p| (*p).into()).collect(), |k| {
            live.contains(&k)
        })
    }

    #[test]
    fn what_the_driver_does_not_act_on_stays_out() {
        let l = lineup(
            &["stock-595"],
            &["harvest_borrow", "pre_evict", "stream_prefetch"],
        );
        assert_eq!(names(&l.alone()), ["H", "PE", "LPF"]);
        assert_eq!(names(&l.ladder()), ["H+PE"]);
        assert_eq!(l.whole().name, "H+PE+LPF");
        assert_eq!(
            l.whole().recipe(),
            "stock-460 prefetch_threshold_percent=1 lend_slowdown_percent=100 harvest_borrow=1 pre_evict=1 stream_prefetch=2"
        );
        assert_eq!(l.preset("preef-host"), None);
    }

    #[test]
    fn what_a_technique_needs_comes_with_it_or_it_stays_out() {
        let l = lineup(
            &[],
            &["harvest_borrow", "parallel_fetch", "prefetch_multi_path"],
        );
        assert_eq!(names(&l.alone()), ["H", "H+PLF"]);
    }

    #[test]
    fn a_preset_with_other_knobs_is_asked_for_by_name() {
        let ask = |asked: &[&str]| {
            let asked: Vec<String> = asked.iter().map(|a| (*a).into()).collect();
            Policy::preset(BEST).variants(&asked)
        };
        assert_eq!(ask(&[]).unwrap(), [Policy::preset(BEST)]);
        assert_eq!(ask(&[WHOLE]).unwrap(), []);
        let two = ask(&[BEST, "huvm:evict_order=lrm:prefetch_amount_mib=8"]).unwrap();
        assert_eq!(
            names(&two),
            ["huvm", "huvm:evict_order=lrm:prefetch_amount_mib=8"]
        );
        assert_eq!(two[0].recipe(), "huvm");
        assert_eq!(two[1].recipe(), "huvm evict_order=0 prefetch_amount_mib=8");
        assert!(two[1].borrows());
        for bad in [
            "huvm:",
            "huvm:no_such=1",
            "huvm:evict_order",
            "huvm:evict_order=99",
        ] {
            assert!(matches!(ask(&[bad]), Err(Failure::Usage(_))), "{bad}");
        }
    }

    /// Catches one that is asked for and left out without a word, as a ladder's rungs were.
    #[test]
    fn what_is_asked_for_is_there() {
        let found = [Policy::preset(BASE), Policy::of(&[&TECHNIQUES[0]])];
        let ask = |names: &[&str]| {
            let asked: Vec<String> = names.iter().map(|n| (*n).into()).collect();
            all_found(&asked, found.iter(), &["H".into(), BASE.into(), "H".into()])
        };
        assert!(ask(&[]).is_ok() && ask(&["H", BASE]).is_ok());
        for bad in [&["H", "H+PE"][..], &["PE"], &["h"], &[""]] {
            let Err(Failure::Usage(why)) = ask(bad) else {
                panic!("{bad:?}")
            };
            assert!(why.ends_with("here: H, stock-595"), "{why}");
        }
    }

    #[test]
    fn of_those_compared_what_is_asked_for() {
        let l = lineup(&[BASE, WHOLE], &[]);
        let ask = |asked: &[&str]| {
            let asked: Vec<String> = asked.iter().map(|n| (*n).into()).collect();
            l.chosen(&[BASE, WHOLE, BEST], &asked)
        };
        assert_eq!(names(&ask(&[]).unwrap()), [BASE, WHOLE]);
        assert_eq!(names(&ask(&[WHOLE]).unwrap()), [WHOLE]);
        // Neither what the driver lacks nor what nobody compares is left out without a word.
        for bad in [BEST, "H"] {
            assert!(matches!(ask(&[WHOLE, bad]), Err(Failure::Usage(_))));
        }
        let none = lineup(&[], &[]).chosen(&[BASE], &[]);
        assert!(matches!(none, Err(Failure::NotFound(..))));
    }

    #[test]
    fn a_whole_driver_has_every_rung() {
        let all: Vec<&str> = TECHNIQUES.iter().map(|t| t.knob).collect();
        let l = lineup(&[BASE, WHOLE], &all);
        assert_eq!(
            names(&l.alone()),
            ["H", "PE", "LP", "H+PLF", "LPF", "H+LPF+MPF"]
        );
        assert_eq!(
            names(&l.ladder()),
            [
                "H+PE",
                "H+PE+LP",
                "H+PE+LP+PLF",
                "H+PE+LP+PLF+LPF",
                "H+PE+LP+PLF+LPF+MPF"
            ]
        );
        assert_eq!(l.whole(), Policy::preset(WHOLE));
        assert!(l.whole().borrows());
    }
}
