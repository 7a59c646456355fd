//! The devices of the process.

use std::ffi::{c_char, c_void};
use std::num::NonZeroU32;
use std::sync::{Mutex, PoisonError};

use etvk::{DeviceChoice, DeviceKind, DeviceOptions, Runtime};

use crate::abi::{EtvkDeviceInfo, EtvkDeviceKind, EtvkVisitDevice};
use crate::error::Error;
use crate::option::{self, Place};
use crate::{handle, text};

/// How long a dispatch is taken for when a time has to become a number of dispatches.
const MICROSECONDS_PER_DISPATCH: u32 = 50;

static DEVICES: Mutex<Vec<(Place, Runtime)>> = Mutex::new(Vec::new());

fn devices() -> std::sync::MutexGuard<'static, Vec<(Place, Runtime)>> {
    DEVICES.lock().unwrap_or_else(PoisonError::into_inner)
}

fn choice(device: &str) -> DeviceChoice {
    match device.parse() {
        _ if device.is_empty() => DeviceChoice::Best,
        Ok(index) => DeviceChoice::Index(index),
        Err(_) => DeviceChoice::Name(device.to_owned()),
    }
}

/// Where the delegates of `place` run. Opens nothing.
pub(crate) fn runtime(place: &Place) -> Runtime {
    let mut known = devices();
    if let Some((_, runtime)) = known.iter().find(|(other, _)| other == place) {
        return runtime.clone();
    }
    let budget = place.submit_budget_us;
    let runtime = Runtime::new(DeviceOptions {
        choice: choice(&place.device),
        pipeline_cache: (!place.pipeline_cache_path.is_empty()).then(|| (&place.pipeline_cache_path).into()),
        max_dispatches_per_submit: match budget {
            0 => None,
            _ => NonZeroU32::new((budget / MICROSECONDS_PER_DISPATCH).max(1)),
        },
        ..DeviceOptions::default()
    });
    known.push((place.clone(), runtime.clone()));
    runtime
}

/// Forgets a device that does not work any more, so that the next delegate opens it again.
pub(crate) fn forget(place: &Place) {
    devices().retain(|(other, _)| other != place);
}

/// Closes the devices that no delegate uses.
pub(crate) fn shutdown() -> Result<(), Error> {
    let used = handle::places();
    devices().retain(|(place, _)| used.contains(place));
    Ok(())
}

/// # Safety
/// As `etvk_available`.
pub(crate) unsafe fn available(device: *const c_char) -> Result<(), Error> {
    let device = match device.is_null() {
        true => option::current().place.device,
        // SAFETY: as this function's.
        false => unsafe { text::read("device", device) }?.to_owned(),
    };
    let opened =
        devices().iter().any(|(place, runtime)| place.device == device && runtime.opened().is_some());
    if !opened {
        etvk::find_device(&choice(&device))?;
    }
    Ok(())
}

/// # Safety
/// As `etvk_devices`.
pub(crate) unsafe fn visit(visit: EtvkVisitDevice, context: *mut c_void) -> Result<(), Error> {
    let visit = visit.ok_or(Error::Null { what: "visit" })?;
    for device in etvk::devices()? {
        let name = text::c_string(&device.name);
        let kind = match device.kind {
            DeviceKind::Integrated => EtvkDeviceKind::Integrated,
            DeviceKind::Discrete => EtvkDeviceKind::Discrete,
            DeviceKind::Virtual => EtvkDeviceKind::Virtual,
            DeviceKind::Cpu => EtvkDeviceKind::Cpu,
            _ => EtvkDeviceKind::Other,
        };
        let info = EtvkDeviceInfo {
            index: device.index,
            kind: kind as u32,
            vendor_id: device.vendor_id,
            device_id: device.device_id,
            version_major: device.api_version.major,
            version_minor: device.api_version.minor,
            name: name.as_ptr(),
        };
        // SAFETY: as this function's; the structure and its text live during the call.
        unsafe { visit(context, &info) };
    }
    Ok(())
}
