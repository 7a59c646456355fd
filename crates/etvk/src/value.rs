//! What goes into a method and comes out of it.

use crate::tensor::Tensor;

/// An argument or a result of a method.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Value {
    /// Nothing.
    None,
    /// A tensor.
    Tensor(Tensor),
    /// An integer.
    Int(i64),
    /// A floating-point number.
    Double(f64),
    /// A truth value.
    Bool(bool),
    /// Text.
    String(String),
    /// Integers; only as a result.
    IntList(Vec<i64>),
    /// Floating-point numbers; only as a result.
    DoubleList(Vec<f64>),
    /// Truth values; only as a result.
    BoolList(Vec<bool>),
    /// Tensors or nothing; only as a result.
    TensorList(Vec<Option<Tensor>>),
}

impl Value {
    /// The kind as a word, for messages.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::None => "Null",
            Self::Tensor(_) => "Tensor",
            Self::Int(_) => "Int",
            Self::Double(_) => "Double",
            Self::Bool(_) => "Bool",
            Self::String(_) => "String",
            Self::IntList(_) => "IntList",
            Self::DoubleList(_) => "DoubleList",
            Self::BoolList(_) => "BoolList",
            Self::TensorList(_) => "TensorList",
        }
    }

    /// The tensor, if it is one.
    #[must_use]
    pub fn as_tensor(&self) -> Option<&Tensor> {
        match self {
            Self::Tensor(tensor) => Some(tensor),
            _ => None,
        }
    }
}

impl From<Tensor> for Value {
    fn from(tensor: Tensor) -> Self {
        Self::Tensor(tensor)
    }
}

impl From<i64> for Value {
    fn from(value: i64) -> Self {
        Self::Int(value)
    }
}

impl From<f64> for Value {
    fn from(value: f64) -> Self {
        Self::Double(value)
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}
