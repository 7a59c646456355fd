//! One graph, executed by the engine and by the reference.

use std::fmt::Write as _;

use etvk_engine::{Executor, Input, LoadOptions, Passes};
use etvk_reference::{Arg, Interpreter, Tensor};
use etvk_vkgraph::{DType, Graph, GraphBuilder, NamedData, Payload, TensorInfo, Value, ValueId};
use proptest::test_runner::TestCaseError;

use crate::property::{Outcome, compared};

/// How far an element may be from what the reference says: `absolute + peak · P + relative · |want|`, where P is
/// the largest magnitude of the output. Integers may be `integer` off; truth values are exact.
#[derive(Clone, Copy, Debug)]
pub struct Tolerance {
    /// Whatever the values.
    pub absolute: f64,
    /// Share of the output's largest magnitude.
    pub peak: f64,
    /// Share of the element's own.
    pub relative: f64,
    /// Of integers.
    pub integer: f64,
}

impl Tolerance {
    /// Reassociated single-precision sums and what Vulkan allows `exp`, division and the inverse root.
    pub const SINGLE: Self = Self { absolute: 0.0, peak: 1e-5, relative: 1e-4, integer: 0.0 };
    /// Products of halves, as for the fixtures of `force_fp16`.
    pub const HALVES: Self = Self { absolute: 0.0, peak: 1e-3, relative: 5e-3, integer: 0.0 };
    /// Not a bit off.
    pub const EXACT: Self = Self { absolute: 0.0, peak: 0.0, relative: 0.0, integer: 0.0 };
    /// What Vulkan allows `sin` and `cos`: 2⁻¹¹.
    pub const TRIGONOMETRIC: Self = Self { absolute: 5e-4, ..Self::SINGLE };

    /// With what rounding to half precision on both sides may add.
    const fn halved(self) -> Self {
        Self { absolute: self.absolute + 6e-8, relative: self.relative + 9.8e-4, ..self }
    }

    fn allows(self, got: f64, want: f64, peak: f64) -> bool {
        if want.is_nan() || got.is_nan() {
            return want.is_nan() && got.is_nan();
        }
        got == want || (got - want).abs() <= self.absolute + self.peak * peak + self.relative * want.abs()
    }
}

/// A tensor that a call writes. A half is one by `force_fp16`: the host sees it in single precision.
pub fn result(graph: &mut GraphBuilder, dtype: DType, dims: &[u32]) -> ValueId {
    if dtype != DType::Float16 {
        return graph.tensor(dtype, dims);
    }
    graph.value(Value::Tensor(TensorInfo {
        dtype,
        dims: dims.to_vec(),
        constant: None,
        staging_dtype: DType::Float32,
        storage_hint: u8::MAX,
        layout_hint: u8::MAX,
    }))
}

/// Constants outside a payload.
struct Constants(Vec<(String, Vec<u8>)>);

impl NamedData for Constants {
    fn get(&self, key: &str) -> Option<&[u8]> {
        self.0.iter().find(|(name, _)| name == key).map(|(_, bytes)| bytes.as_slice())
    }
}

/// One graph, loaded in both.
pub struct Twin {
    executor: Executor,
    interpreter: Interpreter,
    text: String,
}

impl Twin {
    /// Loads a graph.
    ///
    /// # Errors
    /// What either says about it.
    pub fn new(graph: &GraphBuilder) -> Result<Self, TestCaseError> {
        Self::with(graph, Passes::all())
    }

    /// Loads a graph, in the engine with some passes only.
    ///
    /// # Errors
    /// As [`Twin::new`].
    pub fn with(graph: &GraphBuilder, passes: Passes) -> Result<Self, TestCaseError> {
        // Constants by content, as current exporters write them: equal ones share a key.
        let (bytes, named) = graph.finish_named();
        let named = Constants(named);
        let payload = Payload::parse(&bytes).map_err(|error| fail("parse", &error, ""))?;
        let text = describe(payload.graph());
        let context = crate::context().map_err(|error| TestCaseError::fail(format!("{error:#}")))?;
        let executor = Executor::load(
            context,
            &payload,
            LoadOptions { named: Some(&named), passes, ..LoadOptions::default() },
        )
        .map_err(|error| fail("load", &error, &text))?;
        let interpreter = Interpreter::new(&payload, Some(&named))
            .map_err(|error| fail("reference load", &error, &text))?;
        Ok(Self { executor, interpreter, text })
    }

