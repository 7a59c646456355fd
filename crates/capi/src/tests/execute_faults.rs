//! Everything that can be wrong with an execution. Each fault gives the documented status, and the delegate goes on working
//! unless the header says otherwise.

use std::cell::Cell;
use std::ffi::c_void;
use std::ptr::{null, null_mut};

use super::mixed::{assert_works, given, source};
use super::support::{Arg, Args, Handle, OK, Tensor, last_error};
use crate::abi::*;
use crate::api::*;
use crate::fault::{self, Fault, Point};

use EtvkStatus::{Internal, InvalidArgument};

/// Name, what is done to good arguments before and after their description, status.
type Case = (String, Box<dyn Fn(&mut Vec<Arg>)>, Box<dyn Fn(&mut Vec<EtvkArg>)>, EtvkStatus);

const TENSORS: [usize; 4] = [0, 1, 3, 4];

fn value(name: String, change: impl Fn(&mut Vec<Arg>) + 'static, status: EtvkStatus) -> Case {
    (name, Box::new(change), Box::new(|_| ()), status)
}

fn raw(name: String, change: impl Fn(&mut Vec<EtvkArg>) + 'static, status: EtvkStatus) -> Case {
    (name, Box::new(|_| ()), Box::new(change), status)
}

fn tags() -> Vec<Case> {
    let mut cases = Vec::new();
    for at in 0..6 {
        for tag in [0, EtvkArgTag::Other as u32, 4, u32::MAX] {
            cases.push(raw(
                format!("argument {at} with tag {tag}"),
                move |a| a[at].tag = tag,
                InvalidArgument,
            ));
        }
    }
    for at in TENSORS {
        let tag = EtvkArgTag::Int as u32;
        cases.push(raw(format!("integer for tensor {at}"), move |a| a[at].tag = tag, InvalidArgument));
    }
    for at in [2, 5] {
        let floats = move |a: &mut Vec<Arg>| a[at] = Tensor::floats(&[1], &[1.0]).into();
        cases.push(value(format!("floats for integer {at}"), floats, InvalidArgument));
        let two = move |a: &mut Vec<Arg>| a[at] = Tensor::longs(&[2], &[1, 2]).into();
        cases.push(value(format!("two integers for integer {at}"), two, InvalidArgument));
        let none = move |a: &mut Vec<Arg>| a[at] = Tensor::longs(&[0], &[]).into();
        cases.push(value(format!("no integers for integer {at}"), none, InvalidArgument));
    }
    cases
}

fn types() -> Vec<Case> {
    let mut cases = Vec::new();
    for at in TENSORS {
        for number in [-1, 2, 8, 9, 10, 12, 15, 27, 30, 99, i32::MIN] {
            let change = move |a: &mut Vec<EtvkArg>| a[at].tensor.scalar_type = number;
            cases.push(raw(format!("argument {at} of scalar type {number}"), change, InvalidArgument));
        }
        for number in [0, 1, 11] {
            let change = move |a: &mut Vec<EtvkArg>| a[at].tensor.scalar_type = number;
            cases.push(raw(format!("argument {at} of bytes of type {number}"), change, InvalidArgument));
        }
    }
    for at in [0, 3] {
        let change = move |a: &mut Vec<EtvkArg>| a[at].tensor.scalar_type = EtvkScalarType::Int as i32;
        cases.push(raw(format!("integers for floats {at}"), change, InvalidArgument));
    }
    for at in [1, 4] {
        let change = move |a: &mut Vec<EtvkArg>| a[at].tensor.scalar_type = EtvkScalarType::Double as i32;
        cases.push(raw(format!("doubles for integers {at}"), change, InvalidArgument));
    }
    cases
}

/// What keeps the callback from making a bad description good again.
fn fixed(mut args: EtvkTensor) -> EtvkTensor {
    args.resize = None;
    args
}

