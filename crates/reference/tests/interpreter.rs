//! Executions of graphs made for the purpose: state, current sizes, scalar kinds and errors.

#![expect(clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

use etvk_reference::{Arg, Data, Error, Fault, Interpreter, OPERATORS, Tensor};
use etvk_vkgraph::{DType, GraphBuilder, Payload, ValueId};

fn interpreter(builder: &GraphBuilder) -> Interpreter {
    let payload = builder.finish();
    Interpreter::new(&Payload::parse(&payload).unwrap(), None).unwrap()
}

fn float(dims: &[usize], items: &[f64]) -> Arg {
    Arg::Tensor(Tensor::new(DType::Float32, dims, Data::F64(items.to_vec())).unwrap())
}

fn int(dims: &[usize], items: &[i64]) -> Arg {
    Arg::Tensor(Tensor::new(DType::Int32, dims, Data::I64(items.to_vec())).unwrap())
}

fn zeros(count: usize) -> Vec<u8> {
    vec![0; count * 4]
}

/// A one-input, one-output call with further arguments from `args`.
fn unary(name: &str, dims: &[u32], args: impl Fn(&mut GraphBuilder) -> Vec<ValueId>) -> Interpreter {
    let mut builder = GraphBuilder::new();
    let x = builder.input(DType::Float32, dims);
    let mut ids = vec![x];
    ids.extend(args(&mut builder));
    ids.push(builder.tensor(DType::Float32, dims));
    builder.call(name, &ids);
    builder.outputs(&ids[ids.len() - 1..]);
    interpreter(&builder)
}

fn fault(result: Result<Vec<Arg>, Error>) -> Fault {
    match result.unwrap_err() {
        Error::Call { index: 0, fault, .. } => fault,
        other => panic!("{other:?}"),
    }
}

/// Two caches with equal bytes, updated and read back with a position that the host gives.
fn caches() -> Interpreter {
    let mut builder = GraphBuilder::new();
    let row = builder.input(DType::Float32, &[1, 2, 1, 1]);
    let start = builder.sym_int_input();
    let mut caches = Vec::new();
    for _ in 0..2 {
        let constant = builder.constant(DType::Float32, &[1, 4, 1, 1], zeros(4));
        let cache = builder.tensor(DType::Float32, &[1, 4, 1, 1]);
        builder.call("et_vk.prepack.default", &[constant, cache]);
        caches.push(cache);
    }
    let dummy = builder.tensor(DType::Float32, &[1]);
    builder.call("update_cache.default", &[row, caches[0], start, dummy]);
    builder.outputs(&caches);
    interpreter(&builder)
}

#[test]
fn caches_persist_and_are_not_shared() {
    let mut interpreter = caches();
    let row = |items: &[f64]| float(&[1, items.len(), 1, 1], items);
    interpreter.execute(&[row(&[1.0, 2.0]), Arg::Int(0)]).unwrap();
    interpreter.execute(&[row(&[3.0]), Arg::Int(2)]).unwrap();
    let outputs = interpreter.execute(&[row(&[9.0]), Arg::Int(0)]).unwrap();
    assert_eq!(outputs, [row(&[9.0, 2.0, 3.0, 0.0]), row(&[0.0; 4])]);
}

#[test]
fn start_positions_are_checked() {
    let mut interpreter = caches();
    for (start, rows) in [(3, 2), (-1, 1), (i64::MAX, 1), (4, 1)] {
        let row = float(&[1, rows, 1, 1], &vec![1.0; rows]);
        let Error::Call { index: 2, name, fault } = interpreter.execute(&[row, Arg::Int(start)]).unwrap_err()
        else {
            panic!("call 2 must fail");
        };
        assert_eq!(name, "update_cache.default");
        assert_eq!(fault, Fault::StartPosition { slot: 2, found: start, rows, capacity: 4 });
    }
}

#[test]
fn numeric_slots_take_every_kind() {
    let values: [fn(&mut GraphBuilder) -> ValueId; 3] =
        [|builder| builder.int(1), |builder| builder.double(1.0), |builder| builder.bool(true)];
    for value in values {
        let mut relu1 = unary("aten.hardtanh.default", &[3], |builder| vec![builder.int(0), value(builder)]);
        let outputs = relu1.execute(&[float(&[3], &[-1.0, 0.5, 2.0])]).unwrap();
        assert_eq!(outputs, [float(&[3], &[0.0, 0.5, 1.0])]);
    }
}

