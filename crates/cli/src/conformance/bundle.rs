//! Bundled programs: a `.bpte` holds a program and test cases for its methods.

use std::path::Path;

use anyhow::Context;
use etvk::{Tensor, Value};
use etvk_pte::{BundledProgram, BundledValue, Layout, Map};

use crate::conformance::case::{Case, Source, Step};
use crate::conformance::compare::Tolerance;

/// What upstream's example runner allows, by the rule of its verifier.
const TOLERANCE: Tolerance = Tolerance { atol: 1e-5, rtol: 1e-3, of_output: true };

/// The test cases of one method.
#[derive(Clone, Debug)]
pub(crate) struct Suite {
    method: String,
}

/// One case a method that has test cases.
pub(crate) fn cases(path: &Path) -> anyhow::Result<Vec<Case>> {
    let file = open(path)?;
    let bundle = BundledProgram::parse(&file).with_context(|| path.display().to_string())?;
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let case = |suite: &etvk_pte::TestSuite<'_>| Case {
        group: "bundle".to_owned(),
        name: format!("{name}/{}", suite.method),
        program: path.to_owned(),
        data: Vec::new(),
        tolerance: TOLERANCE,
        source: Source::Bundle(Suite { method: suite.method.to_owned() }),
    };
    Ok(bundle.suites().iter().map(case).collect())
}

fn open(path: &Path) -> anyhow::Result<Map> {
    Map::open(path).with_context(|| path.display().to_string())
}

impl Suite {
    /// One execution a test case.
    pub(crate) fn steps(&self, path: &Path) -> anyhow::Result<Vec<Step>> {
        let file = open(path)?;
        let bundle = BundledProgram::parse(&file)?;
        let suite = bundle.suites().iter().find(|suite| suite.method == self.method);
        let suite =
            suite.with_context(|| format!("{}: no test cases for {}", path.display(), self.method))?;
        let step = |case: &etvk_pte::TestCase<'_>| {
            Ok(Step {
                method: self.method.clone(),
                inputs: case.inputs.iter().map(value).collect::<anyhow::Result<_>>()?,
                expected: case.expected_outputs.iter().map(value).collect::<anyhow::Result<_>>()?,
            })
        };
        suite.cases.iter().map(step).collect()
    }
}

fn value(value: &BundledValue<'_>) -> anyhow::Result<Value> {
    Ok(match value {
        BundledValue::Tensor(layout, bytes) => tensor(layout, bytes)?.into(),
        BundledValue::Int(value) => Value::Int(*value),
        BundledValue::Bool(value) => Value::Bool(*value),
        BundledValue::Double(value) => Value::Double(*value),
        _ => anyhow::bail!("a value of an unknown kind"),
    })
}

/// A tensor in row-major order.
fn tensor(layout: &Layout<'_>, bytes: &[u8]) -> anyhow::Result<Tensor> {
    let sizes: Vec<usize> = layout.sizes().collect();
    let element = layout.scalar_type().size();
    let mut strides = vec![0; sizes.len()];
    let mut next = element;
    for &dim in layout.dim_order().iter().rev() {
        strides[usize::from(dim)] = next;
        next *= sizes[usize::from(dim)].max(1);
    }
    let mut data = Vec::with_capacity(bytes.len());
    for at in 0..layout.numel() {
        let (mut rest, mut offset) = (at, 0);
        for dim in (0..sizes.len()).rev() {
            offset += rest % sizes[dim] * strides[dim];
            rest /= sizes[dim];
        }
        data.extend_from_slice(bytes.get(offset..offset + element).unwrap_or_default());
    }
    Ok(Tensor::new(layout.scalar_type(), &sizes, data)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bundle_has_a_case_a_method() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../tests/fixtures/format/bundled_multi_method.bpte");
        let cases = cases(&path).unwrap();
        let names: Vec<&str> = cases.iter().map(|case| case.name.as_str()).collect();
        assert_eq!(names, ["bundled_multi_method.bpte/encode", "bundled_multi_method.bpte/score"]);
        let Source::Bundle(suite) = &cases[1].source else { panic!("not a bundle") };
        let steps = suite.steps(&path).unwrap();
        assert!(steps.iter().all(|step| step.inputs.len() == 2 && step.expected.len() == 2));
    }
}
