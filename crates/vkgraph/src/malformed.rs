//! Graphs with one thing wrong, each with the error that must name it.

use flatbuffers::{FlatBufferBuilder, WIPOffset};

use crate::generated::vkgraph as wire;
use crate::write::{container, payload};
use crate::{
    CallFault, Constant, ConstantFault, ConstantId, ConstantSource, DType, Error, Graph, GraphBuilder,
    HeaderFault, Payload, PortFault, TensorInfo, Value, ValueFault, ValueId,
};

const X: usize = 0;
const WEIGHT: usize = 1;
const LIST: usize = 3;
const OUT: usize = 4;
const VALUES: usize = 5;
const REGION: [u8; 64] = [7; 64];

/// `cat([x, weight], 1)` with 2 × 3 floats each: values x, weight, 1, list, out.
fn good() -> Graph {
    let mut builder = GraphBuilder::new();
    let x = builder.input(DType::Float32, &[2, 3]);
    let weight = builder.constant(DType::Float32, &[2, 3], vec![1; 24]);
    let dim = builder.int(1);
    let list = builder.value_list(&[x, weight]);
    let out = builder.tensor(DType::Float32, &[2, 6]);
    builder.call("aten.cat.default", &[list, dim, out]);
    builder.outputs(&[out]);
    Payload::parse(&builder.finish()).unwrap().into_graph()
}

/// What parsing says of the good graph after one edit.
fn after(edit: impl FnOnce(&mut Graph)) -> Result<Graph, Error> {
    let mut graph = good();
    edit(&mut graph);
    Payload::parse(&payload(&graph, &REGION)).map(Payload::into_graph)
}

fn tensor(graph: &mut Graph, index: usize) -> &mut TensorInfo {
    match &mut graph.values[index] {
        Value::Tensor(info) => info,
        other => panic!("{other:?}"),
    }
}

fn value_error(id: usize, fault: ValueFault) -> Result<Graph, Error> {
    Err(Error::Value { id: ValueId(u32::try_from(id).unwrap()), fault })
}

fn call_error(name: &str, fault: CallFault) -> Result<Graph, Error> {
    Err(Error::Call { index: 0, name: name.to_owned(), fault })
}

fn constant_error(fault: ConstantFault) -> Result<Graph, Error> {
    Err(Error::Constant { id: ConstantId(0), fault })
}

#[test]
fn unchanged() {
    assert_eq!(after(|_| ()), Ok(good()));
}

#[test]
fn arguments() {
    let name = "aten.cat.default";
    for (id, found) in [(5, 5), (105, 105), (0x7FFF_FFFF, 0x7FFF_FFFF), (u32::MAX, -1), (1 << 31, -(1 << 31))]
    {
        for slot in [0, 2] {
            let fault = CallFault::Arg { slot, found, values: VALUES };
            assert_eq!(after(|graph| graph.calls[0].args[slot] = ValueId(id)), call_error(name, fault));
        }
    }
    assert_eq!(after(|graph| graph.calls[0].args.clear()), call_error(name, CallFault::NoArgs));
    assert_eq!(after(|graph| graph.calls[0].name.clear()), call_error("", CallFault::EmptyName));
    assert_eq!(
        after(|graph| graph.calls[0].name = "a".repeat(100_000)),
        call_error(&"a".repeat(255), CallFault::LongName { found: 100_000 })
    );
    let message = after(|graph| graph.calls[0].args[1] = ValueId(9)).unwrap_err().to_string();
    assert_eq!(message, "call 0 (\"aten.cat.default\"): argument 1 is value id 9, the graph has 5 values");
}