static NEGATIVE: [i32; 2] = [-1, 3];
static HUGE: [i32; 2] = [i32::MAX, i32::MAX];
static FIVE: [i32; 2] = [5, 3];
static FOUR_COLUMNS: [i32; 2] = [2, 4];
static ZEROS: [i32; 17] = [0; 17];
static COLUMNS: [i32; 2] = [1, 2];
static FAR: [i32; 2] = [i32::MAX, 1];
static REPEATED: [u8; 2] = [0, 0];
static BEYOND: [u8; 2] = [0, 2];

fn descriptions() -> Vec<Case> {
    let mut cases = Vec::new();
    // Output 3 has room for four rows, but two are written: a fixed description of four does not fit either.
    for at in TENSORS {
        let mut add = |name: &str, change: fn(&mut EtvkTensor)| {
            let change = move |a: &mut Vec<EtvkArg>| {
                a[at].tensor = fixed(a[at].tensor);
                change(&mut a[at].tensor);
            };
            cases.push(raw(format!("tensor {at} with {name}"), change, InvalidArgument));
        };
        add("null data", |t| t.data = null_mut());
        add("null sizes", |t| t.sizes = null());
        add("no bytes", |t| t.nbytes = 0);
        add("a byte short", |t| t.nbytes = if t.rank == 2 { 23 } else { 15 });
        add("rank 0", |t| t.rank = 0);
        add("rank one less", |t| (t.rank, t.strides, t.dim_order) = (t.rank - 1, null(), null()));
        add("rank 5", |t| (t.rank, t.sizes, t.strides, t.dim_order) = (5, ZEROS.as_ptr(), null(), null()));
        add("rank 17", |t| (t.rank, t.sizes) = (17, ZEROS.as_ptr()));
        add("rank 2^32 - 1", |t| t.rank = u32::MAX);
        add("negative strides", |t| (t.strides, t.dim_order) = (NEGATIVE.as_ptr(), null()));
        add("dimensions repeated", |t| {
            t.dim_order = if t.rank == 1 { &BEYOND[1] } else { REPEATED.as_ptr() }
        });
        add("dimension out of range", |t| {
            t.dim_order = if t.rank == 1 { &BEYOND[1] } else { BEYOND.as_ptr() }
        });
    }
    for at in [0, 3] {
        let mut add = |name: &str, change: fn(&mut EtvkTensor)| {
            let change = move |a: &mut Vec<EtvkArg>| {
                a[at].tensor = fixed(a[at].tensor);
                change(&mut a[at].tensor);
            };
            cases.push(raw(format!("tensor {at} with {name}"), change, InvalidArgument));
        };
        add("negative sizes", |t| (t.sizes, t.strides) = (NEGATIVE.as_ptr(), null()));
        add("sizes beyond memory", |t| (t.sizes, t.strides) = (HUGE.as_ptr(), null()));
        add("more rows than the bound", |t| (t.sizes, t.strides) = (FIVE.as_ptr(), null()));
        add("more columns", |t| (t.sizes, t.strides) = (FOUR_COLUMNS.as_ptr(), null()));
        add("strides that deny the order", |t| t.strides = COLUMNS.as_ptr());
        add("strides beyond the bytes", |t| (t.strides, t.dim_order) = (FAR.as_ptr(), null()));
    }
    for (name, strides) in [("overlap", &ZEROS[..2]), ("overlap in part", &[1, 1][..]), ("gaps", &[4, 1][..])]
    {
        let change = move |a: &mut Vec<EtvkArg>| {
            a[3].tensor = fixed(a[3].tensor);
            let tensor = &mut a[3].tensor;
            (tensor.sizes, tensor.strides, tensor.dim_order) = ([2, 3].as_ptr(), strides.as_ptr(), null());
        };
        cases.push(raw(format!("output whose elements have {name}"), change, InvalidArgument));
    }
    cases
}

