//! What a language model takes and gives: which input the tokens are, which one says where they stand.

use std::ops::Range;

use etvk_pte::ScalarType;

use crate::error::Result;
use crate::info::{MethodInfo, ValueInfo};
use crate::tensor::Tensor;
use crate::text::Fault;
use crate::value::Value;

/// A method that takes tokens and where they stand, and gives logits.
#[derive(Clone, Debug, PartialEq)]
pub struct Interface {
    method: String,
    /// Which input the tokens are; the other one is the positions.
    tokens: usize,
    bound: usize,
    dynamic: bool,
    positions: Positions,
    /// Which output the logits are.
    pub(crate) logits: usize,
    vocabulary: usize,
    /// Whether each token has logits, not the last one alone.
    each: bool,
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

impl Interface {
    /// Finds the roles of a method's inputs and outputs. Tokens are `int64[1, S]`; positions are `int64[1]` (of the first
    /// token), an integer (likewise) or `int64[S]` (of each), in either order. Logits are the first output of floats:
    /// their last size is the vocabulary.
    ///
    /// # Errors
    /// [`Fault::Interface`] if it is no such method.
    pub fn infer(info: &MethodInfo) -> Result<Self> {
        let tokens =
            if info.inputs.len() == 2 { find(info, 0, 1).or_else(|| find(info, 1, 0)) } else { None };
        let (Some((tokens, bound, dynamic, positions)), Some((logits, rows, vocabulary))) =
            (tokens, logits(info))
        else {
            let list =
                |values: &[ValueInfo]| values.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            let (inputs, outputs) = (list(&info.inputs), list(&info.outputs));
            return Err(Fault::Interface { method: info.name.clone(), inputs, outputs }.into());
        };
        let method = info.name.clone();
        let each = bound > 1 && rows == bound;
        Ok(Self { method, tokens, bound, dynamic, positions, logits, vocabulary, each })
    }

    /// The method.
    #[must_use]
    pub fn method(&self) -> &str {
        &self.method
    }

    /// Most tokens of an execution.
    #[must_use]
    pub fn bound(&self) -> usize {
        self.bound
    }

    /// Whether an execution may have fewer tokens than [`bound`](Self::bound).
    #[must_use]
    pub fn is_dynamic(&self) -> bool {
        self.dynamic
    }

    /// Logits of a token.
    #[must_use]
    pub fn vocabulary(&self) -> usize {
        self.vocabulary
    }

    /// Whether an execution gives logits of each of its tokens, not of the last one alone.
    #[must_use]
    pub fn gives_each(&self) -> bool {
        self.each
    }

    /// How to execute `count` tokens with at most `limit` of them, and at most [`bound`](Self::bound), in an execution:
    /// in one, or in as few as there can be, of about equal length. Places of the tokens, one range an execution.
    ///
    /// # Errors
    /// [`Fault::FixedLength`] if the method takes only another number of tokens.
    pub fn chunks(&self, count: usize, limit: usize) -> Result<impl Iterator<Item = Range<usize>> + use<>> {
        if !self.dynamic && !count.is_multiple_of(self.bound) {
            let (method, expected) = (self.method.clone(), self.bound);
            return Err(Fault::FixedLength { method, expected, found: count }.into());
        }
        let most = if self.dynamic { limit.clamp(1, self.bound) } else { self.bound };
        let chunks = count.div_ceil(most);
        let (each, longer) = (count.checked_div(chunks).unwrap_or(0), count.checked_rem(chunks).unwrap_or(0));
        // The last ones have one token more, if it does not come out even.
        let start = move |chunk: usize| chunk * each + chunk.saturating_sub(chunks - longer);
        Ok((0..chunks).map(move |chunk| start(chunk)..start(chunk + 1)))
    }

