//! The types of the C interface. They are the text of `ffi/include/etvk.h`.

use std::ffi::{c_char, c_void};

/// Version of this interface. It grows when a function or structure changes in a way that old callers would notice;
/// compare it with `etvk_abi_version()` after loading the library at run time.
pub const ETVK_ABI_VERSION: u32 = 1;

/// Bytes that are enough for the text of any option, its NUL included.
pub const ETVK_OPTION_TEXT: usize = 4096;

/// What a function returns: ExecuTorch's numeric error codes. A callback that fails returns one of these as well, and
/// the function that called it returns the same; a number that is none of them becomes INTERNAL.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EtvkStatus {
    /// All is well.
    Ok = 0x00,
    /// The device was lost, the driver failed in an unexpected way, or this library has a fault (a panic).
    Internal = 0x01,
    /// The delegate failed inside an earlier execution, or is executing further up this thread's stack.
    InvalidState = 0x02,
    /// Never this library's own.
    EndOfMethod = 0x03,
    /// Never this library's own.
    AlreadyLoaded = 0x04,
    /// No Vulkan loader, no device that matches, or one that lacks a feature or has a limit that is too low.
    NotSupported = 0x10,
    /// Never this library's own.
    NotImplemented = 0x11,
    /// Arguments, sizes, element types, strides, options or compile specs that do not fit; a 64-bit integer or a double
    /// that does not fit the graph's 32 bits; an index out of range; a null pointer where one is needed.
    InvalidArgument = 0x12,
    /// Never this library's own.
    InvalidType = 0x13,
    /// The payload calls operators that this library does not have. The error text lists all of them.
    OperatorMissing = 0x14,
    /// Never this library's own.
    RegistrationExceedingMaxKernels = 0x15,
    /// Never this library's own.
    RegistrationAlreadyRegistered = 0x16,
    /// Named data lacks a constant, or there is none; or no option has that name.
    NotFound = 0x20,
    /// Out of host memory.
    MemoryAllocationFailed = 0x21,
    /// A file cannot be read (`etvk_check` alone).
    AccessFailed = 0x22,
    /// A malformed program (`etvk_check` alone).
    InvalidProgram = 0x23,
    /// A malformed `.ptd` file (`etvk_check` alone).
    InvalidExternalData = 0x24,
    /// Never this library's own.
    OutOfResources = 0x25,
    /// A malformed payload, one that uses an operator in a way that is not supported, or a constant that is too short.
    DelegateInvalidCompatibility = 0x30,
    /// Out of device memory.
    DelegateMemoryAllocationFailed = 0x31,
    /// A null or destroyed handle, or something that never was one.
    DelegateInvalidHandle = 0x32,
}

/// How important a log message is. Lower numbers matter more.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EtvkLogLevel {
    /// What made a function fail.
    Error = 1,
    /// Something is not as it should be; work goes on.
    Warn = 2,
    /// Rare and of general interest.
    Info = 3,
    /// What is loaded, planned and executed.
    Debug = 4,
    /// Everything.
    Trace = 5,
}

/// What kind of value an option has.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EtvkOptionKind {
    /// `int_value` is 0 or 1.
    Bool = 1,
    /// `int_value`.
    Int = 2,
    /// `text_value`.
    Text = 3,
}

/// An option of the process (`etvk_option_set`) or of one delegate (a runtime spec of `EtvkCreateInfo`, which goes
/// first). Options are read when a delegate is created; a change does not touch delegates that exist.
///
/// | key | kind | default | meaning |
/// | --- | --- | --- | --- |
/// | `device` | text or int | `""` | which device: its place in the list of `etvk_devices` (an int, or text of digits), or text that its name contains, in whatever case; `""` is the best one: discrete before integrated before virtual before CPU |
/// | `pipeline_cache_path` | text | `""` | file that compiled pipelines are kept in between runs; read when the device is opened, written when a delegate is destroyed; `""` for none |
/// | `profile` | bool | false | measure the GPU time of every dispatch, for `EtvkEvents.log`; an ExecuTorch backend turns it on when it is given an event tracer |
/// | `submit_budget_us` | int | 0 | split submissions so that none runs much longer than so many microseconds, for drivers that stop long ones; 0 never splits. It is an estimate: a dispatch is taken for 50 us, so 10000 splits after 200 dispatches, and one long dispatch is not split |
///
/// Delegates with the same `device`, `pipeline_cache_path` and `submit_budget_us` share a device, its pipelines, and
/// constants that are named by the hash of their contents.
///
/// Unknown keys are NOT_FOUND in `etvk_option_set` and `etvk_option_get`, and ignored among runtime specs, which may be
/// meant for other versions.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct EtvkOption {
    /// Name, NUL-terminated.
    pub key: *const c_char,
    /// An `EtvkOptionKind`.
    pub kind: u32,
    /// Value of the kinds BOOL and INT.
    pub int_value: i64,
    /// Value of the kind TEXT, NUL-terminated UTF-8.
    pub text_value: *const c_char,
}

