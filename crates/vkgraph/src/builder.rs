//! Builds payloads the way the exporter does.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;

use sha2::{Digest as _, Sha256};

use crate::write::{self, ALIGNMENT};
use crate::{Call, Constant, ConstantId, ConstantSource, DType, Graph, TensorInfo, Value, ValueId};

/// `VkStorageType` and `VkMemoryLayout` of a tensor that leaves the choice to the runtime.
const NO_HINT: u8 = 255;

/// Builds a delegate payload, value by value and call by call.
///
/// Nothing is checked here: a graph that breaks a rule of [`Graph`] is written as it is, and
/// [`crate::Payload::parse`] refuses it. Ids must come from the same builder.
///
/// ```
/// use etvk_vkgraph::{DType, GraphBuilder, Payload};
///
/// let mut builder = GraphBuilder::new();
/// let x = builder.input(DType::Float32, &[2, 3]);
/// let one = builder.int(1);
/// let y = builder.tensor(DType::Float32, &[2, 3]);
/// builder.call("aten.add.Tensor", &[x, x, one, y]);
/// builder.outputs(&[y]);
/// let payload = builder.finish();
/// assert_eq!(Payload::parse(&payload)?.graph().calls.len(), 1);
/// # Ok::<(), etvk_vkgraph::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct GraphBuilder {
    /// The graph but for its constants, which exist only once it is decided where they go.
    graph: Graph,
    constants: Vec<Bytes>,
    /// Storage and layout of tensors that calls write or the host gives.
    hints: Option<(u8, u8)>,
    pool: HashMap<Scalar, ValueId>,
}

/// Bytes of a constant.
#[derive(Clone, Debug)]
enum Bytes {
    Held(Vec<u8>),
    /// Of this key and length; whoever made the key keeps them.
    Kept(String, u64),
}

/// A scalar up to Python's equality, except that truth values are no numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Scalar {
    Integral(i64),
    /// Bits of a double that is no `i64`.
    Fractional(u64),
    Bool(bool),
}

impl GraphBuilder {
    /// An empty graph.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty graph whose tensors are tagged as row-major buffers, which upstream's runtime needs where a texture is too
    /// small. Constants have no tag, as upstream's exporter writes them.
    #[must_use]
    pub fn with_buffers() -> Self {
        Self { hints: Some((0, 0)), ..Self::default() }
    }

    /// A value of any kind, as it is and not pooled.
    pub fn value(&mut self, value: Value) -> ValueId {
        let id = ValueId(next_id(&self.graph.values));
        self.graph.values.push(value);
        id
    }

    /// An absent argument; a new value at every use.
    pub fn null(&mut self) -> ValueId {
        self.value(Value::Null)
    }

    /// A number. Pooled: the number's first use, by [`GraphBuilder::double`] too, decides its kind.
    pub fn int(&mut self, int: i64) -> ValueId {
        self.pooled(Scalar::Integral(int), Value::Int(int))
    }

    /// A number, pooled as with [`GraphBuilder::int`], NaN excepted.
    pub fn double(&mut self, double: f64) -> ValueId {
        if double.is_nan() {
            return self.value(Value::Double(double));
        }
        let key = exact_integer(double).map_or(Scalar::Fractional(double.to_bits()), Scalar::Integral);
        self.pooled(key, Value::Double(double))
    }

    /// A truth value, pooled apart from the numbers.
    pub fn bool(&mut self, truth: bool) -> ValueId {
        self.pooled(Scalar::Bool(truth), Value::Bool(truth))
    }

    /// Text.
    pub fn string(&mut self, text: impl Into<String>) -> ValueId {
        self.value(Value::String(text.into()))
    }

    /// A list of integers.
    pub fn int_list(&mut self, items: &[i64]) -> ValueId {
        self.value(Value::IntList(items.to_vec()))
    }

    /// A list of floats.
    pub fn double_list(&mut self, items: &[f64]) -> ValueId {
        self.value(Value::DoubleList(items.to_vec()))
    }

    /// A list of truth values.
    pub fn bool_list(&mut self, items: &[bool]) -> ValueId {
        self.value(Value::BoolList(items.to_vec()))
    }

    /// A list of other values.
    pub fn value_list(&mut self, items: &[ValueId]) -> ValueId {
        self.value(Value::ValueList(items.to_vec()))
    }

    /// An integer that the graph computes.
    pub fn sym_int(&mut self) -> ValueId {
        self.value(Value::SymInt)
    }

    /// An integer that the host gives at every execution; the next delegate input.
    pub fn sym_int_input(&mut self) -> ValueId {
        let id = self.sym_int();
        self.graph.inputs.push(id);
        id
    }

    /// A tensor that the host gives at every execution; the next delegate input.
    pub fn input(&mut self, dtype: DType, dims: &[u32]) -> ValueId {
        let id = self.tensor(dtype, dims);
        self.graph.inputs.push(id);
        id
    }

    /// A tensor that a call writes.
    pub fn tensor(&mut self, dtype: DType, dims: &[u32]) -> ValueId {
        let (storage_hint, layout_hint) = self.hints.unwrap_or((NO_HINT, NO_HINT));
        self.value(Value::Tensor(TensorInfo { storage_hint, layout_hint, ..info(dtype, dims, None) }))
    }

