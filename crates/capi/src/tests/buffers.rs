//! Buffers that ordinary operators change: executions have no argument for their new values.

use etvk_vkgraph::{DType, GraphBuilder};

use super::support::{Arg, Args, Handle, OK, Source, Tensor, create, last_error};
use crate::abi::EtvkStatus;

/// `total += factor * x`, and twice the new total. Total starts as ones.
fn accumulator(factor: i64) -> Source {
    let mut builder = GraphBuilder::new();
    let ones: Vec<u8> = [1.0f32; 3].iter().flat_map(|one| one.to_le_bytes()).collect();
    let total = builder.constant(DType::Float32, &[3], ones);
    let packed = builder.tensor(DType::Float32, &[3]);
    builder.call("et_vk.prepack.default", &[total, packed]);
    let x = builder.input(DType::Float32, &[3]);
    let (one, factor) = (builder.int(1), builder.int(factor));
    let (new, twice) = (builder.tensor(DType::Float32, &[3]), builder.tensor(DType::Float32, &[3]));
    builder.call("aten.add.Tensor", &[packed, x, factor, new]);
    builder.call("aten.add.Tensor", &[new, new, one, twice]);
    builder.outputs(&[new, twice]);
    let (payload, blobs) = builder.finish_named();
    Source::new(payload, blobs)
}

/// Executes with `outputs` arguments for outputs; the first element of the last one.
fn execute(handle: &Handle, outputs: usize) -> Result<f32, EtvkStatus> {
    let room = || Arg::from(Tensor::floats(&[3], &[0.0; 3]));
    let mut args = vec![Arg::from(Tensor::floats(&[3], &[10.0, 0.0, 0.0]))];
    args.extend((0..outputs).map(|_| room()));
    let mut args = Args::new(args);
    match handle.execute(&mut args) {
        OK => Ok(args.tensor(outputs).to_floats()[0]),
        status => Err(status),
    }
}

#[test]
fn the_new_value_is_kept_if_there_is_no_argument_for_it() {
    let handle = accumulator(1).create().unwrap();
    assert_eq!([(); 3].map(|()| execute(&handle, 1)), [Ok(22.0), Ok(42.0), Ok(62.0)]);
    assert_eq!(execute(&handle, 2), Err(EtvkStatus::InvalidArgument), "the number of arguments has changed");
    assert_eq!(execute(&handle, 1), Ok(82.0));
}

#[test]
fn with_an_argument_for_it_the_constant_is_one() {
    let handle = accumulator(1).create().unwrap();
    assert_eq!([(); 2].map(|()| execute(&handle, 2)), [Ok(22.0); 2]);
    assert_eq!(execute(&handle, 1), Err(EtvkStatus::InvalidArgument));
}

#[test]
fn a_buffer_of_two_delegates_is_not_changed_in_one() {
    let (mut first, mut second) = (accumulator(1), accumulator(2));
    let info = first.info();
    let mut other = second.info();
    let handle = create(&info).unwrap();
    // Of another program, or the same delegate again.
    let strangers = [create(&other).unwrap(), create(&info).unwrap()];
    assert_eq!(execute(&handle, 1), Ok(22.0));
    other.named_data = info.named_data;
    let sibling = create(&other).unwrap();
    assert_eq!(execute(&handle, 1), Err(EtvkStatus::InvalidProgram));
    assert!(last_error().contains("another delegate"), "{}", last_error());
    drop(sibling);
    assert_eq!(execute(&handle, 1), Ok(42.0));
    drop(strangers);
}
