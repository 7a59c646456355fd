//! A walk over everything in a file, which fuzzing shares.
#![expect(clippy::unwrap_used, reason = "test code")]

/// Visits everything that can be reached from `file`, whatever kind it is; the number of things seen, or the error.
pub(crate) fn walk(file: &[u8]) -> Result<usize, etvk_pte::Error> {
    use etvk_pte::{BundledProgram, Container, FlatTensor, Program};
    match Container::detect(file) {
        Container::FlatTensor => {
            let blobs = FlatTensor::parse(file)?;
            Ok(blobs.blobs().iter().map(|(key, blob)| key.len() + touch(blob.bytes)).sum())
        }
        Container::BundledProgram => {
            let bundled = BundledProgram::parse(file)?;
            let values = bundled.suites().iter().flat_map(|suite| &suite.cases);
            let seen = format!("{:?}", values.collect::<Vec<_>>()).len();
            Ok(seen + walk_program(&bundled.program()?)?)
        }
        _ => walk_program(&Program::parse(file)?),
    }
}

fn walk_program(program: &etvk_pte::Program<'_>) -> Result<usize, etvk_pte::Error> {
    use etvk_pte::{Instruction, Storage, Value};
    let mut seen: usize = program.named_data().iter().map(|(key, blob)| key.len() + touch(blob)).sum();
    for method in program.methods() {
        let method = method?;
        for value in method.values() {
            seen += format!("{value:?}").len();
            if let Value::Tensor(tensor) = value {
                match tensor.storage {
                    Storage::Constant(bytes) | Storage::Mutable(_, bytes) => {
                        assert_eq!(bytes.len(), tensor.layout.nbytes());
                        seen += touch(bytes);
                    }
                    _ => {}
                }
                if let Storage::Planned(region) | Storage::Mutable(region, _) = tensor.storage {
                    let size = method.planned_buffers().nth(region.buffer).unwrap();
                    assert!(region.offset + tensor.layout.nbytes() as u64 <= size);
                }
            }
        }
        for id in method.inputs().iter().chain(method.outputs().iter()) {
            seen += method.value(id).unwrap().kind().len();
        }
        for delegate in method.delegates() {
            seen += touch(delegate.payload)
                + delegate.compile_specs.iter().map(|s| touch(s.value)).sum::<usize>();
        }
        for chain in method.chains() {
            for instruction in &chain.instructions {
                seen += match *instruction {
                    Instruction::KernelCall { operator, args } => {
                        args.iter().for_each(|id| assert!(method.value(id).is_some()));
                        method.operators()[operator].name.len()
                    }
                    Instruction::DelegateCall { delegate, args } => {
                        args.iter().for_each(|id| assert!(method.value(id).is_some()));
                        method.delegates()[delegate].id.len()
                    }
                    Instruction::JumpFalseCall { destination, .. } => {
                        assert!(destination <= chain.instructions.len());
                        1
                    }
                    _ => 1,
                };
            }
        }
    }
    Ok(seen)
}

/// Reads every byte.
fn touch(bytes: &[u8]) -> usize {
    bytes.iter().fold(0_u8, |sum, &b| sum ^ b).into()
}
