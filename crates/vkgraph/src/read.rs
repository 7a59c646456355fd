//! The FlatBuffer, verified, as a checked [`Graph`].

use flatbuffers::{Follow, ForwardsUOffset, InvalidFlatbuffer, Vector, VerifierOptions};

use crate::generated::vkgraph as wire;
use crate::{
    Call, CallFault, Constant, ConstantFault, ConstantId, ConstantSource, DType, Error, Graph, MAX_NAME,
    MAX_RANK, PortFault, TensorInfo, Value, ValueFault, ValueId,
};

type Tables<'a, T> = Vector<'a, ForwardsUOffset<T>>;

/// Reads a graph whose constant region has `region` bytes.
///
/// # Errors
/// The first fault found.
pub(crate) fn graph(flatbuffer: &[u8], region: u64) -> Result<Graph, Error> {
    let root = flatbuffers::root_with_opts::<wire::Graph>(&limits(flatbuffer), flatbuffer)
        .map_err(|damage| Error::FlatBuffer { reason: one_line(&damage) })?;

    let shaders = root.shaders().map_or(0, |shaders| shaders.len());
    if shaders > 0 {
        return Err(Error::CustomShaders { found: shaders });
    }
    let constants = constants(root.constants(), region)?;
    let values = values(present(root.values(), "values")?, &constants)?;
    let calls = calls(present(root.chain(), "chain")?, values.len())?;
    let inputs = inputs(present(root.input_ids(), "input_ids")?, &values)?;
    let outputs = outputs(present(root.output_ids(), "output_ids")?, &values)?;
    Ok(Graph { values, calls, inputs, outputs, constants })
}

/// Limits that no honest writer reaches, however large the graph, and that keep the work in proportion to the
/// bytes when offsets are made to share tables: a table and the offset to it take 8 bytes or more.
fn limits(flatbuffer: &[u8]) -> VerifierOptions {
    VerifierOptions {
        max_depth: 64,
        max_tables: flatbuffer.len() / 4 + 1,
        max_apparent_size: flatbuffer.len().saturating_mul(16),
        ignore_missing_null_terminator: false,
    }
}

fn one_line(damage: &InvalidFlatbuffer) -> String {
    let text = damage.to_string();
    text.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join("; ")
}

fn present<T>(field: Option<T>, name: &'static str) -> Result<T, Error> {
    field.ok_or(Error::Missing { field: name })
}

/// Ids count up to the vector length, which the verifier holds below the FlatBuffer's 2^32 bytes.
fn id(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(u32::MAX)
}

/// The id if one of `values` values has it.
fn in_range(found: i64, values: usize) -> Option<ValueId> {
    let id = u32::try_from(found).ok()?;
    ((id as usize) < values).then_some(ValueId(id))
}

fn constants(entries: Option<Tables<'_, wire::Bytes<'_>>>, region: u64) -> Result<Vec<Constant>, Error> {
    let read = |(index, entry): (usize, wire::Bytes<'_>)| {
        constant(entry, region).map_err(|fault| Error::Constant { id: ConstantId(id(index)), fault })
    };
    entries.map_or_else(|| Ok(Vec::new()), |entries| entries.iter().enumerate().map(read).collect())
}

fn constant(entry: wire::Bytes<'_>, region: u64) -> Result<Constant, ConstantFault> {
    let (offset, length) = (entry.offset(), entry.length());
    // The key alone does not tell: empty constants are inline and have one, an empty one.
    if offset == u64::MAX {
        return match entry.named_key() {
            Some(key) if !key.is_empty() => {
                Ok(Constant { source: ConstantSource::Named(key.to_owned()), length })
            }
            _ => Err(ConstantFault::NoKey),
        };
    }
    match offset.checked_add(length) {
        Some(end) if end <= region => Ok(Constant { source: ConstantSource::Inline { offset }, length }),
        _ => Err(ConstantFault::Range { offset, length, region }),
    }
}

fn values(entries: Tables<'_, wire::ValueEntry<'_>>, constants: &[Constant]) -> Result<Vec<Value>, Error> {
    let count = entries.len();
    let at = |index| move |fault| Error::Value { id: ValueId(id(index)), fault };
    let values = entries
        .iter()
        .enumerate()
        .map(|(index, entry)| value(entry, count, constants).map_err(at(index)))
        .collect::<Result<Vec<_>, _>>()?;
    for (index, value) in values.iter().enumerate() {
        check_flat(value, &values).map_err(at(index))?;
    }
    Ok(values)
}

