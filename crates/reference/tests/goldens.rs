//! Runs the fully delegated fixture programs through the interpreter and compares with PyTorch's results.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use etvk_pte::{BundledProgram, FlatTensor, Instruction, Program, ScalarType, Storage, Value};
use etvk_reference::{Arg, Data, Interpreter, Tensor};
use etvk_vkgraph::{DType, Graph, NamedData, Payload, ValueId};
use safetensors::{Dtype, SafeTensors};
use serde_json::Value as Json;

type Failure = Box<dyn std::error::Error>;

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures")
}

/// Every case of a group whose program needs nothing but its delegates must give PyTorch's results.
fn check_group(group: &str, at_least: usize) {
    let manifest = std::fs::read(fixtures().join("manifest.json")).unwrap();
    let manifest: Json = serde_json::from_slice(&manifest).unwrap();
    let cases = manifest["cases"].as_array().unwrap().iter();
    let cases = cases.filter(|case| case["group"] == group);
    let cases: Vec<_> =
        cases.filter(|case| case["undelegated_kernel_calls"].as_object().unwrap().is_empty()).collect();
    assert!(cases.len() >= at_least, "{} cases in group {group}", cases.len());
    let failures: Vec<String> = cases
        .iter()
        .filter_map(|case| check(case).err().map(|error| format!("{}: {error}", case["name"])))
        .collect();
    assert!(failures.is_empty(), "{} of {}:\n{}", failures.len(), cases.len(), failures.join("\n"));
}

#[test]
fn fork() {
    check_group("fork", 20);
}

#[test]
fn format() {
    check_group("format", 15);
}

#[test]
fn llm() {
    check_group("llm", 80);
}

#[test]
fn ops() {
    check_group("ops", 280);
}

#[test]
fn models() {
    check_group("models", 10);
}

/// Cases of which only the runs before the given one can be compared.
const LEFT_OUT: &[(&str, usize)] = &[
    // A code lies so close to a rounding tie that PyTorch's single precision takes the other side; caches carry it on.
    ("gemma4_tiny_8da4w", 4),
];

/// Files of a case and what they hold by name.
struct Named<'a> {
    program: Program<'a>,
    external: Vec<FlatTensor<'a>>,
}

impl NamedData for Named<'_> {
    fn get(&self, key: &str) -> Option<&[u8]> {
        let external = || self.external.iter().find_map(|file| file.get(key)).map(|blob| blob.bytes);
        self.program.named_data().get(key).or_else(external)
    }
}

fn check(case: &Json) -> Result<(), Failure> {
    let read = |name: &Json| std::fs::read(fixtures().join(name.as_str().unwrap()));
    let file = read(&case["pte"])?;
    let program = match case["pte"].as_str().unwrap().ends_with(".bpte") {
        true => BundledProgram::parse(&file)?.program()?,
        false => Program::parse(&file)?,
    };
    let ptd = case["ptd"].as_array().unwrap().iter().map(read).collect::<Result<Vec<_>, _>>()?;
    let external = ptd.iter().map(|file| FlatTensor::parse(file)).collect::<Result<_, _>>()?;
    let named = Named { program, external };
    let goldens = read(&case["data"])?;
    let goldens = SafeTensors::deserialize(&goldens)?;
    let mut delegates = HashMap::new();
    for (run, description) in case["runs"].as_array().unwrap().iter().enumerate() {
        if LEFT_OUT.iter().any(|&(name, first)| case["name"] == name && run >= first) {
            break;
        }
        if case["stateful"] == false {
            delegates.clear();
        }
        let method = description["method"].as_str().unwrap();
        let keys = |list: &Json| -> Vec<String> {
            list.as_array().unwrap().iter().map(|item| item["key"].as_str().unwrap().to_owned()).collect()
        };
        let inputs = keys(&description["inputs"]);
        let inputs = inputs.iter().map(|key| golden(&goldens, key)).collect::<Result<Vec<_>, _>>()?;
        let outputs = execute(&named, method, inputs, &mut delegates)
            .map_err(|error| format!("run {run} of {method}: {error}"))?;
        let expected = keys(&description["outputs"]);
        assert_eq!(outputs.len(), expected.len(), "outputs of {method}");
        for (output, key) in outputs.iter().zip(expected) {
            compare(output, &golden(&goldens, &key)?, &case["tolerance"])
                .map_err(|error| format!("{key}: {error}"))?;
        }
    }
    Ok(())
}

fn golden(goldens: &SafeTensors<'_>, key: &str) -> Result<Tensor, Failure> {
    let view = goldens.tensor(key)?;
    let dtype = match view.dtype() {
        Dtype::BOOL => DType::Bool,
        Dtype::U8 => DType::UInt8,
        Dtype::I8 => DType::Int8,
        Dtype::I32 => DType::Int32,
        Dtype::I64 => DType::Int64,
        Dtype::F16 => DType::Float16,
        Dtype::F32 => DType::Float32,
        Dtype::F64 => DType::Float64,
        other => return Err(format!("{key} has type {other:?}").into()),
    };
    Ok(Tensor::from_le_bytes(dtype, view.shape(), view.data())?)
}