fn values() -> Vec<Case> {
    let mut cases = Vec::new();
    for beyond in [1 << 31, -(1 << 31) - 1, 1 << 32, i64::MAX, i64::MIN] {
        for place in 0..2 {
            let change = move |a: &mut Vec<Arg>| {
                let mut both = [0; 2];
                both[place] = beyond;
                a[1] = Tensor::longs(&[2], &both).into();
            };
            cases.push(value(format!("element {place} is {beyond}"), change, InvalidArgument));
        }
        cases.push(value(format!("integer {beyond}"), move |a| a[2] = Arg::Int(beyond), InvalidArgument));
        let tensor = move |a: &mut Vec<Arg>| a[2] = Tensor::longs(&[1], &[beyond]).into();
        cases.push(value(format!("integer {beyond} in a tensor"), tensor, InvalidArgument));
    }
    // The graph adds one to it.
    cases.push(value("integer 2^31 - 1".into(), |a| a[2] = Arg::Int(i32::MAX.into()), InvalidArgument));
    for beyond in [1e39, -1e39, f64::MAX, f64::MIN, 3.5e38] {
        let change = move |a: &mut Vec<Arg>| a[0] = Tensor::doubles(&[1, 3], &[0.0, beyond, 1.0]).into();
        cases.push(value(format!("double {beyond:e}"), change, InvalidArgument));
    }
    cases
}

fn callbacks() -> Vec<Case> {
    let mut cases = Vec::new();
    let mut add = |at: usize, status: u32, works: bool, want| {
        let change = move |a: &mut Vec<Arg>| {
            let Arg::Tensor(tensor) = &mut a[at] else { panic!("a tensor") };
            tensor.resize = (status, works);
        };
        cases.push(value(format!("resizing {at} gives {status:#x}, works: {works}"), change, want));
    };
    use EtvkStatus::*;
    for status in [
        Internal,
        InvalidState,
        EndOfMethod,
        AlreadyLoaded,
        NotSupported,
        NotImplemented,
        InvalidArgument,
        InvalidType,
        OperatorMissing,
        NotFound,
        MemoryAllocationFailed,
        AccessFailed,
        InvalidProgram,
        OutOfResources,
        DelegateInvalidCompatibility,
        DelegateMemoryAllocationFailed,
        DelegateInvalidHandle,
    ] {
        add(3, status as u32, false, status);
        add(4, status as u32, true, status);
    }
    add(3, 0x77, true, Internal);
    add(4, u32::MAX, false, Internal);
    // Says that it worked, but the sizes are the old ones.
    add(3, 0, false, InvalidArgument);
    cases
}

#[test]
fn each_fault_has_its_status() {
    let handle = source().create().unwrap();
    let cases: Vec<Case> =
        [tags(), types(), descriptions(), values(), callbacks()].into_iter().flatten().collect();
    assert!(cases.len() >= 150, "{}", cases.len());
    for (name, change_values, change_raw, want) in cases {
        let mut given = given();
        change_values(&mut given);
        let mut args = Args::new(given);
        change_raw(&mut args.raw);
        assert_eq!(handle.execute(&mut args), want, "{name}: {}", last_error());
        assert!(!last_error().is_empty(), "{name}");
        assert_works(&handle);
    }
}

#[test]
fn counts_are_told_with_their_likely_cause() {
    let handle = source().create().unwrap();
    for count in [0, 1, 5, 7, 12] {
        let mut args = Args::new(given());
        while args.raw.len() < count {
            args.raw.push(args.raw[5]);
        }
        let status = unsafe { etvk_delegate_execute(handle.0, args.raw.as_mut_ptr(), count, null()) };
        assert_eq!(status, InvalidArgument);
        let text = last_error();
        match count {
            3..6 => assert!(text.contains("export again with alias_buffer_mutations"), "{text}"),
            _ => assert!(text.contains(&format!("{count} arguments, the graph has 3 inputs")), "{text}"),
        }
        assert_eq!(text.contains("dropped"), count > 6, "{text}");
    }
    assert_eq!(unsafe { etvk_delegate_execute(handle.0, null_mut(), 6, null()) }, InvalidArgument);
    assert_works(&handle);
}

