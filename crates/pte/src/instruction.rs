//! Instructions of a method.

use crate::error::{InstructionFault, MethodFault};
use crate::generated::program as fb;
use crate::list::{List, ValueId, ValueIds};
use crate::scalar_type::ScalarType;
use crate::value::Value;

/// Instructions that run in order from the first.
#[derive(Clone, Debug)]
pub struct Chain<'a> {
    /// The instructions.
    pub instructions: Vec<Instruction<'a>>,
}

/// One step of a method. Every index is in range for the method.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Instruction<'a> {
    /// Calls an operator.
    KernelCall {
        /// Index into [`Method::operators`](crate::Method::operators).
        operator: usize,
        /// Inputs, then outputs.
        args: ValueIds<'a>,
    },
    /// Calls a delegate.
    DelegateCall {
        /// Index into [`Method::delegates`](crate::Method::delegates).
        delegate: usize,
        /// Inputs, then outputs.
        args: ValueIds<'a>,
    },
    /// Makes one value a copy of another; tensors share their data.
    MoveCall {
        /// The value copied.
        from: ValueId,
        /// The value replaced.
        to: ValueId,
    },
    /// Continues elsewhere if a condition is false.
    JumpFalseCall {
        /// A Bool, or a tensor of bools that is true if all its elements are.
        condition: ValueId,
        /// Instruction of this chain to continue with; the number of instructions ends the chain.
        destination: usize,
    },
    /// Forgets where a tensor's data is.
    FreeCall {
        /// The tensor.
        value: ValueId,
    },
}

/// What instructions refer to.
pub(crate) struct Scope<'m, 'a> {
    pub(crate) values: &'m [Value<'a>],
    pub(crate) operators: usize,
    pub(crate) delegates: usize,
}

impl<'a> Chain<'a> {
    pub(crate) fn parse(
        index: usize,
        chain: fb::Chain<'a>,
        scope: &Scope<'_, 'a>,
    ) -> Result<Self, MethodFault> {
        let list = chain.instructions().ok_or(MethodFault::NoInstructions { chain: index })?;
        let count = list.len();
        let instructions = list
            .iter()
            .enumerate()
            .map(|(at, instruction)| {
                Instruction::parse(instruction, count, scope).map_err(|fault| MethodFault::Instruction {
                    chain: index,
                    instruction: at,
                    fault,
                })
            })
            .collect::<Result<_, _>>()?;
        Ok(Self { instructions })
    }
}

impl<'a> Instruction<'a> {
    fn parse(
        instruction: fb::Instruction<'a>,
        count: usize,
        scope: &Scope<'_, 'a>,
    ) -> Result<Self, InstructionFault> {
        use fb::InstructionArguments as A;
        // The verifier lets no kind but NONE pass without a body.
        let parsed = match instruction.instr_args_type() {
            A::NONE => return Err(InstructionFault::NoKind),
            A::KernelCall => instruction.instr_args_as_kernel_call().map(|c| scope.kernel_call(c)),
            A::DelegateCall => instruction.instr_args_as_delegate_call().map(|c| scope.delegate_call(c)),
            A::MoveCall => instruction.instr_args_as_move_call().map(|c| {
                Ok(Self::MoveCall {
                    from: scope.operand(0, c.move_from())?,
                    to: scope.operand(1, c.move_to())?,
                })
            }),
            A::JumpFalseCall => instruction.instr_args_as_jump_false_call().map(|c| scope.jump(c, count)),
            A::FreeCall => instruction.instr_args_as_free_call().map(|c| scope.free(c)),
            A(found) => return Err(InstructionFault::UnknownKind { found }),
        };
        parsed.unwrap_or(Err(InstructionFault::NoKind))
    }
}

impl<'a> Scope<'_, 'a> {
    fn kernel_call(&self, call: fb::KernelCall<'a>) -> Result<Instruction<'a>, InstructionFault> {
        let (index, count) = (call.op_index(), self.operators);
        let operator = below(index, count).ok_or(InstructionFault::Operator { index, count })?;
        Ok(Instruction::KernelCall { operator, args: self.args(call.args())? })
    }

    fn delegate_call(&self, call: fb::DelegateCall<'a>) -> Result<Instruction<'a>, InstructionFault> {
        let (index, count) = (call.delegate_index(), self.delegates);
        let delegate = below(index, count).ok_or(InstructionFault::Delegate { index, count })?;
        Ok(Instruction::DelegateCall { delegate, args: self.args(call.args())? })
    }

    fn jump(&self, call: fb::JumpFalseCall<'a>, count: usize) -> Result<Instruction<'a>, InstructionFault> {
        let condition = self.operand(0, call.cond_value_index())?;
        self.kind(condition, "a Bool or a tensor of bools", |value| match value {
            Value::Bool(_) => true,
            Value::Tensor(tensor) => tensor.layout.scalar_type() == ScalarType::Bool,
            _ => false,
        })?;
        let destination = call.destination_instruction();
        // Behind the last instruction is where a jump leaves the chain.
        let destination =
            below(destination, count + 1).ok_or(InstructionFault::Jump { destination, count })?;
        Ok(Instruction::JumpFalseCall { condition, destination })
    }

    fn free(&self, call: fb::FreeCall<'a>) -> Result<Instruction<'a>, InstructionFault> {
        let value = self.operand(0, call.value_index())?;
        self.kind(value, "a Tensor", |value| matches!(value, Value::Tensor(_)))?;
        Ok(Instruction::FreeCall { value })
    }

    fn operand(&self, at: usize, index: i32) -> Result<ValueId, InstructionFault> {
        let (index, count) = (i64::from(index), self.values.len());
        ValueId::checked(index, count).ok_or(InstructionFault::Operand { at, index, count })
    }

    fn args(&self, args: Option<flatbuffers::Vector<'a, i32>>) -> Result<ValueIds<'a>, InstructionFault> {
        let count = self.values.len();
        ValueIds::checked(List::new(args), count).map_err(|(at, index)| InstructionFault::Operand {
            at,
            index,
            count,
        })
    }

    fn kind(
        &self,
        id: ValueId,
        expected: &'static str,
        accept: impl Fn(&Value<'a>) -> bool,
    ) -> Result<(), InstructionFault> {
        let index = id.index();
        match self.values.get(index) {
            Some(value) if accept(value) => Ok(()),
            value => {
                let found = value.map_or("nothing", Value::kind);
                Err(InstructionFault::OperandKind { index, expected, found })
            }
        }
    }
}

fn below(index: i32, count: usize) -> Option<usize> {
    usize::try_from(index).ok().filter(|&index| index < count)
}
