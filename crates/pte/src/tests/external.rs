//! `.ptd` files of both layouts, and `.bpte` files.

use flatbuffers::FlatBufferBuilder;

use super::build;
use crate::generated::{bundled_program as bp, flat_tensor as ft};
use crate::{BundledFault, BundledProgram, BundledValue, Error, FlatTensor, LayoutFault, ScalarType};

/// A `.ptd` with its header inserted; the segments are the bytes 0, 1, 2….
fn ptd(flatbuffer: &[u8]) -> Vec<u8> {
    let root = u32::from_le_bytes(flatbuffer[..4].try_into().unwrap()) + 48;
    let base = (flatbuffer.len() as u64 + 48).next_multiple_of(128);
    let mut file = [&root.to_le_bytes(), &flatbuffer[4..8], b"FH01", &40_u32.to_le_bytes()].concat();
    file.extend([48, flatbuffer.len() as u64, base, 32].map(u64::to_le_bytes).concat());
    file.resize(56, 0);
    file.extend(&flatbuffer[8..]);
    file.resize(base as usize, 0);
    file.extend(0..32);
    file
}

/// A tensor of int16 with `sizes` named `t` in segment `segment`, and a blob named `b` in segment 1.
fn current(sizes: &[i32], segment: u32) -> Vec<u8> {
    let mut b = FlatBufferBuilder::new();
    let segments = [(0, 8), (8, 24)]
        .map(|(offset, size_)| ft::DataSegment::create(&mut b, &ft::DataSegmentArgs { offset, size_ }));
    let segments = Some(b.create_vector(&segments));
    let (sizes, dim_order) = (Some(b.create_vector(sizes)), Some(b.create_vector(&[0_u8])));
    let layout = ft::TensorLayoutArgs { scalar_type: 2, sizes, dim_order };
    let tensor_layout = Some(ft::TensorLayout::create(&mut b, &layout));
    let key = Some(b.create_string("t"));
    let t = ft::NamedData::create(&mut b, &ft::NamedDataArgs { key, segment_index: segment, tensor_layout });
    let key = Some(b.create_string("b"));
    let args = ft::NamedDataArgs { key, segment_index: 1, tensor_layout: None };
    let blob = ft::NamedData::create(&mut b, &args);
    let named_data = Some(b.create_vector(&[t, blob]));
    let root = ft::FlatTensor::create(&mut b, &ft::FlatTensorArgs { version: 0, segments, named_data });
    b.finish(root, Some("FT01"));
    ptd(b.finished_data())
}

/// The layout of release 0.6: a tensor of int16 named `t` at byte 2 of segment 0, and a blob named `b`.
fn release_06(size: i32) -> Vec<u8> {
    let mut b = FlatBufferBuilder::new();
    let segment = ft::DataSegment::create(&mut b, &ft::DataSegmentArgs { offset: 4, size_: 28 });
    let segments = Some(b.create_vector(&[segment]));
    let args = ft::TensorMetadata06Args {
        name: Some(b.create_string("t")),
        scalar_type: 2,
        sizes: Some(b.create_vector(&[size])),
        dim_order: Some(b.create_vector(&[0_u8])),
        segment_index: 0,
        offset: 2,
    };
    let tensor = ft::TensorMetadata06::create(&mut b, &args);
    let tensors = Some(b.create_vector(&[tensor]));
    let key = Some(b.create_string("b"));
    let args = ft::NamedDataArgs { key, segment_index: 0, tensor_layout: None };
    let blob = ft::NamedData::create(&mut b, &args);
    let named_data = Some(b.create_vector(&[blob]));
    let args = ft::FlatTensor06Args { version: 0, tensor_alignment: 16, tensors, segments, named_data };
    let root = ft::FlatTensor06::create(&mut b, &args);
    b.finish(root, Some("FT01"));
    ptd(b.finished_data())
}

#[test]
fn both_layouts_are_read() {
    let file = current(&[3], 0);
    let data = FlatTensor::parse(&file).unwrap();
    let tensor = data.get("t").unwrap();
    assert_eq!(tensor.bytes, (0..8).collect::<Vec<u8>>());
    let layout = tensor.layout.unwrap();
    assert_eq!((layout.scalar_type(), layout.sizes().collect::<Vec<_>>()), (ScalarType::Int16, vec![3]));
    assert_eq!(data.get("b").unwrap().bytes, (8..32).collect::<Vec<u8>>());
    assert!(data.get("b").unwrap().layout.is_none() && data.get("c").is_none());
    assert_eq!(data.blobs().iter().map(|(key, _)| key).collect::<Vec<_>>(), ["t", "b"]);

    let file = release_06(3);
    let data = FlatTensor::parse(&file).unwrap();
    let tensor = data.get("t").unwrap();
    assert_eq!(tensor.bytes, [6, 7, 8, 9, 10, 11]);
    assert_eq!(tensor.layout, Some(layout));
    assert_eq!(data.get("b").unwrap().bytes.len(), 28);
}