    /// The inputs of an execution of `tokens`, the first of which stands at position `start`.
    ///
    /// # Errors
    /// [`Fault::FixedLength`] if the method takes only another number of tokens.
    pub fn inputs(&self, tokens: &[i64], start: i64) -> Result<Vec<Value>> {
        let count = tokens.len();
        if count > self.bound || (!self.dynamic && count != self.bound) {
            let (method, expected) = (self.method.clone(), self.bound);
            return Err(Fault::FixedLength { method, expected, found: count }.into());
        }
        let positions = match self.positions {
            Positions::Number => Value::Int(start),
            Positions::Start => Tensor::from_slice(&[1], &[start])?.into(),
            Positions::Each => {
                let each: Vec<i64> = (start..).take(count).collect();
                Tensor::from_slice(&[count], &each)?.into()
            }
        };
        let tokens = Value::from(Tensor::from_slice(&[1, count], tokens)?);
        Ok(if self.tokens == 0 { vec![tokens, positions] } else { vec![positions, tokens] })
    }
}

/// Tokens and positions, if that is what these inputs are.
fn find(info: &MethodInfo, tokens: usize, positions: usize) -> Option<(usize, usize, bool, Positions)> {
    let (bound, dynamic) = match info.inputs.get(tokens)? {
        ValueInfo::Tensor { scalar_type: ScalarType::Int64, sizes, dynamic } => match **sizes {
            [1, bound] if bound > 0 => (bound, *dynamic),
            _ => return None,
        },
        _ => return None,
    };
    let positions = match info.inputs.get(positions)? {
        ValueInfo::Int(_) => Positions::Number,
        ValueInfo::Tensor { scalar_type: ScalarType::Int64, sizes, dynamic: changes } => match **sizes {
            [1] if !changes => Positions::Start,
            [each] if each == bound && *changes == dynamic => Positions::Each,
            _ => return None,
        },
        _ => return None,
    };
    Some((tokens, bound, dynamic, positions))
}

/// The output that the logits are, how many rows it has, and how many logits a row.
fn logits(info: &MethodInfo) -> Option<(usize, usize, usize)> {
    info.outputs.iter().enumerate().find_map(|(index, output)| match output {
        ValueInfo::Tensor { scalar_type, sizes, .. } if is_float(*scalar_type) => {
            let (&vocabulary, outer) = sizes.split_last()?;
            let rows = outer.iter().try_fold(1_usize, |rows, &size| rows.checked_mul(size))?;
            (vocabulary > 0).then_some((index, rows, vocabulary))
        }
        _ => None,
    })
}

fn is_float(scalar_type: ScalarType) -> bool {
    use ScalarType as S;
    matches!(scalar_type, S::Float16 | S::BFloat16 | S::Float32 | S::Float64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;

    fn ints(sizes: &[usize], dynamic: bool) -> ValueInfo {
        ValueInfo::Tensor { scalar_type: ScalarType::Int64, sizes: sizes.to_vec(), dynamic }
    }

    fn infer(inputs: Vec<ValueInfo>) -> Result<Interface> {
        let floats = |sizes: &[usize]| ValueInfo::Tensor {
            scalar_type: ScalarType::Float32,
            sizes: sizes.to_vec(),
            dynamic: false,
        };
        let outputs = vec![ints(&[1], false), floats(&[1, 50])];
        Interface::infer(&MethodInfo { name: "forward".into(), inputs, outputs, delegates: 1 })
    }

    fn numbers(value: &Value) -> Vec<i64> {
        match value {
            Value::Tensor(tensor) => tensor.to_vec().unwrap(),
            Value::Int(value) => vec![*value],
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn tokens_and_positions_in_any_order() {
        let start = infer(vec![ints(&[1, 8], true), ints(&[1], false)]).unwrap();
        assert_eq!((start.bound(), start.is_dynamic(), start.vocabulary(), start.logits), (8, true, 50, 1));
        let inputs = start.inputs(&[3, 4], 6).unwrap();
        assert_eq!((numbers(&inputs[0]), numbers(&inputs[1])), (vec![3, 4], vec![6]));
        let each = infer(vec![ints(&[8], true), ints(&[1, 8], true)]).unwrap();
        let inputs = each.inputs(&[3, 4], 6).unwrap();
        assert_eq!((numbers(&inputs[0]), numbers(&inputs[1])), (vec![6, 7], vec![3, 4]));
        let number = infer(vec![ints(&[1, 8], true), ValueInfo::Int(0)]).unwrap();
        assert_eq!(number.inputs(&[3], 7).unwrap()[1], Value::Int(7));
    }

    #[test]
    fn prompts_are_split_evenly() {
        let lengths = |model: &Interface, count, limit| {
            let chunks: Vec<_> = model.chunks(count, limit).unwrap().collect();
            assert!(chunks.windows(2).all(|pair| pair[0].end == pair[1].start));
            assert_eq!(chunks.last().map_or(0, |last| last.end), count);
            chunks.iter().map(Range::len).collect::<Vec<_>>()
        };
        let model = infer(vec![ints(&[1, 8], true), ints(&[1], false)]).unwrap();
        assert_eq!(lengths(&model, 20, 8), [6, 7, 7]);
        assert_eq!(lengths(&model, 20, 100), [6, 7, 7]);
        assert_eq!(lengths(&model, 7, 3), [2, 2, 3]);
        assert_eq!(lengths(&model, 3, 0), [1, 1, 1]);
        assert_eq!(lengths(&model, 0, 8), [0; 0]);
        let one = infer(vec![ints(&[1, 1], false), ints(&[1], false)]).unwrap();
        assert_eq!(lengths(&one, 3, 8), [1, 1, 1]);
    }

    #[test]
    fn sizes_that_cannot_change_are_kept() {
        let model = infer(vec![ints(&[1, 8], false), ints(&[1], false)]).unwrap();
        assert_eq!(model.chunks(16, 1).unwrap().count(), 2);
        for found in [1, 9] {
            let Err(Error::Text(fault)) = model.inputs(&vec![0; found], 0) else { panic!("{found}") };
            assert_eq!(fault, Fault::FixedLength { method: "forward".into(), expected: 8, found });
        }
        let Err(Error::Text(fault)) = model.chunks(9, 8).map(drop) else { panic!("9") };
        assert_eq!(fault.to_string(), "forward takes 8 tokens at a time, not 9");
    }

    #[test]
    fn other_methods_are_told_apart() {
        for inputs in [
            vec![ints(&[1, 8], true)],
            vec![ints(&[2, 8], true), ints(&[1], false)],
            vec![ints(&[1, 8], true), ints(&[4], true)],
            vec![ints(&[1, 0], true), ints(&[1], false)],
        ] {
            let Err(Error::Text(Fault::Interface { method, outputs, .. })) = infer(inputs) else { panic!() };
            assert_eq!((method.as_str(), outputs.as_str()), ("forward", "int64[1], float32[1, 50]"));
        }
    }
}