#[test]
fn current_sizes_decide() {
    let mut last = GraphBuilder::new();
    let x = last.input(DType::Float32, &[8, 2]);
    let (zero, minus_one) = (last.int(0), last.int(-1));
    let y = last.tensor(DType::Float32, &[2]);
    last.call("aten.select_copy.int", &[x, zero, minus_one, y]);
    last.outputs(&[y]);
    let mut last = interpreter(&last);
    let outputs = last.execute(&[float(&[2, 2], &[1.0, 2.0, 3.0, 4.0])]).unwrap();
    assert_eq!(outputs, [float(&[2], &[3.0, 4.0])]);
    let outputs = last.execute(&[float(&[3, 2], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0])]).unwrap();
    assert_eq!(outputs, [float(&[2], &[5.0, 6.0])]);
}

#[test]
fn integers_are_exact_and_wrap() {
    let mut builder = GraphBuilder::new();
    let x = builder.input(DType::Int32, &[2]);
    let one = builder.int(1);
    let y = builder.tensor(DType::Int32, &[2]);
    builder.call("aten.add.Tensor", &[x, x, one, y]);
    builder.outputs(&[y]);
    let outputs = interpreter(&builder).execute(&[int(&[2], &[16_777_217, i32::MAX.into()])]).unwrap();
    assert_eq!(outputs, [int(&[2], &[33_554_434, -2])]);
}

#[test]
fn faults_name_call_and_slot() {
    let x = || [float(&[3], &[1.0, 2.0, 3.0])];
    let result = unary("aten.cumsum.default", &[3], |_| Vec::new()).execute(&x());
    assert_eq!(fault(result), Fault::Operator);
    let result = unary("aten.gelu.default", &[3], |builder| vec![builder.int(0)]).execute(&x());
    assert_eq!(fault(result), Fault::Kind { slot: 1, expected: "String", found: "Int" });
    let result = unary("aten.linear.default", &[3], |builder| {
        vec![builder.constant(DType::Float32, &[3, 2], zeros(6)), builder.null()]
    })
    .execute(&x());
    assert_eq!(fault(result), Fault::Dims { slot: 1, expected: vec![3, 3], found: vec![3, 2] });
    let result = unary("aten.index.Tensor", &[3], |builder| {
        let index = builder.constant(DType::Int32, &[1], 3_i32.to_le_bytes());
        vec![builder.value_list(&[index])]
    })
    .execute(&x());
    assert_eq!(fault(result), Fault::Index { slot: 1, found: 3, size: 3 });
    let result = unary("aten.repeat.default", &[3], |builder| vec![builder.int_list(&[2])]).execute(&x());
    assert!(matches!(fault(result), Fault::Bounds { .. }));
}

#[test]
fn inputs_are_checked() {
    let mut relu = unary("aten.relu.default", &[2, 3], |_| Vec::new());
    assert_eq!(relu.execute(&[]).unwrap_err(), Error::InputCount { expected: 1, found: 0 });
    for dims in [&[3, 3][..], &[6], &[2, 3, 1]] {
        let input = float(dims, &vec![0.0; dims.iter().product()]);
        let error = relu.execute(&[input]).unwrap_err();
        assert!(matches!(error, Error::Input { slot: 0, fault: Fault::Bounds { .. } }), "{error}");
    }
}

/// Whatever the arguments, an operator returns.
#[test]
fn no_operator_panics_on_odd_arguments() {
    for &(name, _) in OPERATORS {
        for length in 0..18 {
            for kind in 0..6 {
                let mut builder = GraphBuilder::new();
                let dims: &[u32] = [&[][..], &[2], &[0], &[2, 3], &[1, 2, 2], &[1, 2, 2, 3]][kind];
                let x = builder.input(DType::Float32, dims);
                let count = dims.iter().product::<u32>() as usize;
                let choices = [
                    x,
                    builder.constant(DType::Int32, dims, zeros(count)),
                    builder.int(kind as i64 - 2),
                    builder.null(),
                    builder.int_list(&[1, -1]),
                    builder.string("none"),
                    builder.value_list(&[x, x]),
                ];
                // Tensors first, as schemas have them; then one choice after the other.
                let mut args: Vec<ValueId> = (0..length)
                    .map(|slot| match slot {
                        0 => x,
                        1 | 2 => choices[(slot + kind) % 2],
                        _ => choices[(slot * 5 + kind + length) % choices.len()],
                    })
                    .collect();
                args.push(builder.tensor(DType::Float32, dims));
                builder.call(name, &args);
                let dims: Vec<usize> = dims.iter().map(|&dim| dim as usize).collect();
                // Most fail; none may panic.
                let _ = interpreter(&builder).execute(&[float(&dims, &vec![1.0; count])]);
            }
        }
    }
}
