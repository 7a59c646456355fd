//! Where in device memory each produced tensor lives.

use etvk_kernels::numel;

use crate::error::Error;
use crate::ir::{Origin, Port, Program, TensorId};
use crate::limits::DeviceLimits;

/// A tensor's place in the arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Placement {
    /// Which block of the arena.
    pub(crate) block: usize,
    /// First byte in the block.
    pub(crate) offset: u64,
    /// Bytes at the tensor's upper bound.
    pub(crate) bytes: u64,
}

/// Placements of all tensors that nodes produce, and the sizes of the arena's blocks.
#[derive(Clone, Debug, Default)]
pub(crate) struct Plan {
    pub(crate) placements: Vec<Option<Placement>>,
    pub(crate) blocks: Vec<u64>,
}

/// Bytes of a tensor of 32-bit words at its upper bound.
pub(crate) fn bytes_of(program: &Program, id: TensorId) -> Option<u64> {
    numel(&program.tensor(id).bound).map(|n| u64::from(n) * 4)
}

#[derive(Clone, Copy)]
struct Lifetime {
    first: usize,
    last: usize,
    bytes: u64,
}

/// Places tensors so that two that are alive together never overlap: largest first, each at the lowest
/// offset that is free during its life.
pub(crate) fn plan(program: &Program, limits: DeviceLimits) -> Result<Plan, Error> {
    let lifetimes = lifetimes(program, limits)?;
    let mut order: Vec<usize> = (0..lifetimes.len()).filter(|&i| lifetimes[i].is_some()).collect();
    order.sort_by_key(|&i| std::cmp::Reverse(lifetimes[i].map_or(0, |l| l.bytes)));
    let mut plan = Plan { placements: vec![None; lifetimes.len()], blocks: Vec::new() };
    let mut placed: Vec<(Lifetime, Placement)> = Vec::new();
    for index in order {
        let Some(life) = lifetimes[index] else { continue };
        let bytes = life.bytes.max(4).next_multiple_of(limits.alignment);
        let alive =
            |(other, _): &&(Lifetime, Placement)| other.first <= life.last && life.first <= other.last;
        let mut taken: Vec<Placement> = placed.iter().filter(alive).map(|(_, place)| *place).collect();
        taken.sort_by_key(|place| (place.block, place.offset));
        let (block, offset) = lowest_gap(&taken, bytes, limits.max_block);
        let place = Placement { block, offset, bytes: life.bytes.max(4) };
        if plan.blocks.len() <= block {
            plan.blocks.resize(block + 1, 0);
        }
        plan.blocks[block] = plan.blocks[block].max(offset + bytes);
        placed.push((life, Placement { bytes, ..place }));
        plan.placements[index] = Some(place);
    }
    Ok(plan)
}

/// The first gap of `bytes` between placements sorted by block and offset.
fn lowest_gap(taken: &[Placement], bytes: u64, max_block: u64) -> (usize, u64) {
    let (mut block, mut end) = (0, 0);
    for place in taken {
        while block < place.block {
            if end + bytes <= max_block {
                return (block, end);
            }
            (block, end) = (block + 1, 0);
        }
        if place.offset >= end + bytes {
            return (block, end);
        }
        end = end.max(place.offset + place.bytes);
    }
    if end == 0 || end + bytes <= max_block { (block, end) } else { (block + 1, 0) }
}

fn lifetimes(program: &Program, limits: DeviceLimits) -> Result<Vec<Option<Lifetime>>, Error> {
    let mut lives: Vec<Option<Lifetime>> = vec![None; program.tensors.len()];
    for (step, node) in program.nodes.iter().enumerate() {
        for &id in &node.outputs {
            if program.tensor(id).origin != Origin::Node {
                continue;
            }
            let bytes = bytes_of(program, id).unwrap_or(u64::MAX);
            let name = || format!("a result of call {} {}", node.call, program.call_name(node.call));
            limits.check(bytes, name)?;
            lives[id.index()] = Some(Lifetime { first: step, last: step, bytes });
        }
        for &id in &node.inputs {
            if let Some(life) = &mut lives[program.base(id).index()] {
                life.last = life.last.max(step);
            }
        }
    }
    for port in &program.outputs {
        if let Port::Tensor(id) = port
            && let Some(life) = &mut lives[program.base(*id).index()]
        {
            life.last = usize::MAX;
        }
    }
    Ok(lives)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_gap_that_fits_is_taken() {
        let at = |block, offset, bytes| Placement { block, offset, bytes };
        assert_eq!(lowest_gap(&[], 64, 1000), (0, 0));
        assert_eq!(lowest_gap(&[at(0, 0, 64), at(0, 192, 64)], 128, 1000), (0, 64));
        assert_eq!(lowest_gap(&[at(0, 0, 64), at(0, 128, 64)], 128, 1000), (0, 192));
        assert_eq!(lowest_gap(&[at(0, 64, 64)], 64, 1000), (0, 0));
    }

    #[test]
    fn a_full_block_opens_the_next() {
        let at = |block, offset, bytes| Placement { block, offset, bytes };
        assert_eq!(lowest_gap(&[at(0, 0, 900)], 128, 1000), (1, 0));
        assert_eq!(lowest_gap(&[at(0, 0, 900), at(1, 0, 900)], 128, 1000), (2, 0));
        assert_eq!(lowest_gap(&[at(0, 0, 900), at(1, 0, 100)], 128, 1000), (1, 100));
        assert_eq!(lowest_gap(&[at(1, 0, 100)], 128, 1000), (0, 0));
    }
}
