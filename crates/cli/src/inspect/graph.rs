//! A delegate's graph, as data.

use std::collections::BTreeMap;

use etvk_vkgraph::{ConstantSource, TensorInfo, Value, ValueId};
use serde::Serialize;

/// A graph.
#[derive(Debug, Serialize)]
pub(crate) struct Graph {
    pub(crate) inputs: Vec<GraphValue>,
    pub(crate) outputs: Vec<GraphValue>,
    /// Number of values.
    pub(crate) values: usize,
    /// The tensors that calls use.
    pub(crate) tensors: Vec<GraphValue>,
    pub(crate) calls: Vec<GraphCall>,
    /// Number of calls by operator.
    pub(crate) operators: BTreeMap<String, usize>,
    pub(crate) constants: Vec<GraphConstant>,
}

/// A value of a graph.
#[derive(Debug, Serialize)]
pub(crate) struct GraphValue {
    pub(crate) value: u32,
    #[serde(rename = "type")]
    pub(crate) kind: String,
}

/// A call: the last argument is the output.
#[derive(Debug, Serialize)]
pub(crate) struct GraphCall {
    pub(crate) name: String,
    pub(crate) args: Vec<String>,
}

/// A constant.
#[derive(Debug, Serialize)]
pub(crate) struct GraphConstant {
    pub(crate) bytes: u64,
    /// Key in named data, or place in the payload.
    pub(crate) source: String,
}

impl Graph {
    pub(crate) fn new(graph: &etvk_vkgraph::Graph) -> Self {
        let port =
            |id: &ValueId| GraphValue { value: id.0, kind: graph.value(*id).map(kind).unwrap_or_default() };
        let tensors = (0..).zip(&graph.values).filter_map(|(value, found)| match found {
            Value::Tensor(info) => Some(GraphValue { value, kind: tensor(info) }),
            _ => None,
        });
        let mut operators = BTreeMap::new();
        for call in &graph.calls {
            *operators.entry(call.name.clone()).or_default() += 1;
        }
        let call = |call: &etvk_vkgraph::Call| GraphCall {
            name: call.name.clone(),
            args: call.args.iter().map(|&id| argument(graph, id)).collect(),
        };
        let constant = |constant: &etvk_vkgraph::Constant| GraphConstant {
            bytes: constant.length,
            source: match &constant.source {
                ConstantSource::Named(key) => key.clone(),
                ConstantSource::Inline { offset } => format!("at {offset} in the payload"),
            },
        };
        Self {
            inputs: graph.inputs.iter().map(port).collect(),
            outputs: graph.outputs.iter().map(port).collect(),
            values: graph.values.len(),
            tensors: tensors.collect(),
            calls: graph.calls.iter().map(call).collect(),
            operators,
            constants: graph.constants.iter().map(constant).collect(),
        }
    }
}

fn tensor(info: &TensorInfo) -> String {
    let staging = match info.staging_dtype == info.dtype {
        true => String::new(),
        false => format!(", {:?} outside", info.staging_dtype),
    };
    let constant = info.constant.map(|id| format!(", constant {}", id.0)).unwrap_or_default();
    format!("{:?}{:?}{staging}{constant}", info.dtype, info.dims)
}

fn kind(value: &Value) -> String {
    match value {
        Value::Tensor(info) => tensor(info),
        other => other.kind().to_owned(),
    }
}

/// An argument: tensors and symbolic integers by their id, the rest by value.
fn argument(graph: &etvk_vkgraph::Graph, id: ValueId) -> String {
    match graph.value(id) {
        None | Some(Value::Tensor(_) | Value::SymInt) => id.to_string(),
        Some(Value::Null) => "None".to_owned(),
        Some(Value::Int(value)) => value.to_string(),
        Some(Value::Double(value)) => format!("{value:?}"),
        Some(Value::Bool(value)) => value.to_string(),
        Some(Value::String(text)) => format!("{text:?}"),
        Some(Value::IntList(items)) => format!("{items:?}"),
        Some(Value::DoubleList(items)) => format!("{items:?}"),
        Some(Value::BoolList(items)) => format!("{items:?}"),
        Some(Value::ValueList(items)) => {
            format!("[{}]", items.iter().map(|&id| argument(graph, id)).collect::<Vec<_>>().join(", "))
        }
    }
}