    /// The engine's side.
    pub fn executor(&mut self) -> &mut Executor {
        &mut self.executor
    }

    /// Executes in both, in the engine a second time with the same result, and compares.
    ///
    /// # Errors
    /// The first difference, or what either says.
    pub fn run(&mut self, inputs: &[Arg], tolerance: Tolerance) -> Outcome {
        self.run_with(inputs, |_| tolerance)
    }

    /// As [`Twin::run`], with a tolerance for each output.
    ///
    /// # Errors
    /// As [`Twin::run`].
    pub fn run_with(&mut self, inputs: &[Arg], tolerance: impl Fn(usize) -> Tolerance) -> Outcome {
        let text = self.case(inputs);
        let want = self.interpreter.execute(inputs).map_err(|error| fail("reference", &error, &text))?;
        let got = self.execute(inputs).map_err(|error| fail("engine", &error, &text))?;
        for (index, (got, want)) in got.iter().zip(&want).enumerate() {
            compare(got, want, tolerance(index))
                .map_err(|difference| TestCaseError::fail(format!("output {index}: {difference}\n{text}")))?;
        }
        let recordings = self.executor.counters().recordings;
        let again = self.execute(inputs).map_err(|error| fail("second execution", &error, &text))?;
        if bits(&again) != bits(&got) {
            return Err(TestCaseError::fail(format!("the second execution differs\n{text}")));
        }
        if self.executor.counters().recordings != recordings {
            return Err(TestCaseError::fail(format!("the second execution recorded\n{text}")));
        }
        compared(self.interpreter.graph().calls.iter().map(|call| call.name.as_str()));
        Ok(())
    }

    /// Executes in both once and compares: for graphs of which every execution changes what they keep.
    ///
    /// # Errors
    /// As [`Twin::run`].
    pub fn advance(&mut self, inputs: &[Arg], tolerance: Tolerance) -> Outcome {
        let text = self.case(inputs);
        let want = self.interpreter.execute(inputs).map_err(|error| fail("reference", &error, &text))?;
        let got = self.execute(inputs).map_err(|error| fail("engine", &error, &text))?;
        for (index, (got, want)) in got.iter().zip(&want).enumerate() {
            compare(got, want, tolerance)
                .map_err(|difference| TestCaseError::fail(format!("output {index}: {difference}\n{text}")))?;
        }
        compared(self.interpreter.graph().calls.iter().map(|call| call.name.as_str()));
        Ok(())
    }

    /// Executes in both, which must refuse.
    ///
    /// # Errors
    /// Which of them did not.
    pub fn refused(&mut self, inputs: &[Arg]) -> Result<etvk_engine::Error, TestCaseError> {
        let text = self.case(inputs);
        if self.interpreter.execute(inputs).is_ok() {
            return Err(TestCaseError::fail(format!("the reference accepts\n{text}")));
        }
        match self.execute(inputs) {
            Ok(_) => Err(TestCaseError::fail(format!("the engine accepts\n{text}"))),
            Err(error) => Ok(error),
        }
    }

    /// Executes in the engine alone.
    ///
    /// # Errors
    /// What the engine says.
    pub fn execute(&mut self, inputs: &[Arg]) -> Result<Vec<Arg>, etvk_engine::Error> {
        execute(&mut self.executor, self.interpreter.graph(), inputs)
    }

    fn case(&self, inputs: &[Arg]) -> String {
        let mut text = self.text.clone();
        for (index, input) in inputs.iter().enumerate() {
            let _ = match input {
                Arg::Int(int) => writeln!(text, "input {index}: {int}"),
                Arg::Tensor(tensor) => {
                    let some: Vec<f64> = tensor.floats().iter().copied().take(12).collect();
                    writeln!(text, "input {index}: {:?} {:?} {some:?}", tensor.dtype(), tensor.dims())
                }
            };
        }
        text
    }
}

/// Executes and reads every output in the type that the host sees.
fn execute(executor: &mut Executor, graph: &Graph, inputs: &[Arg]) -> Result<Vec<Arg>, etvk_engine::Error> {
    let bytes: Vec<Vec<u8>> = inputs.iter().map(|input| input_bytes(input).unwrap_or_default()).collect();
    let sizes: Vec<Vec<u32>> = inputs.iter().map(input_sizes).collect();
    let arguments: Vec<Input<'_>> = inputs
        .iter()
        .zip(bytes.iter().zip(&sizes))
        .map(|(input, (data, sizes))| match input {
            Arg::Int(int) => Input::Int(*int),
            Arg::Tensor(tensor) => Input::Tensor { dtype: tensor.dtype(), sizes, data },
        })
        .collect();
    executor.execute(&arguments)?;
    graph.outputs.iter().enumerate().map(|(index, &id)| output(executor, graph, index, id)).collect()
}

