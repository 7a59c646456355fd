//! A loaded graph on a device, and its executions.

use etvk_kernels::{Strided, numel};
use etvk_vkgraph::{DType, NamedData, Payload};
use etvk_vulkan::{Buffer, BufferKind, RecorderOptions, Recording, UploaderOptions};

use crate::context::Context;
use crate::convert::{self, compatible, narrow, widen};
use crate::error::{Error, Fault};
use crate::host::{self, HostInputs, HostState, normalise_dim};
use crate::ir::{Content, Elem, Form, HostStep, Port, Program, TensorId, Weight};
use crate::plan::{self, PlanLimits};
use crate::record::{Memory, Record, Region};
use crate::weights::{self, Progress, Source, WeightLimits};

/// One argument of an execution.
#[derive(Clone, Copy, Debug)]
pub enum Input<'a> {
    /// A contiguous tensor: `data` holds `sizes` elements of `dtype`, little-endian, row-major.
    Tensor {
        /// Element type; may be wider or narrower than the graph's within floats, and 64-bit for int32.
        dtype: DType,
        /// Sizes, at most the graph's upper bounds.
        sizes: &'a [u32],
        /// The elements.
        data: &'a [u8],
    },
    /// An integer.
    Int(i64),
}

/// What a delegate input or output is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PortInfo {
    /// A tensor of this element type and these upper bounds.
    Tensor {
        /// Element type as the host sees it.
        dtype: DType,
        /// Upper bound of every size.
        bound: Vec<u32>,
    },
    /// An integer.
    Int,
}

/// What an executor did so far; a step that repeats earlier shapes changes `executions` alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Completed executions.
    pub executions: u64,
    /// Command recordings made, one for each new set of shapes.
    pub recordings: u64,
    /// Descriptor sets written, all while recording.
    pub descriptor_sets: u64,
    /// Device buffers allocated, all while loading.
    pub buffers: u64,
    /// Dispatches in the current recording.
    pub dispatches: u32,
    /// Barriers in the current recording.
    pub barriers: u32,
}

/// How to load a graph.
#[derive(Default)]
pub struct LoadOptions<'a> {
    /// Constants outside the payload.
    pub named: Option<&'a dyn NamedData>,
    /// Told how far the upload of constants is.
    pub progress: Option<Progress<'a>>,
    /// Write GPU timestamps around every dispatch, for [`Executor::timings`].
    pub timestamps: bool,
}

/// GPU time of one dispatch of the last execution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timing {
    /// Index in the payload's chain of the call it belongs to.
    pub call: u32,
    /// Serialised operator name.
    pub operator: String,
    /// GPU nanoseconds.
    pub nanoseconds: u64,
}

struct Recorded {
    layouts: Vec<Strided>,
    recording: Recording,
    last_used: u64,
}

/// A graph with its constants, state and recorded commands on a device. Executions are stateful: mutable
/// constants (KV caches) keep their contents between them.
pub struct Executor {
    context: Context,
    program: Program,
    ports: (Vec<PortInfo>, Vec<PortInfo>),
    memory: Memory,
    outputs: Vec<Option<Region>>,
    host: HostState,
    dynamic: Vec<(HostStep, u32)>,
    recorded: Vec<Recorded>,
    current: Option<usize>,
    timestamps: bool,
    counters: Counters,
}

/// Recordings kept at once; the least recently used goes first.
const MAX_RECORDINGS: usize = 32;
/// Words of the fault buffer: call tag + 1, index, limit, unused.
const FAULT_BYTES: u64 = 16;

