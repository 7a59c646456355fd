//! Writes programs, right and wrong ones, from a plain description.

use flatbuffers::{FlatBufferBuilder, UnionWIPOffset, Vector, WIPOffset};

use crate::generated::program as fb;

type Builder<'b> = FlatBufferBuilder<'b>;

/// A program of one method `forward`. [`Spec::default`] describes one that a reader must accept.
pub(crate) struct Spec {
    pub(crate) names: Vec<Option<&'static str>>,
    pub(crate) values: Option<Vec<Val>>,
    pub(crate) inputs: Vec<i32>,
    pub(crate) outputs: Vec<i32>,
    /// Instructions of each chain.
    pub(crate) chains: Vec<Option<Vec<Op>>>,
    pub(crate) operators: Vec<(Option<&'static str>, Option<&'static str>)>,
    pub(crate) delegates: Option<Vec<Delegate>>,
    pub(crate) buffers: Vec<i64>,
    /// Device type of planned buffer 1.
    pub(crate) device: Option<i8>,
    pub(crate) constant_segment: Option<(u32, Vec<u64>)>,
    pub(crate) constant_buffer: Vec<Vec<u8>>,
    pub(crate) mutable_segment: Option<(u32, Vec<u64>)>,
    pub(crate) named: Option<Vec<(Option<&'static str>, u32)>>,
    pub(crate) inline: Vec<Vec<u8>>,
    pub(crate) segments: Option<Vec<Vec<u8>>>,
}

#[derive(Clone)]
pub(crate) enum Val {
    Absent,
    Kind(u8),
    Int(i64),
    Bool(bool),
    String(Option<&'static str>),
    Tensor(TensorSpec),
    IntList(Vec<i64>),
    TensorList(Vec<i32>),
    OptionalTensorList(Vec<i32>),
}

#[derive(Clone)]
pub(crate) struct TensorSpec {
    pub(crate) scalar_type: i8,
    pub(crate) storage_offset: i32,
    pub(crate) sizes: Option<Vec<i32>>,
    pub(crate) dim_order: Option<Vec<u8>>,
    pub(crate) data: u32,
    /// Memory id and offset.
    pub(crate) planned: Option<(u32, u64)>,
    pub(crate) dynamism: i8,
    /// Location, device type and name.
    pub(crate) extra: Option<(i8, i8, Option<&'static str>)>,
}

#[derive(Clone)]
pub(crate) enum Op {
    Absent,
    Kind(u8),
    Kernel(i32, Vec<i32>),
    Delegate(i32, Vec<i32>),
    Move(i32, i32),
    Jump(i32, i32),
    Free(i32),
}

pub(crate) struct Delegate {
    pub(crate) id: Option<&'static str>,
    /// Location and index.
    pub(crate) processed: Option<(i8, u32)>,
    pub(crate) specs: Vec<(Option<&'static str>, Option<Vec<u8>>)>,
}

/// A planned float tensor of two by three elements at the start of buffer 1.
pub(crate) fn tensor() -> TensorSpec {
    TensorSpec {
        scalar_type: 6,
        storage_offset: 0,
        sizes: Some(vec![2, 3]),
        dim_order: Some(vec![0, 1]),
        data: 0,
        planned: Some((1, 0)),
        dynamism: 0,
        extra: None,
    }
}

impl Default for Spec {
    /// Values: planned tensor, Bool, Int, constant tensor of segment 0, mutable tensor of segment 1.
    fn default() -> Self {
        Self {
            names: vec![Some("forward")],
            values: Some(vec![
                Val::Tensor(tensor()),
                Val::Bool(true),
                Val::Int(7),
                Val::Tensor(TensorSpec { planned: None, data: 1, ..tensor() }),
                Val::Tensor(TensorSpec { planned: Some((1, 32)), data: 1, ..tensor() }),
            ]),
            inputs: vec![0],
            outputs: vec![0, 2],
            chains: vec![Some(vec![Op::Kernel(0, vec![0, 3, 0]), Op::Delegate(0, vec![0, 4])])],
            operators: vec![(Some("aten::add"), Some("out"))],
            delegates: Some(vec![Delegate {
                id: Some("VulkanBackend"),
                processed: Some((1, 2)),
                specs: vec![(Some("force_fp16"), Some(vec![1]))],
            }]),
            buffers: vec![0, 64],
            device: None,
            constant_segment: Some((0, vec![0, 8])),
            constant_buffer: vec![],
            mutable_segment: Some((1, vec![0, 4])),
            named: Some(vec![(Some("weight"), 3)]),
            inline: vec![],
            segments: Some(vec![vec![1; 32], vec![2; 28], b"payload".to_vec(), b"blob".to_vec()]),
        }
    }
}

/// The file of the default program after `edit`.
pub(crate) fn pte(edit: impl FnOnce(&mut Spec)) -> Vec<u8> {
    let mut spec = Spec::default();
    edit(&mut spec);
    spec.write()
}

impl Spec {
    fn write(&self) -> Vec<u8> {
        let mut b = Builder::new();
        let plans: Vec<_> = self.names.iter().map(|name| self.plan(&mut b, *name)).collect();
        let buffers = tables(&mut b, &self.constant_buffer, |b, bytes| {
            let storage = Some(b.create_vector(bytes));
            fb::Buffer::create(b, &fb::BufferArgs { storage })
        });
        let inline = tables(&mut b, &self.inline, |b, bytes| {
            let data = Some(b.create_vector(bytes));
            fb::BackendDelegateInlineData::create(b, &fb::BackendDelegateInlineDataArgs { data })
        });
        let mut offset = 0;
        let segments = self.segments.as_ref().map(|segments| {
            tables(&mut b, segments, |b, bytes| {
                let args = fb::DataSegmentArgs { offset, size_: bytes.len() as u64 };
                offset += bytes.len() as u64;
                fb::DataSegment::create(b, &args)
            })
        });
        let constant_segment = self.constant_segment.as_ref().map(|s| subsegment(&mut b, s));
        let mutable = self.mutable_segment.as_ref().map(|s| {
            let entry = subsegment(&mut b, s);
            b.create_vector(&[entry])
        });
        let named = self.named.as_ref().map(|named| {
            tables(&mut b, named, |b, (key, segment_index)| {
                let key = key.map(|key| b.create_string(key));
                fb::NamedData::create(b, &fb::NamedDataArgs { key, segment_index: *segment_index })
            })
        });
        let args = fb::ProgramArgs {
            execution_plan: Some(b.create_vector(&plans)),
            constant_buffer: Some(buffers),
            backend_delegate_data: Some(inline),
            segments,
            constant_segment,
            mutable_data_segments: mutable,
            named_data: named,
            version: 0,
        };
        let root = fb::Program::create(&mut b, &args);
        b.finish(root, Some("ET12"));
        match &self.segments {
            Some(segments) => with_header(b.finished_data(), &segments.concat()),
            None => padded(b.finished_data()),
        }
    }

