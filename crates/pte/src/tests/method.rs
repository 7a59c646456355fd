//! Values, delegates and instructions.

use super::build::{Delegate, Op, Spec, TensorSpec, Val, pte, tensor};
use super::fault;
use crate::{
    DelegateFault, Instruction, InstructionFault, LayoutFault, MethodFault, Program, Region, Storage, Value,
    ValueFault,
};

/// What is wrong with `value` behind those of the default program.
fn value_fault(value: Val) -> ValueFault {
    match fault(|spec| spec.values.as_mut().unwrap().push(value)) {
        MethodFault::Value { value: 5, fault } => fault,
        other => panic!("{other:?}"),
    }
}

fn tensor_fault(edit: impl FnOnce(&mut TensorSpec)) -> ValueFault {
    let mut spec = tensor();
    edit(&mut spec);
    value_fault(Val::Tensor(spec))
}

fn layout_fault(edit: impl FnOnce(&mut TensorSpec)) -> LayoutFault {
    match tensor_fault(edit) {
        ValueFault::Layout(fault) => fault,
        other => panic!("{other:?}"),
    }
}

/// What is wrong with `op` as the second of two instructions.
fn op_fault(op: Op) -> InstructionFault {
    match fault(|spec| spec.chains = vec![Some(vec![]), Some(vec![Op::Move(0, 0), op])]) {
        MethodFault::Instruction { chain: 1, instruction: 1, fault } => fault,
        other => panic!("{other:?}"),
    }
}

