//! Everything that can be wrong when a delegate is made. Each fault gives the documented status, and leaves nothing behind
//! that would keep a good delegate from being made.

use std::ffi::c_char;
use std::ptr::{null, null_mut};

use etvk_vkgraph::{DType, GraphBuilder};

use super::mixed::{assert_works, source};
use super::support::{Source, Texts, create, last_error};
use crate::abi::*;
use crate::api::*;
use crate::fault::{self, Fault, Point};

const NOT_UTF8: &[u8] = b"\xff\xfe\0";

fn not_utf8() -> *const c_char {
    NOT_UTF8.as_ptr().cast()
}

/// Name, what is done to a good source, what is done to a good structure, status.
type Case = (String, Box<dyn Fn(&mut Source, &mut Texts)>, Box<dyn Fn(&mut EtvkCreateInfo)>, EtvkStatus);

fn info(name: &str, change: impl Fn(&mut EtvkCreateInfo) + 'static, status: EtvkStatus) -> Case {
    (name.to_owned(), Box::new(|_, _| ()), Box::new(change), status)
}

fn from(name: String, change: impl Fn(&mut Source, &mut Texts) + 'static, status: EtvkStatus) -> Case {
    (name, Box::new(change), Box::new(|_| ()), status)
}

fn structures() -> Vec<Case> {
    use EtvkStatus::*;
    let size = size_of::<EtvkCreateInfo>();
    let mut cases = vec![
        info("payload null", |info| info.payload.data = null(), InvalidArgument),
        info("payload empty", |info| info.payload.len = 0, DelegateInvalidCompatibility),
        info(
            "specs null",
            |info| (info.compile_specs, info.compile_spec_count) = (null(), 1),
            InvalidArgument,
        ),
        info(
            "options null",
            |info| (info.runtime_specs, info.runtime_spec_count) = (null(), 2),
            InvalidArgument,
        ),
        info("method name", |info| info.method_name = not_utf8(), InvalidArgument),
        info("no named data", |info| info.named_data.get = None, NotFound),
    ];
    for found in [0, 1, size - 8, size - 1] {
        cases.push(info(
            &format!("struct_size {found}"),
            move |info| info.struct_size = found,
            InvalidArgument,
        ));
    }
    cases
}

fn specs() -> Vec<Case> {
    use EtvkStatus::*;
    let spec = |key: &str, value_len: usize, texts: &mut Texts| EtvkCompileSpec {
        key: texts.pointer(key),
        value: [0u8; 16].as_ptr().cast(),
        value_len,
    };
    let mut cases = Vec::new();
    for (key, right) in [
        ("storage_type_override", 4),
        ("memory_layout_override", 4),
        ("require_dynamic_shapes", 1),
        ("warmup_execute_after_compile", 1),
    ] {
        for len in [0, 1, 2, 4, 8].into_iter().filter(|len| *len != right) {
            let name = format!("{key} of {len} bytes");
            cases.push(from(name, move |s, t| s.specs = vec![spec(key, len, t)], InvalidArgument));
        }
    }
    let value = [0u8; 4].as_ptr();
    for (name, key, value, value_len) in [
        ("null key", null(), value, 0),
        ("bad key", not_utf8(), value, 0),
        ("null value", c"x".as_ptr(), null(), 4),
    ] {
        let bad = EtvkCompileSpec { key, value: value.cast(), value_len };
        cases.push(from(format!("spec with {name}"), move |s, _| s.specs = vec![bad], InvalidArgument));
    }
    cases
}