fn value(entry: wire::ValueEntry<'_>, values: usize, constants: &[Constant]) -> Result<Value, ValueFault> {
    use wire::AnyValue as Kind;

    let tag = entry.value_type();
    let value = match tag {
        Kind::NullValue => Some(Value::Null),
        Kind::SymIntValue => Some(Value::SymInt),
        Kind::IntValue => entry.value_as_int_value().map(|body| Value::Int(body.int_val())),
        Kind::DoubleValue => entry.value_as_double_value().map(|body| Value::Double(body.double_val())),
        Kind::BoolValue => entry.value_as_bool_value().map(|body| Value::Bool(body.bool_val())),
        Kind::StringValue => {
            let text = entry.value_as_string_value().and_then(|body| body.string_val());
            Some(Value::String(text.ok_or(ValueFault::Missing { field: "string_val" })?.to_owned()))
        }
        Kind::IntListValue => {
            let items = entry.value_as_int_list_value().and_then(|body| body.items());
            Some(Value::IntList(literals(items, wire::Int64::value)?))
        }
        Kind::DoubleListValue => {
            let items = entry.value_as_double_list_value().and_then(|body| body.items());
            Some(Value::DoubleList(literals(items, wire::Float64::value)?))
        }
        Kind::BoolListValue => {
            let items = entry.value_as_bool_list_value().and_then(|body| body.items());
            Some(Value::BoolList(literals(items, |item| item)?))
        }
        Kind::ListValue => {
            let items = entry.value_as_list_value().and_then(|body| body.items());
            Some(Value::ValueList(list_items(items, values)?))
        }
        Kind::TensorValue => match entry.value_as_tensor_value() {
            Some(body) => Some(Value::Tensor(tensor(body, constants)?)),
            None => None,
        },
        _ => None,
    };
    value.ok_or(ValueFault::Kind { tag: tag.0 })
}

fn literals<'a, T: Follow<'a>, U>(
    items: Option<Vector<'a, T>>,
    read: impl Fn(T::Inner) -> U,
) -> Result<Vec<U>, ValueFault> {
    let items = items.ok_or(ValueFault::Missing { field: "items" })?;
    Ok(items.iter().map(read).collect())
}

fn list_items(items: Option<Vector<'_, i32>>, values: usize) -> Result<Vec<ValueId>, ValueFault> {
    let items = items.ok_or(ValueFault::Missing { field: "items" })?;
    let item = |(item, found): (usize, i32)| {
        let found = i64::from(found);
        in_range(found, values).ok_or(ValueFault::Item { item, found, values })
    };
    items.iter().enumerate().map(item).collect()
}

/// Lists hold no lists: so none holds itself, and reading one ends.
fn check_flat(value: &Value, values: &[Value]) -> Result<(), ValueFault> {
    let Value::ValueList(items) = value else {
        return Ok(());
    };
    let is_list = |id: ValueId| values.get(id.index()).is_some_and(Value::is_list);
    match items.iter().position(|&id| is_list(id)).and_then(|item| Some((item, *items.get(item)?))) {
        Some((item, id)) => Err(ValueFault::NestedList { item, id }),
        None => Ok(()),
    }
}

fn tensor(body: wire::TensorValue<'_>, constants: &[Constant]) -> Result<TensorInfo, ValueFault> {
    let dtype = dtype(body.datatype()).ok_or(ValueFault::DType { found: body.datatype().0 })?;
    let staging_dtype = match body.staging_datatype() {
        wire::DataType::UNSET => dtype,
        staging => self::dtype(staging).ok_or(ValueFault::StagingDType { found: staging.0 })?,
    };
    let dims = body.dims().ok_or(ValueFault::Missing { field: "dims" })?;
    if dims.len() > MAX_RANK {
        return Err(ValueFault::Rank { found: dims.len() });
    }
    let dims: Vec<u32> = dims.iter().collect();
    // Strides multiply dimensions whatever the others are, so a 0 must not hide an overflow.
    if dims.iter().try_fold(1_u32, |count, &dim| count.checked_mul(dim.max(1))).is_none() {
        return Err(ValueFault::Elements { dims });
    }
    let constant = u32::try_from(body.constant_id()).ok().map(ConstantId);
    let info = TensorInfo {
        dtype,
        dims,
        constant,
        staging_dtype,
        storage_hint: body.storage_type(),
        layout_hint: body.memory_layout(),
    };
    if let Some(constant) = constant {
        check_length(&info, constant, constants)?;
    }
    Ok(info)
}

