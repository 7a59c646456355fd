//! Serialises a [`Graph`], unchecked: what is wrong in the graph is wrong in the payload.

use flatbuffers::{FlatBufferBuilder, UnionWIPOffset, WIPOffset};

use crate::generated::vkgraph as wire;
use crate::header::{HEADER_SIZE, IDENTIFIER, MAGIC};
use crate::{Call, Constant, ConstantSource, DType, Graph, TensorInfo, Value, ValueId};

/// What the FlatBuffer, the constant region and each constant in it are aligned to.
pub(crate) const ALIGNMENT: usize = 16;

/// A payload of `graph` with `region` as its constant region.
pub(crate) fn payload(graph: &Graph, region: &[u8]) -> Vec<u8> {
    container(&flatbuffer(graph), region)
}

/// Puts the header in front of a FlatBuffer and the constant region behind it.
#[expect(clippy::cast_possible_truncation, reason = "a FlatBuffer ends below 2 GiB")]
pub(crate) fn container(flatbuffer: &[u8], region: &[u8]) -> Vec<u8> {
    let flatbuffer_offset = usize::from(HEADER_SIZE).next_multiple_of(ALIGNMENT);
    let bytes_offset = (flatbuffer_offset + flatbuffer.len()).next_multiple_of(ALIGNMENT);

    let mut payload = Vec::with_capacity(bytes_offset + region.len());
    payload.extend_from_slice(&[0; 4]);
    payload.extend_from_slice(MAGIC);
    payload.extend_from_slice(&HEADER_SIZE.to_le_bytes());
    payload.extend_from_slice(&(flatbuffer_offset as u32).to_le_bytes());
    payload.extend_from_slice(&(flatbuffer.len() as u32).to_le_bytes());
    payload.extend_from_slice(&(bytes_offset as u32).to_le_bytes());
    payload.extend_from_slice(&(region.len() as u64).to_le_bytes());
    payload.resize(flatbuffer_offset, 0);
    payload.extend_from_slice(flatbuffer);
    payload.resize(bytes_offset, 0);
    payload.extend_from_slice(region);
    payload
}

fn flatbuffer(graph: &Graph) -> Vec<u8> {
    let mut fbb = FlatBufferBuilder::new();
    let version = fbb.create_string("0");
    let chain: Vec<_> = graph.calls.iter().map(|call| operator_call(&mut fbb, call)).collect();
    let chain = fbb.create_vector(&chain);
    let values: Vec<_> = graph.values.iter().map(|value| value_entry(&mut fbb, value)).collect();
    let values = fbb.create_vector(&values);
    let constants: Vec<_> = graph.constants.iter().map(|constant| bytes(&mut fbb, constant)).collect();
    let constants = fbb.create_vector(&constants);
    let inputs = fbb.create_vector_from_iter(graph.inputs.iter().map(|id| id.0));
    let outputs = fbb.create_vector_from_iter(graph.outputs.iter().map(|id| id.0));
    let shaders = fbb.create_vector::<WIPOffset<wire::Bytes<'_>>>(&[]);
    let root = wire::Graph::create(
        &mut fbb,
        &wire::GraphArgs {
            version: Some(version),
            chain: Some(chain),
            values: Some(values),
            input_ids: Some(inputs),
            output_ids: Some(outputs),
            constants: Some(constants),
            shaders: Some(shaders),
            ..Default::default()
        },
    );
    // The generated identifier is text, the header's is bytes; both are checked against each other in tests.
    debug_assert_eq!(wire::GRAPH_IDENTIFIER.as_bytes(), IDENTIFIER);
    fbb.finish(root, Some(wire::GRAPH_IDENTIFIER));
    fbb.finished_data().to_vec()
}

fn ids<'a>(fbb: &mut FlatBufferBuilder<'a>, ids: &[ValueId]) -> WIPOffset<flatbuffers::Vector<'a, i32>> {
    fbb.create_vector_from_iter(ids.iter().map(|id| id.0.cast_signed()))
}

fn operator_call<'a>(fbb: &mut FlatBufferBuilder<'a>, call: &Call) -> WIPOffset<wire::OperatorCall<'a>> {
    let name = Some(fbb.create_string(&call.name));
    let args = Some(ids(fbb, &call.args));
    wire::OperatorCall::create(fbb, &wire::OperatorCallArgs { node_id: call.node_id, name, args })
}

