//! Options, devices, files, logs: what is refused and what works.

use std::ffi::{CStr, CString, c_char, c_void};
use std::path::Path;
use std::ptr::{null, null_mut};
use std::sync::Mutex;

use super::support::{OK, Texts, last_error};
use crate::abi::*;
use crate::api::*;

/// Options and the log are the process's.
static PROCESS: Mutex<()> = Mutex::new(());

fn set(options: &[EtvkOption]) -> EtvkStatus {
    unsafe { etvk_option_set(options.as_ptr(), options.len()) }
}

fn get(key: *const c_char, capacity: usize) -> (EtvkStatus, EtvkOption, String) {
    let mut option = EtvkOption { key, kind: 0, int_value: -7, text_value: null() };
    let mut text = vec![0u8; capacity];
    let status = unsafe { etvk_option_get(&mut option, text.as_mut_ptr().cast(), capacity) };
    let text = CStr::from_bytes_until_nul(&text).map(|text| text.to_str().unwrap().to_owned());
    (status, option, text.unwrap_or_default())
}

#[test]
fn options_are_set_together_or_not_at_all() {
    let _guard = PROCESS.lock().unwrap();
    let mut t = Texts::new();
    let good = [t.bool("profile", true), t.int("submit_budget_us", 123_456)];
    assert_eq!(set(&good), OK, "{}", last_error());
    let (status, option, _) = get(c"profile".as_ptr(), 0);
    assert_eq!((status, option.kind, option.int_value), (OK, EtvkOptionKind::Bool as u32, 1));
    for (bad, want) in [
        (t.int("profile", 1), EtvkStatus::InvalidArgument),
        (t.text("submit_budget_us", ""), EtvkStatus::InvalidArgument),
        (t.int("pipeline_cache_path", 0), EtvkStatus::InvalidArgument),
        (t.bool("device", false), EtvkStatus::InvalidArgument),
        (t.int("device", -5), EtvkStatus::InvalidArgument),
        (t.int("warm", 1), EtvkStatus::NotFound),
        (t.text("", ""), EtvkStatus::NotFound),
        (EtvkOption { key: null(), ..good[0] }, EtvkStatus::InvalidArgument),
    ] {
        assert_eq!(set(&[t.int("submit_budget_us", 1), bad]), want, "{}", last_error());
        let (status, option, _) = get(c"submit_budget_us".as_ptr(), 0);
        assert_eq!((status, option.kind, option.int_value), (OK, EtvkOptionKind::Int as u32, 123_456));
    }
    assert_eq!(unsafe { etvk_option_set(null(), 1) }, EtvkStatus::InvalidArgument);
    assert_eq!(unsafe { etvk_option_set(null(), 0) }, OK);
    assert_eq!(set(&[t.bool("profile", false), t.int("submit_budget_us", 0)]), OK);
}

#[test]
fn texts_of_options_need_room() {
    let _guard = PROCESS.lock().unwrap();
    let mut t = Texts::new();
    assert_eq!(set(&[t.text("pipeline_cache_path", "never/written")]), OK);
    let (status, option, text) = get(c"pipeline_cache_path".as_ptr(), ETVK_OPTION_TEXT);
    assert_eq!((status, option.kind, text.as_str()), (OK, EtvkOptionKind::Text as u32, "never/written"));
    assert_eq!(get(c"pipeline_cache_path".as_ptr(), 13).0, EtvkStatus::InvalidArgument);
    assert_eq!(get(c"pipeline_cache_path".as_ptr(), 14).0, OK);
    assert_eq!(get(c"other".as_ptr(), 99).0, EtvkStatus::NotFound);
    assert_eq!(get(null(), 99).0, EtvkStatus::InvalidArgument);
    assert_eq!(get(c"\xff".as_ptr(), 99).0, EtvkStatus::InvalidArgument);
    assert_eq!(unsafe { etvk_option_get(null_mut(), null_mut(), 0) }, EtvkStatus::InvalidArgument);
    let mut option = t.text("pipeline_cache_path", "");
    assert_eq!(unsafe { etvk_option_get(&mut option, null_mut(), 99) }, EtvkStatus::InvalidArgument);
    assert_eq!(set(&[t.text("pipeline_cache_path", "")]), OK);
}