fn check_length(info: &TensorInfo, id: ConstantId, constants: &[Constant]) -> Result<(), ValueFault> {
    let Some(constant) = constants.get(id.index()) else {
        return Err(ValueFault::ConstantId { found: id.0.cast_signed(), constants: constants.len() });
    };
    let (expected, found) = (info.byte_size(), constant.length);
    if found < expected {
        return Err(ValueFault::ConstantLength { constant: id, expected, found });
    }
    Ok(())
}

fn dtype(wire: wire::DataType) -> Option<DType> {
    Some(match wire {
        wire::DataType::BOOL => DType::Bool,
        wire::DataType::UINT8 => DType::UInt8,
        wire::DataType::INT8 => DType::Int8,
        wire::DataType::INT32 => DType::Int32,
        wire::DataType::FLOAT16 => DType::Float16,
        wire::DataType::FLOAT32 => DType::Float32,
        wire::DataType::FLOAT64 => DType::Float64,
        wire::DataType::INT64 => DType::Int64,
        _ => return None,
    })
}

fn calls(entries: Tables<'_, wire::OperatorCall<'_>>, values: usize) -> Result<Vec<Call>, Error> {
    let read = |(index, entry): (usize, wire::OperatorCall<'_>)| {
        call(entry, values).map_err(|fault| {
            let name = entry.name().unwrap_or_default().chars().take(MAX_NAME).collect();
            Error::Call { index, name, fault }
        })
    };
    entries.iter().enumerate().map(read).collect()
}

fn call(entry: wire::OperatorCall<'_>, values: usize) -> Result<Call, CallFault> {
    let name = entry.name().ok_or(CallFault::Missing { field: "name" })?;
    if name.is_empty() {
        return Err(CallFault::EmptyName);
    }
    if name.len() > MAX_NAME {
        return Err(CallFault::LongName { found: name.len() });
    }
    let args = entry.args().ok_or(CallFault::Missing { field: "args" })?;
    if args.is_empty() {
        return Err(CallFault::NoArgs);
    }
    let arg = |(slot, found): (usize, i32)| {
        let found = i64::from(found);
        in_range(found, values).ok_or(CallFault::Arg { slot, found, values })
    };
    let args = args.iter().enumerate().map(arg).collect::<Result<_, _>>()?;
    Ok(Call { node_id: entry.node_id(), name: name.to_owned(), args })
}

fn inputs(ids: Vector<'_, u32>, values: &[Value]) -> Result<Vec<ValueId>, Error> {
    let mut first = std::collections::HashMap::new();
    let mut input = |slot: usize, found: u32| {
        let (id, value) = port(found, values)?;
        if let Value::Tensor(TensorInfo { constant: Some(constant), .. }) = value {
            return Err(PortFault::Constant { id, constant: *constant });
        }
        match first.insert(id, slot) {
            Some(first) => Err(PortFault::Duplicate { id, first }),
            None => Ok(id),
        }
    };
    let at = |slot| move |fault| Error::Input { slot, fault };
    ids.iter().enumerate().map(|(slot, id)| input(slot, id).map_err(at(slot))).collect()
}

fn outputs(ids: Vector<'_, u32>, values: &[Value]) -> Result<Vec<ValueId>, Error> {
    let at = |slot| move |fault| Error::Output { slot, fault };
    let output = |(slot, found)| port(found, values).map(|(id, _)| id).map_err(at(slot));
    ids.iter().enumerate().map(output).collect()
}

/// A value that may cross the delegate boundary.
fn port(found: u32, values: &[Value]) -> Result<(ValueId, &Value), PortFault> {
    let id = ValueId(found);
    match values.get(id.index()) {
        None => Err(PortFault::Range { found, values: values.len() }),
        Some(value @ (Value::Tensor(_) | Value::SymInt)) => Ok((id, value)),
        Some(other) => Err(PortFault::Kind { id, found: other.kind() }),
    }
}
