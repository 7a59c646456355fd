//! The functions of the C interface. Each catches panics and keeps the text of what went wrong for its thread.

use std::ffi::{c_char, c_void};

use crate::abi::{
    ETVK_ABI_VERSION, EtvkArg, EtvkCreateInfo, EtvkDelegate, EtvkEvents, EtvkLog, EtvkOption, EtvkStatus,
    EtvkVisitDevice, EtvkVisitText,
};
use crate::guard::{guard, last_error};
use crate::{create, device, execute, handle, log, option, status};

/// `ETVK_ABI_VERSION` of the library that is running.
#[unsafe(no_mangle)]
pub extern "C" fn etvk_abi_version() -> u32 {
    ETVK_ABI_VERSION
}

/// Version of the library, as in "0.1.0".
#[unsafe(no_mangle)]
pub extern "C" fn etvk_version() -> *const c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    VERSION.as_ptr().cast()
}

/// What went wrong in the last function on this thread that returned an `EtvkStatus`: one line that says what was
/// expected and what was found. Empty if it was OK. Valid until this thread's next call of such a function.
#[unsafe(no_mangle)]
pub extern "C" fn etvk_last_error() -> *const c_char {
    last_error()
}

/// Name of a status, as in "INVALID_ARGUMENT"; "UNKNOWN" for numbers that are none.
#[unsafe(no_mangle)]
pub extern "C" fn etvk_status_name(status: u32) -> *const c_char {
    status::name(status).as_ptr()
}

/// Where log messages up to the level `max_level` (an `EtvkLogLevel`) go: to `log`, for the whole process, until the next
/// call; null is the default and means nowhere. Whatever makes a function fail is logged at the level ERROR.
#[unsafe(no_mangle)]
pub extern "C" fn etvk_set_log(log: EtvkLog, context: *mut c_void, max_level: u32) {
    log::set(log, context, max_level);
}

/// Whether there is a device to run on: OK or NOT_SUPPORTED. `device` is a value of the option of that name, null for the
/// value that is set. It makes a Vulkan instance and looks at the list of devices, but opens none.
///
/// # Safety
/// `device` is null or NUL-terminated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn etvk_available(device: *const c_char) -> EtvkStatus {
    // SAFETY: as this function's.
    guard(|| unsafe { device::available(device) })
}

/// Tells `visit` of every device there is, in the driver's order; opens none. No devices are OK, no Vulkan loader is
/// NOT_SUPPORTED.
///
/// # Safety
/// `visit` may be called with `context`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn etvk_devices(visit: EtvkVisitDevice, context: *mut c_void) -> EtvkStatus {
    // SAFETY: as this function's.
    guard(|| unsafe { device::visit(visit, context) })
}

/// Finds out, without a device, whether this library runs the program in a `.pte` or `.bpte` file. OK means that it does;
/// otherwise `visit` is told of each reason, and the status is that of the first. The C interface runs delegates, not
/// programs: what is not delegated is for the program's runtime, and not looked at.
///
/// # Safety
/// `path` is NUL-terminated; `visit` is null or may be called with `context`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn etvk_check(
    path: *const c_char,
    visit: EtvkVisitText,
    context: *mut c_void,
) -> EtvkStatus {
    // SAFETY: as this function's.
    guard(|| unsafe { create::check(path, visit, context) })
}

/// Sets options of the process; all of them or, when one is not valid, none. Opens no device.
///
/// # Safety
/// `options` points at `count` options, whose texts are NUL-terminated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn etvk_option_set(options: *const EtvkOption, count: usize) -> EtvkStatus {
    // SAFETY: as this function's.
    guard(|| unsafe { option::set(options, count) })
}

/// Reads the option `option->key` of the process into the other fields. A text goes to `text`, which has room for
/// `text_capacity` bytes (`ETVK_OPTION_TEXT` are always enough; fewer than it takes are INVALID_ARGUMENT), and
/// `text_value` points there.
///
/// # Safety
/// `option->key` is NUL-terminated; `text` has `text_capacity` writable bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn etvk_option_get(
    option: *mut EtvkOption,
    text: *mut c_char,
    text_capacity: usize,
) -> EtvkStatus {
    // SAFETY: as this function's.
    guard(|| unsafe { option::get(option, text, text_capacity) })
}

/// Makes a delegate from its payload: checks it, opens the device if nothing has before, and brings the constants there.
/// The first call of this function is the first that opens a Vulkan device.
///
/// `*delegate` is the new handle on success, null on failure.
///
/// # Safety
/// What `info` describes is there; `delegate` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn etvk_delegate_create(
    info: *const EtvkCreateInfo,
    delegate: *mut *mut EtvkDelegate,
) -> EtvkStatus {
    // SAFETY: as this function's.
    guard(|| unsafe { create::create(info, delegate) })
}

/// How many inputs and outputs a delegate has. Either pointer may be null.
///
/// # Safety
/// `inputs` and `outputs` are null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn etvk_delegate_ports(
    delegate: *mut EtvkDelegate,
    inputs: *mut usize,
    outputs: *mut usize,
) -> EtvkStatus {
    // SAFETY: as this function's.
    guard(|| unsafe { handle::ports(delegate, inputs, outputs) })
}

/// Executes a delegate on `args`: its inputs, then its outputs. Inputs may have their graph's element type or: LONG
/// for 32-bit integers, if every element fits; any float type for floats, if every finite double fits. Outputs
/// likewise; there, floats become the nearest ones and infinite beyond the range of HALF.
///
/// There may be fewer arguments than inputs and outputs: an operator that changes a buffer makes the first outputs its new
/// values (programs exported without `alias_buffer_mutations`). The delegate keeps them, if the payload tells which of its
/// constants each replaces; every execution must have the same number.
///
/// Mutable buffers (KV caches) keep their contents from one execution to the next. An execution whose inputs are refused
/// leaves them alone, and the delegate goes on working; one that fails later may have changed them. After a panic,
/// and after the device was lost, the delegate only returns INVALID_STATE or INTERNAL, and has to be made anew.
///
/// One delegate runs one execution at a time; other threads wait. A callback must not execute or destroy the delegate
/// that called it.
///
/// # Safety
/// `args` points at `count` arguments and what they describe is there; no two outputs overlap. `events` is null or
/// its functions may be called. No callback unwinds or throws.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn etvk_delegate_execute(
    delegate: *mut EtvkDelegate,
    args: *mut EtvkArg,
    count: usize,
    events: *const EtvkEvents,
) -> EtvkStatus {
    // SAFETY: as this function's.
    guard(|| unsafe { execute::execute(delegate, args, count, events) })
}

/// Destroys a delegate and frees its memory, when an execution in another thread has ended. Null is OK and does nothing.
/// With the option `pipeline_cache_path`, compiled pipelines are written to that file.
#[unsafe(no_mangle)]
pub extern "C" fn etvk_delegate_destroy(delegate: *mut EtvkDelegate) -> EtvkStatus {
    guard(|| handle::destroy(delegate))
}

/// Closes the devices that no delegate uses. Without it devices stay open for the next delegate. For programs that
/// unload the library or look for leaks.
#[unsafe(no_mangle)]
pub extern "C" fn etvk_shutdown() -> EtvkStatus {
    guard(device::shutdown)
}
