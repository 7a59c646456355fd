//! Everything that can be wrong with a payload.

use crate::{ConstantId, MAX_NAME, MAX_RANK, ValueId};

/// Why a payload, or a constant of one, was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The fixed header in front of the FlatBuffer.
    #[error("payload header: {0}")]
    Header(HeaderFault),
    /// The operator calls have the layout of 0.2.
    #[error("payload older than 0.3: its calls have no node id; export the program again")]
    OlderThan03,
    /// The FlatBuffer is of another kind.
    #[error("payload FlatBuffer has identifier {}, expected \"VK00\"", found.escape_ascii())]
    Identifier {
        /// The four bytes found.
        found: [u8; 4],
    },
    /// The FlatBuffer's structure is damaged.
    #[error("payload FlatBuffer is damaged: {reason}")]
    FlatBuffer {
        /// What the verifier found, and where.
        reason: String,
    },
    /// A vector of the graph itself is absent.
    #[error("graph has no {field}")]
    Missing {
        /// The absent field.
        field: &'static str,
    },
    /// The payload brings shaders of its own, which no exporter writes.
    #[error("graph carries {found} shaders of its own, which are not supported")]
    CustomShaders {
        /// How many.
        found: usize,
    },
    /// A value.
    #[error("value {id}: {fault}")]
    Value {
        /// The value.
        id: ValueId,
        /// What is wrong with it.
        fault: ValueFault,
    },
    /// An operator call.
    #[error("call {index} ({name:?}): {fault}")]
    Call {
        /// Place in execution order, from 0.
        index: usize,
        /// Operator name, cut short where it is too long.
        name: String,
        /// What is wrong with it.
        fault: CallFault,
    },
    /// A delegate input.
    #[error("input {slot}: {fault}")]
    Input {
        /// Place in the input list, from 0.
        slot: usize,
        /// What is wrong with it.
        fault: PortFault,
    },
    /// A delegate output.
    #[error("output {slot}: {fault}")]
    Output {
        /// Place in the output list, from 0.
        slot: usize,
        /// What is wrong with it.
        fault: PortFault,
    },
    /// A constant.
    #[error("constant {}: {fault}", id.0)]
    Constant {
        /// The constant.
        id: ConstantId,
        /// What is wrong with it.
        fault: ConstantFault,
    },
    /// Constant bytes were asked of a tensor that is not a constant.
    #[error("tensor is not a constant")]
    NotConstant,
}

/// What is wrong with the header. All numbers are bytes; offsets count from the start of the payload.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HeaderFault {
    /// The payload ends inside the header.
    #[error("{found} bytes, expected at least {expected}")]
    Truncated {
        /// Smallest header.
        expected: usize,
        /// Payload length.
        found: usize,
    },
    /// Not a Vulkan payload.
    #[error("magic is {}, expected \"VH00\"", found.escape_ascii())]
    Magic {
        /// The four bytes found.
        found: [u8; 4],
    },
    /// The header claims to be smaller than its own fields.
    #[error("header size {found}, expected at least {expected}")]
    Size {
        /// Smallest header.
        expected: u16,
        /// Serialised size.
        found: u16,
    },
    /// The FlatBuffer starts inside the header.
    #[error("FlatBuffer at {found}, expected at or after the header's end, {expected}")]
    FlatBufferOffset {
        /// End of the header.
        expected: u32,
        /// Serialised offset.
        found: u32,
    },
    /// The FlatBuffer cannot hold a root offset and an identifier.
    #[error("FlatBuffer of {found} bytes, expected at least {expected}")]
    FlatBufferSize {
        /// Smallest FlatBuffer.
        expected: u32,
        /// Serialised size.
        found: u32,
    },
    /// The FlatBuffer reaches beyond the payload.
    #[error("FlatBuffer ends at {end}, beyond the payload's {payload} bytes")]
    FlatBufferRange {
        /// Offset plus size.
        end: u64,
        /// Payload length.
        payload: u64,
    },
    /// The constant region starts inside the FlatBuffer.
    #[error("constant region at {found}, expected at or after the FlatBuffer's end, {expected}")]
    BytesOffset {
        /// End of the FlatBuffer.
        expected: u64,
        /// Serialised offset.
        found: u32,
    },
    /// The constant region reaches beyond the payload.
    #[error("constant region of {size} bytes at {offset} does not fit in the payload's {payload} bytes")]
    BytesRange {
        /// Serialised offset.
        offset: u32,
        /// Serialised size.
        size: u64,
        /// Payload length.
        payload: u64,
    },
}

