//! What a method takes and gives.

use etvk_pte::{Method, ScalarType, Value, ValueId};

/// What a method takes and gives.
#[derive(Clone, Debug, PartialEq)]
pub struct MethodInfo {
    /// Name.
    pub name: String,
    /// Inputs in order.
    pub inputs: Vec<ValueInfo>,
    /// Outputs in order.
    pub outputs: Vec<ValueInfo>,
    /// Number of parts that a backend executes; a method without any needs no device.
    pub delegates: usize,
}

/// An input or output of a method. Numbers are those that the program was exported with.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ValueInfo {
    /// Nothing.
    None,
    /// A tensor.
    Tensor {
        /// Element type.
        scalar_type: ScalarType,
        /// Sizes, the upper bounds if they may change.
        sizes: Vec<usize>,
        /// Whether the sizes may change from one execution to the next.
        dynamic: bool,
    },
    /// An integer.
    Int(i64),
    /// A floating-point number.
    Double(f64),
    /// A truth value.
    Bool(bool),
    /// Text.
    String(String),
    /// A list, by its kind.
    List(&'static str),
}

/// The kind and what is known of it, such as `float32[2, 8] (dynamic)`.
impl std::fmt::Display for ValueInfo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::None => f.write_str("None"),
            Self::Tensor { scalar_type, sizes, dynamic } => {
                write!(f, "{scalar_type}{sizes:?}{}", if *dynamic { " (dynamic)" } else { "" })
            }
            Self::Int(value) => write!(f, "Int {value}"),
            Self::Double(value) => write!(f, "Double {value}"),
            Self::Bool(value) => write!(f, "Bool {value}"),
            Self::String(text) => write!(f, "String {text:?}"),
            Self::List(kind) => f.write_str(kind),
        }
    }
}

impl MethodInfo {
    pub(crate) fn new(method: &Method<'_>) -> Self {
        let info = |id: ValueId| method.value(id).map_or(ValueInfo::None, ValueInfo::new);
        Self {
            name: method.name().to_owned(),
            inputs: method.inputs().iter().map(info).collect(),
            outputs: method.outputs().iter().map(info).collect(),
            delegates: method.delegates().len(),
        }
    }
}

impl ValueInfo {
    fn new(value: &Value<'_>) -> Self {
        match value {
            Value::Null => Self::None,
            Value::Tensor(tensor) => Self::Tensor {
                scalar_type: tensor.layout.scalar_type(),
                sizes: tensor.layout.sizes().collect(),
                dynamic: tensor.dynamic,
            },
            Value::Int(value) => Self::Int(*value),
            Value::Double(value) => Self::Double(*value),
            Value::Bool(value) => Self::Bool(*value),
            Value::String(text) => Self::String((*text).to_owned()),
            other => Self::List(other.kind()),
        }
    }
}
