//! The typed graph: what a delegate payload says, with every id checked.

use std::fmt;

/// Index of a value in [`Graph::values`]. Ids inside a [`Graph`] are always in range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ValueId(pub u32);

impl ValueId {
    /// The id as a vector index.
    #[must_use]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for ValueId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "%{}", self.0)
    }
}

/// Index of a constant in [`Graph::constants`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConstantId(pub u32);

impl ConstantId {
    /// The id as a vector index.
    #[must_use]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Element type of a tensor, numbered as on the wire (`VkDataType`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DType {
    /// One byte, 0 or 1.
    Bool,
    /// Unsigned byte.
    UInt8,
    /// Signed byte.
    Int8,
    /// 32-bit signed integer; the exporter narrows int64 to it by default.
    Int32,
    /// IEEE half. Under `force_fp16` a storage hint: the engine may keep it wider.
    Float16,
    /// IEEE single.
    Float32,
    /// IEEE double.
    Float64,
    /// 64-bit signed integer.
    Int64,
}

impl DType {
    /// Bytes an element takes in the payload's constants and at the delegate boundary.
    #[must_use]
    pub fn size(self) -> usize {
        match self {
            DType::Bool | DType::UInt8 | DType::Int8 => 1,
            DType::Float16 => 2,
            DType::Int32 | DType::Float32 => 4,
            DType::Float64 | DType::Int64 => 8,
        }
    }

    /// Whether the type is a floating-point one.
    #[must_use]
    pub fn is_float(self) -> bool {
        matches!(self, DType::Float16 | DType::Float32 | DType::Float64)
    }
}

/// What the payload says of one tensor. Storage type, memory layout and memory-object ids of the
/// payload are hints for other runtimes and are kept only for `inspect`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorInfo {
    /// Element type inside the graph.
    pub dtype: DType,
    /// Sizes, outermost first; the upper bound of every dimension when shapes are dynamic.
    /// Rank 0 to 8; the element count fits in `u32`.
    pub dims: Vec<u32>,
    /// The constant that gives the initial contents, if any.
    pub constant: Option<ConstantId>,
    /// Element type seen by the host; [`TensorInfo::dtype`] where the payload leaves it unset.
    pub staging_dtype: DType,
    /// Serialised `VkStorageType`, a hint.
    pub storage_hint: u8,
    /// Serialised `VkMemoryLayout`, a hint.
    pub layout_hint: u8,
}

impl TensorInfo {
    /// Number of elements; 1 for rank 0.
    #[must_use]
    pub fn element_count(&self) -> u64 {
        self.dims.iter().fold(1, |count, &dim| u64::saturating_mul(count, dim.into()))
    }

    /// Bytes of the elements at [`DType::size`] each.
    #[must_use]
    pub fn byte_size(&self) -> u64 {
        self.element_count().saturating_mul(self.dtype.size() as u64)
    }
}

/// One value of the graph.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// An absent argument.
    Null,
    /// An integer; where an operator wants a float, read it as one (the exporter pools numbers by value).
    Int(i64),
    /// A float; may stand where an operator wants an integer.
    Double(f64),
    /// A truth value.
    Bool(bool),
    /// Text such as `"tanh"`.
    String(String),
    /// Literal integers.
    IntList(Vec<i64>),
    /// Literal floats.
    DoubleList(Vec<f64>),
    /// Literal truth values.
    BoolList(Vec<bool>),
    /// Ids of other values; never of a list.
    ValueList(Vec<ValueId>),
    /// A tensor.
    Tensor(TensorInfo),
    /// An integer that the host computes at every execution.
    SymInt,
}

impl Value {
    /// The kind as a word, for messages.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Value::Null => "Null",
            Value::Int(_) => "Int",
            Value::Double(_) => "Double",
            Value::Bool(_) => "Bool",
            Value::String(_) => "String",
            Value::IntList(_) => "IntList",
            Value::DoubleList(_) => "DoubleList",
            Value::BoolList(_) => "BoolList",
            Value::ValueList(_) => "ValueList",
            Value::Tensor(_) => "Tensor",
            Value::SymInt => "SymInt",
        }
    }

    /// Whether the value is a list, of literals or of ids.
    #[must_use]
    pub fn is_list(&self) -> bool {
        matches!(self, Value::IntList(_) | Value::DoubleList(_) | Value::BoolList(_) | Value::ValueList(_))
    }
}

/// One operator call: every argument in schema order, then the output(s) as the last id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// The exporter's debug id of the call.
    pub node_id: u32,
    /// Operator name exactly as serialised, e.g. `aten.add.Tensor`.
    pub name: String,
    /// Argument ids.
    pub args: Vec<ValueId>,
}

/// Where the bytes of a constant are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConstantSource {
    /// Under this key in the program's (or an external) named data.
    Named(String),
    /// In the payload's own constant region, as `offset..offset + length` from its start.
    Inline {
        /// Byte offset in the constant region.
        offset: u64,
    },
}

/// A constant's location and length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Constant {
    /// Where the bytes are.
    pub source: ConstantSource,
    /// Length in bytes as serialised.
    pub length: u64,
}

/// A checked delegate graph.
///
/// Guaranteed after [`crate::Payload::parse`]: every id in calls, lists, inputs and outputs is in range;
/// lists do not nest; ranks are at most 8; element counts fit in `u32`; constant ids are in range;
/// constants are as long as their tensors need; inputs are tensors or SymInts, not constants, and distinct;
/// outputs are tensors or SymInts; calls have a name and at least one argument.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Graph {
    /// All values by id.
    pub values: Vec<Value>,
    /// Calls in execution order.
    pub calls: Vec<Call>,
    /// Delegate inputs in argument order.
    pub inputs: Vec<ValueId>,
    /// Delegate outputs in argument order.
    pub outputs: Vec<ValueId>,
    /// Constants by id.
    pub constants: Vec<Constant>,
}

impl Graph {
    /// The value of an id. `None` only for ids that did not come from this graph.
    #[must_use]
    pub fn value(&self, id: ValueId) -> Option<&Value> {
        self.values.get(id.index())
    }

    /// The tensor behind an id, if it is one.
    #[must_use]
    pub fn tensor(&self, id: ValueId) -> Option<&TensorInfo> {
        match self.value(id) {
            Some(Value::Tensor(info)) => Some(info),
            _ => None,
        }
    }
}
