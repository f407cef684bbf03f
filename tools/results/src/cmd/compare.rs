// SPDX-License-Identifier: GPL-2.0
//! `compare`.

use super::Done;
use crate::cli::Compare;
use huvm_results::compare::compare;
use huvm_results::failure::{Failure, Result};
use huvm_results::rows;

pub(super) fn run(args: &Compare) -> Result<Done> {
    if args.threshold.is_some_and(|t| !(0.0..=1e6).contains(&t)) {
        return Err(Failure::Usage("a threshold is a number of percent".into()));
    }
    let found = compare(&rows::read(&args.a)?, &rows::read(&args.b)?)?;
    let text = match args.json {
        true => super::json(&found)?,
        false => found.text(),
    };
    let failure = args.threshold.and_then(|t| {
        if let Some(why) = found.cannot_be_judged() {
            return Some(Failure::Check(why));
        }
        let slower = found.slower(t);
        let worst = slower.iter().max_by_key(|p| (p.ratio * 1e4) as u64)?;
        Some(Failure::Check(format!(
            "B is more than {t} % slower in {} of {} rows; worst: {}, {:.3} times",
            slower.len(),
            found.rows.len(),
            worst.key,
            worst.ratio
        )))
    });
    Ok(Done { text, failure })
}
