//! `etvk demo`

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;
use etvk::Value;

use crate::conformance::{Case, Session, Step, compare, find_case};
use crate::device::{self, DeviceArgs, describe};
use crate::outcome::{Mismatch, Outcome};
use crate::tensors::Numbers;

/// Decode a language model of the fixtures and show its logits beside the expected ones
#[derive(Args, Debug)]
pub(crate) struct DemoArgs {
    /// Path of a fixture's program without .pte
    prefix: PathBuf,
    #[command(flatten)]
    device: DeviceArgs,
}

pub(crate) fn run(args: &DemoArgs, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    let case = find_case(&args.prefix)?;
    let runtime = args.device.runtime();
    let mut session = Session::open(&case, &runtime, etvk::Passes::all())?;
    let steps = case.steps(&session.module)?;
    let [prefill, decode @ ..] = steps.as_slice() else { bail!("{} has no runs", case.full_name()) };
    writeln!(out, "device  {}", describe(runtime.device()?.capabilities()))?;
    writeln!(out, "model   {} ({} bytes)", case.full_name(), std::fs::metadata(&case.program)?.len())?;
    let prompt: Vec<String> = tokens(prefill)?.iter().map(ToString::to_string).collect();
    writeln!(out, "prompt  {}", prompt.join(" "))?;
    writeln!(out, "\n  step  id      logit   expected id      logit   greatest error")?;
    let (mut wrong, mut decode_time) = (0, Duration::ZERO);
    let prefill_time = step(&case, &mut session, prefill, 0, out, &mut wrong)?;
    for (index, run) in decode.iter().enumerate() {
        decode_time += step(&case, &mut session, run, index + 1, out, &mut wrong)?;
    }
    writeln!(out, "\nprompt  {} tokens, {} a second", prompt.len(), rate(prompt.len(), prefill_time))?;
    writeln!(out, "decode  {} tokens, {} a second", decode.len(), rate(decode.len(), decode_time))?;
    device::finish(&runtime)?;
    if wrong > 0 {
        let tolerance = case.tolerance;
        return Err(Mismatch(format!(
            "{wrong} of {} steps differ by more than {} + {} |expected|",
            steps.len(),
            tolerance.atol,
            tolerance.rtol
        ))
        .into());
    }
    writeln!(out, "every logit is within {} + {} |expected|", case.tolerance.atol, case.tolerance.rtol)?;
    Ok(Outcome::Ok)
}

fn step(
    case: &Case,
    session: &mut Session,
    step: &Step,
    index: usize,
    out: &mut dyn Write,
    wrong: &mut usize,
) -> anyhow::Result<Duration> {
    let (outputs, time) = session.execute(step)?;
    let (Some(got), Some(want)) = (outputs.first(), step.expected.first()) else {
        bail!("step {index} has no logits")
    };
    let difference = compare(got, want, case.tolerance).with_context(|| format!("step {index}"))?;
    let ((id, logit), (golden, golden_logit)) = (greatest(got)?, greatest(want)?);
    let mark = if difference.worst.is_some() { "  WRONG" } else { "" };
    writeln!(
        out,
        "  {index:4}  {id:<5}  {logit:8.4}   {golden:<11}  {golden_logit:8.4}   {:.1e}{mark}",
        difference.max_abs
    )?;
    out.flush()?;
    *wrong += usize::from(difference.worst.is_some());
    Ok(time)
}

/// The token with the greatest logit of the last position.
fn greatest(logits: &Value) -> anyhow::Result<(usize, f64)> {
    let tensor = logits.as_tensor().context("the logits are no tensor")?;
    let Numbers::Floats(values) = Numbers::of(tensor)? else { bail!("{tensor:?} are no logits") };
    let vocabulary = tensor.sizes().last().copied().unwrap_or(0);
    let last = values.get(values.len().saturating_sub(vocabulary)..).unwrap_or_default();
    let best = last.iter().copied().enumerate().max_by(|a, b| a.1.total_cmp(&b.1));
    best.with_context(|| format!("{tensor:?} are no logits"))
}

/// The token ids of a run: its first integer tensor.
fn tokens(step: &Step) -> anyhow::Result<Vec<i64>> {
    for input in &step.inputs {
        if let Value::Tensor(tensor) = input
            && let Numbers::Ints(ids) = Numbers::of(tensor)?
        {
            return Ok(ids);
        }
    }
    bail!("the first run has no token ids")
}

fn rate(tokens: usize, time: Duration) -> String {
    match (u32::try_from(tokens), time.as_secs_f64()) {
        (Ok(tokens), seconds) if seconds > 0.0 => format!("{:.1}", f64::from(tokens) / seconds),
        _ => "-".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use etvk::Tensor;

    #[test]
    fn the_last_position_counts() {
        let logits = Tensor::from_slice(&[1, 2, 3], &[9.0_f32, 0.0, 0.0, 1.0, -2.0, 1.5]).unwrap();
        assert_eq!(greatest(&logits.into()).unwrap(), (2, 1.5));
        assert!(greatest(&Value::Int(1)).is_err());
    }

    #[test]
    fn rates_need_time() {
        assert_eq!(rate(8, Duration::from_millis(500)), "16.0");
        assert_eq!(rate(8, Duration::ZERO), "-");
    }
}
