//! Where inputs and outputs lie in the buffers shared with the host.

use etvk_vkgraph::{Payload, ValueId};

use crate::error::Error;
use crate::inputs::PortInfo;
use crate::ir::{Port, Program};
use crate::limits::DeviceLimits;
use crate::plan;

/// Offset and length of a port in its buffer.
pub(crate) type ByteRange = (u64, u64);

fn ranges(
    program: &Program,
    ports: &[Port],
    first: u64,
    limits: DeviceLimits,
) -> Result<(u64, Vec<Option<ByteRange>>), Error> {
    let mut end = first;
    let mut ranges = Vec::with_capacity(ports.len());
    for (index, port) in ports.iter().enumerate() {
        let Port::Tensor(id) = port else {
            ranges.push(None);
            continue;
        };
        let bytes = plan::bytes_of(program, *id).unwrap_or(u64::MAX);
        limits.check(bytes, || format!("input or output {index}"))?;
        let offset = end.next_multiple_of(limits.alignment);
        ranges.push(Some((offset, bytes.max(4))));
        end = offset + bytes.max(4);
    }
    Ok((end.next_multiple_of(limits.alignment), ranges))
}

pub(crate) type UploadRanges = (u64, ByteRange, Vec<Option<ByteRange>>);

/// The upload buffer: dynamic words first, then the tensor inputs.
pub(crate) fn upload_ranges(program: &Program, limits: DeviceLimits) -> Result<UploadRanges, Error> {
    let words = u64::from(program.dynamic_words.max(1)) * 4;
    let (bytes, inputs) = ranges(program, &program.inputs, words, limits)?;
    Ok((bytes, (0, words), inputs))
}

/// The download buffer: the tensor outputs.
pub(crate) fn output_ranges(
    program: &Program,
    limits: DeviceLimits,
) -> Result<(u64, Vec<Option<ByteRange>>), Error> {
    ranges(program, &program.outputs, 0, limits)
}

/// What the ports are, for the caller.
pub(crate) fn describe(
    program: &Program,
    payload: &Payload<'_>,
    values: &[ValueId],
    ports: &[Port],
) -> Vec<PortInfo> {
    let info = |(value, port): (&ValueId, &Port)| match port {
        Port::Tensor(id) => {
            let tensor = program.tensor(*id);
            let staging = payload.graph().tensor(*value).map(|info| info.staging_dtype);
            PortInfo::Tensor { dtype: staging.unwrap_or(tensor.dtype), bound: tensor.bound.to_vec() }
        }
        Port::Sym(_) => PortInfo::Int,
    };
    values.iter().zip(ports).map(info).collect()
}
