//! Whether this build runs a program, found out without a device.

use std::path::{Path, PathBuf};

use etvk_engine::{CallFault, Surplus};
use etvk_pte::{Instruction, Method, Storage, ValueId};
use etvk_vkgraph::{Payload, Value as GraphValue};

use crate::BACKEND;
use crate::buffers;
use crate::delegate::dtype;
use crate::error::Result;
use crate::external::Names;
use crate::kernels;
use crate::module::{Module, ModuleOptions};

/// A reason why this build does not run a method.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// Something in the method is malformed.
    #[error("{0}")]
    Malformed(etvk_pte::Error),
    /// An operator outside the delegates that has no CPU kernel.
    #[error("no CPU kernel for {operator} ({calls} {})", if *calls == 1 { "call" } else { "calls" })]
    Kernel {
        /// The operator as `name.overload`.
        operator: String,
        /// How many instructions call it.
        calls: usize,
    },
    /// A part for another backend.
    #[error("delegate {delegate} is for the backend \"{id}\", this is {BACKEND}")]
    Backend {
        /// Its index in the method.
        delegate: usize,
        /// The backend's name.
        id: String,
    },
    /// A payload that is malformed, or a constant of it that is missing.
    #[error("delegate {delegate}: {source}")]
    Payload {
        /// The delegate's index in the method.
        delegate: usize,
        /// What is wrong.
        source: etvk_vkgraph::Error,
    },
    /// A call of a graph that cannot run.
    #[error("delegate {delegate}: {fault}")]
    Call {
        /// The delegate's index in the method.
        delegate: usize,
        /// The call and what is wrong with it.
        fault: CallFault,
    },
    /// A graph that cannot run for another reason.
    #[error("delegate {delegate}: {source}")]
    Graph {
        /// The delegate's index in the method.
        delegate: usize,
        /// What is wrong.
        source: etvk_engine::Error,
    },
    /// A delegate that is called with another number of values than its graph has.
    #[error(
        "delegate {delegate} is called with {found} values, its graph has {inputs} inputs and {outputs} outputs"
    )]
    ArgumentCount {
        /// The delegate's index in the method.
        delegate: usize,
        /// Inputs of the graph.
        inputs: usize,
        /// Outputs of the graph.
        outputs: usize,
        /// Values of the call.
        found: usize,
    },
    /// A delegate that is called with a value of another kind than its graph takes or gives.
    #[error("delegate {delegate}, argument {at}: expected {expected}, found {found}")]
    Argument {
        /// The delegate's index in the method.
        delegate: usize,
        /// Place in the call.
        at: usize,
        /// What the graph takes or gives.
        expected: String,
        /// What the program has.
        found: String,
    },
    /// The new value of a buffer, of which the program holds another copy that would not change.
    #[error(
        "delegate {delegate}: output {output} is the new value of a buffer, and {reader} may be the same one; the \
         program does not pass the change on"
    )]
    SharedBuffer {
        /// The delegate's index in the method.
        delegate: usize,
        /// Output of its graph.
        output: usize,
        /// Where the other copy is.
        reader: String,
    },
    /// A tensor in external data that is missing or differs.
    #[error("value {value}: external tensor \"{key}\": {reason}")]
    External {
        /// Index of the value.
        value: usize,
        /// Its key.
        key: String,
        /// What is wrong.
        reason: String,
    },
}

/// The problems in words; calls that fail alike are counted and told of once, where the first of them stands.
#[must_use]
pub fn reasons(problems: &[Problem]) -> Vec<String> {
    let mut reasons: Vec<(String, String, usize)> = Vec::new();
    for problem in problems {
        let text = problem.to_string();
        let alike = match problem {
            Problem::Call { delegate, fault } => format!("{delegate} {} {}", fault.name, fault.fault),
            _ => text.clone(),
        };
        match reasons.iter_mut().find(|(known, ..)| *known == alike) {
            Some((.., count)) => *count += 1,
            None => reasons.push((alike, text, 1)),
        }
    }
    let words = |(_, text, count): (String, String, usize)| match count {
        1 => text,
        2 => format!("{text} (and another call alike)"),
        count => format!("{text} (and {} calls alike)", count - 1),
    };
    reasons.into_iter().map(words).collect()
}

/// What [`check`] found out about a program.
#[derive(Debug)]
pub struct CheckReport {
    /// Its methods in file order.
    pub methods: Vec<MethodReport>,
}

impl CheckReport {
    /// Whether this build runs every method.
    #[must_use]
    pub fn runs(&self) -> bool {
        self.methods.iter().all(|method| method.problems.is_empty())
    }
}