/// What is wrong with a value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ValueFault {
    /// No kind, or one that is not known.
    #[error("kind {tag} is not known, expected 1 to 11")]
    Kind {
        /// The union's type byte.
        tag: u8,
    },
    /// A vector or string is absent.
    #[error("has no {field}")]
    Missing {
        /// The absent field.
        field: &'static str,
    },
    /// Not a `VkDataType`.
    #[error("element type {found} is not known, expected 0 to 7")]
    DType {
        /// Serialised number.
        found: i8,
    },
    /// Not a `VkDataType` and not `UNSET`.
    #[error("staging element type {found} is not known, expected 0 to 7 or 127")]
    StagingDType {
        /// Serialised number.
        found: i8,
    },
    /// Too many dimensions.
    #[error("rank {found}, expected at most {MAX_RANK}")]
    Rank {
        /// Serialised number of dimensions.
        found: usize,
    },
    /// Too many elements, a dimension of 0 counted as 1.
    #[error("dims {dims:?} have more than {} elements", u32::MAX)]
    Elements {
        /// Serialised dimensions.
        dims: Vec<u32>,
    },
    /// The tensor's constant does not exist.
    #[error("constant {found} is out of range, the graph has {constants}")]
    ConstantId {
        /// Serialised id.
        found: i32,
        /// Number of constants.
        constants: usize,
    },
    /// The tensor's constant is too short for its shape.
    #[error("constant {} has {found} bytes, the shape needs {expected}", constant.0)]
    ConstantLength {
        /// The constant.
        constant: ConstantId,
        /// Elements times element size.
        expected: u64,
        /// Serialised length.
        found: u64,
    },
    /// A list item names no value.
    #[error("item {item} is value id {found}, the graph has {values} values")]
    Item {
        /// Place in the list, from 0.
        item: usize,
        /// Serialised id.
        found: i64,
        /// Number of values.
        values: usize,
    },
    /// A list item is itself a list.
    #[error("item {item}, {id}, is a list; lists do not nest")]
    NestedList {
        /// Place in the list, from 0.
        item: usize,
        /// The list in the list.
        id: ValueId,
    },
}

/// What is wrong with an operator call.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CallFault {
    /// A vector or string is absent.
    #[error("has no {field}")]
    Missing {
        /// The absent field.
        field: &'static str,
    },
    /// The operator name is empty.
    #[error("operator name is empty")]
    EmptyName,
    /// The operator name is no operator name.
    #[error("operator name of {found} bytes, expected at most {MAX_NAME}")]
    LongName {
        /// Serialised length in bytes.
        found: usize,
    },
    /// Not even an output.
    #[error("has no arguments, expected at least the output")]
    NoArgs,
    /// An argument names no value.
    #[error("argument {slot} is value id {found}, the graph has {values} values")]
    Arg {
        /// Place in the argument list, from 0.
        slot: usize,
        /// Serialised id.
        found: i64,
        /// Number of values.
        values: usize,
    },
}

/// What is wrong with a delegate input or output.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PortFault {
    /// Names no value.
    #[error("value id {found} is out of range, the graph has {values} values")]
    Range {
        /// Serialised id.
        found: u32,
        /// Number of values.
        values: usize,
    },
    /// Not something that crosses the delegate boundary.
    #[error("{id} is a {found}, expected a tensor or a SymInt")]
    Kind {
        /// The value.
        id: ValueId,
        /// Its kind.
        found: &'static str,
    },
    /// An input that has contents already.
    #[error("{id} is constant {}", constant.0)]
    Constant {
        /// The value.
        id: ValueId,
        /// Its constant.
        constant: ConstantId,
    },
    /// One input twice.
    #[error("{id} is already input {first}")]
    Duplicate {
        /// The value.
        id: ValueId,
        /// Where it stands first.
        first: usize,
    },
}

/// What is wrong with a constant. Lengths and offsets are bytes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConstantFault {
    /// Not a constant of this graph.
    #[error("is out of range, the graph has {constants}")]
    Id {
        /// Number of constants.
        constants: usize,
    },
    /// Neither an offset nor a key.
    #[error("has neither an offset nor a key")]
    NoKey,
    /// Outside the constant region.
    #[error("{length} bytes at {offset} do not fit in the constant region's {region} bytes")]
    Range {
        /// Serialised offset in the region.
        offset: u64,
        /// Serialised length.
        length: u64,
        /// Size of the region.
        region: u64,
    },
    /// The bytes are elsewhere and the caller gave no place to look.
    #[error("lives in named data under {key:?}, and no named data was supplied")]
    NoNamedData {
        /// The constant's key.
        key: String,
    },
    /// The named data lacks the key.
    #[error("named data has no key {key:?}")]
    Key {
        /// The constant's key.
        key: String,
    },
    /// The named data has too few bytes.
    #[error("named data {key:?} has {found} bytes, expected {expected}")]
    BlobLength {
        /// The constant's key.
        key: String,
        /// Serialised length.
        expected: u64,
        /// Length of the blob.
        found: u64,
    },
    /// Too short for the tensor that reads it.
    #[error("has {found} bytes, the tensor needs {expected}")]
    Length {
        /// Elements times element size.
        expected: u64,
        /// Length of the constant.
        found: u64,
    },
    /// A 64-bit element of an old payload that its 32-bit type cannot hold.
    #[error("element {index} is {found}, out of range for a 32-bit integer")]
    Narrowing {
        /// Row-major element index.
        index: usize,
        /// The element.
        found: i64,
    },
}
