//! Spellings of arguments.

use std::ffi::OsString;

/// Arguments with `-` for every `_` in the names of options: `--model_path=a_b` becomes `--model-path=a_b`.
pub(crate) fn with_hyphens(args: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut done = false;
    args.map(|arg| {
        let Some(text) = arg.to_str().filter(|text| text.starts_with("--") && !done) else { return arg };
        done = text == "--";
        match text.split_once('=') {
            Some((name, value)) => format!("{}={value}", name.replace('_', "-")).into(),
            None => text.replace('_', "-").into(),
        }
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_options_change() {
        let given = ["etvk", "run", "a_b.pte", "--num_executions", "3", "--model_path=c_d", "--", "--e_f"];
        let want = ["etvk", "run", "a_b.pte", "--num-executions", "3", "--model-path=c_d", "--", "--e_f"];
        assert_eq!(with_hyphens(given.iter().map(OsString::from)), want.map(OsString::from));
    }
}
