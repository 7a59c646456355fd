//! Payloads built here parse back into the graph they were built from.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::borrow::Cow;
use std::collections::HashMap;

use etvk_vkgraph::{
    Call, Constant, ConstantFault, ConstantId, ConstantSource, DType, Error, Graph, GraphBuilder, NamedData,
    Payload, TensorInfo, Value, ValueId,
};

struct Map(HashMap<String, Vec<u8>>);

impl NamedData for Map {
    fn get(&self, key: &str) -> Option<&[u8]> {
        self.0.get(key).map(Vec::as_slice)
    }
}

fn tensor(dtype: DType, dims: &[u32], constant: Option<u32>) -> Value {
    Value::Tensor(TensorInfo {
        dtype,
        dims: dims.to_vec(),
        constant: constant.map(ConstantId),
        staging_dtype: dtype,
        storage_hint: 255,
        layout_hint: 255,
    })
}

/// Every kind of value, two constants with equal bytes, an empty one, two calls.
fn all_kinds() -> GraphBuilder {
    let mut builder = GraphBuilder::new();
    let x = builder.input(DType::Float16, &[1, 3]);
    let pos = builder.sym_int_input();
    let key = builder.constant(DType::UInt8, &[5], vec![0; 5]);
    builder.constant(DType::Bool, &[], vec![1]);
    builder.constant(DType::UInt8, &[5], vec![0; 5]);
    builder.constant(DType::Float32, &[0, 4], vec![]);
    let null = builder.null();
    let string = builder.string("tanh");
    let ints = builder.int_list(&[i64::MIN, 0, i64::MAX]);
    builder.int_list(&[]);
    builder.double_list(&[f64::NEG_INFINITY, 0.5]);
    builder.bool_list(&[true, false]);
    let list = builder.value_list(&[x, null, pos]);
    let out = builder.tensor(DType::Int64, &[1, 3]);
    builder.call("aten.cat.default", &[list, string, out]);
    builder.call("aten.view_copy.default", &[key, ints, out]);
    builder.outputs(&[out, pos]);
    builder
}

fn expected(constants: Vec<Constant>) -> Graph {
    let values = vec![
        tensor(DType::Float16, &[1, 3], None),
        Value::SymInt,
        tensor(DType::UInt8, &[5], Some(0)),
        tensor(DType::Bool, &[], Some(1)),
        tensor(DType::UInt8, &[5], Some(2)),
        tensor(DType::Float32, &[0, 4], Some(3)),
        Value::Null,
        Value::String("tanh".to_owned()),
        Value::IntList(vec![i64::MIN, 0, i64::MAX]),
        Value::IntList(vec![]),
        Value::DoubleList(vec![f64::NEG_INFINITY, 0.5]),
        Value::BoolList(vec![true, false]),
        Value::ValueList(vec![ValueId(0), ValueId(6), ValueId(1)]),
        tensor(DType::Int64, &[1, 3], None),
    ];
    let ids = |ids: &[u32]| ids.iter().map(|&id| ValueId(id)).collect::<Vec<_>>();
    let calls = vec![
        Call { node_id: 0, name: "aten.cat.default".to_owned(), args: ids(&[12, 7, 13]) },
        Call { node_id: 1, name: "aten.view_copy.default".to_owned(), args: ids(&[2, 8, 13]) },
    ];
    Graph { values, calls, inputs: ids(&[0, 1]), outputs: ids(&[13, 1]), constants }
}

#[test]
fn inline_constants() {
    let bytes = all_kinds().finish();
    let inline = |offset, length| Constant { source: ConstantSource::Inline { offset }, length };
    let constants = vec![inline(0, 5), inline(16, 1), inline(32, 5), inline(48, 0)];

    let payload = Payload::parse(&bytes).unwrap();
    assert_eq!(payload.graph(), &expected(constants));
    assert_eq!(payload.constant(ConstantId(1), None), Ok(&[1][..]));
    assert_eq!(payload.constant(ConstantId(3), None), Ok(&[][..]));
    let fault = ConstantFault::Id { constants: 4 };
    assert_eq!(payload.constant(ConstantId(4), None), Err(Error::Constant { id: ConstantId(4), fault }));
    assert_eq!(bytes.len() % 16, 0);
}