    fn plan<'b>(&self, b: &mut Builder<'b>, name: Option<&str>) -> WIPOffset<fb::ExecutionPlan<'b>> {
        let name = name.map(|name| b.create_string(name));
        let values = self.values.as_ref().map(|values| tables(b, values, value));
        let chains = tables(b, &self.chains, |b, instructions| {
            let instructions = instructions.as_ref().map(|list| tables(b, list, instruction));
            fb::Chain::create(b, &fb::ChainArgs { instructions, ..Default::default() })
        });
        let operators = tables(b, &self.operators, |b, (name, overload)| {
            let name = name.map(|name| b.create_string(name));
            let overload = overload.map(|overload| b.create_string(overload));
            fb::Operator::create(b, &fb::OperatorArgs { name, overload })
        });
        let delegates = self.delegates.as_ref().map(|delegates| tables(b, delegates, delegate));
        let device = self.device.map(|device| {
            let args = fb::NonConstBufferDeviceArgs {
                buffer_idx: 1,
                device_type: fb::DeviceType(device),
                device_index: 0,
            };
            let entry = fb::NonConstBufferDevice::create(b, &args);
            b.create_vector(&[entry])
        });
        let args = fb::ExecutionPlanArgs {
            name,
            values,
            inputs: Some(b.create_vector(&self.inputs)),
            outputs: Some(b.create_vector(&self.outputs)),
            chains: Some(chains),
            operators: Some(operators),
            delegates,
            non_const_buffer_sizes: Some(b.create_vector(&self.buffers)),
            non_const_buffer_device: device,
            container_meta_type: None,
        };
        fb::ExecutionPlan::create(b, &args)
    }
}

/// The FlatBuffer with the extended header inserted, then the segments.
pub(crate) fn with_header(flatbuffer: &[u8], segments: &[u8]) -> Vec<u8> {
    let root = u32::from_le_bytes(flatbuffer[..4].try_into().unwrap()) + 32;
    let size = flatbuffer.len() as u64 + 32;
    let base = size.next_multiple_of(128);
    let mut file = [&root.to_le_bytes(), &flatbuffer[4..8], b"eh00", &32_u32.to_le_bytes()].concat();
    file.extend([size, base, segments.len() as u64].map(u64::to_le_bytes).concat());
    file.extend(&flatbuffer[8..]);
    file.resize(base as usize, 0);
    file.extend(segments);
    file
}

/// At least as many bytes as a program must have.
pub(crate) fn padded(flatbuffer: &[u8]) -> Vec<u8> {
    let mut file = flatbuffer.to_vec();
    file.resize(file.len().max(64), 0);
    file
}

fn tables<'b, S, T: 'b>(
    b: &mut Builder<'b>,
    list: &[S],
    mut make: impl FnMut(&mut Builder<'b>, &S) -> WIPOffset<T>,
) -> WIPOffset<Vector<'b, flatbuffers::ForwardsUOffset<T>>> {
    let made: Vec<_> = list.iter().map(|item| make(b, item)).collect();
    b.create_vector(&made)
}

fn subsegment<'b>(
    b: &mut Builder<'b>,
    (segment_index, offsets): &(u32, Vec<u64>),
) -> WIPOffset<fb::SubsegmentOffsets<'b>> {
    let offsets = Some(b.create_vector(offsets));
    fb::SubsegmentOffsets::create(b, &fb::SubsegmentOffsetsArgs { segment_index: *segment_index, offsets })
}

