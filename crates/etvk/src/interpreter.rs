//! Instructions of a loaded method, one after the other.

use etvk_pte::{Instruction, Method, ValueId, ValueIds};

use crate::delegate::{self, CallFault, Delegate};
use crate::error::{Error, KernelFault, Result};
use crate::frame::{Frame, Slot, argument};
use crate::kernels::{self, Call, Kernel};

/// Most instructions that one execution may take: programs that loop for ever end here.
const LIMIT: u64 = 10_000_000;

/// One instruction, resolved.
#[derive(Debug)]
enum Step {
    Kernel { kernel: Kernel, name: String, args: Vec<usize> },
    Delegate { delegate: usize, args: Vec<usize> },
    Move { from: usize, to: usize },
    JumpFalse { condition: usize, destination: usize },
    Free { value: usize },
}

/// The instructions of a method.
#[derive(Debug)]
pub(crate) struct Code {
    method: String,
    chains: Vec<Vec<Step>>,
}

impl Code {
    /// Resolves the instructions of a method that is known to run.
    pub(crate) fn new(method: &Method<'_>) -> Self {
        let chain =
            |chain: &etvk_pte::Chain<'_>| chain.instructions.iter().map(|i| Step::new(method, i)).collect();
        Self { method: method.name().to_owned(), chains: method.chains().iter().map(chain).collect() }
    }

    /// Executes the chains in order.
    pub(crate) fn run(&self, frame: &mut Frame, delegates: &mut [Delegate]) -> Result<()> {
        let mut budget = LIMIT;
        for (chain, steps) in self.chains.iter().enumerate() {
            let mut at = 0;
            while let Some(step) = steps.get(at) {
                budget = budget
                    .checked_sub(1)
                    .ok_or_else(|| Error::InstructionLimit { method: self.method.clone(), limit: LIMIT })?;
                let next = step.run(frame, delegates).map_err(|fault| match (fault, step) {
                    (CallFault::Engine(source), Step::Delegate { delegate, .. }) => {
                        Error::Delegate { delegate: *delegate, source }
                    }
                    (CallFault::Engine(source), _) => Error::Delegate { delegate: 0, source },
                    (CallFault::Foreign(source), Step::Delegate { delegate, .. }) => {
                        Error::Foreign { delegate: *delegate, source }
                    }
                    (CallFault::Foreign(source), _) => Error::Foreign { delegate: 0, source },
                    (CallFault::Value(source), step) => {
                        Error::Instruction { chain, instruction: at, name: step.name().to_owned(), source }
                    }
                })?;
                at = next.unwrap_or(at + 1);
            }
        }
        Ok(())
    }
}

impl Step {
    fn new(method: &Method<'_>, instruction: &Instruction<'_>) -> Self {
        let ids = |args: &ValueIds<'_>| args.iter().map(ValueId::index).collect();
        match instruction {
            Instruction::KernelCall { operator, args } => {
                let name = method.operators().get(*operator).map(ToString::to_string).unwrap_or_default();
                Self::Kernel { kernel: kernels::find(&name).unwrap_or(missing), name, args: ids(args) }
            }
            Instruction::DelegateCall { delegate, args } => {
                Self::Delegate { delegate: *delegate, args: ids(args) }
            }
            Instruction::MoveCall { from, to } => Self::Move { from: from.index(), to: to.index() },
            Instruction::JumpFalseCall { condition, destination } => {
                Self::JumpFalse { condition: condition.index(), destination: *destination }
            }
            Instruction::FreeCall { value } => Self::Free { value: value.index() },
            _ => Self::Kernel { kernel: missing, name: "unknown instruction".to_owned(), args: Vec::new() },
        }
    }

    fn name(&self) -> &str {
        match self {
            Self::Kernel { name, .. } => name,
            Self::Delegate { .. } => "delegate call",
            Self::Move { .. } => "move",
            Self::JumpFalse { .. } => "jump",
            Self::Free { .. } => "free",
        }
    }

