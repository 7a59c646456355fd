//! Buffers that a delegate changes and keeps, although its calls have no value for them.

use std::collections::HashSet;

use etvk_engine::Surplus;
use etvk_pte::{Instruction, Method, Storage, Tensor, Value, ValueId};
use etvk_vkgraph::{ConstantId, DType, Graph, Payload};

use crate::check::Problem;
use crate::delegate::dtype;
use crate::external::Names;

/// Outputs of the graph, from the first on, that the calls of a delegate have no value for.
pub(crate) fn surplus(delegate: usize, graph: &Graph, method: &Method<'_>) -> Result<usize, Problem> {
    let (inputs, outputs) = (graph.inputs.len(), graph.outputs.len());
    let mut surplus = None;
    for (_, args) in calls(delegate, method) {
        let found = args.len();
        let missing = (inputs + outputs).checked_sub(found).filter(|&missing| missing <= outputs);
        if missing.is_none() || surplus.is_some_and(|before| Some(before) != missing) {
            return Err(Problem::ArgumentCount { delegate, inputs, outputs, found });
        }
        surplus = missing;
    }
    Ok(surplus.unwrap_or(0))
}

/// The calls of a delegate with their arguments, each with its place among all instructions.
pub(crate) fn calls<'m>(
    delegate: usize,
    method: &'m Method<'_>,
) -> impl Iterator<Item = (usize, Vec<ValueId>)> + use<'m> {
    instructions(method).enumerate().filter_map(move |(place, instruction)| match instruction {
        Instruction::DelegateCall { delegate: called, args } if *called == delegate => {
            Some((place, args.iter().collect()))
        }
        _ => None,
    })
}

fn instructions<'m, 'a>(method: &'m Method<'a>) -> impl Iterator<Item = &'m Instruction<'a>> {
    method.chains().iter().flat_map(|chain| &chain.instructions)
}

/// What is wrong with the arguments of a delegate's calls if `surplus` outputs have none.
///
/// The exporter also drops inputs that nothing uses, and writes an output only once that is the new value of a buffer and
/// a result as well. A call may thus have too few arguments for other reasons or for several at once; then something of it
/// does not fit: its sizes, its type, or a result in place of what has been set before.
pub(crate) fn misplaced(delegate: usize, graph: &Graph, surplus: usize, method: &Method<'_>) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (place, args) in calls(delegate, method) {
        let ports = graph.inputs.iter().chain(graph.outputs.iter().skip(surplus));
        let set = set_before(place, method);
        for (at, (arg, port)) in args.iter().zip(ports).enumerate() {
            let (Some(Value::Tensor(tensor)), Some(info)) = (method.value(*arg), graph.tensor(*port)) else {
                continue;
            };
            let expected = if at >= graph.inputs.len() && set.contains(&arg.index()) {
                "a value that nothing sets before".to_owned()
            } else if !like(tensor, &info.dims, info.staging_dtype) {
                format!("{:?}{:?}", info.staging_dtype, info.dims)
            } else {
                continue;
            };
            let found = format!("value {}, {:?}", arg.index(), tensor.layout);
            problems.push(Problem::Argument { delegate, at, expected, found });
        }
    }
    problems
}

/// Values with contents before an instruction: inputs of the method, constants, and what earlier instructions name.
fn set_before(place: usize, method: &Method<'_>) -> HashSet<usize> {
    let constant = |value: &Value<'_>| {
        value.as_tensor().is_some_and(|tensor| !matches!(tensor.storage, Storage::None | Storage::Planned(_)))
    };
    let constants = method.values().iter().enumerate().filter(|(_, value)| constant(value));
    let mut set: HashSet<usize> = constants.map(|(index, _)| index).collect();
    set.extend(method.inputs().iter().map(ValueId::index));
    for instruction in instructions(method).take(place) {
        match instruction {
            Instruction::KernelCall { args, .. } | Instruction::DelegateCall { args, .. } => {
                set.extend(args.iter().map(ValueId::index));
            }
            Instruction::MoveCall { from, to } => set.extend([from.index(), to.index()]),
            _ => {}
        }
    }
    set
}

/// Whether a tensor of the program has these sizes, and a type that goes in and out of a graph as `wanted` does.
fn like(tensor: &Tensor<'_>, sizes: &[u32], wanted: DType) -> bool {
    let integer = |dtype| matches!(dtype, DType::Int32 | DType::Int64);
    let fits = |found: DType| {
        found == wanted || (found.is_float() && wanted.is_float()) || (integer(found) && integer(wanted))
    };
    dtype(tensor.layout.scalar_type()).is_some_and(fits)
        && tensor.layout.sizes().eq(sizes.iter().map(|&size| size as usize))
}

/// Buffers of a delegate of which the program holds another copy, which keeps its old contents: the exporter has lost that
/// they are one.
pub(crate) fn shared(
    delegate: usize,
    surplus: usize,
    payloads: &[Payload<'_>],
    method: &Method<'_>,
    names: Names<'_>,
) -> Vec<Problem> {
    let Some(payload) = payloads.get(delegate) else { return Vec::new() };
    let Ok(program) = etvk_engine::lower_with(payload.graph(), Surplus::Known(surplus)) else {
        return Vec::new();
    };
    let mut problems = Vec::new();
    for (output, constant) in program.replaced().enumerate() {
        let others = payloads.iter().enumerate().filter(|(index, _)| *index != delegate);
        for (index, other) in others {
            if same_constant(payload, constant, other, names) {
                let reader = format!("delegate {index}");
                problems.push(Problem::SharedBuffer { delegate, output, reader });
            }
        }
        let info = payload.graph().outputs.get(output).and_then(|&id| payload.graph().tensor(id));
        let copies = method.values().iter().enumerate().filter(|(_, value)| {
            value.as_tensor().zip(info).is_some_and(|(tensor, info)| {
                matches!(tensor.storage, Storage::Constant(_) | Storage::External(_))
                    && like(tensor, &info.dims, info.dtype)
            })
        });
        for (value, _) in copies {
            let reader = format!("value {value} of the method");
            problems.push(Problem::SharedBuffer { delegate, output, reader });
        }
    }
    problems
}

/// Whether `other` has a constant of the same bytes.
fn same_constant(payload: &Payload<'_>, constant: ConstantId, other: &Payload<'_>, names: Names<'_>) -> bool {
    let Ok(bytes) = payload.constant(constant, Some(&names)) else { return false };
    (0..).zip(&other.graph().constants).any(|(index, candidate)| {
        candidate.length == bytes.len() as u64
            && other.constant(ConstantId(index), Some(&names)).is_ok_and(|found| found == bytes)
    })
}