fn value<'b>(b: &mut Builder<'b>, value: &Val) -> WIPOffset<fb::EValue<'b>> {
    use fb::KernelTypes as K;
    let (kind, body): (K, Option<WIPOffset<UnionWIPOffset>>) = match value {
        Val::Absent => (K::NONE, None),
        Val::Kind(kind) => (K(*kind), Some(fb::Null::create(b, &fb::NullArgs {}).as_union_value())),
        Val::Int(v) => (K::Int, Some(fb::Int::create(b, &fb::IntArgs { int_val: *v }).as_union_value())),
        Val::Bool(v) => (K::Bool, Some(fb::Bool::create(b, &fb::BoolArgs { bool_val: *v }).as_union_value())),
        Val::String(text) => {
            let string_val = text.map(|text| b.create_string(text));
            (K::String, Some(fb::String::create(b, &fb::StringArgs { string_val }).as_union_value()))
        }
        Val::Tensor(spec) => (K::Tensor, Some(spec.write(b).as_union_value())),
        Val::IntList(items) => {
            let items = Some(b.create_vector(items));
            (K::IntList, Some(fb::IntList::create(b, &fb::IntListArgs { items }).as_union_value()))
        }
        Val::TensorList(items) => {
            let items = Some(b.create_vector(items));
            (K::TensorList, Some(fb::TensorList::create(b, &fb::TensorListArgs { items }).as_union_value()))
        }
        Val::OptionalTensorList(items) => {
            let items = Some(b.create_vector(items));
            let list = fb::OptionalTensorList::create(b, &fb::OptionalTensorListArgs { items });
            (K::OptionalTensorList, Some(list.as_union_value()))
        }
    };
    fb::EValue::create(b, &fb::EValueArgs { val_type: kind, val: body })
}