fn output(executor: &Executor, graph: &Graph, index: usize, id: ValueId) -> Result<Arg, etvk_engine::Error> {
    let Some(info) = graph.tensor(id) else { return executor.output_int(index).map(Arg::Int) };
    let dtype = info.staging_dtype;
    let dims: Vec<usize> = executor.output_sizes(index)?.iter().map(|&dim| dim as usize).collect();
    let mut data = vec![0; dims.iter().product::<usize>() * dtype.size()];
    executor.read_output(index, dtype, &mut data)?;
    #[expect(clippy::expect_used, reason = "as many bytes as the sizes say")]
    let tensor = Tensor::from_le_bytes(dtype, &dims, &data).expect("a tensor");
    Ok(Arg::Tensor(tensor))
}

fn input_bytes(input: &Arg) -> Option<Vec<u8>> {
    match input {
        Arg::Tensor(tensor) => Some(tensor.to_le_bytes()),
        Arg::Int(_) => None,
    }
}

fn input_sizes(input: &Arg) -> Vec<u32> {
    match input {
        Arg::Tensor(tensor) => {
            tensor.dims().iter().map(|&dim| u32::try_from(dim).unwrap_or(u32::MAX)).collect()
        }
        Arg::Int(_) => Vec::new(),
    }
}

fn bits(outputs: &[Arg]) -> Vec<Vec<u8>> {
    let bytes = |output: &Arg| match output {
        Arg::Int(int) => int.to_le_bytes().to_vec(),
        Arg::Tensor(tensor) => tensor.to_le_bytes(),
    };
    outputs.iter().map(bytes).collect()
}

fn compare(got: &Arg, want: &Arg, tolerance: Tolerance) -> Result<(), String> {
    let (got, want) = match (got, want) {
        (Arg::Tensor(got), Arg::Tensor(want)) => (got, want),
        (got, want) if got == want => return Ok(()),
        (got, want) => return Err(format!("{got:?}, want {want:?}")),
    };
    if got.dims() != want.dims() {
        return Err(format!("sizes {:?}, want {:?}", got.dims(), want.dims()));
    }
    let tolerance = match want.dtype() {
        DType::Float16 => tolerance.halved(),
        dtype if dtype.is_float() => tolerance,
        DType::Bool => Tolerance::EXACT,
        _ => Tolerance { absolute: tolerance.integer, ..Tolerance::EXACT },
    };
    let (got, want) = (got.floats(), want.floats());
    let peak = want.iter().filter(|x| x.is_finite()).fold(0.0f64, |peak, x| peak.max(x.abs()));
    let wrong = |&i: &usize| !tolerance.allows(got[i], want[i], peak);
    let count = (0..want.len()).filter(wrong).count();
    match (0..want.len()).find(wrong) {
        None => Ok(()),
        Some(i) => Err(format!(
            "element {i} is {}, want {}; {count} of {} differ, peak {peak}",
            got[i],
            want[i],
            want.len()
        )),
    }
}

fn fail(stage: &str, error: &dyn std::fmt::Display, text: &str) -> TestCaseError {
    TestCaseError::fail(format!("{stage}: {error}\n{text}"))
}

/// The graph as text: a call a line.
fn describe(graph: &Graph) -> String {
    let mut text = String::new();
    for call in &graph.calls {
        let args: Vec<String> = call.args.iter().map(|&id| argument(graph, id)).collect();
        let _ = writeln!(text, "{} {}", call.name, args.join(", "));
    }
    text
}

fn argument(graph: &Graph, id: ValueId) -> String {
    match graph.value(id) {
        Some(Value::Tensor(info)) => {
            let kind = if info.constant.is_some() { "constant" } else { "" };
            format!("%{}:{kind}{:?}{:?}", id.0, info.dtype, info.dims)
        }
        Some(Value::ValueList(items)) => {
            let items: Vec<String> = items.iter().map(|&id| argument(graph, id)).collect();
            format!("[{}]", items.join(", "))
        }
        Some(Value::SymInt) => format!("%{}:SymInt", id.0),
        Some(other) => format!("{other:?}"),
        None => "?".into(),
    }
}
