//! Exit codes, and errors on one line.

use std::process::ExitCode;

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// All is well.
    Ok = 0,
    /// A result differs from what was expected.
    Mismatch = 1,
    /// The input is bad, or this build does not support it.
    BadInput = 2,
    /// There is no usable device.
    NoDevice = 3,
    /// Somebody pressed Ctrl-C: 128 and the number of the signal, as shells have it.
    Interrupted = 130,
}

impl From<Outcome> for ExitCode {
    fn from(outcome: Outcome) -> Self {
        Self::from(outcome as u8)
    }
}

/// A result that is not the expected one.
#[derive(Debug)]
pub(crate) struct Mismatch(pub(crate) String);

impl std::error::Error for Mismatch {}

impl std::fmt::Display for Mismatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl Outcome {
    /// The outcome that an error stands for.
    pub(crate) fn of(error: &anyhow::Error) -> Self {
        for cause in error.chain() {
            if cause.is::<Mismatch>() {
                return Self::Mismatch;
            }
            let device = cause.downcast_ref::<etvk::Error>().is_some_and(etvk::Error::is_device);
            if device || cause.is::<etvk::DeviceError>() {
                return Self::NoDevice;
            }
        }
        Self::BadInput
    }
}

/// The error and its causes on one line, without causes that an earlier text holds already.
pub(crate) fn chain(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain() {
        let cause = cause.to_string();
        if text.is_empty() {
            text = cause;
        } else if !text.ends_with(&cause) {
            text.push_str(": ");
            text.push_str(&cause);
        }
    }
    text.replace('\n', " ")
}

/// Whether the reader of the output went away.
pub(crate) fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let broken = |io: &std::io::Error| io.kind() == std::io::ErrorKind::BrokenPipe;
    error.chain().any(|cause| cause.downcast_ref::<std::io::Error>().is_some_and(broken))
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::anyhow;

    #[test]
    fn causes_stand_on_one_line_once() {
        let error = anyhow!("no such\nfile").context("model.pte").context("opening: model.pte");
        assert_eq!(chain(&error), "opening: model.pte: no such file");
    }

    #[test]
    fn errors_have_exit_codes() {
        assert_eq!(Outcome::of(&anyhow!("what?")), Outcome::BadInput);
        assert_eq!(
            Outcome::of(&anyhow::Error::new(Mismatch("0.1".into())).context("demo")),
            Outcome::Mismatch
        );
        let device = etvk::DeviceError::NoDevice { wanted: "any".into(), found: Vec::new() };
        assert_eq!(Outcome::of(&etvk::Error::Device(device).into()), Outcome::NoDevice);
    }
}
