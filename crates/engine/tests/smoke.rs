//! The shortest way through: a built payload in, numbers out.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests")]

use etvk_engine::{Context, Error, Executor, Input, LoadOptions};
use etvk_vkgraph::{DType, GraphBuilder, Payload};
use etvk_vulkan::{Device, DeviceOptions};

fn context() -> Context {
    Context::new(Device::open(&DeviceOptions::default()).expect("a Vulkan device"))
}

fn floats(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}

fn read(executor: &Executor, index: usize) -> Vec<f32> {
    let count: u32 = executor.output_sizes(index).unwrap().iter().product();
    let mut bytes = vec![0; count as usize * 4];
    executor.read_output(index, DType::Float32, &mut bytes).unwrap();
    bytes.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect()
}

#[test]
fn adds_with_broadcasting_at_several_sizes() {
    let mut graph = GraphBuilder::new();
    let x = graph.input(DType::Float32, &[4, 3]);
    let row = graph.constant(DType::Float32, &[3], floats(&[10.0, 20.0, 30.0]));
    let (alpha, out) = (graph.int(2), graph.tensor(DType::Float32, &[4, 3]));
    graph.call("aten.add.Tensor", &[x, row, alpha, out]);
    graph.outputs(&[out]);
    let bytes = graph.finish();
    let payload = Payload::parse(&bytes).unwrap();
    let mut executor = Executor::load(&context(), &payload, LoadOptions::default()).unwrap();
    for rows in [4u32, 1, 3, 0, 4] {
        let data: Vec<f32> = (0..rows * 3).map(|i| i as f32).collect();
        let input = Input::Tensor { dtype: DType::Float32, sizes: &[rows, 3], data: &floats(&data) };
        executor.execute(&[input]).unwrap();
        let want: Vec<f32> = data.iter().zip([20.0, 40.0, 60.0].iter().cycle()).map(|(x, y)| x + y).collect();
        assert_eq!(read(&executor, 0), want);
    }
    let counters = executor.counters();
    assert_eq!((counters.executions, counters.recordings), (5, 4), "equal shapes share a recording");
}

#[test]
fn every_unknown_operator_is_named_at_once() {
    let mut graph = GraphBuilder::new();
    let x = graph.input(DType::Float32, &[2]);
    let (a, b) = (graph.tensor(DType::Float32, &[2]), graph.tensor(DType::Float32, &[2]));
    graph.call("aten.no_such.default", &[x, a]);
    graph.call("aten.exp.default", &[a, b]);
    let c = graph.tensor(DType::Float32, &[2]);
    graph.call("aten.nor_this.default", &[x, c]);
    graph.outputs(&[b, c]);
    let bytes = graph.finish();
    let payload = Payload::parse(&bytes).unwrap();
    let Err(Error::Unsupported(faults)) = etvk_engine::lower(payload.graph()) else { panic!("accepted") };
    let names: Vec<&str> = faults.iter().map(|fault| fault.name.as_str()).collect();
    assert_eq!(names, ["aten.no_such.default", "aten.nor_this.default"]);
}

#[test]
fn inputs_are_checked() {
    let mut graph = GraphBuilder::new();
    let x = graph.input(DType::Int32, &[2]);
    let out = graph.tensor(DType::Int32, &[2]);
    graph.call("aten.neg.default", &[x, out]);
    graph.outputs(&[out]);
    let bytes = graph.finish();
    let payload = Payload::parse(&bytes).unwrap();
    let mut executor = Executor::load(&context(), &payload, LoadOptions::default()).unwrap();
    let long = |values: [i64; 2]| values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>();
    let run = |executor: &mut Executor, dtype, sizes: &[u32], data: &[u8]| {
        executor.execute(&[Input::Tensor { dtype, sizes, data }])
    };
    assert!(matches!(
        run(&mut executor, DType::Int64, &[2], &long([1, 1 << 33])),
        Err(Error::InputRange { element: 1, .. })
    ));
    assert!(matches!(run(&mut executor, DType::Int64, &[3], &[0; 24]), Err(Error::Input { .. })));
    assert!(matches!(run(&mut executor, DType::Float32, &[2], &[0; 8]), Err(Error::Input { .. })));
    assert!(matches!(run(&mut executor, DType::Int32, &[2], &[0; 7]), Err(Error::Input { .. })));
    assert!(matches!(executor.execute(&[]), Err(Error::Input { .. })));
    run(&mut executor, DType::Int64, &[2], &long([5, -7])).unwrap();
    let mut back = [0; 16];
    executor.read_output(0, DType::Int64, &mut back).unwrap();
    assert_eq!(back.to_vec(), long([-5, 7]));
}