fn bytes<'a>(fbb: &mut FlatBufferBuilder<'a>, constant: &Constant) -> WIPOffset<wire::Bytes<'a>> {
    let (offset, key) = match &constant.source {
        ConstantSource::Named(key) => (u64::MAX, Some(key)),
        ConstantSource::Inline { offset } => (*offset, None),
    };
    let named_key = key.map(|key| fbb.create_string(key));
    wire::Bytes::create(fbb, &wire::BytesArgs { offset, length: constant.length, named_key })
}

fn value_entry<'a>(fbb: &mut FlatBufferBuilder<'a>, value: &Value) -> WIPOffset<wire::ValueEntry<'a>> {
    let (value_type, body) = body(fbb, value);
    wire::ValueEntry::create(fbb, &wire::ValueEntryArgs { value_type, value: Some(body) })
}

fn body(fbb: &mut FlatBufferBuilder<'_>, value: &Value) -> (wire::AnyValue, WIPOffset<UnionWIPOffset>) {
    use wire::AnyValue as Kind;

    match value {
        Value::Null => {
            let body = wire::NullValue::create(fbb, &wire::NullValueArgs {});
            (Kind::NullValue, body.as_union_value())
        }
        Value::Int(int_val) => {
            let body = wire::IntValue::create(fbb, &wire::IntValueArgs { int_val: *int_val });
            (Kind::IntValue, body.as_union_value())
        }
        Value::Double(double_val) => {
            // -0.0 equals the default, would be left out, and be read as 0.0.
            fbb.force_defaults(true);
            let args = wire::DoubleValueArgs { double_val: *double_val };
            let body = wire::DoubleValue::create(fbb, &args);
            fbb.force_defaults(false);
            (Kind::DoubleValue, body.as_union_value())
        }
        Value::Bool(bool_val) => {
            let body = wire::BoolValue::create(fbb, &wire::BoolValueArgs { bool_val: *bool_val });
            (Kind::BoolValue, body.as_union_value())
        }
        Value::String(text) => {
            let args = wire::StringValueArgs { string_val: Some(fbb.create_string(text)) };
            (Kind::StringValue, wire::StringValue::create(fbb, &args).as_union_value())
        }
        Value::IntList(items) => {
            let items = fbb.create_vector_from_iter(items.iter().map(|&item| wire::Int64::new(item)));
            let args = wire::IntListValueArgs { items: Some(items) };
            (Kind::IntListValue, wire::IntListValue::create(fbb, &args).as_union_value())
        }
        Value::DoubleList(items) => {
            let items = fbb.create_vector_from_iter(items.iter().map(|&item| wire::Float64::new(item)));
            let args = wire::DoubleListValueArgs { items: Some(items) };
            (Kind::DoubleListValue, wire::DoubleListValue::create(fbb, &args).as_union_value())
        }
        Value::BoolList(items) => {
            let args = wire::BoolListValueArgs { items: Some(fbb.create_vector(items)) };
            (Kind::BoolListValue, wire::BoolListValue::create(fbb, &args).as_union_value())
        }
        Value::ValueList(items) => {
            let args = wire::ListValueArgs { items: Some(ids(fbb, items)) };
            (Kind::ListValue, wire::ListValue::create(fbb, &args).as_union_value())
        }
        Value::Tensor(info) => (Kind::TensorValue, tensor(fbb, info).as_union_value()),
        Value::SymInt => {
            let body = wire::SymIntValue::create(fbb, &wire::SymIntValueArgs::default());
            (Kind::SymIntValue, body.as_union_value())
        }
    }
}

fn tensor<'a>(fbb: &mut FlatBufferBuilder<'a>, info: &TensorInfo) -> WIPOffset<wire::TensorValue<'a>> {
    let dims = Some(fbb.create_vector(&info.dims));
    wire::TensorValue::create(
        fbb,
        &wire::TensorValueArgs {
            datatype: data_type(info.dtype),
            dims,
            constant_id: info.constant.map_or(-1, |constant| constant.0.cast_signed()),
            mem_obj_id: -1,
            storage_type: info.storage_hint,
            memory_layout: info.layout_hint,
            staging_datatype: data_type(info.staging_dtype),
        },
    )
}

fn data_type(dtype: DType) -> wire::DataType {
    match dtype {
        DType::Bool => wire::DataType::BOOL,
        DType::UInt8 => wire::DataType::UINT8,
        DType::Int8 => wire::DataType::INT8,
        DType::Int32 => wire::DataType::INT32,
        DType::Float16 => wire::DataType::FLOAT16,
        DType::Float32 => wire::DataType::FLOAT32,
        DType::Float64 => wire::DataType::FLOAT64,
        DType::Int64 => wire::DataType::INT64,
    }
}
