//! A method with everything in it checked.

use flatbuffers::{ForwardsUOffset, Vector};

use crate::error::{DelegateFault, MethodFault};
use crate::generated::program as fb;
use crate::instruction::{Chain, Scope};
use crate::list::{List, ValueId, ValueIds};
use crate::program::Data;
use crate::value::{self, Value};

/// Longest `name.overload` that a runtime can register.
const MAX_OPERATOR_NAME: usize = 99;

/// One method of a program. Once made, every index in it is in range and every byte range inside its store.
#[derive(Clone, Debug)]
pub struct Method<'a> {
    name: &'a str,
    values: Vec<Value<'a>>,
    inputs: ValueIds<'a>,
    outputs: ValueIds<'a>,
    operators: Vec<Operator<'a>>,
    delegates: Vec<Delegate<'a>>,
    chains: Vec<Chain<'a>>,
    buffers: List<'a, i64>,
    input_spec: Option<&'a str>,
    output_spec: Option<&'a str>,
}

/// An operator that kernel calls name.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Operator<'a> {
    /// Namespace and name, such as `aten::sort`.
    pub name: &'a str,
    /// Overload, such as `values`; may be empty.
    pub overload: &'a str,
}

/// `name.overload`, or `name` without overload.
impl std::fmt::Display for Operator<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)?;
        if self.overload.is_empty() { Ok(()) } else { write!(f, ".{}", self.overload) }
    }
}

/// A part of the method that a backend executes.
#[derive(Clone)]
pub struct Delegate<'a> {
    /// Name of the backend.
    pub id: &'a str,
    /// Its payload. Several delegates may share one.
    pub payload: &'a [u8],
    /// Options it was compiled with, in order.
    pub compile_specs: Vec<CompileSpec<'a>>,
}

/// The payload by its number of bytes.
impl std::fmt::Debug for Delegate<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}({} bytes, {:?})", self.id, self.payload.len(), self.compile_specs)
    }
}

/// A named option with an opaque value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CompileSpec<'a> {
    /// Name.
    pub key: &'a str,
    /// Value.
    pub value: &'a [u8],
}

impl<'a> Method<'a> {
    pub(crate) fn parse(plan: fb::ExecutionPlan<'a>, data: &Data<'a>) -> Result<Self, MethodFault> {
        let name = plan.name().ok_or(MethodFault::Missing { field: "ExecutionPlan.name" })?;
        let buffers = planned_buffers(plan)?;
        let table = plan.values().ok_or(MethodFault::Missing { field: "ExecutionPlan.values" })?;
        let values = value::parse(table, data, buffers)
            .map_err(|(value, fault)| MethodFault::Value { value, fault })?;
        let count = values.len();
        let inputs = ValueIds::checked(List::new(plan.inputs()), count)
            .map_err(|(at, index)| MethodFault::Input { at, index, count })?;
        let outputs = ValueIds::checked(List::new(plan.outputs()), count)
            .map_err(|(at, index)| MethodFault::Output { at, index, count })?;
        let operators = operators(plan.operators())?;
        let delegates = delegates(plan, data)?;
        let chains = plan.chains().filter(|chains| !chains.is_empty()).ok_or(MethodFault::NoChains)?;
        let scope = Scope { values: &values, operators: operators.len(), delegates: delegates.len() };
        let chains = chains
            .iter()
            .enumerate()
            .map(|(index, chain)| Chain::parse(index, chain, &scope))
            .collect::<Result<_, _>>()?;
        let meta = plan.container_meta_type();
        Ok(Self {
            name,
            values,
            inputs,
            outputs,
            operators,
            delegates,
            chains,
            buffers,
            input_spec: meta.and_then(|meta| meta.encoded_inp_str()),
            output_spec: meta.and_then(|meta| meta.encoded_out_str()),
        })
    }

