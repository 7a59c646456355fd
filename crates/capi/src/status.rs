//! The one table from errors to ExecuTorch's numeric codes.

use std::ffi::CStr;

use etvk::payload::{ConstantFault, PayloadError};
use etvk::{CallFault, DeviceError, EngineError, Fault, Problem};

use crate::abi::EtvkStatus;
use crate::error::Error;

/// The status of every error of this library.
pub(crate) fn of(error: &Error) -> EtvkStatus {
    match error {
        Error::Handle { .. } => EtvkStatus::DelegateInvalidHandle,
        Error::Reentered | Error::Broken => EtvkStatus::InvalidState,
        Error::OptionKey { .. } => EtvkStatus::NotFound,
        Error::Callback { found, .. } => from_callback(*found),
        Error::Problems(problems) => problems.first().map_or(EtvkStatus::Ok, of_problem),
        Error::Load { source, .. } => of_load(source),
        Error::Execute(source) => of_execution(source),
        Error::Library(error) => of_library(error),
        Error::Device(error) => of_device(error),
        Error::SharedBuffer => EtvkStatus::InvalidProgram,
        Error::Panic(_) => EtvkStatus::Internal,
        Error::Null { .. }
        | Error::Utf8 { .. }
        | Error::StructSize { .. }
        | Error::ArgumentCount { .. }
        | Error::Argument { .. }
        | Error::DoubleRange { .. }
        | Error::IntRange { .. }
        | Error::OptionValue { .. }
        | Error::OptionRoom { .. }
        | Error::CompileSpec { .. } => EtvkStatus::InvalidArgument,
    }
}

/// While a payload is loaded, what does not fit is the payload's fault.
fn of_load(error: &EngineError) -> EtvkStatus {
    match error {
        EngineError::Unsupported(faults) if faults.iter().any(unknown) => EtvkStatus::OperatorMissing,
        EngineError::Payload(error) => of_payload(error),
        EngineError::Device(error) => of_device(error),
        EngineError::TooLarge { .. } => EtvkStatus::NotSupported,
        _ => EtvkStatus::DelegateInvalidCompatibility,
    }
}

/// While it executes, what does not fit is the arguments' fault.
fn of_execution(error: &EngineError) -> EtvkStatus {
    match error {
        EngineError::Device(error) => of_device(error),
        EngineError::TooLarge { .. } => EtvkStatus::NotSupported,
        EngineError::Payload(error) => of_payload(error),
        _ => EtvkStatus::InvalidArgument,
    }
}

fn of_payload(error: &PayloadError) -> EtvkStatus {
    match error {
        PayloadError::Constant {
            fault: ConstantFault::Key { .. } | ConstantFault::NoNamedData { .. },
            ..
        } => EtvkStatus::NotFound,
        _ => EtvkStatus::DelegateInvalidCompatibility,
    }
}

fn of_device(error: &DeviceError) -> EtvkStatus {
    match error {
        DeviceError::LoaderMissing { .. }
        | DeviceError::NoDevice { .. }
        | DeviceError::VersionTooOld { .. }
        | DeviceError::LayerMissing { .. }
        | DeviceError::LimitExceeded { .. }
        | DeviceError::Unsupported { .. } => EtvkStatus::NotSupported,
        DeviceError::OutOfDeviceMemory { .. } => EtvkStatus::DelegateMemoryAllocationFailed,
        DeviceError::OutOfHostMemory { .. } => EtvkStatus::MemoryAllocationFailed,
        _ => EtvkStatus::Internal,
    }
}

fn of_library(error: &etvk::Error) -> EtvkStatus {
    match error {
        etvk::Error::Device(error) => of_device(error),
        etvk::Error::File { source: etvk::FileError::Open { .. }, .. } => EtvkStatus::AccessFailed,
        etvk::Error::File { .. } | etvk::Error::Program(_) | etvk::Error::FileKind { .. } => {
            EtvkStatus::InvalidProgram
        }
        etvk::Error::DuplicateKey { .. } => EtvkStatus::InvalidExternalData,
        _ => EtvkStatus::Internal,
    }
}

fn of_problem(problem: &Problem) -> EtvkStatus {
    match problem {
        Problem::Payload { source, .. } => of_payload(source),
        Problem::Graph { source, .. } => of_load(source),
        Problem::Call { fault, .. } if unknown(fault) => EtvkStatus::OperatorMissing,
        Problem::Call { .. } => EtvkStatus::DelegateInvalidCompatibility,
        Problem::ArgumentCount { .. } | Problem::Argument { .. } => EtvkStatus::InvalidArgument,
        _ => EtvkStatus::InvalidProgram,
    }
}

fn unknown(fault: &CallFault) -> bool {
    fault.fault == Fault::UnknownOperator
}

/// Every status with its name.
const NAMES: [(EtvkStatus, &CStr); 21] = [
    (EtvkStatus::Ok, c"OK"),
    (EtvkStatus::Internal, c"INTERNAL"),
    (EtvkStatus::InvalidState, c"INVALID_STATE"),
    (EtvkStatus::EndOfMethod, c"END_OF_METHOD"),
    (EtvkStatus::AlreadyLoaded, c"ALREADY_LOADED"),
    (EtvkStatus::NotSupported, c"NOT_SUPPORTED"),
    (EtvkStatus::NotImplemented, c"NOT_IMPLEMENTED"),
    (EtvkStatus::InvalidArgument, c"INVALID_ARGUMENT"),
    (EtvkStatus::InvalidType, c"INVALID_TYPE"),
    (EtvkStatus::OperatorMissing, c"OPERATOR_MISSING"),
    (EtvkStatus::RegistrationExceedingMaxKernels, c"REGISTRATION_EXCEEDING_MAX_KERNELS"),
    (EtvkStatus::RegistrationAlreadyRegistered, c"REGISTRATION_ALREADY_REGISTERED"),
    (EtvkStatus::NotFound, c"NOT_FOUND"),
    (EtvkStatus::MemoryAllocationFailed, c"MEMORY_ALLOCATION_FAILED"),
    (EtvkStatus::AccessFailed, c"ACCESS_FAILED"),
    (EtvkStatus::InvalidProgram, c"INVALID_PROGRAM"),
    (EtvkStatus::InvalidExternalData, c"INVALID_EXTERNAL_DATA"),
    (EtvkStatus::OutOfResources, c"OUT_OF_RESOURCES"),
    (EtvkStatus::DelegateInvalidCompatibility, c"DELEGATE_INVALID_COMPATIBILITY"),
    (EtvkStatus::DelegateMemoryAllocationFailed, c"DELEGATE_MEMORY_ALLOCATION_FAILED"),
    (EtvkStatus::DelegateInvalidHandle, c"DELEGATE_INVALID_HANDLE"),
];

/// The name of a number that may be a status.
pub(crate) fn name(status: u32) -> &'static CStr {
    NAMES.iter().find(|(known, _)| *known as u32 == status).map_or(c"UNKNOWN", |(_, name)| name)
}

/// The status of a callback that did not return OK.
fn from_callback(found: u32) -> EtvkStatus {
    let known = NAMES.iter().map(|(status, _)| *status).find(|status| *status as u32 == found);
    known.filter(|status| *status != EtvkStatus::Ok).unwrap_or(EtvkStatus::Internal)
}