fn options() -> Vec<Case> {
    use EtvkStatus::*;
    let mut cases = Vec::new();
    let mut add = |name: &str, make: fn(&mut Texts) -> EtvkOption, status| {
        cases.push(from(format!("option {name}"), move |s, t| s.options = vec![make(t)], status));
    };
    add("device by a name that no device has", |t| t.text("device", "no such device"), NotSupported);
    add("device by an index in words", |t| t.text("device", "99"), NotSupported);
    add("device by an index", |t| t.int("device", 99), NotSupported);
    add("device -1", |t| t.int("device", -1), InvalidArgument);
    add("device 2^40", |t| t.int("device", 1 << 40), InvalidArgument);
    add("device as bool", |t| t.bool("device", true), InvalidArgument);
    add("device too long", |t| t.text("device", &"x".repeat(ETVK_OPTION_TEXT)), InvalidArgument);
    add("path as int", |t| t.int("pipeline_cache_path", 1), InvalidArgument);
    add("path as bool", |t| t.bool("pipeline_cache_path", true), InvalidArgument);
    add("path too long", |t| t.text("pipeline_cache_path", &"x".repeat(5000)), InvalidArgument);
    add("profile as int", |t| t.int("profile", 1), InvalidArgument);
    add("profile as text", |t| t.text("profile", "true"), InvalidArgument);
    add("profile 2", |t| EtvkOption { int_value: 2, ..t.bool("profile", true) }, InvalidArgument);
    add("budget as text", |t| t.text("submit_budget_us", "1000"), InvalidArgument);
    add("budget as bool", |t| t.bool("submit_budget_us", true), InvalidArgument);
    add("budget -1", |t| t.int("submit_budget_us", -1), InvalidArgument);
    add("budget 2^32", |t| t.int("submit_budget_us", 1 << 32), InvalidArgument);
    add("kind 0", |t| EtvkOption { kind: 0, ..t.text("device", "") }, InvalidArgument);
    add("kind 9", |t| EtvkOption { kind: 9, ..t.text("device", "") }, InvalidArgument);
    add("null key", |t| EtvkOption { key: null(), ..t.text("device", "") }, InvalidArgument);
    add("bad key", |t| EtvkOption { key: not_utf8(), ..t.text("device", "") }, InvalidArgument);
    add("null text", |t| EtvkOption { text_value: null(), ..t.text("device", "") }, InvalidArgument);
    add("bad text", |t| EtvkOption { text_value: not_utf8(), ..t.text("device", "") }, InvalidArgument);
    cases
}

fn named() -> Vec<Case> {
    use EtvkStatus::*;
    let mut cases = vec![
        from("missing constant".into(), |s, _| s.names.blobs.clear(), NotFound),
        from("other key".into(), |s, _| s.names.blobs[0].0.replace_range(..1, "x"), NotFound),
    ];
    for less in [1, 4, 11, 12] {
        let change = move |s: &mut Source, _: &mut Texts| s.names.short = Some((0, less));
        cases.push(from(format!("constant short by {less}"), change, DelegateInvalidCompatibility));
    }
    for status in [
        Internal,
        InvalidState,
        NotSupported,
        NotImplemented,
        InvalidArgument,
        InvalidType,
        NotFound,
        MemoryAllocationFailed,
        AccessFailed,
        InvalidProgram,
        InvalidExternalData,
        OutOfResources,
        DelegateMemoryAllocationFailed,
    ] {
        let change = move |s: &mut Source, _: &mut Texts| s.names.fail = Some((0, status as u32));
        cases.push(from(format!("named data fails with {status:?}"), change, status));
    }
    for unknown in [5, 0x99, u32::MAX] {
        let change = move |s: &mut Source, _: &mut Texts| s.names.fail = Some((0, unknown));
        cases.push(from(format!("named data fails with {unknown}"), change, Internal));
    }
    cases
}

fn payloads() -> Vec<Case> {
    use EtvkStatus::*;
    let mut cases = Vec::new();
    let length = source().payload.len();
    for keep in [1, 3, 4, 8, 15, 29, 30, 31, 40, 64, length / 2, length - 64] {
        let change = move |s: &mut Source, _: &mut Texts| s.payload.truncate(keep);
        cases.push(from(format!("payload cut to {keep}"), change, DelegateInvalidCompatibility));
    }
    // Magic, header size, offset and size of the FlatBuffer, its root and identifier.
    for (at, byte) in [(4, b'X'), (7, b'9'), (8, 1), (13, 0xff), (17, 0xff), (10, 200)] {
        let change = move |s: &mut Source, _: &mut Texts| s.payload[at] = byte;
        cases.push(from(format!("payload byte {at} changed"), change, DelegateInvalidCompatibility));
    }
    for zeroed in [0..length, 8..30, 32..length] {
        let name = format!("payload bytes {zeroed:?} zeroed");
        let change = move |s: &mut Source, _: &mut Texts| s.payload[zeroed.clone()].fill(0);
        cases.push(from(name, change, DelegateInvalidCompatibility));
    }
    cases
}

type Build = fn(&mut GraphBuilder);