fn delegate_fault(edit: impl FnOnce(&mut Delegate)) -> DelegateFault {
    match fault(|spec| edit(&mut spec.delegates.as_mut().unwrap()[0])) {
        MethodFault::Delegate { delegate: 0, fault } => fault,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_default_method_says_what_was_written() {
    let file = pte(|_| ());
    let program = Program::parse(&file).unwrap();
    let method = program.method("forward").unwrap();
    let storage = |at: usize| method.values()[at].as_tensor().unwrap().storage;
    assert_eq!(storage(0), Storage::Planned(Region { buffer: 0, offset: 0 }));
    assert_eq!(storage(3), Storage::Constant(&[1; 24]));
    assert_eq!(storage(4), Storage::Mutable(Region { buffer: 0, offset: 32 }, &[2; 24]));
    assert!(matches!(method.values()[2], Value::Int(7)));
    assert_eq!(method.outputs().iter().map(|id| id.index()).collect::<Vec<_>>(), [0, 2]);
    assert_eq!(method.operators()[0].to_string(), "aten::add.out");
    assert_eq!(method.delegates()[0].payload, b"payload");
    assert_eq!(method.delegates()[0].compile_specs[0].key, "force_fp16");
    assert_eq!(method.planned_buffers().collect::<Vec<_>>(), [64]);
    let [call, Instruction::DelegateCall { delegate: 0, .. }] = method.chains()[0].instructions[..] else {
        panic!("{:?}", method.chains())
    };
    let Instruction::KernelCall { operator: 0, args } = call else { panic!("{call:?}") };
    assert_eq!(args.iter().map(|id| id.index()).collect::<Vec<_>>(), [0, 3, 0]);
}

#[test]
fn external_data_is_named() {
    let external = |planned| Val::Tensor(TensorSpec { planned, extra: Some((1, 0, Some("w"))), ..tensor() });
    let file = pte(|spec| spec.values.as_mut().unwrap().extend([external(None), external(Some((1, 8)))]));
    let program = Program::parse(&file).unwrap();
    let method = program.method("forward").unwrap();
    let storage = |at: usize| method.values()[at].as_tensor().unwrap().storage;
    assert_eq!(storage(5), Storage::External("w"));
    assert_eq!(storage(6), Storage::MutableExternal(Region { buffer: 0, offset: 8 }, "w"));
    assert_eq!(tensor_fault(|t| t.extra = Some((1, 0, None))), ValueFault::NoExternalName);
    assert_eq!(tensor_fault(|t| t.extra = Some((2, 0, Some("w")))), ValueFault::Location { found: 2 });
    assert_eq!(tensor_fault(|t| t.extra = Some((0, 1, Some("w")))), ValueFault::Device { found: 1 });
}

#[test]
fn layouts() {
    assert_eq!(layout_fault(|t| t.scalar_type = 30), LayoutFault::ScalarType { found: 30 });
    assert_eq!(layout_fault(|t| t.scalar_type = -1), LayoutFault::ScalarType { found: -1 });
    assert_eq!(layout_fault(|t| t.sizes = None), LayoutFault::NoSizes);
    assert_eq!(layout_fault(|t| t.dim_order = None), LayoutFault::NoDimOrder);
    assert_eq!(layout_fault(|t| t.dim_order = Some(vec![0])), LayoutFault::Ranks { sizes: 2, dim_order: 1 });
    let deep = |t: &mut TensorSpec| {
        t.sizes = Some(vec![1; 17]);
        t.dim_order = Some((0..17).collect());
    };
    assert_eq!(layout_fault(deep), LayoutFault::Rank { rank: 17, limit: 16 });
    assert_eq!(layout_fault(|t| t.sizes = Some(vec![2, -3])), LayoutFault::NegativeSize { dim: 1, size: -3 });
    assert_eq!(layout_fault(|t| t.dim_order = Some(vec![1, 1])), LayoutFault::DimOrder { found: vec![1, 1] });
    assert_eq!(layout_fault(|t| t.dim_order = Some(vec![0, 2])), LayoutFault::DimOrder { found: vec![0, 2] });
    let huge = |sizes: [i32; 3]| {
        layout_fault(|t| {
            t.sizes = Some(sizes.to_vec());
            t.dim_order = Some(vec![0, 1, 2]);
        })
    };
    assert_eq!(huge([i32::MAX; 3]), LayoutFault::Overflow);
    assert_eq!(huge([i32::MAX, i32::MAX, 0]), LayoutFault::Overflow);
}

#[test]
fn storage() {
    assert_eq!(tensor_fault(|t| t.storage_offset = 4), ValueFault::StorageOffset { found: 4 });
    assert_eq!(tensor_fault(|t| t.dynamism = 2), ValueFault::Dynamism { found: 2 });
    assert_eq!(tensor_fault(|t| t.planned = Some((0, 0))), ValueFault::MemoryId { id: 0, last: 1 });
    assert_eq!(tensor_fault(|t| t.planned = Some((2, 0))), ValueFault::MemoryId { id: 2, last: 1 });
    for offset in [41, u64::MAX] {
        assert_eq!(
            tensor_fault(|t| t.planned = Some((1, offset))),
            ValueFault::MemoryRange { id: 1, offset, needed: 24, available: 64 }
        );
    }
    let store = "the constant segment";
    let constant = |t: &mut TensorSpec, data| (t.planned, t.data) = (None, data);
    assert_eq!(tensor_fault(|t| constant(t, 2)), ValueFault::Constant { store, index: 2, count: 2 });
    for offset in [9, u64::MAX] {
        assert_eq!(
            fault(|spec| spec.constant_segment = Some((0, vec![0, offset]))),
            MethodFault::Value {
                value: 3,
                fault: ValueFault::ConstantRange { store, offset, needed: 24, available: 32 }
            }
        );
    }
    let store = "the mutable data segment";
    assert_eq!(
        fault(|spec| spec.mutable_segment = Some((1, vec![0, 5]))),
        MethodFault::Value {
            value: 4,
            fault: ValueFault::ConstantRange { store, offset: 5, needed: 24, available: 28 }
        }
    );
    assert_eq!(
        fault(|spec| spec.mutable_segment = None),
        MethodFault::Value { value: 4, fault: ValueFault::Constant { store, index: 1, count: 0 } }
    );
}

#[test]
fn inline_constants() {
    let inline = |spec: &mut Spec, size| {
        spec.constant_segment = None;
        spec.constant_buffer = vec![vec![], vec![5; size]];
    };
    let file = pte(|spec| inline(spec, 32));
    let program = Program::parse(&file).unwrap();
    let method = program.method("forward").unwrap();
    assert_eq!(method.values()[3].as_tensor().unwrap().storage, Storage::Constant(&[5; 24]));
    let store = "the inline constants";
    assert_eq!(
        fault(|spec| inline(spec, 23)),
        MethodFault::Value {
            value: 3,
            fault: ValueFault::ConstantRange { store, offset: 0, needed: 24, available: 23 }
        }
    );
}

#[test]
fn kinds_and_lists() {
    assert_eq!(value_fault(Val::Absent), ValueFault::NoKind);
    assert_eq!(value_fault(Val::Kind(12)), ValueFault::UnknownKind { found: 12 });
    assert_eq!(value_fault(Val::String(None)), ValueFault::NoString);
    assert_eq!(value_fault(Val::IntList(vec![2, 6])), ValueFault::Item { at: 1, index: 6, count: 6 });
    assert_eq!(
        value_fault(Val::IntList(vec![1 << 32 | 2])),
        ValueFault::Item { at: 0, index: 1 << 32 | 2, count: 6 }
    );
    assert_eq!(
        value_fault(Val::IntList(vec![5])),
        ValueFault::ItemKind { at: 0, index: 5, expected: "Int", found: "IntList" }
    );
    assert_eq!(value_fault(Val::TensorList(vec![-1])), ValueFault::Item { at: 0, index: -1, count: 6 });
    assert_eq!(
        value_fault(Val::TensorList(vec![0, 1])),
        ValueFault::ItemKind { at: 1, index: 1, expected: "Tensor", found: "Bool" }
    );
    assert_eq!(
        value_fault(Val::OptionalTensorList(vec![-2])),
        ValueFault::Item { at: 0, index: -2, count: 6 }
    );
    assert_eq!(
        value_fault(Val::OptionalTensorList(vec![-1, 2])),
        ValueFault::ItemKind { at: 1, index: 2, expected: "Tensor", found: "Int" }
    );
    let lists = [Val::IntList(vec![2]), Val::OptionalTensorList(vec![-1, 0, 7]), Val::Kind(1)];
    let file = pte(|spec| spec.values.as_mut().unwrap().extend(lists));
    let program = Program::parse(&file).unwrap();
    let method = program.method("forward").unwrap();
    let Value::OptionalTensorList(list) = method.values()[6] else { panic!("{:?}", method.values()) };
    assert_eq!(
        format!("{:?}", list.iter().map(|id| id.map(|id| id.index())).collect::<Vec<_>>()),
        "[None, Some(0), Some(7)]"
    );
}

#[test]
fn plans() {
    assert_eq!(fault(|s| s.inputs = vec![0, 5]), MethodFault::Input { at: 1, index: 5, count: 5 });
    assert_eq!(fault(|s| s.outputs = vec![-1]), MethodFault::Output { at: 0, index: -1, count: 5 });
    assert_eq!(fault(|s| s.values = None), MethodFault::Missing { field: "ExecutionPlan.values" });
    assert_eq!(fault(|s| s.delegates = None), MethodFault::Missing { field: "ExecutionPlan.delegates" });
    assert_eq!(fault(|s| s.chains = vec![]), MethodFault::NoChains);
    assert_eq!(fault(|s| s.chains = vec![Some(vec![]), None]), MethodFault::NoInstructions { chain: 1 });
    assert_eq!(fault(|s| s.buffers = vec![0, -1]), MethodFault::BufferSize { buffer: 1, size: -1 });
    assert_eq!(fault(|s| s.device = Some(1)), MethodFault::BufferDevice { buffer: 1, device: 1 });
    assert_eq!(fault(|s| s.operators[0].0 = None), MethodFault::Missing { field: "Operator.name" });
    let long: &'static str =
        "abcdefghi_abcdefghi_abcdefghi_abcdefghi_abcdefghi_abcdefghi_abcdefghi_abcdefghi_abcdefghi_123456";
    assert_eq!(
        fault(|s| s.operators[0].0 = Some(long)),
        MethodFault::OperatorName { operator: 0, length: long.len() + 4 }
    );
}

#[test]
fn delegates() {
    assert_eq!(delegate_fault(|d| d.id = None), DelegateFault::Missing { field: "BackendDelegate.id" });
    assert_eq!(
        delegate_fault(|d| d.processed = None),
        DelegateFault::Missing { field: "BackendDelegate.processed" }
    );
    assert_eq!(delegate_fault(|d| d.processed = Some((2, 0))), DelegateFault::Location { found: 2 });
    assert_eq!(
        delegate_fault(|d| d.processed = Some((0, 0))),
        DelegateFault::InlineData { index: 0, count: 0 }
    );
    assert_eq!(delegate_fault(|d| d.processed = Some((1, 4))), DelegateFault::Segment { index: 4, count: 4 });
    assert_eq!(
        delegate_fault(|d| d.specs.push((None, Some(vec![])))),
        DelegateFault::CompileSpec { spec: 1, field: "key" }
    );
    assert_eq!(
        delegate_fault(|d| d.specs[0].1 = None),
        DelegateFault::CompileSpec { spec: 0, field: "value" }
    );
}

#[test]
fn instructions() {
    assert_eq!(op_fault(Op::Absent), InstructionFault::NoKind);
    assert_eq!(op_fault(Op::Kind(6)), InstructionFault::UnknownKind { found: 6 });
    assert_eq!(op_fault(Op::Kernel(1, vec![])), InstructionFault::Operator { index: 1, count: 1 });
    assert_eq!(op_fault(Op::Kernel(-1, vec![])), InstructionFault::Operator { index: -1, count: 1 });
    assert_eq!(op_fault(Op::Kernel(0, vec![0, 5])), InstructionFault::Operand { at: 1, index: 5, count: 5 });
    assert_eq!(op_fault(Op::Delegate(1, vec![])), InstructionFault::Delegate { index: 1, count: 1 });
    assert_eq!(op_fault(Op::Delegate(0, vec![-1])), InstructionFault::Operand { at: 0, index: -1, count: 5 });
    assert_eq!(op_fault(Op::Move(0, 5)), InstructionFault::Operand { at: 1, index: 5, count: 5 });
    assert_eq!(op_fault(Op::Jump(1, 3)), InstructionFault::Jump { destination: 3, count: 2 });
    assert_eq!(op_fault(Op::Jump(1, -1)), InstructionFault::Jump { destination: -1, count: 2 });
    let expected = "a Bool or a tensor of bools";
    assert_eq!(op_fault(Op::Jump(2, 0)), InstructionFault::OperandKind { index: 2, expected, found: "Int" });
    // A tensor, but of floats.
    assert_eq!(
        op_fault(Op::Jump(0, 0)),
        InstructionFault::OperandKind { index: 0, expected, found: "Tensor" }
    );
    assert_eq!(
        op_fault(Op::Free(1)),
        InstructionFault::OperandKind { index: 1, expected: "a Tensor", found: "Bool" }
    );
    super::load(&pte(|s| s.chains = vec![Some(vec![Op::Jump(1, 2), Op::Free(0)])])).unwrap();
}