#[test]
fn devices_are_listed_and_found() {
    unsafe extern "C" fn visit(context: *mut c_void, device: *const EtvkDeviceInfo) {
        let device = unsafe { &*device };
        let name = unsafe { CStr::from_ptr(device.name) }.to_str().unwrap().to_owned();
        unsafe { &mut *context.cast::<Vec<(u32, String)>>() }.push((device.index, name));
    }
    let mut devices: Vec<(u32, String)> = Vec::new();
    assert_eq!(unsafe { etvk_devices(Some(visit), (&raw mut devices).cast()) }, OK);
    assert!(!devices.is_empty());
    let name = CString::new(devices[0].1.to_uppercase()).unwrap();
    for device in [null(), c"".as_ptr(), c"0".as_ptr(), name.as_ptr()] {
        assert_eq!(unsafe { etvk_available(device) }, OK, "{}", last_error());
    }
    for device in [c"no such device", c"77"] {
        assert_eq!(unsafe { etvk_available(device.as_ptr()) }, EtvkStatus::NotSupported);
        assert!(last_error().contains(&devices[0].1), "{}", last_error());
    }
    assert_eq!(unsafe { etvk_available(c"\xff".as_ptr()) }, EtvkStatus::InvalidArgument);
    assert_eq!(unsafe { etvk_devices(None, null_mut()) }, EtvkStatus::InvalidArgument);
}

#[test]
fn files_are_checked() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures");
    let check = |path: &Path| {
        let path = CString::new(path.to_str().unwrap()).unwrap();
        unsafe { etvk_check(path.as_ptr(), None, null_mut()) }
    };
    assert_eq!(check(&fixtures.join("models/gemma4_tiny_4w_fp16.pte")), OK, "{}", last_error());
    assert_eq!(check(&fixtures.join("none.pte")), EtvkStatus::AccessFailed);
    assert_eq!(check(&fixtures.join("manifest.json")), EtvkStatus::InvalidProgram);
    let external = "format/external_constants_one_fp32.vulkan_constants_\
                    02d62094ece6471c83bd8fc0c1fee545e698c0d6d86459bdf2e71859cc7d9d17.ptd";
    assert_eq!(check(&fixtures.join(external)), EtvkStatus::InvalidProgram);
    assert_eq!(unsafe { etvk_check(null(), None, null_mut()) }, EtvkStatus::InvalidArgument);
    // Its constants are in another file.
    assert_eq!(check(&fixtures.join("format/external_constants_one_fp32.pte")), EtvkStatus::NotFound);
}

#[test]
fn failures_are_logged() {
    static LINES: Mutex<Vec<(u32, String)>> = Mutex::new(Vec::new());
    unsafe extern "C" fn log(context: *mut c_void, level: u32, message: *const c_char) {
        assert!(context.is_null());
        let message = unsafe { CStr::from_ptr(message) }.to_str().unwrap().to_owned();
        LINES.lock().unwrap().push((level, message));
    }
    let _guard = PROCESS.lock().unwrap();
    etvk_set_log(Some(log), null_mut(), EtvkLogLevel::Error as u32);
    assert_eq!(unsafe { etvk_available(c"a device of this test".as_ptr()) }, EtvkStatus::NotSupported);
    etvk_set_log(None, null_mut(), 0);
    assert_eq!(unsafe { etvk_available(c"after this test".as_ptr()) }, EtvkStatus::NotSupported);
    let lines = LINES.lock().unwrap();
    let told = |text: &str| lines.iter().any(|(level, line)| *level == 1 && line.contains(text));
    assert!(told("a device of this test") && !told("after this test"), "{lines:?}");
}

#[test]
fn names_and_versions() {
    let name = |status| unsafe { CStr::from_ptr(etvk_status_name(status)) }.to_str().unwrap();
    assert_eq!((name(0x31), name(0x12)), ("DELEGATE_MEMORY_ALLOCATION_FAILED", "INVALID_ARGUMENT"));
    assert_eq!((name(5), name(u32::MAX)), ("UNKNOWN", "UNKNOWN"));
    assert_eq!(etvk_abi_version(), ETVK_ABI_VERSION);
    let version = unsafe { CStr::from_ptr(etvk_version()) };
    assert_eq!(version.to_str().unwrap(), env!("CARGO_PKG_VERSION"));
}
