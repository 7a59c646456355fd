//! Turning nodes into recorded dispatches for one set of layouts.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use etvk_kernels::{Kernel, Launch, Limits, Strided};
use etvk_vulkan::{Access, Binding, Buffer, Device, Pipeline, PipelineDesc, Recorder};

use crate::error::{CallFault, Error, Fault};
use crate::ir::{Node, Origin, Program, TensorId, WeightId};
use crate::plan::Plan;
use crate::weights::WeightMemory;

/// Pipelines of a device, made once for each kernel.
#[derive(Debug, Default)]
pub(crate) struct Pipelines(Mutex<HashMap<Kernel, Pipeline>>);

impl Pipelines {
    fn get(&self, device: &Device, kernel: &Kernel) -> Result<Pipeline, Error> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(pipeline) = known.get(kernel) {
            return Ok(pipeline.clone());
        }
        let pipeline = device.pipeline(&PipelineDesc {
            label: kernel.shader.name,
            spirv: kernel.shader.spirv,
            bindings: kernel.shader.bindings,
            push_bytes: kernel.shader.push_words * 4,
            specialization: &kernel.specialization,
            subgroup_size: None,
        })?;
        known.insert(kernel.clone(), pipeline.clone());
        Ok(pipeline)
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).len()
    }
}

/// A range of a buffer.
#[derive(Clone, Debug)]
pub(crate) struct Region {
    pub(crate) buffer: Buffer,
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
}

/// All device memory of one executor.
#[derive(Debug)]
pub(crate) struct Memory {
    /// Blocks of the arena.
    pub(crate) arena: Vec<Buffer>,
    /// Places in the arena.
    pub(crate) plan: Plan,
    /// Inputs by port, in the upload buffer; `None` for integers.
    pub(crate) inputs: Vec<Option<Region>>,
    /// Constants.
    pub(crate) weights: Vec<Arc<WeightMemory>>,
    /// Mutable constants.
    pub(crate) states: Vec<Region>,
    /// The dynamic words.
    pub(crate) dynamic: Region,
    /// Where kernels report an index out of range.
    pub(crate) fault: Region,
}

impl Memory {
    /// The memory a tensor's words are in.
    pub(crate) fn region(&self, program: &Program, id: TensorId) -> Region {
        let base = program.base(id);
        match &program.tensor(base).origin {
            Origin::Input(index) => self.inputs[*index as usize].clone().unwrap_or(self.dynamic.clone()),
            Origin::Weight(weight) => self.weight(*weight),
            Origin::State(index) => self.states[*index as usize].clone(),
            Origin::Sym(_) | Origin::View { .. } => self.dynamic.clone(),
            Origin::Node => match self.plan.placements[base.index()] {
                Some(place) => Region {
                    buffer: self.arena[place.block].clone(),
                    offset: place.offset,
                    bytes: place.bytes,
                },
                None => self.dynamic.clone(),
            },
        }
    }

    fn weight(&self, id: WeightId) -> Region {
        let memory = &self.weights[id.index()];
        Region { buffer: memory.buffer.clone(), offset: memory.offset, bytes: memory.bytes }
    }
}

/// What a kernel's binding is bound to.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Bind {
    /// A tensor the kernel reads.
    Read(TensorId),
    /// A tensor the kernel writes.
    Write(TensorId),
    /// A constant in its packed form.
    Weight(WeightId),
    /// The dynamic words.
    Dynamic,
    /// The fault words.
    Fault,
    /// An optional operand that is absent and only read: bound to something harmless.
    Absent,
}

/// One recording in progress.
pub(crate) struct Record<'a> {
    pub(crate) program: &'a Program,
    pub(crate) limits: &'a Limits,
    pub(crate) layouts: &'a [Strided],
    pub(crate) memory: &'a Memory,
    pub(crate) device: &'a Device,
    pub(crate) pipelines: &'a Pipelines,
    pub(crate) recorder: &'a mut Recorder,
    /// Index of the node being recorded; the tag of its dispatches.
    pub(crate) node: u32,
    /// Kernels of the dispatches so far.
    pub(crate) kernels: Vec<&'static str>,
}

impl<'a> Record<'a> {
    /// Current layout of a tensor. A symbolic integer lies at its word of the dynamic buffer.
    pub(crate) fn layout(&self, id: TensorId) -> &'a Strided {
        &self.layouts[id.index()]
    }

    /// Records one dispatch.
    pub(crate) fn launch(&mut self, launch: &Launch, binds: &[Bind]) -> Result<(), Error> {
        if launch.groups.contains(&0) {
            return Ok(());
        }
        let pipeline = self.pipelines.get(self.device, &launch.kernel)?;
        let regions: Vec<(Region, Access)> = binds.iter().map(|&bind| self.resolve(bind)).collect();
        let bindings: Vec<Binding<'_>> = regions
            .iter()
            .map(|(region, access)| Binding {
                buffer: &region.buffer,
                offset: region.offset,
                bytes: region.bytes,
                access: *access,
            })
            .collect();
        let push: &[u8] = bytemuck::cast_slice(&launch.push);
        self.recorder.dispatch(&pipeline, &bindings, push, launch.groups, self.node)?;
        self.kernels.push(launch.kernel.shader.name);
        Ok(())
    }

    fn resolve(&self, bind: Bind) -> (Region, Access) {
        match bind {
            Bind::Read(id) => (self.memory.region(self.program, id), Access::Read),
            Bind::Write(id) => (self.memory.region(self.program, id), Access::Write),
            Bind::Weight(id) => (self.memory.weight(id), Access::Read),
            Bind::Dynamic | Bind::Absent => (self.memory.dynamic.clone(), Access::Read),
            // Faults are written atomically and rarely: no order is needed between the kernels that may.
            Bind::Fault => (self.memory.fault.clone(), Access::Read),
        }
    }

    /// What to report when a kernel cannot express the layouts of a node.
    pub(crate) fn unsupported(&self, node: &Node, reason: &dyn std::fmt::Debug) -> Error {
        let name = self.program.call_name(node.call).into();
        let expected = "layouts the kernel can express".into();
        let fault = Fault::Shape { what: "operands", expected, found: format!("{reason:?}") };
        CallFault { call: node.call, name, fault }.into()
    }

    fn unsupported_at(&self, node: u32, reason: &dyn std::fmt::Debug) -> Error {
        self.unsupported(&self.program.nodes[node as usize], reason)
    }

    /// Copies `from` of tensor `source` to `to` of tensor `target`.
    pub(crate) fn copy(
        &mut self,
        source: TensorId,
        from: &Strided,
        target: TensorId,
        to: &Strided,
    ) -> Result<(), Error> {
        let launch = etvk_kernels::copy::copy(from, to, self.limits);
        let launch = launch.map_err(|unsupported| self.unsupported_at(self.node, &unsupported))?;
        self.launch(&launch, &[Bind::Read(source), Bind::Write(target), Bind::Dynamic])
    }
}