    /// Name.
    #[must_use]
    pub fn name(&self) -> &'a str {
        self.name
    }

    /// The value table.
    #[must_use]
    pub fn values(&self) -> &[Value<'a>] {
        &self.values
    }

    /// Value `id` of this method; `None` only for an id of another method.
    #[must_use]
    pub fn value(&self, id: ValueId) -> Option<&Value<'a>> {
        self.values.get(id.index())
    }

    /// Values that the caller sets, in order.
    #[must_use]
    pub fn inputs(&self) -> ValueIds<'a> {
        self.inputs
    }

    /// Values that the caller reads, in order.
    #[must_use]
    pub fn outputs(&self) -> ValueIds<'a> {
        self.outputs
    }

    /// Operators that kernel calls name.
    #[must_use]
    pub fn operators(&self) -> &[Operator<'a>] {
        &self.operators
    }

    /// Delegates, to be set up in order.
    #[must_use]
    pub fn delegates(&self) -> &[Delegate<'a>] {
        &self.delegates
    }

    /// Chains, to be executed in order; at least one.
    #[must_use]
    pub fn chains(&self) -> &[Chain<'a>] {
        &self.chains
    }

    /// Bytes of each planned buffer, indexed by [`Region::buffer`](crate::Region::buffer).
    pub fn planned_buffers(&self) -> impl ExactSizeIterator<Item = u64> + use<'a> {
        // Entry 0 stands for no buffer.
        self.buffers.iter().skip(1).map(i64::unsigned_abs)
    }

    /// Structure of the inputs in the source model, as JSON text.
    #[must_use]
    pub fn input_spec(&self) -> Option<&'a str> {
        self.input_spec
    }

    /// Structure of the outputs in the source model, as JSON text.
    #[must_use]
    pub fn output_spec(&self) -> Option<&'a str> {
        self.output_spec
    }
}

fn planned_buffers(plan: fb::ExecutionPlan<'_>) -> Result<List<'_, i64>, MethodFault> {
    let buffers = List::new(plan.non_const_buffer_sizes());
    if let Some((buffer, size)) = buffers.iter().enumerate().find(|&(_, size)| size < 0) {
        return Err(MethodFault::BufferSize { buffer, size });
    }
    let mut devices = plan.non_const_buffer_device().into_iter().flatten();
    if let Some(entry) = devices.find(|entry| entry.device_type() != fb::DeviceType::Cpu) {
        return Err(MethodFault::BufferDevice { buffer: entry.buffer_idx(), device: entry.device_type().0 });
    }
    Ok(buffers)
}

fn operators<'a>(
    list: Option<Vector<'a, ForwardsUOffset<fb::Operator<'a>>>>,
) -> Result<Vec<Operator<'a>>, MethodFault> {
    let parse = |(index, operator): (usize, fb::Operator<'a>)| {
        let name = operator.name().ok_or(MethodFault::Missing { field: "Operator.name" })?;
        let overload = operator.overload().unwrap_or_default();
        let length = match overload.len() {
            0 => name.len(),
            overload => name.len() + 1 + overload,
        };
        if length > MAX_OPERATOR_NAME {
            return Err(MethodFault::OperatorName { operator: index, length });
        }
        Ok(Operator { name, overload })
    };
    list.into_iter().flatten().enumerate().map(parse).collect()
}

fn delegates<'a>(plan: fb::ExecutionPlan<'a>, data: &Data<'a>) -> Result<Vec<Delegate<'a>>, MethodFault> {
    let list = plan.delegates().ok_or(MethodFault::Missing { field: "ExecutionPlan.delegates" })?;
    list.iter()
        .enumerate()
        .map(|(index, delegate)| {
            Delegate::parse(delegate, data).map_err(|fault| MethodFault::Delegate { delegate: index, fault })
        })
        .collect()
}

impl<'a> Delegate<'a> {
    fn parse(delegate: fb::BackendDelegate<'a>, data: &Data<'a>) -> Result<Self, DelegateFault> {
        let id = delegate.id().ok_or(DelegateFault::Missing { field: "BackendDelegate.id" })?;
        let processed =
            delegate.processed().ok_or(DelegateFault::Missing { field: "BackendDelegate.processed" })?;
        let index = processed.index();
        let payload = match processed.location() {
            fb::DataLocation::Inline => data.inline_payload(index)?,
            fb::DataLocation::Segment => data
                .segments
                .get(index)
                .ok_or(DelegateFault::Segment { index, count: data.segments.len() })?,
            fb::DataLocation(found) => return Err(DelegateFault::Location { found }),
        };
        let spec = |(at, spec): (usize, fb::CompileSpec<'a>)| {
            let absent = |field| DelegateFault::CompileSpec { spec: at, field };
            Ok(CompileSpec {
                key: spec.key().ok_or_else(|| absent("key"))?,
                value: spec.value().ok_or_else(|| absent("value"))?.bytes(),
            })
        };
        let compile_specs =
            delegate.compile_specs().into_iter().flatten().enumerate().map(spec).collect::<Result<_, _>>()?;
        Ok(Self { id, payload, compile_specs })
    }
}