#[test]
fn inputs_and_outputs() {
    for found in [5, u32::MAX] {
        let fault = PortFault::Range { found, values: VALUES };
        assert_eq!(
            after(|graph| graph.inputs[0] = ValueId(found)),
            Err(Error::Input { slot: 0, fault: fault.clone() })
        );
        assert_eq!(after(|graph| graph.outputs[0] = ValueId(found)), Err(Error::Output { slot: 0, fault }));
    }
    assert_eq!(
        after(|graph| graph.inputs.push(ValueId(0))),
        Err(Error::Input { slot: 1, fault: PortFault::Duplicate { id: ValueId(0), first: 0 } })
    );
    let constant = PortFault::Constant { id: ValueId(1), constant: ConstantId(0) };
    assert_eq!(after(|graph| graph.inputs.push(ValueId(1))), Err(Error::Input { slot: 1, fault: constant }));
    assert_eq!(
        after(|graph| graph.inputs.push(ValueId(2))),
        Err(Error::Input { slot: 1, fault: PortFault::Kind { id: ValueId(2), found: "Int" } })
    );
    assert_eq!(
        after(|graph| graph.outputs.push(ValueId(3))),
        Err(Error::Output { slot: 1, fault: PortFault::Kind { id: ValueId(3), found: "ValueList" } })
    );
    // A constant may be returned as it is, and one value twice.
    assert!(after(|graph| graph.outputs.extend([ValueId(1), ValueId(1)])).is_ok());
    assert_eq!(
        after(|graph| graph.values.clear()),
        call_error("aten.cat.default", CallFault::Arg { slot: 0, found: 3, values: 0 })
    );
}

#[test]
fn dims() {
    let huge = [
        vec![u32::MAX; 4],
        vec![1 << 16; 4],
        vec![1 << 16, 1 << 16],
        vec![0, u32::MAX, 2],
        vec![u32::MAX; 8],
    ];
    for dims in huge {
        let fault = ValueFault::Elements { dims: dims.clone() };
        assert_eq!(after(|graph| tensor(graph, OUT).dims = dims), value_error(OUT, fault));
    }
    for found in [9, 1000] {
        let edit = |graph: &mut Graph| tensor(graph, X).dims = vec![1; found];
        assert_eq!(after(edit), value_error(X, ValueFault::Rank { found }));
    }
    for dims in [vec![], vec![0], vec![1; 8], vec![u32::MAX], vec![1024; 3]] {
        let graph = after(|graph| tensor(graph, X).dims.clone_from(&dims)).unwrap();
        assert_eq!(graph.tensor(ValueId(0)).unwrap().dims, dims);
    }
}

#[test]
fn constants() {
    for found in [1, 10_000, 0x7FFF_FFFF] {
        let edit = |graph: &mut Graph| tensor(graph, X).constant = Some(ConstantId(found));
        let fault = ValueFault::ConstantId { found: found.cast_signed(), constants: 1 };
        assert_eq!(after(edit), value_error(X, fault));
    }
    // A negative id is no constant.
    let edit = |graph: &mut Graph| tensor(graph, X).constant = Some(ConstantId(1 << 31));
    assert_eq!(after(edit), Ok(good()));

    assert_eq!(
        after(|graph| graph.constants.clear()),
        value_error(WEIGHT, ValueFault::ConstantId { found: 0, constants: 0 })
    );
    let short = |expected, found| ValueFault::ConstantLength { constant: ConstantId(0), expected, found };
    assert_eq!(after(|graph| graph.constants[0].length = 1), value_error(WEIGHT, short(24, 1)));
    assert_eq!(
        after(|graph| tensor(graph, WEIGHT).dims = vec![128, 192]),
        value_error(WEIGHT, short(128 * 192 * 4, 24))
    );
}

#[test]
fn constant_places() {
    let source = |graph: &mut Graph, offset| graph.constants[0].source = ConstantSource::Inline { offset };
    for (offset, length) in [(41, 24), (u64::MAX - 1, 24), (0, u64::MAX), (1 << 63, 1 << 63), (65, 0)] {
        let edit = |graph: &mut Graph| {
            source(graph, offset);
            graph.constants[0].length = length;
        };
        assert_eq!(after(edit), constant_error(ConstantFault::Range { offset, length, region: 64 }));
    }
    assert!(after(|graph| source(graph, 40)).is_ok());
    assert_eq!(after(|graph| source(graph, u64::MAX)), constant_error(ConstantFault::NoKey));
    assert_eq!(
        after(|graph| graph.constants[0].source = ConstantSource::Named(String::new())),
        constant_error(ConstantFault::NoKey)
    );
}