/// Executes a method that consists of delegate calls. Interpreters live in `delegates`, by method and index.
fn execute(
    named: &Named<'_>,
    method: &str,
    inputs: Vec<Tensor>,
    delegates: &mut HashMap<(String, usize), Interpreter>,
) -> Result<Vec<Tensor>, Failure> {
    let method = named.program.method(method)?;
    let mut values: Vec<Option<Arg>> = method.values().iter().map(initial).collect();
    assert_eq!(method.inputs().len(), inputs.len(), "inputs of {}", method.name());
    for (id, input) in method.inputs().iter().zip(inputs) {
        values[id.index()] = Some(Arg::Tensor(input));
    }
    for instruction in method.chains().iter().flat_map(|chain| &chain.instructions) {
        let &Instruction::DelegateCall { delegate, args } = instruction else {
            return Err(format!("{instruction:?} is not supported").into());
        };
        let key = (method.name().to_owned(), delegate);
        if !delegates.contains_key(&key) {
            let payload = Payload::parse(method.delegates()[delegate].payload)?;
            delegates.insert(key.clone(), Interpreter::new(&payload, Some(named))?);
        }
        let interpreter = delegates.get_mut(&key).unwrap();
        let count = interpreter.graph().inputs.len();
        let inputs: Option<Vec<Arg>> = args.iter().take(count).map(|id| values[id.index()].clone()).collect();
        let outputs = interpreter.execute(&inputs.ok_or("a delegate input has no value")?)?;
        let wanted = args.len().checked_sub(count).ok_or("the delegate has too few arguments")?;
        // Results for buffers that ordinary operators mutate come first and have no argument.
        let surplus = outputs.len().checked_sub(wanted).ok_or("the delegate has too few outputs")?;
        for (at, output) in outputs.iter().enumerate().take(surplus) {
            let Arg::Tensor(new) = output else { return Err("a buffer that is no tensor".into()) };
            let (constant, dtype) = buffer(interpreter.graph(), at).ok_or("a buffer that is not known")?;
            interpreter.set_constant(constant, new.clone().to(dtype));
        }
        for (id, output) in args.iter().skip(count).zip(outputs.into_iter().skip(surplus)) {
            values[id.index()] = Some(match (output, method.value(id)) {
                // The delegate narrows 64-bit types; its caller widens.
                (Arg::Tensor(tensor), Some(Value::Tensor(declared))) => {
                    Arg::Tensor(tensor.to(dtype(declared.layout.scalar_type())?))
                }
                (output, _) => output,
            });
        }
    }
    let tensor = |id: etvk_pte::ValueId| match &values[id.index()] {
        Some(Arg::Tensor(tensor)) => Ok(tensor.clone()),
        other => Err(format!("output {id:?} is {other:?}").into()),
    };
    method.outputs().iter().map(tensor).collect()
}

/// The constant that an output is the new value of: the only one of its type and sizes.
fn buffer(graph: &Graph, output: usize) -> Option<(ValueId, DType)> {
    let new = graph.tensor(graph.outputs[output])?;
    let like_it = |id: &ValueId| {
        let old = graph.tensor(*id).filter(|old| old.constant.is_some());
        old.is_some_and(|old| (old.dtype, &old.dims) == (new.dtype, &new.dims))
    };
    let mut found = (0..u32::try_from(graph.values.len()).ok()?).map(ValueId).filter(like_it);
    let constant = found.next()?;
    found.next().is_none().then_some((constant, new.dtype))
}

fn dtype(scalar_type: ScalarType) -> Result<DType, Failure> {
    Ok(match scalar_type {
        ScalarType::Bool => DType::Bool,
        ScalarType::UInt8 => DType::UInt8,
        ScalarType::Int8 => DType::Int8,
        ScalarType::Int32 => DType::Int32,
        ScalarType::Int64 => DType::Int64,
        ScalarType::Float16 => DType::Float16,
        ScalarType::Float32 => DType::Float32,
        ScalarType::Float64 => DType::Float64,
        other => return Err(format!("type {other} is not supported").into()),
    })
}

/// What a value of a method holds before anything runs.
fn initial(value: &Value<'_>) -> Option<Arg> {
    match value {
        Value::Int(int) => Some(Arg::Int(*int)),
        Value::Tensor(tensor) => {
            let Storage::Constant(bytes) = tensor.storage else { return None };
            let dims: Vec<usize> = tensor.layout.sizes().collect();
            let dtype = dtype(tensor.layout.scalar_type()).ok()?;
            Some(Arg::Tensor(Tensor::from_le_bytes(dtype, &dims, bytes).unwrap()))
        }
        _ => None,
    }
}

/// Elementwise: integers exactly, floats within atol + rtol · |want|, NaN and infinities as they are.
fn compare(output: &Tensor, want: &Tensor, tolerance: &Json) -> Result<(), Failure> {
    if (output.dtype(), output.dims()) != (want.dtype(), want.dims()) {
        let got = format!("{:?} {:?}", output.dtype(), output.dims());
        return Err(format!("{got}, want {:?} {:?}", want.dtype(), want.dims()).into());
    }
    if let (Data::I64(got), Data::I64(want)) = (output.data(), want.data()) {
        return if got == want { Ok(()) } else { Err("integers differ".into()) };
    }
    let (absolute, relative) = (tolerance["atol"].as_f64().unwrap(), tolerance["rtol"].as_f64().unwrap());
    let (got, want) = (output.floats(), want.floats());
    let close = |(got, want): &(&f64, &f64)| {
        got == want
            || (got.is_nan() && want.is_nan())
            || (*got - *want).abs() <= absolute + relative * want.abs()
    };
    let mut wrong = got.iter().zip(want.iter()).enumerate().filter(|(_, pair)| !close(pair));
    match wrong.next() {
        None => Ok(()),
        Some((index, (got, want))) => {
            let others = wrong.count();
            Err(format!("element {index} is {got}, want {want}; {others} more differ").into())
        }
    }
}
