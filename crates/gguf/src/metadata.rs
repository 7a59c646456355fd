//! Keys and values.

use std::collections::HashMap;

use crate::{Error, Result};

/// A value of the metadata.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// An unsigned integer of any width.
    Unsigned(u64),
    /// A signed integer of any width.
    Signed(i64),
    /// A float of either width.
    Float(f64),
    /// A truth value.
    Bool(bool),
    /// Text.
    String(String),
    /// Values of one type.
    Array(Array),
}

/// Values of one type.
#[derive(Clone, Debug, PartialEq)]
pub enum Array {
    /// Unsigned integers.
    Unsigned(Vec<u64>),
    /// Signed integers.
    Signed(Vec<i64>),
    /// Floats.
    Float(Vec<f64>),
    /// Truth values.
    Bool(Vec<bool>),
    /// Texts.
    String(Vec<String>),
}

impl Value {
    /// What kind of value it is, for errors.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Unsigned(_) => "an unsigned integer",
            Self::Signed(_) => "an integer",
            Self::Float(_) => "a float",
            Self::Bool(_) => "a truth value",
            Self::String(_) => "text",
            Self::Array(Array::Unsigned(_)) => "an array of unsigned integers",
            Self::Array(Array::Signed(_)) => "an array of integers",
            Self::Array(Array::Float(_)) => "an array of floats",
            Self::Array(Array::Bool(_)) => "an array of truth values",
            Self::Array(Array::String(_)) => "an array of texts",
        }
    }
}

/// The metadata of a file. Each getter gives `None` without such a key.
#[derive(Clone, Debug, Default)]
pub struct Metadata {
    pub(crate) values: HashMap<String, Value>,
}

/// Documents the error of a getter.
macro_rules! getters {
    ($($(#[$doc:meta])* $name:ident: $type:ty = $expected:literal, $match:expr;)*) => {
        impl Metadata {$(
            $(#[$doc])*
            ///
            /// # Errors
            /// [`Error::Type`] for a value of another type.
            pub fn $name(&self, key: &str) -> Result<Option<$type>> {
                let Some(value) = self.values.get(key) else { return Ok(None) };
                let convert: fn(&Value) -> Option<$type> = $match;
                convert(value).map(Some).ok_or_else(|| Error::Type {
                    key: key.to_owned(),
                    found: value.kind(),
                    expected: $expected,
                })
            }
        )*}
    };
}

getters! {
    /// An integer that is not negative.
    u64: u64 = "an integer that is not negative", |value| match value {
        Value::Unsigned(found) => Some(*found),
        Value::Signed(found) => u64::try_from(*found).ok(),
        _ => None,
    };
    /// A float.
    f64: f64 = "a float", |value| match value {
        Value::Float(found) => Some(*found),
        _ => None,
    };
    /// A truth value.
    bool: bool = "a truth value", |value| match value {
        Value::Bool(found) => Some(*found),
        _ => None,
    };
    /// Integers that are not negative; one stands for an array of one.
    u64s: Vec<u64> = "integers that are not negative", |value| match value {
        Value::Unsigned(found) => Some(vec![*found]),
        Value::Signed(found) => Some(vec![u64::try_from(*found).ok()?]),
        Value::Array(Array::Unsigned(found)) => Some(found.clone()),
        Value::Array(Array::Signed(found)) => found.iter().map(|&item| u64::try_from(item).ok()).collect(),
        _ => None,
    };
    /// Floats.
    f64s: Vec<f64> = "an array of floats", |value| match value {
        Value::Array(Array::Float(found)) => Some(found.clone()),
        _ => None,
    };
    /// Truth values.
    bools: Vec<bool> = "an array of truth values", |value| match value {
        Value::Array(Array::Bool(found)) => Some(found.clone()),
        _ => None,
    };
}

impl Metadata {
    /// The value of a key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.values.get(key)
    }

    /// All keys, in no order.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.values.keys().map(String::as_str)
    }

    /// Text.
    ///
    /// # Errors
    /// [`Error::Type`] for a value of another type.
    pub fn str(&self, key: &str) -> Result<Option<&str>> {
        match self.values.get(key) {
            None => Ok(None),
            Some(Value::String(found)) => Ok(Some(found)),
            Some(value) => Err(Error::Type { key: key.to_owned(), found: value.kind(), expected: "text" }),
        }
    }

    /// Texts.
    ///
    /// # Errors
    /// [`Error::Type`] for a value of another type.
    pub fn strings(&self, key: &str) -> Result<Option<&[String]>> {
        match self.values.get(key) {
            None => Ok(None),
            Some(Value::Array(Array::String(found))) => Ok(Some(found)),
            Some(value) => {
                Err(Error::Type { key: key.to_owned(), found: value.kind(), expected: "an array of texts" })
            }
        }
    }
}