impl Executor {
    /// Lowers a payload's graph, uploads its constants and allocates its memory.
    ///
    /// # Errors
    /// [`Error::Unsupported`] with every call that cannot run, constants that are missing or too short,
    /// tensors larger than the device binds, or a device failure.
    pub fn load(context: &Context, payload: &Payload<'_>, options: LoadOptions<'_>) -> Result<Self, Error> {
        let program = crate::lower(payload.graph())?;
        let caps = context.device().capabilities();
        let alignment = caps.min_storage_buffer_offset_alignment.max(16);
        let (max_range, max_block) = (caps.max_storage_buffer_range, caps.max_allocation_size);
        let plan = plan::plan(&program, PlanLimits { alignment, max_range, max_block })?;
        let mut buffers = 0;
        let mut allocate = |label: &str, bytes: u64, kind| {
            buffers += 1;
            context.device().buffer(label, bytes, kind).map_err(Error::from)
        };
        let arena: Vec<Buffer> = plan
            .blocks
            .iter()
            .map(|&bytes| allocate("arena", bytes, BufferKind::Device))
            .collect::<Result<_, _>>()?;
        let (upload_bytes, dynamic, inputs) = upload_ranges(&program, alignment, max_range)?;
        let upload = allocate("inputs", upload_bytes, BufferKind::Upload)?;
        let region = |buffer: &Buffer, (offset, bytes)| Region { buffer: buffer.clone(), offset, bytes };
        let (download_bytes, outputs) = output_ranges(&program, alignment, max_range)?;
        let download = allocate("outputs", download_bytes + FAULT_BYTES, BufferKind::Download)?;
        let source = Source { payload, named: options.named };
        let mut uploader = context.device().uploader(&UploaderOptions::default())?;
        let state_weights = state_weights(&program);
        let states = state_weights
            .iter()
            .map(|weight| {
                let bytes = weights::device_bytes(weight).max(4);
                let buffer = allocate("state", bytes, BufferKind::Device)?;
                weights::upload(source, weight, &mut uploader, &buffer, 0)?;
                Ok(Region { buffer, offset: 0, bytes })
            })
            .collect::<Result<Vec<_>, Error>>()?;
        let device = context.device();
        let slab = |bytes| device.buffer("constants", bytes, BufferKind::Device).map_err(Error::from);
        let limits = WeightLimits { alignment, max_range, max_block };
        let weights =
            context.weights().load(&program, source, &mut uploader, &slab, limits, options.progress)?;
        let ports = (
            ports(&program, payload, &payload.graph().inputs, &program.inputs),
            ports(&program, payload, &payload.graph().outputs, &program.outputs),
        );
        Ok(Self {
            host: HostState::new(&program),
            dynamic: host::dynamic_steps(&program),
            ports,
            memory: Memory {
                arena,
                plan,
                inputs: inputs.into_iter().map(|range| range.map(|range| region(&upload, range))).collect(),
                weights,
                states,
                dynamic: region(&upload, dynamic),
                fault: region(&download, (download_bytes, FAULT_BYTES)),
            },
            outputs: outputs.into_iter().map(|range| range.map(|range| region(&download, range))).collect(),
            context: context.clone(),
            program,
            recorded: Vec::new(),
            current: None,
            timestamps: options.timestamps,
            counters: Counters { buffers, ..Counters::default() },
        })
    }

    /// The delegate inputs in argument order.
    #[must_use]
    pub fn inputs(&self) -> &[PortInfo] {
        &self.ports.0
    }

    /// The delegate outputs in argument order.
    #[must_use]
    pub fn outputs(&self) -> &[PortInfo] {
        &self.ports.1
    }

