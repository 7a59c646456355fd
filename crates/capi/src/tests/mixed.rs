//! A graph with one argument of every sort, and what it gives.

use etvk_vkgraph::{DType, GraphBuilder};

use super::support::{Arg, Args, Handle, OK, Source, Tensor, last_error};

/// Inputs: 0 floats [n ≤ 4, 3], 1 integers [2], 2 an integer. Outputs: 3 the floats plus a named constant, 4 the integers
/// doubled, 5 the integer plus one.
pub(super) fn source() -> Source {
    let mut builder = GraphBuilder::new();
    let x = builder.input(DType::Float32, &[4, 3]);
    let k = builder.input(DType::Int32, &[2]);
    let n = builder.sym_int_input();
    let one = builder.int(1);
    let weight: Vec<u8> = [10.0f32, 20.0, 30.0].iter().flat_map(|x| x.to_le_bytes()).collect();
    let weight = builder.constant(DType::Float32, &[3], weight);
    let packed = builder.tensor(DType::Float32, &[3]);
    builder.call("et_vk.prepack.default", &[weight, packed]);
    let y = builder.tensor(DType::Float32, &[4, 3]);
    builder.call("aten.add.Tensor", &[x, packed, one, y]);
    let twice = builder.tensor(DType::Int32, &[2]);
    builder.call("aten.add.Tensor", &[k, k, one, twice]);
    let next = builder.sym_int();
    builder.call("add", &[n, one, next]);
    builder.outputs(&[y, twice, next]);
    let (payload, blobs) = builder.finish_named();
    Source::new(payload, blobs)
}

/// Arguments that fit.
pub(super) fn given() -> Vec<Arg> {
    vec![
        Tensor::floats(&[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]).into(),
        Tensor::longs(&[2], &[7, -8]).into(),
        Arg::Int(41),
        Tensor::floats(&[4, 3], &[0.0; 12]).into(),
        Tensor::longs(&[2], &[0, 0]).into(),
        Arg::Int(0),
    ]
}

/// Executes with arguments that fit, and compares.
pub(super) fn assert_works(handle: &Handle) {
    let mut args = Args::new(given());
    assert_eq!(handle.execute(&mut args), OK, "{}", last_error());
    assert_eq!(args.tensor(3).sizes, [2, 3]);
    assert_eq!(args.tensor(3).to_floats(), [11.0, 22.0, 33.0, 14.0, 25.0, 36.0]);
    assert_eq!(args.tensor(4).data, [14i64, -16].map(i64::to_le_bytes).concat());
    assert_eq!(args.raw[5].int_value, 42);
}

#[test]
fn every_sort_of_argument() {
    let handle = source().create().unwrap();
    assert_works(&handle);
    assert_works(&handle);
}

#[test]
fn the_payload_may_go_once_it_is_released() {
    let handle = source().create_and_release();
    assert_works(&handle);
}

#[test]
fn integers_may_be_tensors() {
    let handle = source().create().unwrap();
    for one in [Tensor::longs(&[1], &[99]), Tensor::ints(&[1], &[99]), Tensor::longs(&[], &[99])] {
        let mut given = given();
        given[2] = one.clone().into();
        given[5] = one.into();
        let mut args = Args::new(given);
        assert_eq!(handle.execute(&mut args), OK, "{}", last_error());
        assert_eq!(args.tensor(5).data[..4], 100i32.to_le_bytes());
    }
}

#[test]
fn element_types_convert() {
    let handle = source().create().unwrap();
    let mut given = given();
    given[0] = Tensor::doubles(&[1, 3], &[0.5, f64::INFINITY, f64::from(f32::MAX)]).into();
    given[1] = Tensor::ints(&[2], &[1, 2]).into();
    given[3] = Tensor::doubles(&[1, 3], &[0.0; 3]).into();
    given[4] = Tensor::ints(&[2], &[0, 0]).into();
    let mut args = Args::new(given);
    assert_eq!(handle.execute(&mut args), OK, "{}", last_error());
    let want = [10.5, f64::INFINITY, f64::from(f32::MAX)].map(f64::to_le_bytes).concat();
    assert_eq!(args.tensor(3).data, want);
    assert_eq!(args.tensor(4).data, [2i32, 4].map(i32::to_le_bytes).concat());
}
