//! Language models by their inputs: which are tokens, which are positions.

use anyhow::bail;
use etvk::{MethodInfo, ScalarType, Tensor, Value, ValueInfo};

use crate::conformance::Step;

/// Made-up token ids lie below this, which is less than any vocabulary of size: tables may be cut short.
const MOST_IDS: usize = 32_000;

/// A method that takes tokens and where they stand, and gives logits.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Language {
    method: String,
    /// Which input the tokens are; the other one is the positions.
    tokens: usize,
    /// Most tokens of an execution.
    bound: usize,
    /// Whether fewer may be given.
    dynamic: bool,
    positions: Positions,
    /// Made-up token ids lie below this.
    ids: usize,
}

/// How a method is told where its tokens stand.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Positions {
    /// The position of the first token, as a tensor.
    Start,
    /// The position of the first token, as a number.
    Number,
    /// The position of every token.
    Each,
}

impl Language {
    /// Finds the roles of a method's inputs.
    ///
    /// # Errors
    /// If it is no such method.
    pub(crate) fn infer(info: &MethodInfo) -> anyhow::Result<Self> {
        let find = |tokens: usize, positions: usize| {
            let (bound, dynamic) = match info.inputs.get(tokens)? {
                ValueInfo::Tensor { scalar_type: ScalarType::Int64, sizes, dynamic } => match **sizes {
                    [1, bound] if bound > 0 => (bound, *dynamic),
                    _ => return None,
                },
                _ => return None,
            };
            let positions = match info.inputs.get(positions)? {
                ValueInfo::Int(_) => Positions::Number,
                ValueInfo::Tensor { scalar_type: ScalarType::Int64, sizes, dynamic: changes } => {
                    match **sizes {
                        [1] if !changes => Positions::Start,
                        [each] if each == bound && *changes == dynamic => Positions::Each,
                        _ => return None,
                    }
                }
                _ => return None,
            };
            Some((tokens, bound, dynamic, positions))
        };
        let logits = info.outputs.iter().find_map(|output| match output {
            ValueInfo::Tensor { scalar_type, sizes, .. } if is_float(*scalar_type) => sizes.last().copied(),
            _ => None,
        });
        let found = if info.inputs.len() == 2 { find(0, 1).or_else(|| find(1, 0)) } else { None };
        let (Some((tokens, bound, dynamic, positions)), Some(vocabulary)) = (found, logits) else {
            let inputs: Vec<String> = info.inputs.iter().map(ToString::to_string).collect();
            bail!(
                "{} takes ({}), which is neither (tokens int64[1, S], start int64[1]) nor (tokens int64[1, S], positions \
                 int64[S]) of a language model: time whole executions with --runs",
                info.name,
                inputs.join(", ")
            );
        };
        let ids = vocabulary.clamp(1, MOST_IDS);
        Ok(Self { method: info.name.clone(), tokens, bound, dynamic, positions, ids })
    }

    /// The executions that compute a prompt of `count` tokens: one, or as many equal ones as its bound demands.
    ///
    /// # Errors
    /// If the method takes only another number of tokens.
    pub(crate) fn prompt(&self, count: usize) -> anyhow::Result<Vec<Step>> {
        let chunks = count.div_ceil(self.bound);
        if !self.dynamic && !count.is_multiple_of(self.bound) {
            bail!("{} takes {} tokens at a time, not {count}", self.method, self.bound);
        }
        let start = |chunk: usize| chunk * count / chunks.max(1);
        (0..chunks).map(|chunk| self.step(start(chunk), start(chunk + 1) - start(chunk))).collect()
    }

    /// The executions that decode `count` tokens, the first of which stands at position `depth`.
    ///
    /// # Errors
    /// If the method takes only several tokens at a time.
    pub(crate) fn decode(&self, depth: usize, count: usize) -> anyhow::Result<Vec<Step>> {
        if !self.dynamic && self.bound != 1 {
            bail!("{} takes {} tokens at a time, not 1", self.method, self.bound);
        }
        (depth..depth.saturating_add(count)).map(|position| self.step(position, 1)).collect()
    }

