//! Runs cases through doors.

use anyhow::{Context, bail};
use etvk::{Module, ModuleOptions, Value};
use sha2::{Digest, Sha256};

use crate::conformance::case::{Case, Step};
use crate::conformance::compare::compare;
use crate::conformance::door::Door;
use crate::conformance::expected::Expected;
use crate::conformance::report::Row;

/// Outputs of each step that a case got to.
type Outputs = Vec<Vec<Value>>;

/// What cases are put through.
pub(crate) struct Suite<'a> {
    pub(crate) doors: &'a [Box<dyn Door>],
    /// How often a case is run; every time must give the same outputs.
    pub(crate) replays: u32,
    pub(crate) expected: Expected,
}

impl Suite<'_> {
    /// A row a door. The outputs of every door are compared with the expected ones, and those of the others with those of
    /// the first.
    pub(crate) fn run(&self, case: &Case) -> Vec<Row> {
        let steps = steps(case);
        let mut rows: Vec<Row> = Vec::with_capacity(self.doors.len());
        let mut base: Option<Outputs> = None;
        for door in self.doors {
            let mut row = Row::new(case, door.name());
            row.expected = self.expected.reason(door.name(), &case.full_name()).map(str::to_owned);
            let outputs = match &steps {
                Ok(steps) => self.run_behind(door.as_ref(), case, steps, &mut row),
                Err(error) => {
                    row.fail(crate::outcome::chain(error));
                    Vec::new()
                }
            };
            match (&base, rows.first()) {
                (Some(base), Some(first)) => versus(case, &mut row, &outputs, first, base),
                _ => base = Some(outputs),
            }
            rows.push(row);
        }
        rows
    }

    fn run_behind(&self, door: &dyn Door, case: &Case, steps: &[Step], row: &mut Row) -> Outputs {
        let (outputs, result) = run_once(door, case, steps, row, true);
        if let Err(error) = result {
            row.fail(crate::outcome::chain(&error));
        }
        let first = hash(&outputs);
        for replay in 2..=self.replays {
            let (outputs, _) = run_once(door, case, steps, row, false);
            let again = hash(&outputs);
            if again != first {
                row.fail(format!(
                    "run {replay} of the case gives other outputs ({again}) than the first ({first})"
                ));
            }
        }
        row.hash = Some(first);
        outputs
    }
}

/// The executions of a case; no device is needed for them.
fn steps(case: &Case) -> anyhow::Result<Vec<Step>> {
    let options = ModuleOptions { data: case.data.clone(), ..ModuleOptions::default() };
    case.steps(&Module::open_with(&case.program, options)?)
}

/// Runs a case: the same methods for all its steps, so that state carries over.
fn run_once(
    door: &dyn Door,
    case: &Case,
    steps: &[Step],
    row: &mut Row,
    judge: bool,
) -> (Outputs, anyhow::Result<()>) {
    let mut all = Vec::with_capacity(steps.len());
    let mut run = || {
        let mut seat = door.open(case)?;
        for (run, step) in steps.iter().enumerate() {
            let (outputs, time) = seat.execute(step).with_context(|| format!("run {run}"))?;
            if judge {
                row.time += time;
                check(case, run, step, &outputs, row)?;
            }
            all.push(outputs);
        }
        Ok(())
    };
    let result = run();
    (all, result)
}

/// Compares the outputs of a step with the expected ones.
fn check(case: &Case, run: usize, step: &Step, outputs: &[Value], row: &mut Row) -> anyhow::Result<()> {
    if step.expected.is_empty() {
        return Ok(());
    }
    if outputs.len() != step.expected.len() {
        bail!("run {run}: expected {} outputs, found {}", step.expected.len(), outputs.len());
    }
    for (index, (got, want)) in outputs.iter().zip(&step.expected).enumerate() {
        let place = || format!("run {run}, output {index}");
        let difference = compare(got, want, case.tolerance).with_context(place)?;
        row.add(&difference);
        if let Some(worst) = difference.worst {
            row.fail(format!("{}: {worst}", place()));
        }
    }
    Ok(())
}

/// Compares the outputs of a door with those of the first one. They have the tolerance that the expected outputs have.
fn versus(case: &Case, row: &mut Row, outputs: &Outputs, first: &Row, base: &Outputs) {
    let mut max_abs = 0.0_f64;
    for (run, (got, want)) in outputs.iter().zip(base).enumerate() {
        for (index, (got, want)) in got.iter().zip(want).enumerate() {
            let place = format!("run {run}, output {index}, beside {}", first.via);
            match compare(got, want, case.tolerance) {
                Ok(difference) => {
                    max_abs = max_abs.max(difference.max_abs);
                    if let Some(worst) = difference.worst {
                        row.fail(format!("{place}: {worst}"));
                    }
                }
                Err(error) => row.fail(format!("{place}: {error}")),
            }
        }
    }
    row.compare(first, max_abs);
}

/// Hash of kinds, element types, sizes and bytes.
fn hash(outputs: &Outputs) -> String {
    let mut hash = Sha256::new();
    for value in outputs.iter().flatten() {
        match value {
            Value::Tensor(tensor) => {
                hash.update(format!("{tensor:?};"));
                hash.update(tensor.data());
            }
            other => hash.update(format!("{other:?};")),
        }
    }
    hash.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}