/// What [`check`] found out about a method.
#[derive(Debug)]
pub struct MethodReport {
    /// Its name.
    pub name: String,
    /// Its delegates in order.
    pub delegates: Vec<DelegateReport>,
    /// Operators outside the delegates, with the number of instructions that call each.
    pub operators: Vec<(String, usize)>,
    /// Every reason why this build does not run it.
    pub problems: Vec<Problem>,
}

/// What [`check`] found out about a delegate.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DelegateReport {
    /// Name of the backend.
    pub backend: String,
    /// Bytes of its payload.
    pub payload_bytes: usize,
    /// Operator calls in its graph.
    pub calls: usize,
    /// Constants of its graph.
    pub constants: usize,
    /// Bytes of those constants.
    pub constant_bytes: u64,
}

/// Finds out without a device whether this build runs a program, and every reason why not.
///
/// # Errors
/// A file that cannot be opened or is no program. What is wrong inside methods is in the report.
pub fn check(path: impl AsRef<Path>) -> Result<CheckReport> {
    check_with(path, &[])
}

/// As [`check`], with `.ptd` files.
///
/// # Errors
/// As [`check`], also for the `.ptd` files.
pub fn check_with(path: impl AsRef<Path>, data: &[PathBuf]) -> Result<CheckReport> {
    let options = ModuleOptions { data: data.to_vec(), ..ModuleOptions::default() };
    Module::open_with(path, options)?.check()
}

/// A method looked at closely.
pub(crate) struct Examined<'a> {
    pub(crate) report: MethodReport,
    /// The payload of each delegate; complete if there are no problems.
    pub(crate) payloads: Vec<Payload<'a>>,
    /// Outputs of each, from the first on, that calls have no value for: the new values of buffers.
    pub(crate) surplus: Vec<usize>,
}

/// Looks for every reason why a method cannot run.
pub(crate) fn examine<'a>(method: &Method<'a>, names: Names<'_>) -> Examined<'a> {
    let mut problems = Vec::new();
    let operators = operators(method);
    for (operator, calls) in &operators {
        if kernels::find(operator).is_none() {
            problems.push(Problem::Kernel { operator: operator.clone(), calls: *calls });
        }
    }
    external_tensors(method, names, &mut problems);
    let mut payloads = Vec::new();
    let mut surplus = Vec::new();
    let mut reports = Vec::new();
    for (index, delegate) in method.delegates().iter().enumerate() {
        let mut report = DelegateReport {
            backend: delegate.id.to_owned(),
            payload_bytes: delegate.payload.len(),
            calls: 0,
            constants: 0,
            constant_bytes: 0,
        };
        if delegate.id != BACKEND {
            problems.push(Problem::Backend { delegate: index, id: delegate.id.to_owned() });
        } else {
            match Payload::parse(delegate.payload) {
                Ok(payload) => {
                    surplus.push(graph(index, &payload, method, names, &mut problems));
                    let graph = payload.graph();
                    report.calls = graph.calls.len();
                    report.constants = graph.constants.len();
                    report.constant_bytes =
                        graph.constants.iter().fold(0, |sum, constant| constant.length.saturating_add(sum));
                    payloads.push(payload);
                }
                Err(source) => problems.push(Problem::Payload { delegate: index, source }),
            }
        }
        reports.push(report);
    }
    // Indices are those of the delegates only if every payload was read.
    if payloads.len() == reports.len() {
        for (index, &count) in surplus.iter().enumerate().filter(|(_, count)| **count > 0) {
            problems.extend(buffers::misplaced(index, payloads[index].graph(), count, method));
            problems.extend(buffers::shared(index, count, &payloads, method, names));
        }
    }
    let report = MethodReport { name: method.name().to_owned(), delegates: reports, operators, problems };
    Examined { report, payloads, surplus }
}

/// The operators that kernel calls name, in the order of their first call.
fn operators(method: &Method<'_>) -> Vec<(String, usize)> {
    let mut counts = vec![0; method.operators().len()];
    let mut order = Vec::new();
    for instruction in method.chains().iter().flat_map(|chain| &chain.instructions) {
        if let Instruction::KernelCall { operator, .. } = instruction
            && let Some(count) = counts.get_mut(*operator)
        {
            if *count == 0 {
                order.push(*operator);
            }
            *count += 1;
        }
    }
    let mut found: Vec<(String, usize)> = Vec::new();
    for operator in order {
        let name = method.operators().get(operator).map(ToString::to_string).unwrap_or_default();
        match found.iter_mut().find(|(known, _)| *known == name) {
            Some((_, count)) => *count += counts[operator],
            None => found.push((name, counts[operator])),
        }
    }
    found
}

