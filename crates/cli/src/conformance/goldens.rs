//! Decoders with the logits of every step: `NAME.goldens.json` and `NAME.goldens.safetensors` beside `NAME.pte`.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use etvk::{Module, Tensor, Value, ValueInfo};
use serde::Deserialize;

use crate::conformance::case::{Case, Source, Step};
use crate::conformance::compare::Tolerance;
use crate::tensors;

/// How names of the files end.
pub(crate) const ENDING: &str = ".goldens.json";

/// Upstream's delegate is within 1.3e-4 of every logit of the one such program there is.
const TOLERANCE: Tolerance = Tolerance { atol: 2e-3, rtol: 1e-4, of_output: false };

#[derive(Debug, Deserialize)]
struct Goldens {
    cases: Vec<Prompt>,
}

#[derive(Clone, Debug, Deserialize)]
struct Prompt {
    prompt_ids: Vec<i64>,
    generated_ids: Vec<i64>,
}

/// A prompt, the tokens that follow, and where the logits of each step are.
#[derive(Clone, Debug)]
pub(crate) struct Decode {
    prompt: Prompt,
    logits: PathBuf,
    key: String,
}

/// Every prompt of a file.
pub(crate) fn cases(path: &Path) -> anyhow::Result<Vec<Case>> {
    let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    let goldens: Goldens = serde_json::from_str(&text).with_context(|| path.display().to_string())?;
    let file = path.file_name().and_then(|name| name.to_str()).and_then(|name| name.strip_suffix(ENDING));
    let name = file.with_context(|| format!("{}: the name must end in {ENDING}", path.display()))?;
    let case = |(index, prompt)| Case {
        group: "goldens".to_owned(),
        name: format!("{name}/case{index}"),
        program: path.with_file_name(format!("{name}.pte")),
        data: Vec::new(),
        tolerance: TOLERANCE,
        source: Source::Goldens(Decode {
            prompt,
            logits: path.with_extension("safetensors"),
            key: format!("case{index}.logits"),
        }),
    };
    Ok(goldens.cases.into_iter().enumerate().map(case).collect())
}

impl Decode {
    /// The prompt in as few calls as it fits in, then one token a call.
    pub(crate) fn steps(&self, module: &Module) -> anyhow::Result<Vec<Step>> {
        let info = module.method_info("forward")?;
        let most = match info.inputs.as_slice() {
            [ValueInfo::Tensor { sizes, .. }, ValueInfo::Tensor { .. }]
                if sizes.len() == 2 && sizes[1] > 0 =>
            {
                sizes[1]
            }
            inputs => bail!("expected forward(tokens[1, S], position), found {inputs:?}"),
        };
        let mut named = tensors::read(&self.logits)?;
        let logits = named.remove(&self.key);
        let logits = logits.with_context(|| format!("{}: no tensor {}", self.logits.display(), self.key))?;
        let rows = logits.sizes().first().copied().unwrap_or(0);
        if logits.sizes().len() != 2 || rows != self.prompt.generated_ids.len() {
            bail!(
                "{}: expected a row of logits for each of {} tokens, found {logits:?}",
                self.key,
                self.prompt.generated_ids.len()
            );
        }
        chunks(&self.prompt, most).into_iter().map(|chunk| chunk.step(&logits)).collect()
    }
}

/// Tokens of one call.
#[derive(Debug, PartialEq)]
struct Chunk {
    tokens: Vec<i64>,
    position: usize,
    /// The row of logits that the call should give.
    row: Option<usize>,
}

fn chunks(prompt: &Prompt, most: usize) -> Vec<Chunk> {
    let mut chunks = Vec::new();
    let mut position = 0;
    for tokens in prompt.prompt_ids.chunks(most) {
        let end = position + tokens.len();
        let row = (end == prompt.prompt_ids.len()).then_some(0);
        chunks.push(Chunk { tokens: tokens.to_vec(), position, row });
        position = end;
    }
    // The last token's logits would be those of a step that the file does not have.
    let fed = prompt.generated_ids.len().saturating_sub(1);
    for (step, &token) in prompt.generated_ids.iter().take(fed).enumerate() {
        chunks.push(Chunk { tokens: vec![token], position: position + step, row: Some(step + 1) });
    }
    chunks
}

impl Chunk {
    fn step(&self, logits: &Tensor) -> anyhow::Result<Step> {
        let position = i64::try_from(self.position)?;
        let tokens = Tensor::from_slice(&[1, self.tokens.len()], &self.tokens)?;
        let expected = match self.row {
            Some(row) => {
                let width = logits.sizes()[1];
                let bytes = width * logits.scalar_type().size();
                let row = logits.data().get(row * bytes..(row + 1) * bytes).unwrap_or_default();
                vec![Value::Tensor(Tensor::new(logits.scalar_type(), &[1, width], row.to_vec())?)]
            }
            None => Vec::new(),
        };
        let inputs = vec![tokens.into(), Tensor::from_slice(&[1], &[position])?.into()];
        Ok(Step { method: "forward".to_owned(), inputs, expected })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_prompt_goes_in_chunks() {
        let prompt = Prompt { prompt_ids: vec![5, 6, 7, 8, 9], generated_ids: vec![10, 11, 12] };
        let chunk = |tokens: &[i64], position, row| Chunk { tokens: tokens.to_vec(), position, row };
        let want = [
            chunk(&[5, 6], 0, None),
            chunk(&[7, 8], 2, None),
            chunk(&[9], 4, Some(0)),
            chunk(&[10], 5, Some(1)),
            chunk(&[11], 6, Some(2)),
        ];
        assert_eq!(chunks(&prompt, 2), want);
    }

    #[test]
    fn a_step_expects_its_row() {
        let logits = Tensor::from_slice(&[2, 2], &[1.0_f32, 2.0, 3.0, 4.0]).unwrap();
        let step = Chunk { tokens: vec![9], position: 4, row: Some(1) }.step(&logits).unwrap();
        assert_eq!(step.expected, [Value::Tensor(Tensor::from_slice(&[1, 2], &[3.0_f32, 4.0]).unwrap())]);
        assert_eq!(step.inputs[1], Value::Tensor(Tensor::from_slice(&[1], &[4_i64]).unwrap()));
    }
}
