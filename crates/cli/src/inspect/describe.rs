//! What is in a file, as data.

use etvk_pte::{BundledProgram, Delegate, Instruction, Method, Program, Storage, Value, ValueId};
use etvk_vkgraph::Payload;
use serde::Serialize;

use crate::inspect::graph::Graph;

/// A file.
#[derive(Debug, Default, Serialize)]
pub(crate) struct File {
    pub(crate) kind: &'static str,
    pub(crate) bytes: usize,
    pub(crate) methods: Vec<MethodText>,
    pub(crate) named_data: Vec<Blob>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) test_cases: Vec<TestCases>,
}

/// Named data.
#[derive(Debug, Serialize)]
pub(crate) struct Blob {
    pub(crate) key: String,
    pub(crate) bytes: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) layout: Option<String>,
}

/// Test cases of a method.
#[derive(Debug, Serialize)]
pub(crate) struct TestCases {
    pub(crate) method: String,
    pub(crate) cases: usize,
}

/// A method.
#[derive(Debug, Serialize)]
pub(crate) struct MethodText {
    pub(crate) name: String,
    pub(crate) inputs: Vec<ValueText>,
    pub(crate) outputs: Vec<ValueText>,
    /// Bytes of each planned buffer.
    pub(crate) planned_memory: Vec<u64>,
    pub(crate) values: usize,
    pub(crate) constants: Vec<ValueText>,
    /// Instructions of each chain.
    pub(crate) chains: Vec<Vec<String>>,
    pub(crate) delegates: Vec<DelegateText>,
}

/// A value of a method.
#[derive(Debug, Serialize)]
pub(crate) struct ValueText {
    pub(crate) value: usize,
    #[serde(rename = "type")]
    pub(crate) kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) name: Option<String>,
}

/// A delegate.
#[derive(Debug, Serialize)]
pub(crate) struct DelegateText {
    pub(crate) backend: String,
    pub(crate) payload_bytes: usize,
    pub(crate) options: Vec<(String, String)>,
    /// Its graph, if it is for Vulkan and can be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) graph: Option<Graph>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<String>,
}

impl File {
    /// Adds the methods and named data of a program.
    pub(crate) fn add_program(&mut self, program: &Program<'_>) -> anyhow::Result<()> {
        for method in program.methods() {
            self.methods.push(MethodText::new(&method?));
        }
        let blob =
            |(key, bytes): (&str, &[u8])| Blob { key: key.to_owned(), bytes: bytes.len(), layout: None };
        self.named_data.extend(program.named_data().iter().map(blob));
        Ok(())
    }

    /// Adds the number of test cases.
    pub(crate) fn add_test_cases(&mut self, bundle: &BundledProgram<'_>) {
        let suite = |suite: &etvk_pte::TestSuite<'_>| TestCases {
            method: suite.method.to_owned(),
            cases: suite.cases.len(),
        };
        self.test_cases.extend(bundle.suites().iter().map(suite));
    }
}

impl MethodText {
    fn new(method: &Method<'_>) -> Self {
        let port = |id: ValueId| ValueText {
            value: id.index(),
            kind: method.value(id).map(kind).unwrap_or_default(),
            name: None,
        };
        let constants = method.values().iter().enumerate().filter_map(|(value, found)| {
            let tensor = found.as_tensor()?;
            match tensor.storage {
                Storage::None | Storage::Planned(_) => None,
                _ => Some(ValueText {
                    value,
                    kind: format!("{:?} {:?}", tensor.layout, tensor.storage),
                    name: tensor.name.map(str::to_owned),
                }),
            }
        });
        let chain = |chain: &etvk_pte::Chain<'_>| {
            chain.instructions.iter().map(|instruction| text(method, instruction)).collect()
        };
        Self {
            name: method.name().to_owned(),
            inputs: method.inputs().iter().map(port).collect(),
            outputs: method.outputs().iter().map(port).collect(),
            planned_memory: method.planned_buffers().collect(),
            values: method.values().len(),
            constants: constants.collect(),
            chains: method.chains().iter().map(chain).collect(),
            delegates: method.delegates().iter().map(DelegateText::new).collect(),
        }
    }
}

fn kind(value: &Value<'_>) -> String {
    match value {
        Value::Tensor(tensor) => {
            format!("{:?}{}", tensor.layout, if tensor.dynamic { " (dynamic)" } else { "" })
        }
        Value::Int(value) => format!("Int {value}"),
        Value::Double(value) => format!("Double {value:?}"),
        Value::Bool(value) => format!("Bool {value}"),
        Value::String(text) => format!("String {text:?}"),
        other => other.kind().to_owned(),
    }
}

fn text(method: &Method<'_>, instruction: &Instruction<'_>) -> String {
    let list = |ids: &etvk_pte::ValueIds<'_>| {
        ids.iter().map(|id| argument(method, id)).collect::<Vec<_>>().join(", ")
    };
    match instruction {
        Instruction::KernelCall { operator, args } => {
            let name = method.operators().get(*operator).map(ToString::to_string).unwrap_or_default();
            format!("{name}({})", list(args))
        }
        Instruction::DelegateCall { delegate, args } => format!("delegate {delegate} ({})", list(args)),
        Instruction::MoveCall { from, to } => format!("move %{from} to %{to}"),
        Instruction::JumpFalseCall { condition, destination } => {
            format!("unless {} continue at {destination}", argument(method, *condition))
        }
        Instruction::FreeCall { value } => format!("free %{value}"),
        other => format!("{other:?}"),
    }
}

/// An argument: tensors and what instructions may write by their id, the rest by value.
fn argument(method: &Method<'_>, id: ValueId) -> String {
    match method.value(id) {
        Some(Value::Null) => "None".to_owned(),
        Some(Value::Double(value)) => format!("{value:?}"),
        Some(Value::Bool(value)) => value.to_string(),
        Some(Value::String(text)) => format!("{text:?}"),
        Some(Value::Int(value)) => format!("%{id}={value}"),
        Some(Value::IntList(ids)) => {
            format!("[{}]", ids.iter().map(|id| argument(method, id)).collect::<Vec<_>>().join(", "))
        }
        _ => format!("%{id}"),
    }
}

impl DelegateText {
    fn new(delegate: &Delegate<'_>) -> Self {
        let options = delegate.compile_specs.iter().map(|spec| (spec.key.to_owned(), option(spec.value)));
        let (graph, error) = match delegate.id {
            etvk::BACKEND => match Payload::parse(delegate.payload) {
                Ok(payload) => (Some(Graph::new(payload.graph())), None),
                Err(error) => (None, Some(error.to_string())),
            },
            _ => (None, None),
        };
        Self {
            backend: delegate.id.to_owned(),
            payload_bytes: delegate.payload.len(),
            options: options.collect(),
            graph,
            error,
        }
    }
}

/// The value of an option: a number where it has the size of one, else hexadecimal bytes.
fn option(value: &[u8]) -> String {
    match value {
        [byte] => byte.to_string(),
        [a, b, c, d] => i32::from_le_bytes([*a, *b, *c, *d]).to_string(),
        [a, b, c, d, e, f, g, h] => i64::from_le_bytes([*a, *b, *c, *d, *e, *f, *g, *h]).to_string(),
        bytes => bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
    }
}
