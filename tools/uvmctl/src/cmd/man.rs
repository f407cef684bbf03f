// SPDX-License-Identifier: GPL-2.0
//! `completion`, `man`: both from the grammar.

use crate::cli::Cli;
use crate::exit::{Failure, Result};
use crate::out::Out;
use clap::CommandFactory;
use clap_mangen::Man;
use std::path::Path;

pub(super) fn completion(out: &Out, shell: clap_complete::Shell) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "uvmctl", &mut script);
    out.text(&String::from_utf8_lossy(&script))
}

/// Writes the page of a command and those of its subcommands.
fn write(command: &clap::Command, dir: &Path) -> std::io::Result<()> {
    for sub in command.get_subcommands().filter(|s| !s.is_hide_set()) {
        write(&sub.clone().after_help("Exit codes: see uvmctl(8)."), dir)?;
    }
    let version = env!("CARGO_PKG_VERSION");
    Man::new(command.clone())
        .section("8")
        .source(format!("huvm {version}"))
        .manual("huvm")
        .generate_to(dir)
        .map(|_| ())
}

pub(super) fn pages(dir: &Path) -> Result<()> {
    let mut all = Cli::command().disable_help_subcommand(true);
    all.build();
    std::fs::create_dir_all(dir)
        .and_then(|()| write(&all, dir))
        .map_err(|e| Failure::file(dir, e))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every command with its words, the hidden ones left out.
    fn walk(command: &clap::Command, words: &str, all: &mut Vec<(String, clap::Command)>) {
        for sub in command.get_subcommands().filter(|s| !s.is_hide_set()) {
            let words = format!("{words}-{}", sub.get_name());
            walk(sub, &words, all);
            all.push((words, sub.clone()));
        }
    }

    fn commands() -> Vec<(String, clap::Command)> {
        let mut root = Cli::command().disable_help_subcommand(true);
        root.build();
        let mut all = vec![("uvmctl".to_owned(), root.clone())];
        walk(&root, "uvmctl", &mut all);
        all
    }

    #[test]
    fn the_grammar_is_sound() {
        Cli::command().debug_assert();
        assert!(commands().len() > 25, "{}", commands().len());
    }

    #[test]
    fn every_command_has_a_page_with_its_options() {
        let dir = std::env::temp_dir().join(format!("uvmctl-pages-{}", std::process::id()));
        pages(&dir).unwrap();
        let written = std::fs::read_dir(&dir).unwrap().count();
        assert_eq!(written, commands().len());
        for (name, command) in commands() {
            let text = std::fs::read_to_string(dir.join(format!("{name}.8"))).unwrap();
            assert!(text.contains(&format!(".TH {name} 8")), "{name}");
            for arg in command.get_arguments() {
                if let Some(long) = arg.get_long() {
                    let escaped = long.replace('-', "\\-");
                    assert!(text.contains(&escaped), "{name}: --{long}");
                }
                assert!(arg.get_help().is_some(), "{name}: {}", arg.get_id());
            }
            assert!(command.get_about().is_some(), "{name}");
            let sub = name != "uvmctl";
            assert_eq!(text.contains("Exit codes: see uvmctl(8)."), sub, "{name}");
        }
        let page = std::fs::read_to_string(dir.join("uvmctl.8")).unwrap();
        for (code, _, meaning) in crate::exit::CODES {
            let words = meaning.split([':', ';']).next().unwrap();
            assert!(page.contains(words), "{code} {words}");
        }
        std::fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn every_command_and_option_completes() {
        for shell in [
            clap_complete::Shell::Bash,
            clap_complete::Shell::Zsh,
            clap_complete::Shell::Fish,
        ] {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "uvmctl", &mut script);
            let script = String::from_utf8(script).unwrap();
            for (name, command) in commands() {
                assert!(script.contains(command.get_name()), "{shell}: {name}");
                for long in command.get_arguments().filter_map(|a| a.get_long()) {
                    assert!(script.contains(long), "{shell}: {name} --{long}");
                }
            }
        }
    }

    #[test]
    fn help_lists_the_exit_codes() {
        let help = Cli::command().render_help().to_string();
        for (code, _, meaning) in crate::exit::CODES {
            assert!(help.contains(&format!("  {code:<3} {meaning}")), "{code}");
        }
    }
}
