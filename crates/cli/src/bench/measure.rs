//! What is timed, and how.

use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use etvk::MethodInfo;

use crate::bench::language::Language;
use crate::bench::seat::Seat;
use crate::conformance::Step;
use crate::run;

/// What is timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Test {
    /// Computing a prompt.
    Prompt {
        /// Its length.
        tokens: usize,
    },
    /// Decoding one token after the other.
    Decode {
        /// How many.
        tokens: usize,
        /// Position of the first.
        depth: usize,
    },
    /// Executions of any program on made-up inputs of its upper-bound sizes.
    Whole {
        /// How many.
        runs: usize,
    },
}

impl Test {
    /// Its name in reports.
    pub(crate) fn name(self) -> String {
        match self {
            Self::Prompt { tokens } => format!("pp{tokens}"),
            Self::Decode { tokens, depth } => format!("tg{tokens}@{depth}"),
            Self::Whole { .. } => "run".to_owned(),
        }
    }

    /// Tokens of one repetition; `None` if it has none.
    pub(crate) fn tokens(self) -> Option<usize> {
        match self {
            Self::Prompt { tokens } | Self::Decode { tokens, .. } => Some(tokens),
            Self::Whole { .. } => None,
        }
    }
}

/// The executions of a test.
#[derive(Clone, Debug)]
pub(crate) struct Script {
    pub(crate) test: Test,
    /// What fills the caches beforehand.
    pub(crate) before: Vec<Step>,
    /// What every repetition executes: groups of steps, each of which is one sample of time.
    pub(crate) samples: Vec<Vec<Step>>,
    pub(crate) repetitions: usize,
}

impl Script {
    /// The executions of a test of a language model.
    pub(crate) fn of(test: Test, model: &Language, repetitions: usize) -> anyhow::Result<Self> {
        let (before, samples) = match test {
            Test::Prompt { tokens } => (Vec::new(), vec![model.prompt(tokens)?]),
            Test::Decode { tokens, depth } => {
                let steps = model.decode(depth, tokens)?;
                (model.prompt(depth)?, steps.into_iter().map(|step| vec![step]).collect())
            }
            Test::Whole { .. } => (Vec::new(), Vec::new()),
        };
        Ok(Self { test, before, samples, repetitions })
    }

    /// Executions of any method.
    pub(crate) fn whole(info: &MethodInfo, file: &Path, runs: usize) -> anyhow::Result<Self> {
        let inputs = run::made_up(info, 0, file)?;
        let step = Step { method: info.name.clone(), inputs, expected: Vec::new() };
        let test = Test::Whole { runs };
        Ok(Self { test, before: Vec::new(), samples: vec![vec![step]], repetitions: runs })
    }

    /// The steps of the first sample.
    pub(crate) fn sample(&self) -> &[Step] {
        self.samples.first().map_or(&[], Vec::as_slice)
    }
}

/// Times that a seat took.
#[derive(Clone, Debug, Default)]
pub(crate) struct Times {
    /// The first execution of the test, which records commands and compiles what is new.
    pub(crate) first: Duration,
    /// Time of every sample, by repetition.
    pub(crate) repetitions: Vec<Vec<Duration>>,
}

/// Runs a test on every seat, one repetition of each in turn.
pub(crate) fn measure(script: &Script, seats: &mut [Seat]) -> anyhow::Result<Vec<Times>> {
    let mut all = vec![Times::default(); seats.len()];
    let place = |seat: &Seat| format!("{} ({})", script.test.name(), seat.name);
    for (seat, times) in seats.iter_mut().zip(&mut all) {
        times.first = warm_up(script, seat).with_context(|| place(seat))?;
    }
    for _ in 0..script.repetitions {
        for (seat, times) in seats.iter_mut().zip(&mut all) {
            let repetition: anyhow::Result<Vec<Duration>> = script
                .samples
                .iter()
                .map(|steps| steps.iter().try_fold(Duration::ZERO, |sum, step| Ok(sum + seat.execute(step)?)))
                .collect();
            times.repetitions.push(repetition.with_context(|| place(seat))?);
        }
    }
    Ok(all)
}

/// Fills the caches, and executes the first sample untimed but for its first step.
pub(crate) fn warm_up(script: &Script, seat: &mut Seat) -> anyhow::Result<Duration> {
    for step in &script.before {
        seat.execute(step)?;
    }
    let mut first = None;
    for step in script.sample() {
        let time = seat.execute(step)?;
        first.get_or_insert(time);
    }
    // Recording has taken what it takes.
    seat.memory();
    Ok(first.unwrap_or_default())
}

impl Times {
    /// Every sample, shortest first.
    fn sorted(&self) -> Vec<f64> {
        let mut all: Vec<f64> = self.repetitions.iter().flatten().map(|t| t.as_secs_f64() * 1e3).collect();
        all.sort_by(f64::total_cmp);
        all
    }

    /// Median, least and mean milliseconds of a sample.
    pub(crate) fn milliseconds(&self) -> (f64, f64, f64) {
        let sorted = self.sorted();
        let median = sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN);
        (median, sorted.first().copied().unwrap_or(f64::NAN), mean_and_deviation(&sorted).0)
    }

    /// Mean and standard deviation, over the repetitions, of how many of the `count` things that a repetition does are
    /// done in a second.
    pub(crate) fn rate(&self, count: usize) -> (f64, f64) {
        let rates: Vec<f64> = self
            .repetitions
            .iter()
            .map(|samples| count as f64 / samples.iter().sum::<Duration>().as_secs_f64().max(1e-9))
            .collect();
        mean_and_deviation(&rates)
    }
}

/// Mean and sample standard deviation.
fn mean_and_deviation(values: &[f64]) -> (f64, f64) {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (mean, if values.len() > 1 { (squares / (count - 1.0)).sqrt() } else { 0.0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_have_names() {
        assert_eq!(Test::Prompt { tokens: 512 }.name(), "pp512");
        assert_eq!(Test::Decode { tokens: 128, depth: 1024 }.name(), "tg128@1024");
    }

    #[test]
    fn times_are_summed_up() {
        let ms = |values: &[u64]| values.iter().copied().map(Duration::from_millis).collect::<Vec<_>>();
        let times = Times { first: Duration::ZERO, repetitions: vec![ms(&[10, 10]), ms(&[20, 60])] };
        assert_eq!(times.milliseconds(), (20.0, 10.0, 25.0));
        // 100 and 25 a second.
        let (mean, deviation) = times.rate(2);
        assert!(
            (mean - 62.5).abs() < 1e-9 && (deviation - 53.033_008_588_991_06).abs() < 1e-9,
            "{deviation}"
        );
        let one = Times { repetitions: vec![ms(&[500])], ..Times::default() };
        assert_eq!(one.rate(1), (2.0, 0.0));
    }
}
