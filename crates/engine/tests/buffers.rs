//! Buffers that ordinary operators change: their new values lead the outputs, and calls have no value for them.

#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests")]

use etvk_engine::{BufferFault, Context, Error, Executor, Input, LoadOptions, Surplus, lower_with};
use etvk_vkgraph::{DType, GraphBuilder, Payload, ValueId};
use etvk_vulkan::{Device, DeviceOptions};

fn floats(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}

/// A graph of a pair of floats that grows call by call, as the exporter writes it.
struct Pairs(GraphBuilder);

impl Pairs {
    fn constant(&mut self, value: f32) -> (ValueId, ValueId) {
        let raw = self.0.constant(DType::Float32, &[2], floats(&[value; 2]));
        let read = self.tensor();
        self.0.call("et_vk.prepack.default", &[raw, read]);
        (raw, read)
    }

    fn tensor(&mut self) -> ValueId {
        self.0.tensor(DType::Float32, &[2])
    }

    fn add(&mut self, a: ValueId, b: ValueId) -> ValueId {
        let (one, out) = (self.0.int(1), self.tensor());
        self.0.call("aten.add.Tensor", &[a, b, one, out]);
        out
    }

    fn finish(mut self, outputs: &[ValueId]) -> Vec<u8> {
        self.0.outputs(outputs);
        self.0.finish()
    }
}

/// `total += x`, then `2 * total`: outputs are the new total, without a receiver, and the double.
fn accumulator() -> Vec<u8> {
    let mut graph = Pairs(GraphBuilder::new());
    let (_, total) = graph.constant(100.0);
    let x = graph.0.input(DType::Float32, &[2]);
    let new = graph.add(total, x);
    let double = graph.add(new, new);
    graph.finish(&[new, double])
}

fn executor(bytes: &[u8], surplus: Surplus) -> Executor {
    let context = Context::new(Device::open(&DeviceOptions::default()).expect("a Vulkan device"));
    let options = LoadOptions { surplus, ..LoadOptions::default() };
    Executor::load(&context, &Payload::parse(bytes).unwrap(), options).unwrap()
}

fn run(executor: &mut Executor, x: f32, output: usize) -> f32 {
    let data = floats(&[0.0, x]);
    executor.execute(&[Input::Tensor { dtype: DType::Float32, sizes: &[2], data: &data }]).unwrap();
    let mut bytes = [0; 8];
    executor.read_output(output, DType::Float32, &mut bytes).unwrap();
    f32::from_le_bytes(*bytes.last_chunk().unwrap())
}

fn fault(bytes: &[u8], surplus: usize) -> (usize, BufferFault) {
    let payload = Payload::parse(bytes).unwrap();
    let Err(Error::Buffer(error)) = lower_with(payload.graph(), Surplus::Known(surplus)) else {
        panic!("accepted")
    };
    (error.index, error.fault)
}

#[test]
fn the_new_value_is_read_by_the_next_execution() {
    let mut executor = executor(&accumulator(), Surplus::Known(1));
    let doubles = [1.0, 10.0, -4.0].map(|x| run(&mut executor, x, 1));
    assert_eq!(doubles, [202.0, 222.0, 214.0]);
    assert_eq!(executor.counters().recordings, 1);
}

#[test]
fn a_constant_stays_one_until_a_call_leaves_its_output_out() {
    let bytes = accumulator();
    let mut plain = executor(&bytes, Surplus::Unknown);
    assert_eq!([1.0, 10.0].map(|x| run(&mut plain, x, 0)), [101.0, 110.0]);
    let late = plain.carry(1);
    assert!(matches!(late, Err(Error::Surplus { expected: 0, found: 1 })), "{late:?}");

    let mut carrying = executor(&bytes, Surplus::Unknown);
    let both = carrying.carry(2);
    assert!(matches!(both, Err(Error::Buffer(_))), "{both:?}");
    carrying.carry(1).unwrap();
    assert_eq!([1.0, 10.0].map(|x| run(&mut carrying, x, 0)), [101.0, 111.0]);
    carrying.carry(1).unwrap();
}

#[test]
fn a_buffer_that_is_only_overwritten_is_kept_too() {
    let mut graph = Pairs(GraphBuilder::new());
    let (_, last) = graph.constant(7.0);
    let x = graph.0.input(DType::Float32, &[2]);
    let new = graph.add(x, x);
    let out = graph.add(last, x);
    let mut executor = executor(&graph.finish(&[new, out]), Surplus::Known(1));
    assert_eq!([1.0, 10.0, 100.0].map(|x| run(&mut executor, x, 1)), [8.0, 12.0, 120.0]);
}

#[test]
fn one_of_several_constants_alike_is_not_guessed() {
    let mut graph = Pairs(GraphBuilder::new());
    let (first, a) = graph.constant(1.0);
    let (second, _) = graph.constant(2.0);
    let x = graph.0.input(DType::Float32, &[2]);
    let new = graph.add(a, x);
    let bytes = graph.finish(&[new, x]);
    assert_eq!(fault(&bytes, 1), (0, BufferFault::Ambiguous(vec![first, second])));
    let payload = Payload::parse(&bytes).unwrap();
    let text = lower_with(payload.graph(), Surplus::Known(1)).unwrap_err().to_string();
    assert!(text.contains("but %0, %2 have its type and sizes"), "{text}");
    let unknown = lower_with(payload.graph(), Surplus::Unknown).unwrap();
    assert!(unknown.states.is_empty(), "without a surplus they are constants");
}

#[test]
fn a_buffer_that_is_not_there_is_not_replaced_by_another() {
    let mut graph = Pairs(GraphBuilder::new());
    let other_sizes = graph.0.constant(DType::Float32, &[1, 2], floats(&[1.0; 2]));
    let other_type = graph.0.constant(DType::Int32, &[2], vec![0; 8]);
    let x = graph.0.input(DType::Float32, &[2]);
    let new = graph.add(other_sizes, other_type);
    assert_eq!(fault(&graph.finish(&[new, x]), 1), (0, BufferFault::Missing));
}

#[test]
fn two_outputs_do_not_share_a_buffer() {
    let mut graph = Pairs(GraphBuilder::new());
    let (constant, a) = graph.constant(1.0);
    let x = graph.0.input(DType::Float32, &[2]);
    let (once, twice) = (graph.add(a, x), graph.add(x, x));
    let bytes = graph.finish(&[once, twice]);
    assert_eq!(fault(&bytes, 2), (1, BufferFault::Taken { constant, output: 0 }));
}

#[test]
fn a_buffer_read_in_two_forms_is_refused() {
    let mut graph = Pairs(GraphBuilder::new());
    let (raw, a) = graph.constant(1.0);
    let x = graph.0.input(DType::Float32, &[2]);
    let new = graph.add(a, x);
    let out = graph.add(raw, x);
    assert_eq!(fault(&graph.finish(&[new, out]), 1), (0, BufferFault::Forms(raw)));
}