    fn step(&self, first: usize, count: usize) -> anyhow::Result<Step> {
        // Neighbours differ, and rows come from all over the table.
        let id = |at: usize| i64::try_from((first + at).wrapping_mul(7919) % self.ids);
        let ids = (0..count).map(id).collect::<Result<Vec<_>, _>>()?;
        let tokens = Tensor::from_slice(&[1, count], &ids)?;
        let start = i64::try_from(first)?;
        let positions = match self.positions {
            Positions::Number => Value::Int(start),
            Positions::Start => Tensor::from_slice(&[1], &[start])?.into(),
            Positions::Each => {
                let each: Vec<i64> = (start..).take(count).collect();
                Tensor::from_slice(&[count], &each)?.into()
            }
        };
        let mut inputs = vec![positions];
        inputs.insert(self.tokens, tokens.into());
        Ok(Step { method: self.method.clone(), inputs, expected: Vec::new() })
    }
}

fn is_float(scalar_type: ScalarType) -> bool {
    matches!(
        scalar_type,
        ScalarType::Float16 | ScalarType::BFloat16 | ScalarType::Float32 | ScalarType::Float64
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ints(sizes: &[usize], dynamic: bool) -> ValueInfo {
        ValueInfo::Tensor { scalar_type: ScalarType::Int64, sizes: sizes.to_vec(), dynamic }
    }

    fn method(inputs: Vec<ValueInfo>) -> MethodInfo {
        let logits =
            ValueInfo::Tensor { scalar_type: ScalarType::Float32, sizes: vec![1, 50], dynamic: false };
        MethodInfo { name: "forward".into(), inputs, outputs: vec![logits], delegates: 1 }
    }

    fn values(step: &Step, input: usize) -> Vec<i64> {
        match &step.inputs[input] {
            Value::Tensor(tensor) => tensor.to_vec().unwrap(),
            Value::Int(value) => vec![*value],
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn tokens_with_a_start() {
        let model = Language::infer(&method(vec![ints(&[1, 8], true), ints(&[1], false)])).unwrap();
        let steps = model.prompt(20).unwrap();
        let sizes: Vec<usize> = steps.iter().map(|step| values(step, 0).len()).collect();
        let starts: Vec<i64> = steps.iter().map(|step| values(step, 1)[0]).collect();
        assert_eq!((sizes, starts), (vec![6, 7, 7], vec![0, 6, 13]));
        assert!(steps.iter().all(|step| values(step, 0).iter().all(|id| (0..50).contains(id))));
        let steps = model.decode(5, 2).unwrap();
        assert_eq!((values(&steps[1], 0).len(), values(&steps[1], 1)), (1, vec![6]));
    }

    #[test]
    fn tokens_with_positions_in_any_order() {
        let model = Language::infer(&method(vec![ints(&[8], true), ints(&[1, 8], true)])).unwrap();
        let steps = model.prompt(3).unwrap();
        assert_eq!((values(&steps[0], 0), values(&steps[0], 1).len()), (vec![0, 1, 2], 3));
        assert_eq!(values(&model.decode(7, 1).unwrap()[0], 0), [7]);
        let model = Language::infer(&method(vec![ints(&[1, 8], true), ValueInfo::Int(0)])).unwrap();
        assert_eq!(values(&model.decode(7, 1).unwrap()[0], 1), [7]);
    }

    #[test]
    fn sizes_that_cannot_change_are_kept() {
        let prompt = Language::infer(&method(vec![ints(&[1, 8], false), ints(&[1], false)])).unwrap();
        assert_eq!(prompt.prompt(16).unwrap().len(), 2);
        assert_eq!(prompt.prompt(9).unwrap_err().to_string(), "forward takes 8 tokens at a time, not 9");
        assert!(prompt.decode(0, 1).is_err());
        let decode = Language::infer(&method(vec![ints(&[1, 1], false), ints(&[1], false)])).unwrap();
        assert_eq!((decode.prompt(3).unwrap().len(), decode.decode(4, 2).unwrap().len()), (3, 2));
    }

    #[test]
    fn other_programs_are_told_what_to_do() {
        for inputs in [vec![ints(&[1, 8], true)], vec![ints(&[2, 8], true), ints(&[1], false)]] {
            let error = Language::infer(&method(inputs)).unwrap_err().to_string();
            assert!(error.starts_with("forward takes (int64[") && error.ends_with("with --runs"), "{error}");
        }
        let two = Language::infer(&method(vec![ints(&[1, 8], true), ints(&[4], true)]));
        assert!(two.is_err());
    }
}