fn external_tensors(method: &Method<'_>, names: Names<'_>, problems: &mut Vec<Problem>) {
    for (value, tensor) in method.values().iter().enumerate() {
        let Some(tensor) = tensor.as_tensor() else { continue };
        let (Storage::External(key) | Storage::MutableExternal(_, key)) = tensor.storage else { continue };
        let reason = match names.external(key) {
            None if names.external.is_empty() => "no .ptd file was given".to_owned(),
            None => "it is in none of the .ptd files".to_owned(),
            Some((_, blob)) => match blob.layout {
                Some(layout) if layout == tensor.layout => continue,
                Some(layout) => format!("expected {:?}, found {layout:?}", tensor.layout),
                None => "it has no tensor layout there".to_owned(),
            },
        };
        problems.push(Problem::External { value, key: key.to_owned(), reason });
    }
}

/// Looks at a delegate's graph; returns how many of its outputs calls have no value for.
fn graph(
    delegate: usize,
    payload: &Payload<'_>,
    method: &Method<'_>,
    names: Names<'_>,
    problems: &mut Vec<Problem>,
) -> usize {
    let graph = payload.graph();
    for (index, constant) in (0..).zip(&graph.constants) {
        let missing = payload.constant(etvk_vkgraph::ConstantId(index), Some(&names));
        if let Err(source) = missing
            && constant.length > 0
        {
            problems.push(Problem::Payload { delegate, source });
        }
    }
    let surplus = buffers::surplus(delegate, graph, method).unwrap_or_else(|problem| {
        problems.push(problem);
        0
    });
    match etvk_engine::lower_with(graph, Surplus::Known(surplus)) {
        Ok(_) => {}
        Err(etvk_engine::Error::Unsupported(faults)) => {
            problems.extend(faults.into_iter().map(|fault| Problem::Call { delegate, fault }));
        }
        Err(source) => problems.push(Problem::Graph { delegate, source }),
    }
    for (_, args) in buffers::calls(delegate, method) {
        let ports = graph.inputs.iter().chain(graph.outputs.iter().skip(surplus));
        for (at, (arg, port)) in args.iter().zip(ports).enumerate() {
            if let Some((expected, found)) = graph.value(*port).and_then(|port| misfit(port, method, *arg)) {
                problems.push(Problem::Argument { delegate, at, expected, found });
            }
        }
    }
    surplus
}

/// What a graph takes or gives and what a call has there, if they do not fit.
fn misfit(port: &GraphValue, method: &Method<'_>, arg: ValueId) -> Option<(String, String)> {
    let value = method.value(arg)?;
    let found =
        value.as_tensor().map_or_else(|| value.kind().to_owned(), |tensor| format!("{:?}", tensor.layout));
    let (fits, expected) = match port {
        GraphValue::Tensor(info) => {
            let fits = value.as_tensor().is_some_and(|tensor| {
                tensor.layout.rank() == info.dims.len() && dtype(tensor.layout.scalar_type()).is_some()
            });
            (fits, format!("{:?}{:?}", info.staging_dtype, info.dims))
        }
        _ => {
            let fits = match value {
                etvk_pte::Value::Int(_) => true,
                etvk_pte::Value::Tensor(tensor) => tensor.layout.numel() == 1,
                _ => false,
            };
            (fits, "an integer or a tensor of one".to_owned())
        }
    };
    (!fits).then_some((expected, found))
}

#[cfg(test)]
mod tests {
    use super::*;
    use etvk_engine::Fault;

    #[test]
    fn calls_that_fail_alike_are_told_of_once() {
        let call = |call, name: &str| Problem::Call {
            delegate: 0,
            fault: CallFault { call, name: name.to_owned(), fault: Fault::UnknownOperator },
        };
        let kernel = Problem::Kernel { operator: "aten::sort.values".to_owned(), calls: 2 };
        let problems = [call(1, "aten.a"), kernel, call(4, "aten.b"), call(5, "aten.a"), call(9, "aten.a")];
        assert_eq!(
            reasons(&problems),
            [
                "delegate 0: call 1 aten.a: operator not known (and 2 calls alike)",
                "no CPU kernel for aten::sort.values (2 calls)",
                "delegate 0: call 4 aten.b: operator not known",
            ]
        );
    }
}