#[test]
fn handles_are_checked() {
    let destroyed = {
        let handle = source().create().unwrap();
        handle.0
    };
    for handle in [null_mut(), destroyed, std::ptr::dangling_mut(), usize::MAX as *mut EtvkDelegate] {
        let mut args = Args::new(given());
        assert_eq!(args.execute(handle, null()), EtvkStatus::DelegateInvalidHandle);
        let ports = unsafe { etvk_delegate_ports(handle, null_mut(), null_mut()) };
        assert_eq!(ports, EtvkStatus::DelegateInvalidHandle);
        let want = if handle.is_null() { OK } else { EtvkStatus::DelegateInvalidHandle };
        assert_eq!(etvk_delegate_destroy(handle), want);
    }
}

thread_local! {
    static REENTER: Cell<(*mut EtvkDelegate, [Option<EtvkStatus>; 2])> = const { Cell::new((null_mut(), [None; 2])) };
}

unsafe extern "C" fn reenter(_: *mut c_void, _: usize, _: *mut EtvkTensor, _: *const i32, _: usize) -> u32 {
    let (handle, _) = REENTER.get();
    let executed = Args::new(given()).execute(handle, null());
    REENTER.set((handle, [Some(executed), Some(etvk_delegate_destroy(handle))]));
    EtvkStatus::NotSupported as u32
}

#[test]
fn callbacks_cannot_use_the_delegate_that_called_them() {
    let handle = source().create().unwrap();
    REENTER.set((handle.0, [None; 2]));
    let mut args = Args::new(given());
    args.raw[3].tensor.resize = Some(reenter);
    assert_eq!(handle.execute(&mut args), EtvkStatus::NotSupported);
    assert_eq!(REENTER.get().1, [Some(EtvkStatus::InvalidState); 2]);
    assert_works(&handle);
}

#[test]
fn forced_faults() {
    for point in [Point::Arguments, Point::Execute, Point::Outputs] {
        for (fault, want) in [
            (Fault::DeviceMemory, EtvkStatus::DelegateMemoryAllocationFailed),
            (Fault::HostMemory, EtvkStatus::MemoryAllocationFailed),
            (Fault::DeviceLost, Internal),
            (Fault::Unsupported, EtvkStatus::NotSupported),
            (Fault::Panic, Internal),
        ] {
            let handle = source().create().unwrap();
            fault::force(point, fault);
            let mut args = Args::new(given());
            assert_eq!(handle.execute(&mut args), want, "{point:?} {fault:?}: {}", last_error());
            if fault == Fault::Panic {
                assert!(last_error().contains("forced at"), "{}", last_error());
                for _ in 0..2 {
                    assert_eq!(handle.execute(&mut Args::new(given())), EtvkStatus::InvalidState);
                }
            } else {
                assert_works(&handle);
            }
        }
    }
}

#[test]
fn a_panic_while_destroying_frees_the_handle() {
    let handle = std::mem::ManuallyDrop::new(source().create().unwrap());
    fault::force(Point::Destroy, Fault::Panic);
    assert_eq!(etvk_delegate_destroy(handle.0), Internal);
    assert_eq!(etvk_delegate_destroy(handle.0), EtvkStatus::DelegateInvalidHandle);
}

#[test]
fn state_outlives_a_refused_execution() {
    // What was computed before stays right: a fault changes neither sizes nor recordings that later executions use.
    let handle: Handle = source().create().unwrap();
    assert_works(&handle);
    let mut bad = given();
    bad[0] = Tensor::floats(&[4, 3], &[0.0; 12]).into();
    bad[2] = Arg::Int(i32::MAX.into());
    assert_eq!(handle.execute(&mut Args::new(bad)), InvalidArgument);
    assert_works(&handle);
}