impl TensorSpec {
    fn write<'b>(&self, b: &mut Builder<'b>) -> WIPOffset<fb::Tensor<'b>> {
        let sizes = self.sizes.as_ref().map(|sizes| b.create_vector(sizes));
        let dim_order = self.dim_order.as_ref().map(|order| b.create_vector(order));
        let allocation_info = self.planned.map(|(memory_id, offset)| {
            let args = fb::AllocationDetailsArgs {
                memory_id,
                memory_offset_low: offset as u32,
                memory_offset_high: (offset >> 32) as u32,
            };
            fb::AllocationDetails::create(b, &args)
        });
        let extra_tensor_info = self.extra.map(|(location, device, name)| {
            let args = fb::ExtraTensorInfoArgs {
                fully_qualified_name: name.map(|name| b.create_string(name)),
                location: fb::TensorDataLocation(location),
                device_type: fb::DeviceType(device),
                ..Default::default()
            };
            fb::ExtraTensorInfo::create(b, &args)
        });
        let args = fb::TensorArgs {
            scalar_type: fb::ScalarType(self.scalar_type),
            storage_offset: self.storage_offset,
            sizes,
            dim_order,
            data_buffer_idx: self.data,
            allocation_info,
            shape_dynamism: fb::TensorShapeDynamism(self.dynamism),
            extra_tensor_info,
            ..Default::default()
        };
        fb::Tensor::create(b, &args)
    }
}

fn instruction<'b>(b: &mut Builder<'b>, op: &Op) -> WIPOffset<fb::Instruction<'b>> {
    use fb::InstructionArguments as A;
    let (kind, body) = match op {
        Op::Absent => (A::NONE, None),
        Op::Kind(kind) => (A(*kind), Some(fb::Null::create(b, &fb::NullArgs {}).as_union_value())),
        Op::Kernel(op_index, args) => {
            let args = fb::KernelCallArgs { op_index: *op_index, args: Some(b.create_vector(args)) };
            (A::KernelCall, Some(fb::KernelCall::create(b, &args).as_union_value()))
        }
        Op::Delegate(delegate_index, args) => {
            let args =
                fb::DelegateCallArgs { delegate_index: *delegate_index, args: Some(b.create_vector(args)) };
            (A::DelegateCall, Some(fb::DelegateCall::create(b, &args).as_union_value()))
        }
        Op::Move(from, to) => {
            let args = fb::MoveCallArgs { move_from: *from, move_to: *to };
            (A::MoveCall, Some(fb::MoveCall::create(b, &args).as_union_value()))
        }
        Op::Jump(condition, destination) => {
            let args =
                fb::JumpFalseCallArgs { cond_value_index: *condition, destination_instruction: *destination };
            (A::JumpFalseCall, Some(fb::JumpFalseCall::create(b, &args).as_union_value()))
        }
        Op::Free(value) => {
            let args = fb::FreeCallArgs { value_index: *value };
            (A::FreeCall, Some(fb::FreeCall::create(b, &args).as_union_value()))
        }
    };
    fb::Instruction::create(b, &fb::InstructionArgs { instr_args_type: kind, instr_args: body })
}

fn delegate<'b>(b: &mut Builder<'b>, delegate: &Delegate) -> WIPOffset<fb::BackendDelegate<'b>> {
    let id = delegate.id.map(|id| b.create_string(id));
    let processed = delegate.processed.map(|(location, index)| {
        let location = fb::DataLocation(location);
        let args = fb::BackendDelegateDataReferenceArgs { location, index };
        fb::BackendDelegateDataReference::create(b, &args)
    });
    let specs = tables(b, &delegate.specs, |b, (key, value)| {
        let key = key.map(|key| b.create_string(key));
        let value = value.as_ref().map(|value| b.create_vector(value));
        fb::CompileSpec::create(b, &fb::CompileSpecArgs { key, value })
    });
    let args = fb::BackendDelegateArgs { id, processed, compile_specs: Some(specs) };
    fb::BackendDelegate::create(b, &args)
}