#[test]
fn external_tensors_need_their_bytes() {
    let too_few = |file: &[u8]| match FlatTensor::parse(file) {
        Err(Error::ExternalTensor { key, fault }) if key == "t" => fault,
        other => panic!("{other:?}"),
    };
    assert_eq!(too_few(&current(&[5], 0)), LayoutFault::TooFewBytes { needed: 10, found: 8 });
    assert_eq!(too_few(&release_06(14)), LayoutFault::TooFewBytes { needed: 28, found: 26 });
    assert!(matches!(
        FlatTensor::parse(&current(&[5], 2)),
        Err(Error::SegmentIndex { user: "named data", index: 2, count: 2 })
    ));
}

#[test]
fn external_headers() {
    let error = |offset: usize, bytes: &[u8]| {
        let mut file = current(&[3], 0);
        file[offset..offset + bytes.len()].copy_from_slice(bytes);
        FlatTensor::parse(&file).unwrap_err()
    };
    assert!(matches!(error(4, b"ET12"), Error::Identifier { expected: [b'F', b'T', b'0', b'1'], .. }));
    assert!(matches!(error(8, b"eh00"), Error::HeaderMagic { found: [b'e', b'h', b'0', b'0'] }));
    assert!(matches!(error(12, &[39]), Error::HeaderLength { needed: 40, found: 39 }));
    assert!(matches!(error(16, &[0xff; 8]), Error::HeaderOverflow { .. }));
    assert!(matches!(error(24, &[0xff, 0xff]), Error::FileTruncated { what: "FlatBuffer", .. }));
    assert!(matches!(error(32, &[0xff; 8]), Error::HeaderOverflow { .. }));
    assert!(matches!(error(40, &[33]), Error::FileTruncated { what: "segment data", .. }));
    assert!(matches!(FlatTensor::parse(&current(&[3], 0)[..40]), Err(Error::TooShort { needed: 64, .. })));
}

/// A bundle of the default program with one case: an int64 tensor of `bytes` bytes and value `kind`.
fn bundle(bytes: usize, kind: u8) -> Vec<u8> {
    let mut b = FlatBufferBuilder::new();
    let args = bp::TensorArgs {
        scalar_type: 4,
        sizes: Some(b.create_vector(&[2_i32, 1])),
        data: Some(b.create_vector(&vec![7_u8; bytes])),
        dim_order: Some(b.create_vector(&[1_u8, 0])),
    };
    let tensor = Some(bp::Tensor::create(&mut b, &args).as_union_value());
    let input = bp::Value::create(&mut b, &bp::ValueArgs { val_type: bp::ValueUnion::Tensor, val: tensor });
    let int = bp::Int::create(&mut b, &bp::IntArgs { int_val: -3 }).as_union_value();
    let int = (kind != 0).then_some(int);
    let output = bp::Value::create(&mut b, &bp::ValueArgs { val_type: bp::ValueUnion(kind), val: int });
    let args = bp::BundledMethodTestCaseArgs {
        inputs: Some(b.create_vector(&[input])),
        expected_outputs: Some(b.create_vector(&[output])),
    };
    let case = bp::BundledMethodTestCase::create(&mut b, &args);
    let args = bp::BundledMethodTestSuiteArgs {
        method_name: Some(b.create_string("forward")),
        test_cases: Some(b.create_vector(&[case])),
    };
    let suite = bp::BundledMethodTestSuite::create(&mut b, &args);
    let args = bp::BundledProgramArgs {
        version: 2,
        method_test_suites: Some(b.create_vector(&[suite])),
        program: Some(b.create_vector(&build::pte(|_| ()))),
    };
    let root = bp::BundledProgram::create(&mut b, &args);
    b.finish(root, Some("BP08"));
    b.finished_data().to_vec()
}

#[test]
fn bundles_are_read_wherever_they_lie() {
    let file = bundle(16, 2);
    for shift in 0..8 {
        let mut shifted = vec![0; shift];
        shifted.extend(&file);
        let bundle = BundledProgram::parse(&shifted[shift..]).unwrap();
        bundle.program().unwrap().method("forward").unwrap();
        let [suite] = bundle.suites() else { panic!("{bundle:?}") };
        assert_eq!(suite.method, "forward");
        let BundledValue::Tensor(layout, data) = suite.cases[0].inputs[0] else { panic!("{suite:?}") };
        assert_eq!((layout.numel(), layout.is_contiguous(), data), (2, false, &[7; 16][..]));
        assert!(matches!(suite.cases[0].expected_outputs[..], [BundledValue::Int(-3)]));
    }
}

#[test]
fn bundled_values() {
    let fault = |file: &[u8]| match BundledProgram::parse(file) {
        Err(Error::Bundled { list, case: 0, index: 0, fault, .. }) => (list, fault),
        other => panic!("{other:?}"),
    };
    let few = LayoutFault::TooFewBytes { needed: 16, found: 15 };
    assert_eq!(fault(&bundle(15, 2)), ("input", BundledFault::Tensor(few)));
    assert_eq!(fault(&bundle(16, 0)), ("expected output", BundledFault::NoKind));
    assert_eq!(fault(&bundle(16, 5)), ("expected output", BundledFault::UnknownKind { found: 5 }));
}
