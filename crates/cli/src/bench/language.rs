//! Executions of a language model on made-up tokens.

use anyhow::anyhow;
use etvk::MethodInfo;
use etvk::text::Interface;

use crate::conformance::Step;

/// Made-up token ids lie below this, which is less than any vocabulary of size: tables may be cut short.
const MOST_IDS: usize = 32_000;

/// A method that takes tokens and where they stand, and gives logits.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Language {
    interface: Interface,
    /// Made-up token ids lie below this.
    ids: usize,
}

impl Language {
    /// Finds the roles of a method's inputs.
    ///
    /// # Errors
    /// If it is no such method.
    pub(crate) fn infer(info: &MethodInfo) -> anyhow::Result<Self> {
        let interface =
            Interface::infer(info).map_err(|error| anyhow!("{error}; time whole executions with --runs"))?;
        let ids = interface.vocabulary().min(MOST_IDS);
        Ok(Self { interface, ids })
    }

    /// The executions that compute a prompt of `count` tokens: one, or as many equal ones as its bound demands.
    ///
    /// # Errors
    /// If the method takes only another number of tokens.
    pub(crate) fn prompt(&self, count: usize) -> anyhow::Result<Vec<Step>> {
        self.interface.chunks(count, usize::MAX)?.map(|chunk| self.step(chunk.start, chunk.len())).collect()
    }

    /// The executions that decode `count` tokens, the first of which stands at position `depth`.
    ///
    /// # Errors
    /// If the method takes only several tokens at a time.
    pub(crate) fn decode(&self, depth: usize, count: usize) -> anyhow::Result<Vec<Step>> {
        (depth..depth.saturating_add(count)).map(|position| self.step(position, 1)).collect()
    }

    fn step(&self, first: usize, count: usize) -> anyhow::Result<Step> {
        // Neighbours differ, and rows come from all over the table.
        let id = |at: usize| i64::try_from((first + at).wrapping_mul(7919) % self.ids);
        let ids = (0..count).map(id).collect::<Result<Vec<_>, _>>()?;
        let inputs = self.interface.inputs(&ids, i64::try_from(first)?)?;
        Ok(Step { method: self.interface.method().to_owned(), inputs, expected: Vec::new() })
    }
}

#[cfg(test)]
mod tests {
    use etvk::{ScalarType, Value, ValueInfo};

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
