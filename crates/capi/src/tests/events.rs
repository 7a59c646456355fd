//! The events of an execution.

use std::ffi::{CStr, c_char, c_void};

use super::mixed::{given, source};
use super::support::{Arg, Args, OK, Texts};
use crate::abi::*;

#[derive(Default)]
struct Seen {
    blocks: Vec<String>,
    dispatches: Vec<(String, u64, u64)>,
}

unsafe fn seen<'a>(context: *mut c_void) -> &'a mut Seen {
    unsafe { &mut *context.cast() }
}

fn text(name: *const c_char) -> String {
    unsafe { CStr::from_ptr(name) }.to_str().unwrap().to_owned()
}

unsafe extern "C" fn start(context: *mut c_void, name: *const c_char) {
    unsafe { seen(context) }.blocks.push(format!("+{}", text(name)));
}

unsafe extern "C" fn end(context: *mut c_void, name: *const c_char) {
    unsafe { seen(context) }.blocks.push(format!("-{}", text(name)));
}

unsafe extern "C" fn log(context: *mut c_void, name: *const c_char, from: u64, to: u64) {
    unsafe { seen(context) }.dispatches.push((text(name), from, to));
}

fn events(seen: &mut Seen) -> EtvkEvents {
    EtvkEvents {
        context: std::ptr::from_mut(seen).cast(),
        start: Some(start),
        end: Some(end),
        log: Some(log),
    }
}

const WHOLE: [&str; 10] = [
    "+ETVK_EXECUTE",
    "+ETVK_COPY_INPUTS",
    "-ETVK_COPY_INPUTS",
    "+ETVK_RESIZE",
    "-ETVK_RESIZE",
    "+ETVK_COMPUTE_GRAPH_EXECUTE",
    "-ETVK_COMPUTE_GRAPH_EXECUTE",
    "+ETVK_COPY_OUTPUTS",
    "-ETVK_COPY_OUTPUTS",
    "-ETVK_EXECUTE",
];

#[test]
fn blocks_nest_and_dispatches_are_timed() {
    let (mut source, mut texts) = (source(), Texts::new());
    source.options = vec![texts.bool("profile", true)];
    let handle = source.create().unwrap();
    let mut first = Seen::default();
    assert_eq!(Args::new(given()).execute(handle.0, &events(&mut first)), OK);
    assert_eq!(first.blocks, WHOLE);
    let mut second = Seen::default();
    assert_eq!(Args::new(given()).execute(handle.0, &events(&mut second)), OK);
    let unchanged: Vec<&str> = WHOLE.into_iter().filter(|name| !name.ends_with("RESIZE")).collect();
    assert_eq!(second.blocks, unchanged);

    let names: Vec<serde_json::Value> =
        first.dispatches.iter().map(|(name, ..)| serde_json::from_str(name).unwrap()).collect();
    assert_eq!(names.len(), 2);
    assert_eq!(names[0]["operator"]["name"], "aten.add.Tensor");
    assert_eq!(names[0]["operator"]["args"][0]["sizes"], serde_json::json!([4, 3]));
    assert_eq!(names[1]["dispatch_id"], 1);
    assert!(names.iter().all(|name| name["kernel_name"].as_str().is_some_and(|kernel| !kernel.is_empty())));
    assert!(first.dispatches.is_sorted_by(|a, b| a.1 <= a.2 && a.2 == b.1));
}

#[test]
fn without_profile_there_are_no_dispatches() {
    let handle = source().create().unwrap();
    let mut seen = Seen::default();
    assert_eq!(Args::new(given()).execute(handle.0, &events(&mut seen)), OK);
    assert!(seen.dispatches.is_empty());
    let none = EtvkEvents { start: None, end: None, log: None, ..events(&mut seen) };
    assert_eq!(Args::new(given()).execute(handle.0, &none), OK);
}

#[test]
fn what_starts_ends_also_when_it_fails() {
    let handle = source().create().unwrap();
    let bad: [fn(&mut Vec<Arg>); 3] = [
        |given| given.truncate(5),
        |given| given[2] = Arg::Int(1 << 40),
        |given| match &mut given[3] {
            Arg::Tensor(tensor) => tensor.resize = (0x10, false),
            Arg::Int(_) => {}
        },
    ];
    for spoil in bad {
        let (mut given, mut seen) = (given(), Seen::default());
        spoil(&mut given);
        assert_ne!(Args::new(given).execute(handle.0, &events(&mut seen)), OK);
        let mut open = Vec::new();
        for event in &seen.blocks {
            match event.strip_prefix('+') {
                Some(name) => open.push(name),
                None => assert_eq!(open.pop(), event.strip_prefix('-')),
            }
        }
        assert!(open.is_empty() && !seen.blocks.is_empty(), "{:?}", seen.blocks);
    }
}
