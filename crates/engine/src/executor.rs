//! A loaded graph on a device, and its executions.

use etvk_kernels::{Strided, numel, sdpa};
use etvk_vkgraph::{ConstantId, DType, NamedData, Payload};
use etvk_vulkan::{Buffer, BufferKind, RecorderOptions, Recording, Uploader, UploaderOptions};

use crate::buffers::Surplus;
use crate::context::Context;
use crate::convert::{compatible, narrow, widen};
use crate::error::Error;
use crate::forecast;
use crate::host::{self, HostState};
use crate::inputs::{self, Input, PortInfo};
use crate::ir::{Content, Form, HostStep, Port, Program, TensorId, Weight};
use crate::limits::DeviceLimits;
use crate::passes::{self, Passes};
use crate::plan;
use crate::ports;
use crate::record::{Dispatched, Memory, Record, Region, Target};
use crate::weights::{self, Progress, Source};

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
    /// Outputs that calls have no value for.
    pub surplus: Surplus,
    /// Which passes rewrite the graph; all of them unless said otherwise.
    pub passes: Passes,
}

/// GPU time of one dispatch of the last execution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timing {
    /// Index in the payload's chain of the call it belongs to.
    pub call: u32,
    /// Serialised operator name.
    pub operator: String,
    /// The kernel that was dispatched.
    pub kernel: &'static str,
    /// GPU nanoseconds.
    pub nanoseconds: u64,
    /// Bytes the dispatch reads and writes: the current elements of its operands and results, each counted once,
    /// constants in their packed form. For attention an upper estimate: all of the caches and of the mask, whatever
    /// the position.
    pub bytes: u64,
}

/// A part of an execution, for profilers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Inputs are checked and written where the device reads them.
    CopyInputs,
    /// Sizes changed: shapes are worked out and, where they are new, commands recorded.
    Resize,
    /// The device works.
    Compute,
}

/// Where an execution is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// A phase starts. Phases do not overlap.
    Start(Phase),
    /// The phase that started last has ended, in an error or not.
    End(Phase),
}

type Observe<'a> = &'a mut dyn FnMut(Mark);

struct Recorded {
    dispatched: Vec<Dispatched>,
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
    /// How many of the program's `carried` are written back.
    carried: usize,
    counters: Counters,
}

/// Recordings kept at once; the least recently used goes first.
const MAX_RECORDINGS: usize = 32;
/// Words of the fault buffer: call tag + 1, index, limit, unused.
const FAULT_BYTES: u64 = 16;
/// Counters of the workgroups that are done, for kernels whose last one joins the results.
const COUNTER_BYTES: u64 = sdpa::COUNTERS as u64 * 4;

impl Executor {
    /// Lowers a payload's graph, uploads its constants and allocates its memory. Meanwhile threads compile the kernels
    /// that the first executions are likely to want.
    ///
    /// # Errors
    /// [`Error::Unsupported`] with every call that cannot run, [`Error::Buffer`] for a surplus output whose buffer is not
    /// known, constants that are missing or too short, tensors larger than the device binds, or a device failure.
    pub fn load(context: &Context, payload: &Payload<'_>, options: LoadOptions<'_>) -> Result<Self, Error> {
        let LoadOptions { named, progress, timestamps, surplus, passes } = options;
        let source = Source { payload, named };
        let program = passes::run(crate::lower_with(payload.graph(), surplus)?, passes, &source);
        let graph = payload.graph();
        let described = (
            ports::describe(&program, payload, &graph.inputs, &program.inputs),
            ports::describe(&program, payload, &graph.outputs, &program.outputs),
        );
        let mut allocator = Allocator { context, buffers: 0 };
        let kernels = forecast::kernels(&program, context.limits());
        let upload = || allocator.memory(&program, source, progress);
        let (memory, outputs) = context.pipelines().compile_during(context.device(), kernels, upload)?;
        Ok(Self {
            host: HostState::new(&program),
            dynamic: host::dynamic_steps(&program),
            ports: described,
            memory,
            outputs,
            context: context.clone(),
            program,
            recorded: Vec::new(),
            current: None,
            timestamps,
            carried: match surplus {
                Surplus::Known(count) => count,
                Surplus::Unknown => 0,
            },
            counters: Counters { buffers: allocator.buffers, ..Counters::default() },
        })
    }