    /// Executes the step; the instruction to continue with, if that is not the next one.
    fn run(&self, frame: &mut Frame, delegates: &mut [Delegate]) -> Result<Option<usize>, CallFault> {
        match self {
            Self::Kernel { kernel, args, .. } => kernel(&mut Call::new(frame, args))?,
            Self::Delegate { delegate, args } => match delegates.get_mut(*delegate) {
                Some(delegate) => delegate::call(delegate, frame, args)?,
                None => return Err(KernelFault::NoData { value: *delegate }.into()),
            },
            Self::Move { from, to } => frame.copy_value(*from, *to),
            Self::JumpFalse { condition, destination } if !holds(frame, *condition)? => {
                return Ok(Some(*destination));
            }
            Self::JumpFalse { .. } => {}
            Self::Free { value } => frame.free(*value)?,
        }
        Ok(None)
    }
}

/// Stands for a kernel that loading would have refused.
fn missing(_: &mut Call<'_>) -> Result<(), KernelFault> {
    Err(KernelFault::Argument { at: 0, expected: "a known operator", found: "an unknown one".to_owned() })
}

fn holds(frame: &Frame, condition: usize) -> Result<bool, KernelFault> {
    match frame.slot(condition) {
        Slot::Bool(value) => Ok(*value),
        Slot::Tensor(_) => Ok(frame.elements(0, condition)?.iter().all(|&element| element != 0)),
        other => Err(argument(0, "Bool", other)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kernel(name: &str, args: &[usize]) -> Step {
        Step::Kernel { kernel: kernels::find(name).unwrap(), name: name.to_owned(), args: args.to_vec() }
    }

    fn run(steps: Vec<Step>, slots: Vec<Slot>) -> (Frame, Result<()>) {
        let mut frame = Frame::of(slots);
        let code = Code { method: "forward".to_owned(), chains: vec![steps] };
        let result = code.run(&mut frame, &mut []);
        (frame, result)
    }

    #[test]
    fn a_loop_ends_when_its_condition_holds() {
        let steps = vec![
            kernel("executorch_prim::add.Scalar", &[0, 1, 0]),
            kernel("executorch_prim::ge.Scalar", &[0, 2, 3]),
            Step::JumpFalse { condition: 3, destination: 0 },
            Step::Move { from: 0, to: 4 },
        ];
        let slots = vec![Slot::Int(0), Slot::Int(1), Slot::Int(5), Slot::Bool(false), Slot::Null];
        let (frame, result) = run(steps, slots);
        result.unwrap();
        assert_eq!(frame.int(0, 4), Ok(5));
    }

    #[test]
    fn a_loop_without_end_is_stopped() {
        let steps = vec![Step::JumpFalse { condition: 0, destination: 0 }];
        let (_, result) = run(steps, vec![Slot::Bool(false)]);
        assert!(matches!(result, Err(Error::InstructionLimit { limit: LIMIT, .. })));
    }

    #[test]
    fn conditions_are_bools_or_tensors_of_them() {
        let steps = || vec![Step::JumpFalse { condition: 0, destination: 1 }];
        let (_, result) = run(steps(), vec![Slot::Int(1)]);
        assert!(matches!(
            result,
            Err(Error::Instruction {
                instruction: 0,
                source: KernelFault::Argument { expected: "Bool", .. },
                ..
            })
        ));
        let mut frame = Frame::of(vec![Slot::tensor(etvk_pte::ScalarType::Bool, &[2])]);
        frame.write(0, 0, &[2], &[1, 0]).unwrap();
        assert_eq!(holds(&frame, 0), Ok(false));
        frame.write(0, 0, &[2], &[1, 1]).unwrap();
        assert_eq!(holds(&frame, 0), Ok(true));
    }

    #[test]
    fn faults_name_the_instruction() {
        let steps = vec![Step::Free { value: 0 }, kernel("executorch_prim::floordiv.int", &[1, 2, 1])];
        let slots = || vec![Slot::tensor(etvk_pte::ScalarType::Bool, &[]), Slot::Int(1), Slot::Int(0)];
        let (_, result) = run(steps, slots());
        let Err(Error::Instruction { chain: 0, instruction: 1, name, source }) = result else {
            panic!("no fault: {result:?}")
        };
        assert_eq!((name.as_str(), source), ("executorch_prim::floordiv.int", KernelFault::DivisionByZero));
    }
}
