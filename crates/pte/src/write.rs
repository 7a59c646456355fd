//! Writes programs of methods that are one call of a delegate, or constants.

use std::io::{self, Read, Write};

use flatbuffers::{FlatBufferBuilder, UnionWIPOffset, Vector, WIPOffset};

use crate::ScalarType;
use crate::container::PROGRAM;
use crate::generated::program as wire;

/// What segments, and the first of them, are aligned to in the file.
const SEGMENT_ALIGNMENT: u64 = 128;
/// Bytes of the extended header, padded to what FlatBuffers inside the program are aligned to.
const HEADER: u32 = 32;
/// What planned tensors are aligned to.
const PLAN_ALIGNMENT: u64 = 16;

/// A program to be written with [`ProgramSpec::write`], as upstream's exporter lays it out: payloads and named data in
/// segments, one after the other.
///
/// Nothing is checked here: what is wrong in it is wrong in the file, and [`crate::Program::parse`] refuses it.
#[derive(Clone, Debug, Default)]
pub struct ProgramSpec {
    /// The methods, in order.
    pub methods: Vec<MethodSpec>,
    /// Named data: keys, and the bytes of each.
    pub named_data: Vec<(String, u64)>,
}

/// A method to be written.
#[derive(Clone, Debug)]
pub struct MethodSpec {
    /// Its name.
    pub name: String,
    /// What it does.
    pub body: BodySpec,
}

/// What a method does.
#[derive(Clone, Debug)]
pub enum BodySpec {
    /// It hands its inputs to a delegate and returns what the delegate writes.
    Delegate(DelegateSpec),
    /// It returns a constant.
    Constant(ConstantSpec),
}

/// A delegate and what it is called with.
#[derive(Clone, Debug)]
pub struct DelegateSpec {
    /// Name of the backend.
    pub id: String,
    /// The payload.
    pub payload: Vec<u8>,
    /// Compile specs: keys and values.
    pub compile_specs: Vec<(String, Vec<u8>)>,
    /// Tensors that the caller gives, in the order of the payload.
    pub inputs: Vec<TensorSpec>,
    /// Tensors that come back, in the order of the payload; their memory is planned.
    pub outputs: Vec<TensorSpec>,
}

/// A tensor of a method, in row-major order.
#[derive(Clone, Debug)]
pub struct TensorSpec {
    /// Element type.
    pub scalar_type: ScalarType,
    /// Sizes; upper bounds if they change.
    pub sizes: Vec<i32>,
    /// Whether an execution may have fewer elements.
    pub dynamic: bool,
}

/// A constant that a method returns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConstantSpec {
    /// A number.
    Int(i64),
    /// A truth value.
    Bool(bool),
    /// A list of numbers: as many outputs.
    Ints(Vec<i64>),
}

impl ProgramSpec {
    /// Writes the file. `data` is asked for the bytes of each entry of [`ProgramSpec::named_data`], by its index and in
    /// order, and has to write as many as announced.
    ///
    /// # Errors
    /// What `out` or `data` fail with, and [`io::ErrorKind::InvalidData`] if `data` writes another number of bytes.
    pub fn write(
        &self,
        out: &mut dyn Write,
        mut data: impl FnMut(usize, &mut dyn Write) -> io::Result<()>,
    ) -> io::Result<()> {
        let payloads: Vec<&[u8]> = self.delegates().map(|delegate| &*delegate.payload).collect();
        let lengths: Vec<u64> = payloads
            .iter()
            .map(|payload| payload.len() as u64)
            .chain(self.named_data.iter().map(|(_, length)| *length))
            .collect();
        let mut end = 0_u64;
        let offsets: Vec<u64> = lengths
            .iter()
            .map(|length| {
                let offset = end.next_multiple_of(SEGMENT_ALIGNMENT);
                end = offset + length;
                offset
            })
            .collect();

        let flatbuffer = self.flatbuffer(&offsets, &lengths);
        let mut out = Counted { out, written: 0 };
        let base = header(&mut out, &flatbuffer, end)?;
        for (index, (offset, length)) in offsets.iter().zip(&lengths).enumerate() {
            out.pad_to(base + offset)?;
            match payloads.get(index) {
                Some(payload) => out.write_all(payload)?,
                None => data(index - payloads.len(), &mut out)?,
            }
            let written = out.written - base - offset;
            if written != *length {
                let text = format!("segment {index} has {written} bytes, {length} were announced");
                return Err(io::Error::new(io::ErrorKind::InvalidData, text));
            }
        }
        out.flush()
    }

