//! Which passes a command switches off.

use anyhow::Context;
use clap::Args;
use etvk::Passes;

/// Options of the commands that run programs to compare or to time them.
#[derive(Args, Debug)]
pub(crate) struct PassArgs {
    /// Passes to run without, separated by commas, or `all`; of the Rust API alone
    #[arg(long, value_name = "PASS", value_delimiter = ',')]
    without: Vec<String>,
}

impl PassArgs {
    /// The passes that are left.
    pub(crate) fn passes(&self) -> anyhow::Result<Passes> {
        let mut passes = Passes::all();
        for name in &self.without {
            passes = match name.as_str() {
                "all" => Passes::none(),
                name => passes.without(name).with_context(|| {
                    let known: Vec<&str> = Passes::names().collect();
                    format!("there is no pass {name}; there are {} and all", known.join(", "))
                })?,
            };
        }
        Ok(passes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn without(names: &[&str]) -> anyhow::Result<Passes> {
        PassArgs { without: names.iter().map(|&name| name.to_owned()).collect() }.passes()
    }

    #[test]
    fn passes_are_switched_off_by_name() {
        assert_eq!(without(&[]).unwrap(), Passes::all());
        assert_eq!(without(&["all"]).unwrap(), Passes::none());
        assert_ne!(without(&["heads"]).unwrap(), Passes::all());
        assert!(without(&["heds"]).unwrap_err().to_string().contains("heads"));
    }
}