/// A compile spec of the program: a key and bytes. `storage_type_override` and `memory_layout_override` (4 bytes each),
/// `require_dynamic_shapes` and `warmup_execute_after_compile` (1 byte each) must have their sizes; as to layouts and
/// warm-up this library decides for itself. Other keys are ignored.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct EtvkCompileSpec {
    /// Name, NUL-terminated.
    pub key: *const c_char,
    /// The bytes; may be null if there are none.
    pub value: *const c_void,
    /// Number of bytes.
    pub value_len: usize,
}

/// Bytes that a callback hands over, and how to give them back.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct EtvkBlob {
    /// The bytes; may be null if there are none.
    pub data: *const c_void,
    /// Number of bytes.
    pub len: usize,
    /// Passed to `release`.
    pub owner: *mut c_void,
    /// Called once when the bytes are not needed any more; may be null.
    pub release: Option<unsafe extern "C" fn(owner: *mut c_void)>,
}

/// Where constants outside the payload are looked up.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct EtvkNamedData {
    /// Passed to `get`. Delegates with the same context and the same method name count as parts of one program.
    pub context: *mut c_void,
    /// Gives the bytes that are stored under a key of `key_len` bytes, which is not NUL-terminated. Returns OK after
    /// filling `blob`; NOT_FOUND when there is no such key; another `EtvkStatus` when reading fails. Called only while
    /// the delegate is created, at most once a key, on the thread that creates it; what it gave is released before
    /// `etvk_delegate_create` returns. Null when there is no named data.
    pub get: Option<
        unsafe extern "C" fn(
            context: *mut c_void,
            key: *const c_char,
            key_len: usize,
            blob: *mut EtvkBlob,
        ) -> u32,
    >,
}

/// What `etvk_delegate_create` needs. Set it all to zero, then `struct_size`, then what is there.
///
/// Everything it points to is only read during the call, but for the payload of a successful call, which is released.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct EtvkCreateInfo {
    /// `sizeof(EtvkCreateInfo)`; a later version may append fields.
    pub struct_size: usize,
    /// The payload that the program holds for the delegate. On success it is released, once, before the call returns:
    /// the library keeps no pointer into it. On failure it is not released and stays the caller's.
    pub payload: EtvkBlob,
    /// Compile specs of the delegate; may be null if there are none.
    pub compile_specs: *const EtvkCompileSpec,
    /// Their number.
    pub compile_spec_count: usize,
    /// Options of this delegate alone; may be null if there are none.
    pub runtime_specs: *const EtvkOption,
    /// Their number.
    pub runtime_spec_count: usize,
    /// Name of the method that the delegate belongs to, for messages; NUL-terminated, may be null.
    pub method_name: *const c_char,
    /// Constants outside the payload.
    pub named_data: EtvkNamedData,
}

/// A delegate on its device. What a pointer to it points at is none of the caller's business: the library checks every
/// handle that it is given, also destroyed ones.
#[derive(Debug)]
pub struct EtvkDelegate {
    _opaque: [u8; 0],
}

/// What an argument is.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EtvkArgTag {
    /// `tensor`.
    Tensor = 1,
    /// `int_value`.
    Int = 2,
    /// Anything else. No delegate takes it; it is here so that callers can pass on what they were given.
    Other = 3,
}

/// Element types, numbered as in ExecuTorch. Tensors of other types than these do not cross into a delegate.
#[repr(i32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EtvkScalarType {
    /// uint8
    Byte = 0,
    /// int8
    Char = 1,
    /// int32
    Int = 3,
    /// int64
    Long = 4,
    /// float16
    Half = 5,
    /// float32
    Float = 6,
    /// float64
    Double = 7,
    /// bool, one byte
    Bool = 11,
}

/// Whether a tensor can be resized, numbered as in ExecuTorch. The library does not decide by it, the resize callback
/// does; it is part of messages.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EtvkDynamism {
    /// Never.
    Static = 0,
    /// Within the memory it has.
    Bound = 1,
    /// Freely.
    Unbound = 2,
}