    fn delegates(&self) -> impl Iterator<Item = &DelegateSpec> {
        self.methods.iter().filter_map(|method| match &method.body {
            BodySpec::Delegate(delegate) => Some(delegate),
            BodySpec::Constant(_) => None,
        })
    }

    fn flatbuffer(&self, offsets: &[u64], lengths: &[u64]) -> Vec<u8> {
        let mut fbb = FlatBufferBuilder::new();
        // Segment 0 is that of constants outside delegates, of which there are none.
        let mut segment = 0;
        let plans = tables(&mut fbb, &self.methods, |fbb, method| match &method.body {
            BodySpec::Delegate(delegate) => {
                segment += 1;
                delegate_plan(fbb, &method.name, delegate, segment)
            }
            BodySpec::Constant(constant) => constant_plan(fbb, &method.name, constant),
        });
        let constants: Vec<(u64, u64)> =
            std::iter::once((0, 0)).chain(offsets.iter().copied().zip(lengths.iter().copied())).collect();
        let segments = tables(&mut fbb, &constants, |fbb, &(offset, size_)| {
            wire::DataSegment::create(fbb, &wire::DataSegmentArgs { offset, size_ })
        });
        let named = tables(&mut fbb, &self.named_data, |fbb, (key, _)| {
            let key = Some(fbb.create_string(key));
            segment += 1;
            wire::NamedData::create(fbb, &wire::NamedDataArgs { key, segment_index: segment })
        });
        let none = fbb.create_vector::<u64>(&[0]);
        let constant_segment = wire::SubsegmentOffsets::create(
            &mut fbb,
            &wire::SubsegmentOffsetsArgs { segment_index: 0, offsets: Some(none) },
        );
        let constant_buffer = fbb.create_vector::<WIPOffset<wire::Buffer<'_>>>(&[]);
        let inline = fbb.create_vector::<WIPOffset<wire::BackendDelegateInlineData<'_>>>(&[]);
        let root = wire::Program::create(
            &mut fbb,
            &wire::ProgramArgs {
                version: 0,
                execution_plan: Some(plans),
                constant_buffer: Some(constant_buffer),
                backend_delegate_data: Some(inline),
                segments: Some(segments),
                constant_segment: Some(constant_segment),
                mutable_data_segments: None,
                named_data: Some(named),
            },
        );
        fbb.finish(root, str::from_utf8(&PROGRAM).ok());
        fbb.finished_data().to_vec()
    }
}

/// Writes the FlatBuffer with the extended header inserted; returns where segments begin.
fn header(out: &mut Counted<'_>, flatbuffer: &[u8], segments: u64) -> io::Result<u64> {
    let (root, rest) = flatbuffer.split_first_chunk::<4>().ok_or(io::ErrorKind::InvalidData)?;
    let (identifier, rest) = rest.split_first_chunk::<4>().ok_or(io::ErrorKind::InvalidData)?;
    let size = flatbuffer.len() as u64 + u64::from(HEADER);
    let base = size.next_multiple_of(SEGMENT_ALIGNMENT);
    // All other offsets are relative to where they stand.
    out.write_all(&(u32::from_le_bytes(*root) + HEADER).to_le_bytes())?;
    out.write_all(identifier)?;
    out.write_all(b"eh00")?;
    out.write_all(&HEADER.to_le_bytes())?;
    for word in [size, base, segments] {
        out.write_all(&word.to_le_bytes())?;
    }
    out.write_all(rest)?;
    Ok(base)
}

/// A writer that knows how far it is.
struct Counted<'a> {
    out: &'a mut dyn Write,
    written: u64,
}

impl Counted<'_> {
    fn pad_to(&mut self, position: u64) -> io::Result<()> {
        let count = position.saturating_sub(self.written);
        io::copy(&mut io::repeat(0).take(count), self).map(drop)
    }
}

impl Write for Counted<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.out.write(bytes)?;
        self.written += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

type Plan<'b> = WIPOffset<wire::ExecutionPlan<'b>>;