fn graphs() -> Vec<Case> {
    use EtvkStatus::*;
    let builds: [(&str, Build, EtvkStatus); 6] = [
        ("unknown operator", |b| chain(b, "aten.no_such_operator.default", 1), OperatorMissing),
        ("empty operator name", |b| chain(b, "", 1), DelegateInvalidCompatibility),
        ("too few operands", |b| chain(b, "aten.add.Tensor", 1), DelegateInvalidCompatibility),
        ("too many operands", |b| chain(b, "aten.relu.default", 5), DelegateInvalidCompatibility),
        (
            "output that nothing writes",
            |b| {
                let y = b.tensor(DType::Float32, &[2]);
                b.outputs(&[y]);
            },
            DelegateInvalidCompatibility,
        ),
        (
            "tensors larger than any device binds",
            |b| {
                let x = b.input(DType::Float32, &[1 << 16, 1 << 15]);
                let y = b.tensor(DType::Float32, &[1 << 16, 1 << 15]);
                b.call("aten.relu.default", &[x, y]);
                b.outputs(&[y]);
            },
            NotSupported,
        ),
    ];
    let case = |(name, build, status): (&str, Build, EtvkStatus)| {
        let change = move |s: &mut Source, _: &mut Texts| {
            let mut builder = GraphBuilder::new();
            build(&mut builder);
            s.payload = builder.finish();
        };
        from(format!("graph with {name}"), change, status)
    };
    builds.into_iter().map(case).collect()
}

fn chain(builder: &mut GraphBuilder, name: &str, operands: usize) {
    let x = builder.input(DType::Float32, &[2]);
    let y = builder.tensor(DType::Float32, &[2]);
    let mut ids = vec![x; operands];
    ids.push(y);
    builder.call(name, &ids);
    builder.outputs(&[y]);
}

#[test]
fn each_fault_has_its_status() {
    let cases: Vec<Case> =
        [structures(), specs(), options(), named(), payloads(), graphs()].into_iter().flatten().collect();
    assert!(cases.len() >= 90, "{}", cases.len());
    for (name, change_source, change_info, want) in cases {
        let (mut source, mut texts) = (source(), Texts::new());
        change_source(&mut source, &mut texts);
        let mut info = source.info();
        change_info(&mut info);
        // It must not be touched when creation fails.
        unsafe extern "C" fn released(_: *mut std::ffi::c_void) {
            std::process::abort();
        }
        info.payload.release = Some(released);
        match create(&info) {
            Ok(_) => panic!("{name}: created"),
            Err(found) => assert_eq!(found, want, "{name}: {}", last_error()),
        }
        assert_eq!(source.names.given, source.names.released, "{name}");
    }
    assert_works(&source().create().unwrap());
}

#[test]
fn null_structures() {
    let mut handle = null_mut();
    assert_eq!(unsafe { etvk_delegate_create(null(), &mut handle) }, EtvkStatus::InvalidArgument);
    let mut source = source();
    let info = source.info();
    assert_eq!(unsafe { etvk_delegate_create(&info, null_mut()) }, EtvkStatus::InvalidArgument);
}

#[test]
fn forced_faults() {
    for point in [Point::Load, Point::Loaded] {
        for (fault, want) in [
            (Fault::Panic, EtvkStatus::Internal),
            (Fault::DeviceMemory, EtvkStatus::DelegateMemoryAllocationFailed),
            (Fault::HostMemory, EtvkStatus::MemoryAllocationFailed),
            (Fault::DeviceLost, EtvkStatus::Internal),
            (Fault::Unsupported, EtvkStatus::NotSupported),
        ] {
            fault::force(point, fault);
            assert_eq!(source().create().err(), Some(want), "{point:?} {fault:?}: {}", last_error());
        }
    }
    assert_works(&source().create().unwrap());
}

#[test]
fn unknown_options_and_specs_do_not_matter() {
    let (mut source, mut texts) = (source(), Texts::new());
    source.options =
        vec![texts.int("from_another_version", 3), texts.bool("profile", false), texts.int("device", 0)];
    source.specs = vec![EtvkCompileSpec {
        key: texts.pointer("force_fp16"),
        value: [1u8].as_ptr().cast(),
        value_len: 1,
    }];
    assert_works(&source.create().unwrap());
    source.options = vec![texts.int("submit_budget_us", 1)];
    assert_works(&source.create().unwrap());
}
