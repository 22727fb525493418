//! `lsparse completions`: a script that teaches a shell the commands and options.

use clap::Args;
use clap_complete::Shell;
use lsparse::Result;

use crate::{cli, output};

/// Completions for a shell.
#[derive(Args, Debug)]
#[command(after_help = "\
EXAMPLES:
  lsparse completions bash > ~/.local/share/bash-completion/completions/lsparse
  lsparse completions zsh > ~/.zfunc/_lsparse
  lsparse completions fish > ~/.config/fish/completions/lsparse.fish")]
pub struct CompletionsArgs {
    /// The shell.
    pub shell: Shell,
}

pub fn run(args: &CompletionsArgs) -> Result<()> {
    // Into memory first: the generator panics where it cannot write.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut cli::command(), "lsparse", &mut script);
    output::print(&String::from_utf8_lossy(&script))
}
