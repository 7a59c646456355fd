//! Turning nodes into recorded dispatches for one set of layouts.

use std::collections::HashSet;
use std::sync::Arc;

use etvk_kernels::{Kernel, Launch, Limits, Strided, numel};
use etvk_vulkan::{Access, Binding, Buffer, Device, Recorder};

use crate::error::{CallFault, Error, Fault};
use crate::ir::{Node, Origin, Program, TensorId, WeightId};
use crate::pipelines::Pipelines;
use crate::plan::Plan;
use crate::weights::WeightMemory;

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
    /// Counters that kernels leave as zeros.
    pub(crate) counters: Region,
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    /// Words that are zeros, and are so again when the dispatch is done.
    Counters,
    /// An optional operand that is absent and only read: bound to something harmless.
    Absent,
}

/// Where dispatches go.
pub(crate) enum Target<'a> {
    /// Into commands of a device.
    Commands { memory: &'a Memory, device: &'a Device, pipelines: &'a Pipelines, recorder: &'a mut Recorder },
    /// Nowhere: their kernels are collected.
    Kernels(&'a mut HashSet<Kernel>),
}

/// One recording in progress.
pub(crate) struct Record<'a> {
    pub(crate) program: &'a Program,
    pub(crate) limits: &'a Limits,
    pub(crate) layouts: &'a [Strided],
    pub(crate) target: Target<'a>,
    /// Index of the node being recorded; the tag of its dispatches.
    pub(crate) node: u32,
    /// The dispatches so far.
    pub(crate) dispatched: Vec<Dispatched>,
}

/// What is known of a dispatch when it is recorded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dispatched {
    /// The kernel's name.
    pub(crate) kernel: &'static str,
    /// Bytes it reads and writes.
    pub(crate) bytes: u64,
}

impl<'a> Record<'a> {
    /// Current layout of a tensor. A symbolic integer lies at its word of the dynamic buffer.
    pub(crate) fn layout(&self, id: TensorId) -> &'a Strided {
        &self.layouts[id.index()]
    }

    /// Records every node of the program.
    pub(crate) fn nodes(&mut self) -> Result<(), Error> {
        for (index, node) in self.program.nodes.iter().enumerate() {
            self.node = u32::try_from(index).unwrap_or(u32::MAX);
            node.op.kind().record(node, self)?;
        }
        Ok(())
    }

    /// Records one dispatch that touches every element of what it binds.
    pub(crate) fn launch(&mut self, launch: &Launch, binds: &[Bind]) -> Result<(), Error> {
        let bytes = self.bytes(binds);
        self.launch_moving(launch, binds, bytes)
    }

    /// Records one dispatch that reads and writes `bytes` bytes of what it binds.
    pub(crate) fn launch_moving(&mut self, launch: &Launch, binds: &[Bind], bytes: u64) -> Result<(), Error> {
        if launch.groups.contains(&0) {
            return Ok(());
        }
        let (memory, device, pipelines, recorder) = match &mut self.target {
            Target::Commands { memory, device, pipelines, recorder } => {
                (*memory, *device, *pipelines, recorder)
            }
            Target::Kernels(kernels) => {
                kernels.insert(launch.kernel.clone());
                return Ok(());
            }
        };
        let pipeline = pipelines.get(device, &launch.kernel)?;
        let resolve = |&bind| resolve(self.program, memory, bind);
        let regions: Vec<(Region, Access)> = binds.iter().map(resolve).collect();
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
        recorder.dispatch(&pipeline, &bindings, push, launch.groups, self.node)?;
        self.dispatched.push(Dispatched { kernel: launch.kernel.shader.name, bytes });
        Ok(())
    }

    /// Bytes of the current elements of what is bound, once for each tensor; of constants, in the form they are kept in.
    pub(crate) fn bytes(&self, binds: &[Bind]) -> u64 {
        let Target::Commands { memory, .. } = &self.target else { return 0 };
        let of = |bind: &Bind| match *bind {
            // Elements that broadcasting repeats lie in memory once.
            Bind::Read(id) | Bind::Write(id) => {
                words(&self.layout(id).sizes).min(memory.region(self.program, id).bytes)
            }
            Bind::Weight(id) => memory.weight(id).bytes,
            Bind::Dynamic | Bind::Fault | Bind::Counters | Bind::Absent => 0,
        };
        // Absent results are bound to present ones.
        let first = |&(at, bind): &(usize, &Bind)| !binds[..at].contains(bind);
        binds.iter().enumerate().filter(first).map(|(_, bind)| of(bind)).fold(0, u64::saturating_add)
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
        let bytes = 2 * words(&to.sizes);
        self.launch_moving(&launch, &[Bind::Read(source), Bind::Write(target), Bind::Dynamic], bytes)
    }
}

fn resolve(program: &Program, memory: &Memory, bind: Bind) -> (Region, Access) {
    match bind {
        Bind::Read(id) => (memory.region(program, id), Access::Read),
        Bind::Write(id) => (memory.region(program, id), Access::Write),
        Bind::Weight(id) => (memory.weight(id), Access::Read),
        Bind::Dynamic | Bind::Absent => (memory.dynamic.clone(), Access::Read),
        Bind::Counters => (memory.counters.clone(), Access::Write),
        // Faults are written atomically and rarely: no order is needed between the kernels that may.
        Bind::Fault => (memory.fault.clone(), Access::Read),
    }
}

/// Bytes of a tensor of words.
fn words(sizes: &[u32]) -> u64 {
    numel(sizes).map_or(u64::MAX / 4, |count| u64::from(count) * 4)
}