    /// The graph as it runs: lowered, then changed by the passes.
    #[must_use]
    pub fn program(&self) -> &Program {
        &self.program
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

    /// Says how many outputs, from the first on, calls have no value for, before the first execution: they are the new
    /// values of buffers, and the executions that follow read them. For graphs loaded with [`Surplus::Unknown`].
    ///
    /// # Errors
    /// [`Error::Buffer`] if the buffer of one of them is not known, [`Error::Surplus`] after executions with another number.
    pub fn carry(&mut self, count: usize) -> Result<(), Error> {
        if count == self.carried {
            return Ok(());
        }
        if let Some(error) = self.program.not_carried.as_ref().filter(|error| count > error.index) {
            return Err(error.clone().into());
        }
        if self.counters.executions > 0 || count > self.program.carried.len() {
            return Err(Error::Surplus { expected: self.carried, found: count });
        }
        self.carried = count;
        self.current = None;
        self.recorded.clear();
        Ok(())
    }

    /// The constants that the first outputs may be the new values of.
    pub fn replaced(&self) -> impl Iterator<Item = ConstantId> {
        self.program.replaced()
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
        self.execute_observed(inputs, &mut |_| ())
    }

    /// As [`execute`](Self::execute); `observe` is told where the execution is.
    ///
    /// # Errors
    /// As [`execute`](Self::execute).
    pub fn execute_observed(&mut self, inputs: &[Input<'_>], observe: Observe<'_>) -> Result<(), Error> {
        during(Phase::CopyInputs, observe, || {
            inputs::check(&self.ports.0, inputs)?;
            self.write_inputs(inputs)
        })?;
        self.prepare(inputs, observe)?;
        during(Phase::Compute, observe, || self.compute())
    }

    fn compute(&mut self) -> Result<(), Error> {
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
    fn prepare(&mut self, inputs: &[Input<'_>], observe: Observe<'_>) -> Result<(), Error> {
        let same_inputs = self.current.is_some() && self.sizes_unchanged(inputs);
        let given = inputs::Given(inputs);
        if same_inputs && self.host.refresh(&self.program, &self.dynamic, &given)? {
            return Ok(());
        }
        during(Phase::Resize, observe, || self.resize(inputs))
    }

    fn resize(&mut self, inputs: &[Input<'_>]) -> Result<(), Error> {
        let given = inputs::Given(inputs);
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
            target: Target::Commands {
                memory: &self.memory,
                device: self.context.device(),
                pipelines: self.context.pipelines(),
                recorder: &mut recorder,
            },
            node: 0,
            dispatched: Vec::new(),
        };
        record.nodes()?;
        let dispatched = record.dispatched;
        for (port, download) in self.program.outputs.iter().zip(&self.outputs) {
            if let (Port::Tensor(id), Some(download)) = (port, download) {
                let bytes = numel(&self.host.layouts[id.index()].sizes).map_or(0, |n| u64::from(n) * 4);
                let from = self.memory.region(&self.program, *id);
                recorder.copy(&from.buffer, from.offset, &download.buffer, download.offset, bytes)?;
            }
        }
        let carried = self.program.outputs.iter().zip(&self.program.carried).take(self.carried);
        for (port, &state) in carried {
            if let Port::Tensor(id) = port {
                let from = self.memory.region(&self.program, *id);
                let to = &self.memory.states[state as usize];
                let bytes = numel(&self.program.tensor(*id).bound).map_or(0, |n| u64::from(n) * 4);
                recorder.copy(&from.buffer, from.offset, &to.buffer, to.offset, bytes)?;
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
        self.recorded.push(Recorded { dispatched, layouts, recording, last_used });
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
        // The port's type, not the tensor's: conversions that keep the device words leave the latter as it was.
        let Some(PortInfo::Tensor { dtype: declared, .. }) = self.ports.1.get(index) else {
            return Err(self.no_output(index, "a tensor output"));
        };
        let request = |what, expected: String, found: String| {
            Err(Error::OutputRequest { index, what, expected, found })
        };
        if !compatible(dtype, *declared) {
            return request("element type", format!("{declared:?}"), format!("{dtype:?}"));
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
        let timing = |((node, nanoseconds), dispatched): ((u32, u64), &Dispatched)| {
            let call = self.program.nodes.get(node as usize).map_or(u32::MAX, |node| node.call);
            let Dispatched { kernel, bytes } = *dispatched;
            Timing { call, operator: self.program.call_name(call).to_owned(), kernel, nanoseconds, bytes }
        };
        Ok(recorded.recording.timings()?.into_iter().zip(&recorded.dispatched).map(timing).collect())
    }
}

fn during<T>(phase: Phase, observe: Observe<'_>, work: impl FnOnce() -> T) -> T {
    observe(Mark::Start(phase));
    let result = work();
    observe(Mark::End(phase));
    result
}

/// Allocates an executor's memory and counts the buffers.
struct Allocator<'a> {
    context: &'a Context,
    buffers: u64,
}

impl Allocator<'_> {
    fn buffer(&mut self, label: &str, bytes: u64, kind: BufferKind) -> Result<Buffer, Error> {
        self.buffers += 1;
        Ok(self.context.device().buffer(label, bytes, kind)?)
    }

    /// All memory of `program`, with its constants and states uploaded, and where its outputs are downloaded to.
    fn memory(
        &mut self,
        program: &Program,
        source: Source<'_>,
        progress: Option<Progress<'_>>,
    ) -> Result<(Memory, Vec<Option<Region>>), Error> {
        let device = self.context.device();
        let limits = DeviceLimits::of(device.capabilities());
        let plan = plan::plan(program, limits)?;
        let (upload_bytes, dynamic, inputs) = ports::upload_ranges(program, limits)?;
        let (download_bytes, outputs) = ports::output_ranges(program, limits)?;
        let arena = plan
            .blocks
            .iter()
            .map(|&bytes| self.buffer("arena", bytes, BufferKind::Device))
            .collect::<Result<Vec<_>, _>>()?;
        let upload = self.buffer("inputs", upload_bytes, BufferKind::Upload)?;
        let download = self.buffer("outputs", download_bytes + FAULT_BYTES, BufferKind::Download)?;
        let mut uploader = device.uploader(&UploaderOptions::default())?;
        let states = self.states(program, source, &mut uploader)?;
        let counters = self.buffer("counters", COUNTER_BYTES, BufferKind::Device)?;
        uploader.upload(&counters, 0, COUNTER_BYTES, |_, out| out.fill(0))?;
        let store = self.context.weights();
        let mut slab = |bytes| self.buffer("constants", bytes, BufferKind::Device);
        let weights = store.load(program, source, &mut uploader, &mut slab, limits, progress)?;
        let region = |buffer: &Buffer, (offset, bytes)| Region { buffer: buffer.clone(), offset, bytes };
        let regions = |buffer: &Buffer, ranges: Vec<Option<ports::ByteRange>>| {
            ranges.into_iter().map(|range| range.map(|range| region(buffer, range))).collect()
        };
        let memory = Memory {
            arena,
            plan,
            inputs: regions(&upload, inputs),
            weights,
            states,
            dynamic: region(&upload, dynamic),
            fault: region(&download, (download_bytes, FAULT_BYTES)),
            counters: region(&counters, (0, COUNTER_BYTES)),
        };
        Ok((memory, regions(&download, outputs)))
    }

    /// A buffer for each mutable constant, with its initial contents on the way.
    fn states(
        &mut self,
        program: &Program,
        source: Source<'_>,
        uploader: &mut Uploader,
    ) -> Result<Vec<Region>, Error> {
        let mut states = Vec::with_capacity(program.states.len());
        for state in &program.states {
            let tensor = program.tensor(state.tensor);
            let (content, dims) = (Content::Constant(state.constant), tensor.bound.clone());
            let weight = Weight { content, dtype: tensor.dtype, dims, form: Form::Words };
            let bytes = weights::device_bytes(&weight).max(4);
            let buffer = self.buffer("state", bytes, BufferKind::Device)?;
            weights::upload(source, &weight, uploader, &buffer, 0)?;
            states.push(Region { buffer, offset: 0, bytes });
        }
        Ok(states)
    }
}