    /// A constant tensor: row-major elements, `dtype.size()` little-endian bytes each.
    pub fn constant(&mut self, dtype: DType, dims: &[u32], bytes: impl Into<Vec<u8>>) -> ValueId {
        self.constant_of(dtype, dims, Bytes::Held(bytes.into()))
    }

    /// A constant tensor whose `length` bytes somebody else keeps under `key`: see [`constant_key`]. They are not among
    /// those that [`GraphBuilder::finish_named`] returns.
    pub fn kept_constant(
        &mut self,
        dtype: DType,
        dims: &[u32],
        key: impl Into<String>,
        length: u64,
    ) -> ValueId {
        self.constant_of(dtype, dims, Bytes::Kept(key.into(), length))
    }

    fn constant_of(&mut self, dtype: DType, dims: &[u32], bytes: Bytes) -> ValueId {
        let constant = ConstantId(next_id(&self.constants));
        self.constants.push(bytes);
        self.value(Value::Tensor(info(dtype, dims, Some(constant))))
    }

    /// Appends an operator call: arguments in schema order, then the output.
    pub fn call(&mut self, name: impl Into<String>, args: &[ValueId]) {
        let node_id = next_id(&self.graph.calls);
        self.graph.calls.push(Call { node_id, name: name.into(), args: args.to_vec() });
    }

    /// Appends delegate outputs.
    pub fn outputs(&mut self, ids: &[ValueId]) {
        self.graph.outputs.extend_from_slice(ids);
    }

    /// The payload, its constants inside it as up to release 0.7, those excepted that somebody else keeps.
    ///
    /// # Panics
    /// Where the graph without its constants takes 2 GiB or more, which no FlatBuffer holds.
    #[must_use]
    pub fn finish(&self) -> Vec<u8> {
        let mut region = Vec::new();
        let mut inline = |bytes: &Bytes| {
            let bytes = match bytes {
                Bytes::Held(bytes) => bytes,
                Bytes::Kept(key, length) => return kept(key, *length),
            };
            region.resize(region.len().next_multiple_of(ALIGNMENT), 0);
            let source = ConstantSource::Inline { offset: region.len() as u64 };
            region.extend_from_slice(bytes);
            Constant { source, length: bytes.len() as u64 }
        };
        let constants = self.constants.iter().map(&mut inline).collect();
        region.resize(region.len().next_multiple_of(ALIGNMENT), 0);
        write::payload(&Graph { constants, ..self.graph.clone() }, &region)
    }

    /// The payload, and beside it its constants under the SHA-256 of their bytes as since release 1.0. Equal
    /// constants share one entry; empty ones have none.
    ///
    /// # Panics
    /// As [`GraphBuilder::finish`].
    #[must_use]
    pub fn finish_named(&self) -> (Vec<u8>, Vec<(String, Vec<u8>)>) {
        let mut seen = HashSet::new();
        let mut named = Vec::new();
        let mut name = |bytes: &Bytes| {
            let bytes = match bytes {
                Bytes::Held(bytes) => bytes,
                Bytes::Kept(key, length) => return kept(key, *length),
            };
            let length = bytes.len() as u64;
            if bytes.is_empty() {
                return Constant { source: ConstantSource::Inline { offset: 0 }, length };
            }
            let key = constant_key(&Sha256::digest(bytes).into());
            if seen.insert(key.clone()) {
                named.push((key.clone(), bytes.clone()));
            }
            Constant { source: ConstantSource::Named(key), length }
        };
        let constants = self.constants.iter().map(&mut name).collect();
        (write::payload(&Graph { constants, ..self.graph.clone() }, &[]), named)
    }

    fn pooled(&mut self, key: Scalar, value: Value) -> ValueId {
        if let Some(&id) = self.pool.get(&key) {
            return id;
        }
        let id = self.value(value);
        self.pool.insert(key, id);
        id
    }
}

fn info(dtype: DType, dims: &[u32], constant: Option<ConstantId>) -> TensorInfo {
    TensorInfo {
        dtype,
        dims: dims.to_vec(),
        constant,
        staging_dtype: dtype,
        storage_hint: NO_HINT,
        layout_hint: NO_HINT,
    }
}

/// The id of the next item; a payload with 2^32 of them is beyond what a FlatBuffer holds.
fn next_id<T>(items: &[T]) -> u32 {
    u32::try_from(items.len()).unwrap_or(u32::MAX)
}

/// The integer a double is, if it is one.
#[expect(clippy::cast_possible_truncation, reason = "the range is checked")]
fn exact_integer(double: f64) -> Option<i64> {
    const END: f64 = 9_223_372_036_854_775_808.0;
    (double.fract() == 0.0 && (-END..END).contains(&double)).then_some(double as i64)
}

fn kept(key: &str, length: u64) -> Constant {
    Constant { source: ConstantSource::Named(key.to_owned()), length }
}

/// The exporter's key of a constant: the SHA-256 of its bytes, in hexadecimal.
#[must_use]
pub fn constant_key(digest: &[u8; 32]) -> String {
    let mut key = String::with_capacity(64);
    for byte in digest {
        // Writing to a String does not fail.
        let _ = write!(key, "{byte:02x}");
    }
    key
}
