//! What can be wrong with a file, from the container down to one value.

use std::io;
use std::path::PathBuf;

use flatbuffers::InvalidFlatbuffer;

/// Result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A file that cannot be used, and why.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file could not be opened or mapped.
    #[error("cannot map {}", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// Fewer bytes than the smallest file of this kind.
    #[error("{kind} file has {found} bytes, at least {needed} are needed")]
    TooShort {
        /// Kind of file.
        kind: &'static str,
        /// Bytes needed.
        needed: usize,
        /// Bytes in the file.
        found: usize,
    },
    /// The file is of another kind, or not one of ours at all.
    #[error("file identifier is \"{}\", expected \"{}\"", found.escape_ascii(), expected.escape_ascii())]
    Identifier {
        /// Identifier of the kind asked for.
        expected: [u8; 4],
        /// Bytes 4 to 8 of the file.
        found: [u8; 4],
    },
    /// A program of a version this reader does not know.
    #[error("program version \"{}\" is not supported, expected \"ET12\"", found.escape_ascii())]
    ProgramVersion {
        /// Bytes 4 to 8 of the file.
        found: [u8; 4],
    },
    /// A `.ptd` file without its header.
    #[error("header magic is \"{}\", expected \"FH01\"", found.escape_ascii())]
    HeaderMagic {
        /// Bytes 8 to 12 of the file.
        found: [u8; 4],
    },
    /// The extended header is shorter than its first version.
    #[error("extended header has {found} bytes, at least {needed} are needed")]
    HeaderLength {
        /// Bytes of the first version.
        needed: u32,
        /// Length in the header.
        found: u32,
    },
    /// Two numbers of the extended header do not add up.
    #[error("extended header: {what} overflows: {left} + {right}")]
    HeaderOverflow {
        /// The sum.
        what: &'static str,
        /// First summand.
        left: u64,
        /// Second summand.
        right: u64,
    },
    /// The header promises more bytes than there are.
    #[error("extended header: {what} ends at byte {end}, the file has {file}")]
    FileTruncated {
        /// The region.
        what: &'static str,
        /// Its end.
        end: u64,
        /// Bytes in the file.
        file: u64,
    },
    /// The root table lies outside the FlatBuffer.
    #[error("root table at byte {offset}, the FlatBuffer has {size} bytes")]
    RootOffset {
        /// Root offset.
        offset: u32,
        /// Bytes of the FlatBuffer.
        size: usize,
    },
    /// The FlatBuffer is not well formed.
    #[error("{kind} FlatBuffer is malformed")]
    FlatBuffer {
        /// Kind of file.
        kind: &'static str,
        /// The verifier's reason.
        source: InvalidFlatbuffer,
    },
    /// A field that cannot be absent is.
    #[error("{field} is missing")]
    Missing {
        /// Table and field.
        field: &'static str,
    },
    /// A segment with bytes, but no header to say where segments start.
    #[error("segment {index} has {size} bytes, but the file has no segment base")]
    NoSegmentBase {
        /// Index of the segment.
        index: usize,
        /// Its size.
        size: u64,
    },
    /// A segment that does not lie inside the file.
    #[error("segment {index}: {size} bytes at offset {offset} from base {base}, the file has {file}")]
    SegmentRange {
        /// Index of the segment.
        index: usize,
        /// Offset from the base.
        offset: u64,
        /// Its size.
        size: u64,
        /// Segment base.
        base: u64,
        /// Bytes in the file.
        file: usize,
    },
    /// A segment index that is out of range.
    #[error("{user} refers to segment {index}, the file has {count}")]
    SegmentIndex {
        /// What refers to the segment.
        user: &'static str,
        /// The index.
        index: u32,
        /// Segments in the file.
        count: usize,
    },
    /// Constants both inline and in a segment.
    #[error("{buffers} inline constants and {offsets} in a segment: only one place may be used")]
    TwoConstantStores {
        /// Entries of `constant_buffer`.
        buffers: usize,
        /// Entries of `constant_segment.offsets`.
        offsets: usize,
    },
    /// Named data in a program without segments.
    #[error("program has {count} named blobs but no segments")]
    NamedDataWithoutSegments {
        /// Entries of `named_data`.
        count: usize,
    },
    /// Two blobs of one name.
    #[error("two blobs are named {key:?}")]
    DuplicateKey {
        /// The name.
        key: String,
    },
    /// Two methods of one name.
    #[error("two methods are named {name:?}")]
    DuplicateMethod {
        /// The name.
        name: String,
    },
    /// No method of that name.
    #[error("no method {name:?}; the program has {known:?}")]
    NoMethod {
        /// The name asked for.
        name: String,
        /// The names there are.
        known: Vec<String>,
    },
    /// A method that cannot be loaded.
    #[error("method {method:?}")]
    Method {
        /// Its name.
        method: String,
        /// The reason.
        #[source]
        fault: MethodFault,
    },
    /// An external tensor whose description or bytes are wrong.
    #[error("external tensor {key:?}")]
    ExternalTensor {
        /// Its name.
        key: String,
        /// The reason.
        #[source]
        fault: LayoutFault,
    },
    /// A bundled test value that cannot be used.
    #[error("test suite {suite:?}, case {case}, {list} {index}")]
    Bundled {
        /// Method name of the suite.
        suite: String,
        /// Index of the case.
        case: usize,
        /// `input` or `expected output`.
        list: &'static str,
        /// Index in that list.
        index: usize,
        /// The reason.
        #[source]
        fault: BundledFault,
    },
}