#[test]
fn named_constants() {
    // SHA-256 of five zero bytes and of a byte 1.
    const ZEROS: &str = "8855508aade16ec573d21e6a485dfd0a7624085c1a14b5ecdd6485de0c6839a4";
    const ONE: &str = "4bf5122f344554c53bde2ebb8cd2b7e3d1600ad631c385a5d7cce23c7785459a";
    let (bytes, named) = all_kinds().finish_named();
    assert_eq!(named, [(ZEROS.to_owned(), vec![0; 5]), (ONE.to_owned(), vec![1])]);

    let payload = Payload::parse(&bytes).unwrap();
    let constant = |key: &str, length| Constant { source: ConstantSource::Named(key.to_owned()), length };
    let empty = Constant { source: ConstantSource::Inline { offset: 0 }, length: 0 };
    let constants = vec![constant(ZEROS, 5), constant(ONE, 1), constant(ZEROS, 5), empty];
    assert_eq!(payload.graph(), &expected(constants));

    let mut map = Map(named.into_iter().collect());
    assert_eq!(payload.constant(ConstantId(2), Some(&map)), Ok(&[0; 5][..]));
    assert_eq!(payload.constant(ConstantId(3), None), Ok(&[][..]));

    let fail = |fault| Err(Error::Constant { id: ConstantId(0), fault });
    let key = ZEROS.to_owned();
    let none = fail(ConstantFault::NoNamedData { key: key.clone() });
    assert_eq!(payload.constant(ConstantId(0), None), none);
    map.0.insert(key.clone(), vec![0; 4]);
    let short = fail(ConstantFault::BlobLength { key: key.clone(), expected: 5, found: 4 });
    assert_eq!(payload.constant(ConstantId(0), Some(&map)), short);
    // Blobs may be padded.
    map.0.insert(key.clone(), vec![0; 16]);
    assert_eq!(payload.constant(ConstantId(0), Some(&map)), Ok(&[0; 5][..]));
    map.0.remove(&key);
    assert_eq!(payload.constant(ConstantId(0), Some(&map)), fail(ConstantFault::Key { key }));
}

/// The tensor of a payload that has one, a constant, and its bytes.
fn read(dtype: DType, dims: &[u32], bytes: Vec<u8>) -> Result<(bool, Vec<u8>), Error> {
    let mut builder = GraphBuilder::new();
    let id = builder.constant(dtype, dims, bytes);
    let bytes = builder.finish();
    let payload = Payload::parse(&bytes)?;
    let constant = payload.tensor_constant(payload.graph().tensor(id).unwrap(), None)?;
    Ok((matches!(constant, Cow::Owned(_)), constant.into_owned()))
}

#[test]
fn tensor_constants() {
    assert_eq!(read(DType::Float16, &[2, 2], (0..8).collect()), Ok((false, (0..8).collect())));
    assert_eq!(read(DType::Float16, &[2, 2], (0..9).collect()), Ok((false, (0..8).collect())));
    assert_eq!(read(DType::Int32, &[0], vec![]), Ok((false, vec![])));
    // 64-bit integers under a 32-bit label, as up to 0.7.
    let wide: Vec<u8> = [1_i64, -2, 1 << 30].iter().flat_map(|int| int.to_le_bytes()).collect();
    let narrow: Vec<u8> = [1_i32, -2, 1 << 30].iter().flat_map(|int| int.to_le_bytes()).collect();
    assert_eq!(read(DType::Int32, &[3], wide.clone()), Ok((true, narrow)));
    // But not under a label that is right, nor for other types.
    assert_eq!(read(DType::Int64, &[3], wide.clone()), Ok((false, wide.clone())));
    assert_eq!(read(DType::Float32, &[3], wide.clone()), Ok((false, wide[..12].to_vec())));
    let too_wide: Vec<u8> = [1_i64, 1 << 31].iter().flat_map(|int| int.to_le_bytes()).collect();
    let fault = ConstantFault::Narrowing { index: 1, found: 1 << 31 };
    assert_eq!(read(DType::Int32, &[2], too_wide), Err(Error::Constant { id: ConstantId(0), fault }));

    let bytes = all_kinds().finish();
    let payload = Payload::parse(&bytes).unwrap();
    let Value::Tensor(mut info) = tensor(DType::Int64, &[2], None) else { unreachable!() };
    assert_eq!(payload.tensor_constant(&info, None), Err(Error::NotConstant));
    info.constant = Some(ConstantId(0));
    let fault = ConstantFault::Length { expected: 16, found: 5 };
    assert_eq!(payload.tensor_constant(&info, None), Err(Error::Constant { id: ConstantId(0), fault }));
}

#[test]
fn scalars_are_pooled_by_value() {
    let mut builder = GraphBuilder::new();
    let one = builder.int(1);
    assert_eq!(builder.double(1.0), one);
    let zero = builder.double(-0.0);
    assert_eq!((builder.int(0), builder.double(0.0)), (zero, zero));
    let truth = builder.bool(true);
    assert_ne!(truth, one);
    assert_eq!(builder.bool(true), truth);
    assert_ne!(builder.bool(false), zero);
    let half = builder.double(0.5);
    assert_eq!(builder.double(0.5), half);
    let infinity = builder.double(f64::INFINITY);
    assert_eq!(builder.double(f64::INFINITY), infinity);
    assert_ne!(builder.double(f64::NEG_INFINITY), infinity);
    // 2^63 as a double is no i64, and i64::MAX is not 2^63.
    assert_ne!(builder.double(9_223_372_036_854_775_808.0), builder.int(i64::MAX));
    assert_eq!(builder.double(-9_223_372_036_854_775_808.0), builder.int(i64::MIN));
    assert_ne!(builder.double(f64::NAN), builder.double(f64::NAN));
    assert_ne!(builder.null(), builder.null());
    assert_ne!(builder.int_list(&[1]), builder.int_list(&[1]));

    let bytes = builder.finish();
    let graph = Payload::parse(&bytes).unwrap().into_graph();
    assert_eq!(graph.value(one), Some(&Value::Int(1)));
    assert!(matches!(graph.value(zero), Some(Value::Double(zero)) if zero.is_sign_negative()));
}