#[test]
fn lists() {
    let item = |item, found| ValueFault::Item { item, found, values: VALUES };
    let nested = |item, id| ValueFault::NestedList { item, id: ValueId(id) };
    let items = |ids: &[u32]| Value::ValueList(ids.iter().map(|&id| ValueId(id)).collect());
    for (ids, fault) in
        [(&[0, 55][..], item(1, 55)), (&[u32::MAX - 2], item(0, -3)), (&[0, 1, 3], nested(2, 3))]
    {
        assert_eq!(after(|graph| graph.values[LIST] = items(ids)), value_error(LIST, fault));
    }
    // A cycle of two, and a list of a list of literals.
    assert_eq!(after(|graph| graph.values.extend([items(&[6]), items(&[5])])), value_error(5, nested(0, 6)));
    assert_eq!(
        after(|graph| graph.values.extend([items(&[0, 6]), Value::IntList(vec![])])),
        value_error(5, nested(1, 6))
    );
    // Later values may be listed.
    assert!(after(|graph| graph.values.extend([items(&[6]), Value::Null])).is_ok());
}

/// A payload of a graph that only the wire format can express.
fn raw(
    edit: impl for<'a, 'b> FnOnce(&'a mut FlatBufferBuilder<'b>, &'a mut wire::GraphArgs<'b>),
) -> Result<Graph, Error> {
    let mut fbb = FlatBufferBuilder::new();
    let mut args = wire::GraphArgs {
        chain: Some(fbb.create_vector::<WIPOffset<wire::OperatorCall<'_>>>(&[])),
        values: Some(fbb.create_vector::<WIPOffset<wire::ValueEntry<'_>>>(&[])),
        input_ids: Some(fbb.create_vector::<u32>(&[])),
        output_ids: Some(fbb.create_vector::<u32>(&[])),
        ..Default::default()
    };
    edit(&mut fbb, &mut args);
    let root = wire::Graph::create(&mut fbb, &args);
    fbb.finish(root, Some("VK00"));
    Payload::parse(&container(fbb.finished_data(), &REGION)).map(Payload::into_graph)
}

/// The same, with one value.
fn raw_value(
    value: impl for<'a, 'b> FnOnce(&'a mut FlatBufferBuilder<'b>) -> wire::ValueEntryArgs,
) -> Result<Graph, Error> {
    raw(|fbb, args| {
        let value = value(fbb);
        let value = wire::ValueEntry::create(fbb, &value);
        args.values = Some(fbb.create_vector(&[value]));
        let constant = wire::Bytes::create(fbb, &wire::BytesArgs { length: 4, ..Default::default() });
        args.constants = Some(fbb.create_vector(&[constant]));
    })
}

/// The same, with a tensor of rank 0.
fn raw_tensor(edit: impl FnOnce(&mut wire::TensorValueArgs<'_>)) -> Result<Graph, Error> {
    raw_value(|fbb| {
        let dims = Some(fbb.create_vector::<u32>(&[]));
        let mut args = wire::TensorValueArgs { dims, ..Default::default() };
        edit(&mut args);
        let value = Some(wire::TensorValue::create(fbb, &args).as_union_value());
        wire::ValueEntryArgs { value_type: wire::AnyValue::TensorValue, value }
    })
}

#[test]
fn absent_fields() {
    assert_eq!(raw(|_, _| ()), Ok(Graph::default()));
    for (field, result) in [
        ("chain", raw(|_, args| args.chain = None)),
        ("values", raw(|_, args| args.values = None)),
        ("input_ids", raw(|_, args| args.input_ids = None)),
        ("output_ids", raw(|_, args| args.output_ids = None)),
    ] {
        assert_eq!(result, Err(Error::Missing { field }));
    }
    assert_eq!(raw_tensor(|args| args.dims = None), value_error(0, ValueFault::Missing { field: "dims" }));
    let list = raw_value(|fbb| {
        let value = wire::IntListValue::create(fbb, &wire::IntListValueArgs { items: None });
        wire::ValueEntryArgs { value_type: wire::AnyValue::IntListValue, value: Some(value.as_union_value()) }
    });
    assert_eq!(list, value_error(0, ValueFault::Missing { field: "items" }));
    let text = raw_value(|fbb| {
        let value = wire::StringValue::create(fbb, &wire::StringValueArgs { string_val: None });
        wire::ValueEntryArgs { value_type: wire::AnyValue::StringValue, value: Some(value.as_union_value()) }
    });
    assert_eq!(text, value_error(0, ValueFault::Missing { field: "string_val" }));
    let call = |args: wire::OperatorCallArgs<'static>, named| {
        raw(move |fbb, graph| {
            let name = Some(fbb.create_string("aten.abs.default"));
            let ids = Some(fbb.create_vector::<i32>(&[]));
            let call = if named {
                wire::OperatorCall::create(fbb, &wire::OperatorCallArgs { name, args: None, ..args })
            } else {
                wire::OperatorCall::create(fbb, &wire::OperatorCallArgs { name: None, args: ids, ..args })
            };
            graph.chain = Some(fbb.create_vector(&[call]));
        })
    };
    let missing = |field| CallFault::Missing { field };
    assert_eq!(call(Default::default(), true), call_error("aten.abs.default", missing("args")));
    assert_eq!(call(Default::default(), false), call_error("", missing("name")));
}

#[test]
fn unknown_kinds() {
    let null = |tag| {
        raw_value(move |fbb| {
            let value = wire::NullValue::create(fbb, &wire::NullValueArgs {});
            wire::ValueEntryArgs { value_type: wire::AnyValue(tag), value: Some(value.as_union_value()) }
        })
    };
    for tag in [12, 255] {
        assert_eq!(null(tag), value_error(0, ValueFault::Kind { tag }));
    }
    assert_eq!(raw_value(|_| wire::ValueEntryArgs::default()), value_error(0, ValueFault::Kind { tag: 0 }));
    for found in [8, -1, 127] {
        let result = raw_tensor(|args| args.datatype = wire::DataType(found));
        assert_eq!(result, value_error(0, ValueFault::DType { found }));
    }
    for found in [8, -1, 126] {
        let result = raw_tensor(|args| args.staging_datatype = wire::DataType(found));
        assert_eq!(result, value_error(0, ValueFault::StagingDType { found }));
    }
}

#[test]
fn absent_constant_id_is_constant_0() {
    let graph = raw_tensor(|args| args.datatype = wire::DataType::FLOAT32).unwrap();
    let info = graph.tensor(ValueId(0)).unwrap();
    assert_eq!((info.constant, info.staging_dtype), (Some(ConstantId(0)), DType::Float32));
}

#[test]
fn empty_constants_need_no_bytes() {
    let graph = raw(|fbb, args| {
        let named_key = Some(fbb.create_string(""));
        let constant = wire::Bytes::create(fbb, &wire::BytesArgs { named_key, ..Default::default() });
        args.constants = Some(fbb.create_vector(&[constant]));
    });
    let empty = Constant { source: ConstantSource::Inline { offset: 0 }, length: 0 };
    assert_eq!(graph.unwrap().constants, [empty]);
}

/// The exporter's FlatBuffer compiler does not align empty vectors to their elements.
#[test]
fn empty_lists_need_no_alignment() {
    let list = |padding: usize| {
        raw_value(move |fbb| {
            fbb.create_vector(&vec![0_u32; padding]);
            let items = Some(WIPOffset::new(fbb.create_vector::<u32>(&[]).value()));
            let value = wire::IntListValue::create(fbb, &wire::IntListValueArgs { items });
            let value = Some(value.as_union_value());
            wire::ValueEntryArgs { value_type: wire::AnyValue::IntListValue, value }
        })
    };
    for padding in [0, 1] {
        assert_eq!(list(padding).unwrap().values, [Value::IntList(vec![])]);
    }
}

#[test]
fn own_shaders() {
    let result = raw(|fbb, args| {
        let shader = wire::Bytes::create(fbb, &wire::BytesArgs::default());
        args.shaders = Some(fbb.create_vector(&[shader]));
    });
    assert_eq!(result, Err(Error::CustomShaders { found: 1 }));
}

/// In 0.2 a call had no node id: slot 0 was the name, slot 1 the arguments.
#[test]
fn release_0_2() {
    let old = |args: &[i32]| {
        raw(|fbb, graph| {
            let name = fbb.create_string("aten.add.Tensor");
            let args = fbb.create_vector(args);
            let table = fbb.start_table();
            fbb.push_slot_always(4, name);
            fbb.push_slot_always(6, args);
            let call = WIPOffset::new(fbb.end_table(table).value());
            graph.chain = Some(fbb.create_vector::<WIPOffset<wire::OperatorCall<'_>>>(&[call]));
        })
    };
    for args in [&[0, 1, 2, 3][..], &[128, 255, 1000], &[-1], &[]] {
        assert_eq!(old(args), Err(Error::OlderThan03));
    }
}

/// One table under many offsets would make the graph far larger than its bytes.
#[test]
fn shared_tables_do_not_multiply() {
    let shared = |times: usize| {
        raw(|fbb, graph| {
            let name = Some(fbb.create_string("aten.cat.default"));
            let value = wire::NullValue::create(fbb, &wire::NullValueArgs {}).as_union_value();
            let value_type = wire::AnyValue::NullValue;
            let value =
                wire::ValueEntry::create(fbb, &wire::ValueEntryArgs { value_type, value: Some(value) });
            graph.values = Some(fbb.create_vector(&[value]));
            let args = Some(fbb.create_vector(&vec![0_i32; 10_000]));
            let call = wire::OperatorCall::create(fbb, &wire::OperatorCallArgs { node_id: 0, name, args });
            graph.chain = Some(fbb.create_vector(&vec![call; times]));
        })
    };
    assert!(shared(2).is_ok());
    let reason = "Apparent size too large.".to_owned();
    assert_eq!(shared(10_000), Err(Error::FlatBuffer { reason }));
}

fn header_after(at: usize, bytes: &[u8]) -> Result<Graph, Error> {
    let mut payload = payload(&good(), &REGION);
    payload[at..at + bytes.len()].copy_from_slice(bytes);
    Payload::parse(&payload).map(Payload::into_graph)
}

#[test]
fn headers() {
    let whole = payload(&good(), &REGION);
    let size = u32::try_from(whole.len()).unwrap();
    let payload_size = u64::from(size);
    let bytes_offset = size - 64;
    let field = |at: usize| u32::from_le_bytes(whole[at..at + 4].try_into().unwrap());
    let flatbuffer_end = u64::from(field(10)) + u64::from(field(14));
    let fail = |fault| Err(Error::Header(fault));

    for found in [0, 4, 29] {
        let result = Payload::parse(&whole[..found]).map(Payload::into_graph);
        assert_eq!(result, fail(HeaderFault::Truncated { expected: 30, found }));
    }
    assert_eq!(header_after(4, b"VH99"), fail(HeaderFault::Magic { found: *b"VH99" }));
    assert_eq!(header_after(8, &[12, 0]), fail(HeaderFault::Size { expected: 30, found: 12 }));
    for found in [0, 1, 29] {
        let fault = HeaderFault::FlatBufferOffset { expected: 30, found };
        assert_eq!(header_after(10, &found.to_le_bytes()), fail(fault));
    }
    for found in [0, 1, 7] {
        let fault = HeaderFault::FlatBufferSize { expected: 8, found };
        assert_eq!(header_after(14, &found.to_le_bytes()), fail(fault));
    }
    // Sums of 32-bit numbers are not 32-bit numbers.
    for found in [u32::MAX, u32::MAX - 15, u32::MAX - 31, 1 << 31, size] {
        let fault = HeaderFault::FlatBufferRange { end: u64::from(found) + 32, payload: payload_size };
        assert_eq!(header_after(14, &found.to_le_bytes()), fail(fault));
    }
    for found in [0, 1, 32] {
        let fault = HeaderFault::BytesOffset { expected: flatbuffer_end, found };
        assert_eq!(header_after(18, &found.to_le_bytes()), fail(fault));
    }
    for offset in [size + 1, u32::MAX, bytes_offset + 1] {
        let fault = HeaderFault::BytesRange { offset, size: 64, payload: payload_size };
        assert_eq!(header_after(18, &offset.to_le_bytes()), fail(fault));
    }
    for size in [65, u64::MAX, u64::MAX - 15, 1 << 63] {
        let fault = HeaderFault::BytesRange { offset: bytes_offset, size, payload: payload_size };
        assert_eq!(header_after(22, &size.to_le_bytes()), fail(fault));
    }
    // No size means up to the end.
    assert_eq!(header_after(22, &[0; 8]), Ok(good()));
    assert_eq!(header_after(36, b"VK99"), Err(Error::Identifier { found: *b"VK99" }));
    assert!(matches!(header_after(32, &[255; 4]), Err(Error::FlatBuffer { .. })));
}