/// What is wrong with a method.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MethodFault {
    /// A field that cannot be absent is.
    #[error("{field} is missing")]
    Missing {
        /// Table and field.
        field: &'static str,
    },
    /// A method without chains has nothing to execute.
    #[error("no chains")]
    NoChains,
    /// A chain without an instruction list.
    #[error("chain {chain} has no instruction list")]
    NoInstructions {
        /// Index of the chain.
        chain: usize,
    },
    /// A plan input that is not a value.
    #[error("input {at} is value {index}, there are {count}")]
    Input {
        /// Position in the inputs.
        at: usize,
        /// The index found.
        index: i64,
        /// Values of the method.
        count: usize,
    },
    /// A plan output that is not a value.
    #[error("output {at} is value {index}, there are {count}")]
    Output {
        /// Position in the outputs.
        at: usize,
        /// The index found.
        index: i64,
        /// Values of the method.
        count: usize,
    },
    /// A planned buffer with a negative size.
    #[error("planned buffer {buffer} has size {size}")]
    BufferSize {
        /// Index of the buffer.
        buffer: usize,
        /// The size found.
        size: i64,
    },
    /// A planned buffer on a device other than the CPU.
    #[error("planned buffer {buffer} is on device type {device}; only the CPU (0) is supported")]
    BufferDevice {
        /// Index of the buffer.
        buffer: i32,
        /// The device type found.
        device: i8,
    },
    /// An operator name longer than a runtime can register.
    #[error("operator {operator} has a name of {length} bytes, at most 99 are allowed")]
    OperatorName {
        /// Index of the operator.
        operator: usize,
        /// Bytes of `name.overload`.
        length: usize,
    },
    /// A delegate that cannot be used.
    #[error("delegate {delegate}")]
    Delegate {
        /// Index of the delegate.
        delegate: usize,
        /// The reason.
        #[source]
        fault: DelegateFault,
    },
    /// A value that cannot be used.
    #[error("value {value}")]
    Value {
        /// Index of the value.
        value: usize,
        /// The reason.
        #[source]
        fault: ValueFault,
    },
    /// An instruction that cannot be executed.
    #[error("chain {chain}, instruction {instruction}")]
    Instruction {
        /// Index of the chain.
        chain: usize,
        /// Index in the chain.
        instruction: usize,
        /// The reason.
        #[source]
        fault: InstructionFault,
    },
}

/// What is wrong with a delegate.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DelegateFault {
    /// A field that cannot be absent is.
    #[error("{field} is missing")]
    Missing {
        /// Table and field.
        field: &'static str,
    },
    /// A compile specification without key or value.
    #[error("compile spec {spec} has no {field}")]
    CompileSpec {
        /// Index of the specification.
        spec: usize,
        /// `key` or `value`.
        field: &'static str,
    },
    /// Where the payload is, by a number without meaning.
    #[error("data location {found} is unknown")]
    Location {
        /// The number found.
        found: i8,
    },
    /// An inline payload that is not there.
    #[error("inline payload {index}, the program has {count}")]
    InlineData {
        /// The index found.
        index: u32,
        /// Inline payloads of the program.
        count: usize,
    },
    /// A payload segment that is not there.
    #[error("payload segment {index}, the file has {count}")]
    Segment {
        /// The index found.
        index: u32,
        /// Segments in the file.
        count: usize,
    },
}