/// A method of one instruction: tensors in, the delegate's segment, tensors out.
fn delegate_plan<'b>(
    fbb: &mut FlatBufferBuilder<'b>,
    name: &str,
    delegate: &DelegateSpec,
    segment: u32,
) -> Plan<'b> {
    let mut planned = 0_u64;
    let inputs = delegate.inputs.iter().map(|tensor| (tensor, None));
    let outputs = delegate.outputs.iter().map(|tensor| {
        let offset = planned.next_multiple_of(PLAN_ALIGNMENT);
        let count = tensor.sizes.iter().fold(1_u64, |count, &size| count * u64::from(size.unsigned_abs()));
        planned = offset + count * tensor.scalar_type.size() as u64;
        (tensor, Some(offset))
    });
    let values: Vec<(&TensorSpec, Option<u64>)> = inputs.chain(outputs).collect();
    let values = tables(fbb, &values, |fbb, &(spec, offset)| {
        let body = tensor(fbb, spec, offset).as_union_value();
        value(fbb, wire::KernelTypes::Tensor, body)
    });
    let args: Vec<i32> = (0..).take(delegate.inputs.len() + delegate.outputs.len()).collect();
    let call_args = Some(fbb.create_vector(&args));
    let call =
        wire::DelegateCall::create(fbb, &wire::DelegateCallArgs { delegate_index: 0, args: call_args });
    let call = wire::Instruction::create(
        fbb,
        &wire::InstructionArgs {
            instr_args_type: wire::InstructionArguments::DelegateCall,
            instr_args: Some(call.as_union_value()),
        },
    );
    let instructions = fbb.create_vector(&[call]);
    let backend = backend(fbb, delegate, segment);
    let backends = fbb.create_vector(&[backend]);
    let (inputs, outputs) = args.split_at_checked(delegate.inputs.len()).unwrap_or_default();
    let leaves = |count| vec![LEAF; count].join(", ");
    // Positional arguments and no keywords; one result stands by itself.
    let container = [
        format!("[1, {}]", node("tuple", &format!("{}, {KEYWORDS}", node("tuple", &leaves(inputs.len()))))),
        format!(
            "[1, {}]",
            if outputs.len() == 1 { LEAF.into() } else { node("tuple", &leaves(outputs.len())) }
        ),
    ];
    let sizes = [0, i64::try_from(planned).unwrap_or(i64::MAX)];
    plan(fbb, name, &container, values, [inputs, outputs], instructions, backends, &sizes)
}

/// A method without instructions whose outputs are its values.
fn constant_plan<'b>(fbb: &mut FlatBufferBuilder<'b>, name: &str, constant: &ConstantSpec) -> Plan<'b> {
    let out = |fbb: &mut FlatBufferBuilder<'b>, int_val| {
        let body = wire::Int::create(fbb, &wire::IntArgs { int_val }).as_union_value();
        value(fbb, wire::KernelTypes::Int, body)
    };
    let values = match constant {
        ConstantSpec::Int(int) => vec![out(fbb, *int)],
        ConstantSpec::Ints(ints) => ints.iter().map(|&int| out(fbb, int)).collect(),
        ConstantSpec::Bool(bool_val) => {
            let body = wire::Bool::create(fbb, &wire::BoolArgs { bool_val: *bool_val }).as_union_value();
            vec![value(fbb, wire::KernelTypes::Bool, body)]
        }
    };
    let outputs: Vec<i32> = (0..).take(values.len()).collect();
    let spec = match constant {
        ConstantSpec::Ints(_) => node("list", &vec![LEAF; values.len()].join(", ")),
        ConstantSpec::Int(_) | ConstantSpec::Bool(_) => LEAF.to_owned(),
    };
    let values = fbb.create_vector(&values);
    let instructions = fbb.create_vector::<WIPOffset<wire::Instruction<'_>>>(&[]);
    let backends = fbb.create_vector::<WIPOffset<wire::BackendDelegate<'_>>>(&[]);
    let container = [String::new(), format!("[1, {spec}]")];
    plan(fbb, name, &container, values, [&[], &outputs], instructions, backends, &[0])
}

type Tables<'b, T> = WIPOffset<Vector<'b, flatbuffers::ForwardsUOffset<T>>>;

