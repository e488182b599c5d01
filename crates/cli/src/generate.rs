//! Shell completions and the manual page, from the arguments themselves: for whoever packages the program.

use crate::args::{Args, Generate, What};
use crate::fail::Fail;
use crate::out::Out;
use clap::CommandFactory;
use clap_complete::Shell;

pub(crate) fn run(args: &Generate, out: &Out) -> Result<(), Fail> {
    Ok(out.line(text(args.what)?.trim_end())?)
}

fn text(what: What) -> std::io::Result<String> {
    let mut command = Args::command();
    let mut bytes = Vec::new();
    let shell = match what {
        What::Bash => Shell::Bash,
        What::Elvish => Shell::Elvish,
        What::Fish => Shell::Fish,
        What::PowerShell => Shell::PowerShell,
        What::Zsh => Shell::Zsh,
        What::Man => {
            clap_mangen::Man::new(command).render(&mut bytes)?;
            return Ok(String::from_utf8_lossy(&bytes).into_owned());
        }
    };
    clap_complete::generate(shell, &mut command, "teamlamp", &mut bytes);
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_form_names_the_commands() {
        for what in [What::Bash, What::Elvish, What::Fish, What::PowerShell, What::Zsh, What::Man] {
            assert!(text(what).unwrap().contains("connect"), "{what:?}");
        }
    }
}
