//! Which kernels a program's first executions will want, found without a device by recording into nothing.

use std::collections::HashSet;

use etvk_kernels::{Kernel, Limits};

use crate::error::Fault;
use crate::host::{self, HostInputs, HostState};
use crate::ir::{Elem, Program};
use crate::record::{Record, Target};

/// Kernels for inputs of the greatest sizes and, if the program keeps a state, for one token. Other sizes may want
/// others, and a program may refuse these sizes: it is a forecast, and what it lacks is found when it is needed.
pub(crate) fn kernels(program: &Program, limits: &Limits) -> Vec<Kernel> {
    let mut found = HashSet::new();
    collect(program, limits, false, &mut found);
    if !program.states.is_empty() {
        collect(program, limits, true, &mut found);
    }
    found.into_iter().collect()
}

fn collect(program: &Program, limits: &Limits, one_token: bool, found: &mut HashSet<Kernel>) {
    let mut host = HostState::new(program);
    for (_, id) in host::tensor_inputs(program) {
        let tensor = program.tensor(id);
        let mut sizes = tensor.bound.clone();
        if one_token && tensor.elem() == Elem::I32 {
            sizes.iter_mut().for_each(|size| *size = 1);
        }
        host.set_input(id, &sizes);
    }
    if host.evaluate(program, &Zeros).is_err() {
        return;
    }
    let target = Target::Kernels(found);
    let mut record =
        Record { program, limits, layouts: &host.layouts, target, node: 0, dispatched: Vec::new() };
    // What cannot be recorded is reported by the execution that wants it.
    let _ = record.nodes();
}

/// The start of a sequence.
struct Zeros;

impl HostInputs for Zeros {
    fn int(&self, _input: u32) -> Result<i64, Fault> {
        Ok(0)
    }

    fn element(&self, _input: u32, _dim: i64, _index: i64) -> Result<i64, Fault> {
        Ok(0)
    }
}
