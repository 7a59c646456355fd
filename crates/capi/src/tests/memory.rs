//! What is made is freed.

use super::fixtures;
use super::mixed;
use super::support::{OK, Texts};
use crate::abi::EtvkStatus;
use crate::api::etvk_shutdown;
use crate::device;
use crate::option::Place;

/// Budgets of devices that only one test uses, so that nobody else allocates there.
fn place(submit_budget_us: u32) -> Place {
    Place { submit_budget_us, ..Place::default() }
}

#[test]
fn two_hundred_loads_leave_no_device_memory() {
    let place = place(777_000);
    let mut texts = Texts::new();
    let fixture = fixtures::one("llama_tiny_4w_fp32");
    let mut source = fixture.source();
    source.options = vec![texts.int("submit_budget_us", place.submit_budget_us.into())];
    let mut mixed = mixed::source();
    mixed.options.clone_from(&source.options);
    drop(source.create().unwrap());
    let allocated = || device::runtime(&place).opened().unwrap().allocated_bytes();
    assert_eq!(allocated(), 0);
    for turn in 0..200 {
        if turn % 10 == 0 {
            let handle = source.create().unwrap();
            assert!(allocated() > 0);
            fixture.execute(&handle, &fixture.runs[0]);
        } else {
            mixed::assert_works(&mixed.create().unwrap());
        }
        assert_eq!(allocated(), 0, "after {turn} loads");
    }
}

#[test]
fn failed_loads_leave_no_device_memory() {
    let place = place(778_000);
    let mut texts = Texts::new();
    let mut source = mixed::source();
    source.options = vec![texts.int("submit_budget_us", place.submit_budget_us.into())];
    source.names.short = Some((0, 4));
    assert_eq!(source.create().err(), Some(EtvkStatus::DelegateInvalidCompatibility));
    assert_eq!(device::runtime(&place).opened().unwrap().allocated_bytes(), 0);
}

#[test]
fn shutdown_closes_what_nobody_uses() {
    let place = place(779_000);
    let mut texts = Texts::new();
    let mut source = mixed::source();
    source.options = vec![texts.int("submit_budget_us", place.submit_budget_us.into())];
    let handle = source.create().unwrap();
    assert_eq!(etvk_shutdown(), OK);
    mixed::assert_works(&handle);
    assert!(device::runtime(&place).opened().is_some());
    drop(handle);
    assert_eq!(etvk_shutdown(), OK);
    assert!(device::runtime(&place).opened().is_none());
    mixed::assert_works(&source.create().unwrap());
}

#[test]
fn pipelines_are_written_when_a_delegate_goes() {
    let path = std::env::temp_dir().join(format!("etvk-capi-{}.pipelines", std::process::id()));
    let mut texts = Texts::new();
    let mut source = mixed::source();
    source.options = vec![texts.text("pipeline_cache_path", path.to_str().unwrap())];
    let handle = source.create().unwrap();
    mixed::assert_works(&handle);
    drop(handle);
    let written = std::fs::metadata(&path).unwrap().len();
    std::fs::remove_file(&path).unwrap();
    assert!(written > 0);
}