/// A tensor of the caller. The element at index (i, j, ...) is at `data + (i * strides[0] + j * strides[1] + ...) * size`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct EtvkTensor {
    /// An `EtvkScalarType`.
    pub scalar_type: i32,
    /// Number of dimensions.
    pub rank: u32,
    /// `rank` sizes; may be null for rank 0.
    pub sizes: *const i32,
    /// `rank` dimensions from the slowest to the fastest; null if `strides` say it, or for row-major.
    pub dim_order: *const u8,
    /// `rank` distances in elements; null if `dim_order` says it. Where both are given they must agree. Inputs may have
    /// any strides that are not negative; outputs must be dense, without gaps or overlap.
    pub strides: *const i32,
    /// The elements; may be null if there are none.
    pub data: *mut c_void,
    /// Bytes at `data`.
    pub nbytes: usize,
    /// An `EtvkDynamism`.
    pub dynamism: u32,
    /// Passed to `resize`.
    pub resize_context: *mut c_void,
    /// Gives an output new sizes: `tensor` is this structure, `arg` its place among the arguments. It must bring
    /// `sizes`, `dim_order`, `strides`, `data` and `nbytes` up to date and return OK, or return another `EtvkStatus`.
    /// Called before an output is written, also where its sizes do not change. Null where the sizes cannot change.
    pub resize: Option<
        unsafe extern "C" fn(
            context: *mut c_void,
            arg: usize,
            tensor: *mut EtvkTensor,
            sizes: *const i32,
            rank: usize,
        ) -> u32,
    >,
}

/// An argument of an execution.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct EtvkArg {
    /// An `EtvkArgTag`.
    pub tag: u32,
    /// Value of the tag INT: read if the argument is an input, written if it is an output. It must fit in 32 bits.
    pub int_value: i64,
    /// Value of the tag TENSOR. A tensor of one INT or LONG element may stand for an integer, in and out.
    pub tensor: EtvkTensor,
}

/// Where the events of an execution go. Names are NUL-terminated UTF-8 and valid during the call. Events carry no
/// integer id. All of them come from the thread that executes.
///
/// The names, in order: `ETVK_EXECUTE` around everything; `ETVK_COPY_INPUTS`; `ETVK_RESIZE`, only where sizes
/// changed; `ETVK_COMPUTE_GRAPH_EXECUTE`; then, with the option `profile`, a `log` for each dispatch; and
/// `ETVK_COPY_OUTPUTS`. The name of a dispatch is JSON: `{"operator": {"name", "delegate_node_id", "args": [...]},
/// "kernel_name", "operator_id", "dispatch_id"}`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct EtvkEvents {
    /// Passed to all of them.
    pub context: *mut c_void,
    /// Something starts. Events nest; may be null.
    pub start: Option<unsafe extern "C" fn(context: *mut c_void, name: *const c_char)>,
    /// What started last ends, whether it failed or not; may be null.
    pub end: Option<unsafe extern "C" fn(context: *mut c_void, name: *const c_char)>,
    /// A dispatch took from `start_ns` to `end_ns` on the GPU. That clock starts at 0 with the execution and counts
    /// the dispatches' own times without the gaps between them; may be null.
    pub log:
        Option<unsafe extern "C" fn(context: *mut c_void, name: *const c_char, start_ns: u64, end_ns: u64)>,
}

/// Takes log messages: `level` is an `EtvkLogLevel`, `message` NUL-terminated UTF-8 that is valid during the call. It may
/// be called from any thread that is in a function of this library.
pub type EtvkLog = Option<unsafe extern "C" fn(context: *mut c_void, level: u32, message: *const c_char)>;

/// What kind of device it is.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EtvkDeviceKind {
    /// None of the others.
    Other = 0,
    /// A GPU that shares the host's memory.
    Integrated = 1,
    /// A GPU with memory of its own.
    Discrete = 2,
    /// A GPU handed to a virtual machine.
    Virtual = 3,
    /// The host's processor.
    Cpu = 4,
}

/// A device that is there, before it is opened.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct EtvkDeviceInfo {
    /// Place in the list, for the option `device`.
    pub index: u32,
    /// An `EtvkDeviceKind`.
    pub kind: u32,
    /// PCI vendor id, or a Khronos one.
    pub vendor_id: u32,
    /// The vendor's id for the device.
    pub device_id: u32,
    /// Vulkan version that it speaks: 1.1 and later can be used.
    pub version_major: u32,
    /// Vulkan version that it speaks.
    pub version_minor: u32,
    /// The driver's name for it, NUL-terminated UTF-8, valid during the call.
    pub name: *const c_char,
}

/// Told of one device after the other by `etvk_devices`.
pub type EtvkVisitDevice = Option<unsafe extern "C" fn(context: *mut c_void, device: *const EtvkDeviceInfo)>;

/// Told a text, NUL-terminated UTF-8 that is valid during the call.
pub type EtvkVisitText = Option<unsafe extern "C" fn(context: *mut c_void, text: *const c_char)>;