#[expect(clippy::too_many_arguments, reason = "the fields of one table")]
fn plan<'b>(
    fbb: &mut FlatBufferBuilder<'b>,
    name: &str,
    [inputs_spec, outputs_spec]: &[String; 2],
    values: Tables<'b, wire::EValue<'b>>,
    [inputs, outputs]: [&[i32]; 2],
    instructions: Tables<'b, wire::Instruction<'b>>,
    delegates: Tables<'b, wire::BackendDelegate<'b>>,
    planned: &[i64],
) -> Plan<'b> {
    let none = fbb.create_vector::<i32>(&[]);
    let chain = wire::Chain::create(
        fbb,
        &wire::ChainArgs {
            inputs: Some(none),
            outputs: Some(none),
            instructions: Some(instructions),
            stacktrace: None,
        },
    );
    let container = wire::ContainerMetadataArgs {
        encoded_inp_str: Some(fbb.create_string(inputs_spec)),
        encoded_out_str: Some(fbb.create_string(outputs_spec)),
    };
    let container = wire::ContainerMetadata::create(fbb, &container);
    let args = wire::ExecutionPlanArgs {
        name: Some(fbb.create_string(name)),
        container_meta_type: Some(container),
        values: Some(values),
        inputs: Some(fbb.create_vector(inputs)),
        outputs: Some(fbb.create_vector(outputs)),
        chains: Some(fbb.create_vector(&[chain])),
        operators: Some(fbb.create_vector::<WIPOffset<wire::Operator<'_>>>(&[])),
        delegates: Some(delegates),
        non_const_buffer_sizes: Some(fbb.create_vector(planned)),
        non_const_buffer_device: None,
    };
    wire::ExecutionPlan::create(fbb, &args)
}

fn backend<'b>(
    fbb: &mut FlatBufferBuilder<'b>,
    delegate: &DelegateSpec,
    index: u32,
) -> WIPOffset<wire::BackendDelegate<'b>> {
    let location = wire::DataLocation::Segment;
    let args = wire::BackendDelegateDataReferenceArgs { location, index };
    let processed = wire::BackendDelegateDataReference::create(fbb, &args);
    let specs = tables(fbb, &delegate.compile_specs, |fbb, (key, value)| {
        let key = Some(fbb.create_string(key));
        let value = Some(fbb.create_vector(value));
        wire::CompileSpec::create(fbb, &wire::CompileSpecArgs { key, value })
    });
    let id = Some(fbb.create_string(&delegate.id));
    let args = wire::BackendDelegateArgs { id, processed: Some(processed), compile_specs: Some(specs) };
    wire::BackendDelegate::create(fbb, &args)
}

fn tensor<'b>(
    fbb: &mut FlatBufferBuilder<'b>,
    spec: &TensorSpec,
    planned: Option<u64>,
) -> WIPOffset<wire::Tensor<'b>> {
    let allocation_info = planned.map(|offset| {
        let [a, b, c, d, e, f, g, h] = offset.to_le_bytes();
        let args = wire::AllocationDetailsArgs {
            memory_id: 1,
            memory_offset_low: u32::from_le_bytes([a, b, c, d]),
            memory_offset_high: u32::from_le_bytes([e, f, g, h]),
        };
        wire::AllocationDetails::create(fbb, &args)
    });
    let sizes = Some(fbb.create_vector(&spec.sizes));
    let order: Vec<u8> = (0..).take(spec.sizes.len()).collect();
    let args = wire::TensorArgs {
        scalar_type: wire::ScalarType(spec.scalar_type as i8),
        sizes,
        dim_order: Some(fbb.create_vector(&order)),
        allocation_info,
        shape_dynamism: if spec.dynamic {
            wire::TensorShapeDynamism::DynamicBound
        } else {
            wire::TensorShapeDynamism::Static
        },
        ..Default::default()
    };
    wire::Tensor::create(fbb, &args)
}

fn value<'b>(
    fbb: &mut FlatBufferBuilder<'b>,
    val_type: wire::KernelTypes,
    body: WIPOffset<UnionWIPOffset>,
) -> WIPOffset<wire::EValue<'b>> {
    wire::EValue::create(fbb, &wire::EValueArgs { val_type, val: Some(body) })
}

fn tables<'b, S, T: 'b>(
    fbb: &mut FlatBufferBuilder<'b>,
    list: &[S],
    mut make: impl FnMut(&mut FlatBufferBuilder<'b>, &S) -> WIPOffset<T>,
) -> Tables<'b, T> {
    let made: Vec<_> = list.iter().map(|item| make(fbb, item)).collect();
    fbb.create_vector(&made)
}

/// PyTorch's description of one value, in its JSON of nested containers.
const LEAF: &str = r#"{"type": null, "context": null, "children_spec": []}"#;

/// That of no keyword arguments.
const KEYWORDS: &str = r#"{"type": "builtins.dict", "context": "[]", "children_spec": []}"#;

fn node(kind: &str, children: &str) -> String {
    format!(r#"{{"type": "builtins.{kind}", "context": "null", "children_spec": [{children}]}}"#)
}