/// What is wrong with a value.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ValueFault {
    /// A value of no kind.
    #[error("has no kind")]
    NoKind,
    /// A kind by a number without meaning.
    #[error("kind {found} is unknown")]
    UnknownKind {
        /// The number found.
        found: u8,
    },
    /// A string value without its string.
    #[error("string is missing")]
    NoString,
    /// A list item that is not a value.
    #[error("item {at} is value {index}, there are {count}")]
    Item {
        /// Position in the list.
        at: usize,
        /// The index found.
        index: i64,
        /// Values of the method.
        count: usize,
    },
    /// A list item that is a value of the wrong kind.
    #[error("item {at} is value {index}, {found} instead of {expected}")]
    ItemKind {
        /// Position in the list.
        at: usize,
        /// The value.
        index: usize,
        /// Kind needed.
        expected: &'static str,
        /// Kind found.
        found: &'static str,
    },
    /// A tensor whose type or shape cannot be.
    #[error("tensor layout")]
    Layout(#[from] LayoutFault),
    /// A tensor that does not start at its storage.
    #[error("storage offset {found} is not supported")]
    StorageOffset {
        /// The offset found, in elements.
        found: i32,
    },
    /// A tensor without an upper bound, or a dynamism without meaning.
    #[error("shape dynamism {found} is not supported")]
    Dynamism {
        /// The number found.
        found: i8,
    },
    /// A place for tensor data by a number without meaning.
    #[error("tensor data location {found} is unknown")]
    Location {
        /// The number found.
        found: i8,
    },
    /// A tensor on a device other than the CPU.
    #[error("device type {found}; only the CPU (0) is supported")]
    Device {
        /// The device type found.
        found: i8,
    },
    /// External data without a name to find it by.
    #[error("external tensor has no name")]
    NoExternalName,
    /// A constant that is not there.
    #[error("{store} has no entry {index}, there are {count}")]
    Constant {
        /// Where constants are.
        store: &'static str,
        /// Index of the constant.
        index: u32,
        /// Entries there are.
        count: usize,
    },
    /// A constant that does not lie inside its store.
    #[error("{needed} bytes at offset {offset} of {store}, which has {available}")]
    ConstantRange {
        /// Where constants are.
        store: &'static str,
        /// Offset of the constant.
        offset: u64,
        /// Bytes the tensor needs.
        needed: usize,
        /// Bytes of the store.
        available: usize,
    },
    /// A planned buffer that is not there.
    #[error("memory id {id}; planned buffers are 1 to {last}")]
    MemoryId {
        /// The id found.
        id: u32,
        /// The last buffer.
        last: usize,
    },
    /// A tensor that does not lie inside its planned buffer.
    #[error("{needed} bytes at offset {offset} of planned buffer {id}, which has {available}")]
    MemoryRange {
        /// The buffer.
        id: u32,
        /// Offset of the tensor.
        offset: u64,
        /// Bytes the tensor needs.
        needed: usize,
        /// Bytes of the buffer.
        available: u64,
    },
}

/// What is wrong with a tensor's element type or shape.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LayoutFault {
    /// An element type by a number without meaning.
    #[error("scalar type {found} is unknown")]
    ScalarType {
        /// The number found.
        found: i8,
    },
    /// No list of sizes.
    #[error("sizes are missing")]
    NoSizes,
    /// No dimension order.
    #[error("dim_order is missing")]
    NoDimOrder,
    /// As many sizes as entries of the dimension order are needed.
    #[error("{sizes} sizes, but {dim_order} entries of dim_order")]
    Ranks {
        /// Number of sizes.
        sizes: usize,
        /// Entries of the dimension order.
        dim_order: usize,
    },
    /// More dimensions than a runtime supports.
    #[error("rank {rank} is above {limit}")]
    Rank {
        /// The rank found.
        rank: usize,
        /// The highest supported.
        limit: usize,
    },
    /// A negative size.
    #[error("size of dimension {dim} is {size}")]
    NegativeSize {
        /// The dimension.
        dim: usize,
        /// Its size.
        size: i32,
    },
    /// A dimension order that is not a permutation.
    #[error("dim_order {found:?} is not a permutation")]
    DimOrder {
        /// The order found.
        found: Vec<u8>,
    },
    /// A tensor larger than memory can be.
    #[error("number of bytes overflows")]
    Overflow,
    /// Fewer bytes than the tensor needs.
    #[error("{needed} bytes are needed, {found} are there")]
    TooFewBytes {
        /// Bytes the tensor needs.
        needed: usize,
        /// Bytes there are.
        found: usize,
    },
}

/// What is wrong with an instruction.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InstructionFault {
    /// An instruction of no kind.
    #[error("has no kind")]
    NoKind,
    /// A kind by a number without meaning.
    #[error("kind {found} is unknown")]
    UnknownKind {
        /// The number found.
        found: u8,
    },
    /// An operator that is not there.
    #[error("operator {index}, there are {count}")]
    Operator {
        /// The index found.
        index: i32,
        /// Operators of the method.
        count: usize,
    },
    /// A delegate that is not there.
    #[error("delegate {index}, there are {count}")]
    Delegate {
        /// The index found.
        index: i32,
        /// Delegates of the method.
        count: usize,
    },
    /// An operand that is not a value.
    #[error("operand {at} is value {index}, there are {count}")]
    Operand {
        /// Position among the operands.
        at: usize,
        /// The index found.
        index: i64,
        /// Values of the method.
        count: usize,
    },
    /// A value of the wrong kind.
    #[error("value {index} is {found} instead of {expected}")]
    OperandKind {
        /// The value.
        index: usize,
        /// Kind needed.
        expected: &'static str,
        /// Kind found.
        found: &'static str,
    },
    /// A jump out of its chain.
    #[error("jump to instruction {destination}, the chain has {count}")]
    Jump {
        /// The destination found.
        destination: i32,
        /// Instructions of the chain.
        count: usize,
    },
}

/// What is wrong with a bundled test value.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BundledFault {
    /// A value of no kind.
    #[error("has no kind")]
    NoKind,
    /// A kind by a number without meaning.
    #[error("kind {found} is unknown")]
    UnknownKind {
        /// The number found.
        found: u8,
    },
    /// A tensor whose type, shape or data cannot be.
    #[error("tensor")]
    Tensor(#[from] LayoutFault),
}
