//! Making delegates, and finding out beforehand whether they can be made.

use std::ffi::{c_char, c_void};

use etvk::payload::{Executor, LoadOptions, NamedData, Payload, Surplus};
use etvk::{EngineError, Module, Problem};

use crate::abi::{EtvkCompileSpec, EtvkCreateInfo, EtvkDelegate, EtvkVisitText};
use crate::constants::Constants;
use crate::error::Error;
use crate::events::Operators;
use crate::fault::{self, Point};
use crate::handle::{self, Delegate};
use crate::named::Named;
use crate::option::{Options, slice};
use crate::{device, text};

/// Bytes of the compile specs that upstream's runtime reads.
const COMPILE_SPECS: [(&str, usize); 4] = [
    ("storage_type_override", 4),
    ("memory_layout_override", 4),
    ("require_dynamic_shapes", 1),
    ("warmup_execute_after_compile", 1),
];

/// # Safety
/// As `etvk_delegate_create`.
pub(crate) unsafe fn create(
    info: *const EtvkCreateInfo,
    delegate: *mut *mut EtvkDelegate,
) -> Result<(), Error> {
    // SAFETY: as this function's.
    let delegate = unsafe { delegate.as_mut() }.ok_or(Error::Null { what: "delegate" })?;
    *delegate = std::ptr::null_mut();
    if info.is_null() {
        return Err(Error::Null { what: "info" });
    }
    // SAFETY: not null, and every version of the structure starts with this field.
    let found = unsafe { (&raw const (*info).struct_size).read() };
    if found < size_of::<EtvkCreateInfo>() {
        return Err(Error::StructSize { expected: size_of::<EtvkCreateInfo>(), found });
    }
    // SAFETY: the structure is as large as this version's.
    let info = unsafe { &*info };
    // SAFETY: as this function's.
    let made = unsafe { load(info) }?;
    *delegate = handle::keep(made);
    if let Some(release) = info.payload.release {
        // SAFETY: the caller gave them together, and this is the only call.
        unsafe { release(info.payload.owner) }
    }
    Ok(())
}

/// # Safety
/// What `info` describes is there.
unsafe fn load(info: &EtvkCreateInfo) -> Result<Delegate, Error> {
    let method = match info.method_name.is_null() {
        true => None,
        // SAFETY: as this function's.
        false => Some(unsafe { text::read("method_name", info.method_name) }?.to_owned()),
    };
    // SAFETY: as this function's.
    let bytes = unsafe { slice("payload.data", info.payload.data.cast::<u8>(), info.payload.len) }?;
    // SAFETY: as this function's.
    unsafe { check_compile_specs(info) }?;
    // SAFETY: as this function's.
    let specs = unsafe { slice("runtime_specs", info.runtime_specs, info.runtime_spec_count) }?;
    // SAFETY: as this function's.
    let options = unsafe { Options::with(specs) }?;
    // SAFETY: as this function's.
    let named = unsafe { Named::new(info.named_data) };
    fault::at(Point::Load)?;
    let failed = |source: EngineError| match named.as_ref().and_then(Named::failure) {
        Some(failure) => failure,
        None => Error::Load { method: method.clone(), source: source.into() },
    };
    let payload = Payload::parse(bytes).map_err(|error| failed(error.into()))?;
    let context = device::runtime(&options.place).context()?;
    let load = LoadOptions {
        named: named.as_ref().map(|named| named as &dyn NamedData),
        timestamps: options.profile,
        // The number of values comes with the first call.
        surplus: Surplus::Unknown,
        ..LoadOptions::default()
    };
    let executor = Executor::load(&context, &payload, load).map_err(|error| {
        if matches!(error, EngineError::Device(etvk::DeviceError::DeviceLost)) {
            device::forget(&options.place);
        }
        failed(error)
    })?;
    fault::at(Point::Loaded)?;
    let operators = options.profile.then(|| Operators::new(payload.graph()));
    tracing::debug!(target: "etvk::capi", method, bytes = bytes.len(), "delegate created");
    let constants = Constants::new(info.named_data.context.addr(), method, bytes, payload.graph());
    Ok(Delegate::new(executor, options.place, operators, constants))
}

/// # Safety
/// What `info` describes is there.
unsafe fn check_compile_specs(info: &EtvkCreateInfo) -> Result<(), Error> {
    // SAFETY: as this function's.
    let specs = unsafe { slice("compile_specs", info.compile_specs, info.compile_spec_count) }?;
    for EtvkCompileSpec { key, value, value_len } in specs {
        // SAFETY: as this function's.
        let key = unsafe { text::read("key of a compile spec", *key) }?;
        if value.is_null() && *value_len > 0 {
            return Err(Error::Null { what: "value of a compile spec" });
        }
        match COMPILE_SPECS.iter().find(|(known, _)| *known == key) {
            Some((_, expected)) if expected != value_len => {
                let (key, expected, found) = (key.to_owned(), *expected, *value_len);
                return Err(Error::CompileSpec { key, expected, found });
            }
            _ => {}
        }
    }
    Ok(())
}

/// # Safety
/// As `etvk_check`.
pub(crate) unsafe fn check(
    path: *const c_char,
    visit: EtvkVisitText,
    context: *mut c_void,
) -> Result<(), Error> {
    // SAFETY: as this function's.
    let path = unsafe { text::read("path", path) }?;
    let report = Module::open(path)?.check()?;
    // Operators and backends besides the delegate are the business of the program's runtime.
    let ours = |problem: &Problem| !matches!(problem, Problem::Kernel { .. } | Problem::Backend { .. });
    let mut problems = Vec::new();
    for method in report.methods {
        for problem in method.problems.into_iter().filter(ours) {
            if let Some(visit) = visit {
                let line = text::c_string(&format!("method {}: {problem}", method.name));
                // SAFETY: as this function's; the text lives during the call.
                unsafe { visit(context, line.as_ptr()) }
            }
            problems.push(problem);
        }
    }
    if problems.is_empty() { Ok(()) } else { Err(Error::Problems(problems)) }
}