    /// What was done so far.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Runs the graph once. Outputs are read afterwards with [`Executor::read_output`].
    ///
    /// # Errors
    /// Inputs that do not fit the graph, shapes or positions that do not fit each other, an index out of
    /// range met by a kernel, or a device failure. Nothing is submitted when an input is refused.
    pub fn execute(&mut self, inputs: &[Input<'_>]) -> Result<(), Error> {
        self.check_inputs(inputs)?;
        self.write_inputs(inputs)?;
        self.prepare(inputs)?;
        let dynamic = &self.memory.dynamic;
        dynamic.buffer.write(dynamic.offset, bytemuck::cast_slice(&self.host.words))?;
        let fault = &self.memory.fault;
        fault.buffer.write(fault.offset, &[0; 16])?;
        if let Some(recorded) = self.current.and_then(|index| self.recorded.get_mut(index)) {
            recorded.last_used = self.counters.executions;
            recorded.recording.submit_and_wait()?;
        }
        self.counters.executions += 1;
        self.check_fault()
    }

    fn check_inputs(&self, inputs: &[Input<'_>]) -> Result<(), Error> {
        let fault =
            |index, what, expected: String, found: String| Err(Error::Input { index, what, expected, found });
        if inputs.len() != self.ports.0.len() {
            let (expected, found) = (self.ports.0.len().to_string(), inputs.len().to_string());
            return fault(inputs.len(), "number of inputs", expected, found);
        }
        for (index, (input, port)) in inputs.iter().zip(&self.ports.0).enumerate() {
            match (input, port) {
                (Input::Tensor { dtype, sizes, data }, PortInfo::Tensor { dtype: want, bound }) => {
                    if !compatible(*dtype, *want) {
                        return fault(index, "element type", format!("{want:?}"), format!("{dtype:?}"));
                    }
                    let fits = sizes.len() == bound.len() && sizes.iter().zip(bound).all(|(s, b)| s <= b);
                    if !fits {
                        return fault(index, "sizes", format!("at most {bound:?}"), format!("{sizes:?}"));
                    }
                    let bytes = numel(sizes).map_or(usize::MAX, |n| n as usize * dtype.size());
                    if data.len() != bytes {
                        return fault(index, "bytes", bytes.to_string(), data.len().to_string());
                    }
                    if *dtype == DType::Int64 {
                        convert::check_narrowing(data).map_err(|(element, value)| Error::InputRange {
                            index,
                            element,
                            value: value.to_string(),
                        })?;
                    }
                }
                (Input::Int(value), PortInfo::Int) => {
                    if i32::try_from(*value).is_err() {
                        let value = value.to_string();
                        return Err(Error::InputRange { index, element: 0, value });
                    }
                }
                (Input::Tensor { data, dtype, .. }, PortInfo::Int) => {
                    let integer = matches!(dtype, DType::Int32 | DType::Int64);
                    if !integer || data.len() != dtype.size() {
                        let found = format!("{} bytes of {dtype:?}", data.len());
                        return fault(index, "integer", "one int32 or int64 element".into(), found);
                    }
                }
                (Input::Int(_), PortInfo::Tensor { .. }) => {
                    return fault(index, "kind", "a tensor".into(), "an integer".into());
                }
            }
        }
        Ok(())
    }

    fn write_inputs(&self, inputs: &[Input<'_>]) -> Result<(), Error> {
        for (input, region) in inputs.iter().zip(&self.memory.inputs) {
            if let (Input::Tensor { dtype, sizes, data }, Some(region)) = (input, region) {
                let bytes = numel(sizes).map_or(0, |n| u64::from(n) * 4);
                let range = region.offset..region.offset + bytes;
                region.buffer.with_mapped(range, |out| widen(*dtype, data, 0, out))?;
            }
        }
        Ok(())
    }

    /// Brings shapes, dynamic words and the recording up to date with the inputs.
    fn prepare(&mut self, inputs: &[Input<'_>]) -> Result<(), Error> {
        let same_inputs = self.current.is_some() && self.sizes_unchanged(inputs);
        let given = Given(inputs);
        if same_inputs && self.host.refresh(&self.program, &self.dynamic, &given)? {
            return Ok(());
        }
        // Until the new shapes are worked out there is no recording that fits them.
        self.current = None;
        for (index, id) in host::tensor_inputs(&self.program) {
            if let Some(Input::Tensor { sizes, .. }) = inputs.get(index) {
                self.host.set_input(id, sizes);
            }
        }
        self.host.evaluate(&self.program, &given)?;
        let known = self.recorded.iter().position(|recorded| recorded.layouts == self.host.layouts);
        let index = match known {
            Some(index) => index,
            None => self.record()?,
        };
        let recording = &self.recorded[index].recording;
        self.counters.dispatches = recording.stats().dispatches;
        self.counters.barriers = recording.stats().barriers;
        self.current = Some(index);
        Ok(())
    }

    fn sizes_unchanged(&self, inputs: &[Input<'_>]) -> bool {
        host::tensor_inputs(&self.program).all(|(index, id)| match inputs.get(index) {
            Some(Input::Tensor { sizes, .. }) => *self.host.layouts[id.index()].sizes == **sizes,
            _ => false,
        })
    }

    fn record(&mut self) -> Result<usize, Error> {
        let options = RecorderOptions { timestamps: self.timestamps };
        let mut recorder = self.context.device().recorder_with(&options)?;
        let mut record = Record {
            program: &self.program,
            limits: self.context.limits(),
            layouts: &self.host.layouts,
            memory: &self.memory,
            device: self.context.device(),
            pipelines: self.context.pipelines(),
            recorder: &mut recorder,
            node: 0,
        };
        for (index, node) in self.program.nodes.iter().enumerate() {
            record.node = u32::try_from(index).unwrap_or(u32::MAX);
            node.op.kind().record(node, &mut record)?;
        }
        for (port, download) in self.program.outputs.iter().zip(&self.outputs) {
            if let (Port::Tensor(id), Some(download)) = (port, download) {
                let bytes = numel(&self.host.layouts[id.index()].sizes).map_or(0, |n| u64::from(n) * 4);
                let from = self.memory.region(&self.program, *id);
                recorder.copy(&from.buffer, from.offset, &download.buffer, download.offset, bytes)?;
            }
        }
        let recording = recorder.finish()?;
        self.counters.recordings += 1;
        self.counters.descriptor_sets += u64::from(recording.stats().dispatches);
        if self.recorded.len() == MAX_RECORDINGS {
            let oldest = (0..self.recorded.len()).min_by_key(|&i| self.recorded[i].last_used);
            self.recorded.swap_remove(oldest.unwrap_or(0));
        }
        let (layouts, last_used) = (self.host.layouts.clone(), self.counters.executions);
        self.recorded.push(Recorded { layouts, recording, last_used });
        Ok(self.recorded.len() - 1)
    }

    fn check_fault(&self) -> Result<(), Error> {
        let mut words = [0u32; 4];
        let fault = &self.memory.fault;
        fault.buffer.read(fault.offset, bytemuck::cast_slice_mut(&mut words))?;
        let Some(node) = words[0].checked_sub(1) else { return Ok(()) };
        let call = self.program.nodes.get(node as usize).map_or(u32::MAX, |node| node.call);
        let name = self.program.call_name(call).to_owned();
        Err(Error::IndexOutOfRange { call, name, index: words[1].cast_signed(), limit: words[2] })
    }

    /// Current sizes of a tensor output, after an execution.
    ///
    /// # Errors
    /// [`Error::OutputRequest`] when there is no such tensor output.
    pub fn output_sizes(&self, index: usize) -> Result<&[u32], Error> {
        let (id, _) = self.output(index)?;
        Ok(&self.host.layouts[id.index()].sizes)
    }

    /// Copies a tensor output of the last execution as contiguous elements of type `dtype`.
    ///
    /// # Errors
    /// [`Error::OutputRequest`] when there is no such output, or `data` has another length than its elements.
    pub fn read_output(&self, index: usize, dtype: DType, data: &mut [u8]) -> Result<(), Error> {
        let (id, region) = self.output(index)?;
        let tensor = self.program.tensor(id);
        let request = |what, expected: String, found: String| {
            Err(Error::OutputRequest { index, what, expected, found })
        };
        if !compatible(dtype, tensor.dtype) {
            return request("element type", format!("{:?}", tensor.dtype), format!("{dtype:?}"));
        }
        let count = numel(&self.host.layouts[id.index()].sizes).map_or(0, |n| n as usize);
        if data.len() != count * dtype.size() {
            return request("bytes", (count * dtype.size()).to_string(), data.len().to_string());
        }
        let range = region.offset..region.offset + count as u64 * 4;
        region.buffer.with_mapped(range, |words| narrow(dtype, words, data))?;
        Ok(())
    }

    /// An integer output of the last execution.
    ///
    /// # Errors
    /// [`Error::OutputRequest`] when there is no such integer output.
    pub fn output_int(&self, index: usize) -> Result<i64, Error> {
        match self.program.outputs.get(index) {
            Some(Port::Sym(sym)) => Ok(i64::from(self.host.words[sym.index()])),
            _ => Err(self.no_output(index, "an integer output")),
        }
    }

    fn output(&self, index: usize) -> Result<(TensorId, &Region), Error> {
        match (self.program.outputs.get(index), self.outputs.get(index)) {
            (Some(Port::Tensor(id)), Some(Some(region))) => Ok((*id, region)),
            _ => Err(self.no_output(index, "a tensor output")),
        }
    }

    fn no_output(&self, index: usize, expected: &str) -> Error {
        let found = format!("output {index} of {}", self.program.outputs.len());
        Error::OutputRequest { index, what: "kind", expected: expected.into(), found }
    }

    /// GPU time of every dispatch of the last execution; empty unless loaded with
    /// [`LoadOptions::timestamps`].
    ///
    /// # Errors
    /// A device failure.
    pub fn timings(&self) -> Result<Vec<Timing>, Error> {
        let Some(recorded) = self.current.and_then(|index| self.recorded.get(index)) else {
            return Ok(Vec::new());
        };
        if !self.timestamps {
            return Ok(Vec::new());
        }
        let timing = |(node, nanoseconds): (u32, u64)| {
            let call = self.program.nodes.get(node as usize).map_or(u32::MAX, |node| node.call);
            Timing { call, operator: self.program.call_name(call).to_owned(), nanoseconds }
        };
        Ok(recorded.recording.timings()?.into_iter().map(timing).collect())
    }
}

/// Integer inputs as the host program reads them.
struct Given<'a>(&'a [Input<'a>]);

impl HostInputs for Given<'_> {
    fn int(&self, input: u32) -> Result<i64, Fault> {
        match self.0.get(input as usize) {
            Some(Input::Int(value)) => Ok(*value),
            Some(Input::Tensor { dtype, data, .. }) => integer_at(*dtype, data, 0),
            None => integer_at(DType::Int32, &[], 0),
        }
    }

    fn element(&self, input: u32, dim: i64, index: i64) -> Result<i64, Fault> {
        let Some(Input::Tensor { dtype, sizes, data }) = self.0.get(input as usize) else {
            return integer_at(DType::Int32, &[], 0);
        };
        let dim = normalise_dim(dim, sizes.len())?;
        let size = i64::from(sizes[dim]);
        let positive = if index < 0 { index + size } else { index };
        if !(0..size).contains(&positive) {
            return Err(Fault::Range { what: "index", low: -size, high: size - 1, found: index });
        }
        let stride: i64 = sizes[dim + 1..].iter().map(|&d| i64::from(d)).product();
        integer_at(*dtype, data, usize::try_from(positive * stride).unwrap_or(usize::MAX))
    }
}

fn integer_at(dtype: DType, data: &[u8], element: usize) -> Result<i64, Fault> {
    let mut word = [0; 4];
    let bytes = data.get(element.saturating_mul(dtype.size())..).unwrap_or(&[]);
    let one = bytes.get(..dtype.size()).ok_or(Fault::Range {
        what: "element",
        low: 0,
        high: i64::try_from(data.len() / dtype.size()).unwrap_or(i64::MAX) - 1,
        found: i64::try_from(element).unwrap_or(i64::MAX),
    })?;
    if Elem::of(dtype) == Elem::F32 {
        return Err(Fault::Dtype { what: "integer read from an input", found: dtype });
    }
    widen(dtype, one, 0, &mut word);
    Ok(i64::from(i32::from_le_bytes(word)))
}

/// The initial contents of mutable constants, as words.
fn state_weights(program: &Program) -> Vec<Weight> {
    let weight = |state: &crate::ir::State| {
        let tensor = program.tensor(state.tensor);
        Weight {
            content: Content::Constant(state.constant),
            dtype: tensor.dtype,
            dims: tensor.bound.clone(),
            form: Form::Words,
        }
    };
    program.states.iter().map(weight).collect()
}

type ByteRange = (u64, u64);

fn ranges(
    program: &Program,
    ports: &[Port],
    first: u64,
    alignment: u64,
    max_range: u64,
) -> Result<(u64, Vec<Option<ByteRange>>), Error> {
    let mut end = first;
    let mut ranges = Vec::with_capacity(ports.len());
    for (index, port) in ports.iter().enumerate() {
        let Port::Tensor(id) = port else {
            ranges.push(None);
            continue;
        };
        let bytes = plan::bytes_of(program, *id).unwrap_or(u64::MAX);
        if bytes > max_range {
            return Err(Error::TooLarge { what: format!("port {index}"), bytes, limit: max_range });
        }
        let offset = end.next_multiple_of(alignment);
        ranges.push(Some((offset, bytes.max(4))));
        end = offset + bytes.max(4);
    }
    Ok((end.next_multiple_of(alignment), ranges))
}

type UploadRanges = (u64, ByteRange, Vec<Option<ByteRange>>);

/// The upload buffer: dynamic words first, then the tensor inputs.
fn upload_ranges(program: &Program, alignment: u64, max_range: u64) -> Result<UploadRanges, Error> {
    let words = u64::from(program.dynamic_words.max(1)) * 4;
    let (bytes, inputs) = ranges(program, &program.inputs, words, alignment, max_range)?;
    Ok((bytes, (0, words), inputs))
}

/// The download buffer: the tensor outputs.
fn output_ranges(
    program: &Program,
    alignment: u64,
    max_range: u64,
) -> Result<(u64, Vec<Option<ByteRange>>), Error> {
    ranges(program, &program.outputs, 0, alignment, max_range)
}

fn ports(
    program: &Program,
    payload: &Payload<'_>,
    values: &[etvk_vkgraph::ValueId],
    ports: &[Port],
) -> Vec<PortInfo> {
    let info = |(value, port): (&etvk_vkgraph::ValueId, &Port)| match port {
        Port::Tensor(id) => {
            let tensor = program.tensor(*id);
            let staging = payload.graph().tensor(*value).map(|info| info.staging_dtype);
            PortInfo::Tensor { dtype: staging.unwrap_or(tensor.dtype), bound: tensor.bound.to_vec() }
        }
        Port::Sym(_) => PortInfo::Int,
    };
    values.iter().zip(ports).map(info).collect()
}
