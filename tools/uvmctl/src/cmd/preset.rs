// SPDX-License-Identifier: GPL-2.0
//! What the preset of a job leaves out. It is set for the job's own open file; knobs of a GPU as a whole (pre-eviction, say, or what it
//! lends) stay as the GPU has them, for all who use it.

use crate::exit::Result;
use crate::out::Out;
use huvm_policy::config::KNOBS;
use huvm_policy::preset::preset_by_name;
use libhuvm::{Device, Scope};

/// Warns, once, of GPUs that go on with other values than the preset of the jobs on them has.
pub(super) fn tell(out: &Out, device: &Device, gpus: &[u32], preset: &str) -> Result<()> {
    let knobs = device.knobs()?;
    let left = |gpu: &u32| {
        left_out(preset, |name| {
            let knob = knobs.iter().find(|k| k.name == name)?;
            let value = device.policy(Scope::Gpu(*gpu), knob.index).ok()?;
            Some(value.0)
        })
    };
    let all: Vec<_> = gpus.iter().map(|gpu| (*gpu, left(gpu))).collect();
    if let Some(text) = warning(preset, &all) {
        out.warn(&text);
    }
    Ok(())
}

/// Knobs of a GPU as a whole that are not as a preset has them; `value`: the GPU's, if the driver has the knob. None of a preset that
/// this tool does not know.
fn left_out(preset: &str, value: impl Fn(&str) -> Option<u64>) -> Vec<&'static str> {
    let Some(preset) = preset_by_name(preset) else {
        return Vec::new();
    };
    let wanted = preset.policy();
    let of_gpu = KNOBS.iter().filter(|k| k.live && k.id.is_of_gpu());
    let other = of_gpu.filter(|k| value(k.name).is_some_and(|v| v != wanted.get(k.id)));
    other.map(|k| k.name).collect()
}

/// Of GPUs and what is left out there.
fn warning(preset: &str, all: &[(u32, Vec<&'static str>)]) -> Option<String> {
    let (mut gpus, mut knobs): (Vec<String>, Vec<&str>) = Default::default();
    for (gpu, left) in all.iter().filter(|(_, left)| !left.is_empty()) {
        gpus.push(gpu.to_string());
        knobs.extend(left);
    }
    gpus.dedup();
    knobs.sort_unstable();
    knobs.dedup();
    let knobs = knobs.join(", ");
    match gpus.as_slice() {
        [] => None,
        [gpu] => Some(format!(
            "the preset {preset} is of the job alone, GPU {gpu} goes on with its own {knobs}: \
             'uvmctl policy set --gpu {gpu} --preset {preset}' sets the GPU's too"
        )),
        some => Some(format!(
            "the preset {preset} is of the jobs alone, GPUs {} go on with their own {knobs}: \
             'uvmctl policy set --gpu ID --preset {preset}' sets a GPU's too",
            some.join(", ")
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use huvm_policy::config::knob_by_name;

    /// What a preset leaves out on a GPU that has another one.
    fn left(preset: &str, of_gpu: &str) -> Vec<&'static str> {
        let policy = preset_by_name(of_gpu).unwrap().policy();
        left_out(preset, |name| Some(policy.get(knob_by_name(name)?.id)))
    }

    /// Catches a knob that a file can have, a GPU that is no different taken for one that is, and one with another preset that differs in
    /// what is a job's own.
    #[test]
    fn what_is_of_a_gpu_stays_the_gpus() {
        for same in ["huvm", "stock-595"] {
            assert!(left(same, same).is_empty());
        }
        assert!(left("stock-595", "random").is_empty());
        let some = left("stock-595", "huvm");
        for knob in ["pre_evict", "fair_memory", "harvest_lend"] {
            assert!(some.contains(&knob), "{knob}");
        }
        assert_eq!(left("stock-595", "demand"), ["copy_overlap"]);
        assert!(!some.contains(&"evict_order") && !some.contains(&"harvest_borrow"));
        assert!(left("nonsense", "huvm").is_empty());
        // A driver that does not have them.
        assert!(left_out("huvm", |_| None).is_empty());
    }

    #[test]
    fn there_is_one_warning_and_it_names_the_remedy() {
        assert_eq!(warning("huvm", &[(0, vec![]), (1, vec![])]), None);
        let one = warning("huvm", &[(0, vec!["pre_evict"]), (1, vec![])]).unwrap();
        assert!(
            one.contains("GPU 0 goes on with its own pre_evict:"),
            "{one}"
        );
        assert!(
            one.contains("'uvmctl policy set --gpu 0 --preset huvm'"),
            "{one}"
        );
        let two = [
            (0, vec!["pre_evict"]),
            (2, vec!["fair_memory", "pre_evict"]),
        ];
        let two = warning("huvm", &two).unwrap();
        assert!(
            two.contains("GPUs 0, 2 go on with their own fair_memory, pre_evict:"),
            "{two}"
        );
        let twice = warning("huvm", &[(3, vec!["a"]), (3, vec!["a"])]).unwrap();
        assert!(twice.contains("GPU 3 goes on with its own a:"), "{twice}");
    }
}
