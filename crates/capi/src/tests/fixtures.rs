//! Programs that were exported, and what they must give: those whose one delegate is the whole method.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use etvk_pte::{FlatTensor, Instruction, Program};
use safetensors::{Dtype, SafeTensors};
use serde_json::Value as Json;

use super::support::{Arg, Args, Handle, OK, Source, Tensor, last_error};
use crate::abi::EtvkScalarType;

pub(super) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures")
}

/// One execution: arguments of the method by place, and what must come out.
pub(super) struct Run {
    inputs: Vec<Tensor>,
    outputs: Vec<Tensor>,
}

/// A program of a fixture.
pub(super) struct Fixture {
    pub(super) name: String,
    payload: Vec<u8>,
    blobs: Vec<(String, Vec<u8>)>,
    /// For each argument of the delegate: the place among the method's inputs, or among its outputs.
    args: Vec<Place>,
    pub(super) runs: Vec<Run>,
    atol: f64,
    rtol: f64,
}

#[derive(Clone, Copy)]
enum Place {
    Input(usize),
    Output(usize),
}

fn manifest() -> Vec<Json> {
    let text = std::fs::read_to_string(root().join("manifest.json")).unwrap();
    let json: Json = serde_json::from_str(&text).unwrap();
    json["cases"].as_array().unwrap().clone()
}

/// Every fixture that is a delegate and nothing else, of those whose name `wanted` likes.
pub(super) fn all(wanted: impl Fn(&str) -> bool) -> Vec<Fixture> {
    let named = |case: &&Json| wanted(case["name"].as_str().unwrap());
    manifest().iter().filter(named).filter_map(read).collect()
}

/// The fixture of a name.
pub(super) fn one(name: &str) -> Fixture {
    all(|other| other == name).pop().unwrap_or_else(|| panic!("{name} is no delegate alone"))
}

fn read(case: &Json) -> Option<Fixture> {
    let path = |value: &Json| root().join(value.as_str().unwrap());
    if !path(&case["pte"]).exists() {
        return None;
    }
    let file = std::fs::read(path(&case["pte"])).unwrap();
    let program = Program::parse(&file).unwrap();
    let mut names = program.methods();
    let method = names.next()?.unwrap();
    let [delegate] = method.delegates() else { return None };
    let [chain] = method.chains() else { return None };
    let [Instruction::DelegateCall { args, .. }] = chain.instructions.as_slice() else { return None };
    if names.next().is_some() {
        return None;
    }
    let place = |id| {
        let input = method.inputs().iter().position(|other| other == id).map(Place::Input);
        input.or_else(|| method.outputs().iter().position(|other| other == id).map(Place::Output))
    };
    let mut blobs: Vec<(String, Vec<u8>)> =
        program.named_data().iter().map(|(key, bytes)| (key.to_owned(), bytes.to_vec())).collect();
    for ptd in case["ptd"].as_array().unwrap() {
        let file = std::fs::read(path(ptd)).unwrap();
        let data = FlatTensor::parse(&file).unwrap();
        blobs.extend(data.blobs().iter().map(|(key, blob)| (key.to_owned(), blob.bytes.to_vec())));
    }
    let data = std::fs::read(path(&case["data"])).unwrap();
    let tensors = tensors(&data);
    let keyed = |list: &Json| -> Vec<Tensor> {
        list.as_array().unwrap().iter().map(|item| tensors[item["key"].as_str().unwrap()].clone()).collect()
    };
    Some(Fixture {
        name: case["name"].as_str().unwrap().to_owned(),
        payload: delegate.payload.to_vec(),
        blobs,
        args: args.iter().map(place).collect::<Option<_>>()?,
        runs: case["runs"]
            .as_array()
            .unwrap()
            .iter()
            .map(|run| Run { inputs: keyed(&run["inputs"]), outputs: keyed(&run["outputs"]) })
            .collect(),
        atol: case["tolerance"]["atol"].as_f64().unwrap(),
        rtol: case["tolerance"]["rtol"].as_f64().unwrap(),
    })
}

fn tensors(file: &[u8]) -> HashMap<String, Tensor> {
    let file = SafeTensors::deserialize(file).unwrap();
    let tensor = |(name, view): (String, safetensors::tensor::TensorView<'_>)| {
        let scalar_type = match view.dtype() {
            Dtype::BOOL => EtvkScalarType::Bool,
            Dtype::U8 => EtvkScalarType::Byte,
            Dtype::I8 => EtvkScalarType::Char,
            Dtype::I32 => EtvkScalarType::Int,
            Dtype::I64 => EtvkScalarType::Long,
            Dtype::F16 => EtvkScalarType::Half,
            Dtype::F32 => EtvkScalarType::Float,
            Dtype::F64 => EtvkScalarType::Double,
            other => panic!("{other:?}"),
        };
        (name, Tensor::new(scalar_type, view.shape(), view.data().to_vec()))
    };
    file.tensors().into_iter().map(tensor).collect()
}

impl Fixture {
    pub(super) fn source(&self) -> Source {
        Source::new(self.payload.clone(), self.blobs.clone())
    }

    pub(super) fn create(&self) -> Handle {
        self.source().create().unwrap_or_else(|status| panic!("{}: {status:?}: {}", self.name, last_error()))
    }

    /// Executes a run; the outputs in the order of the method.
    pub(super) fn execute(&self, handle: &Handle, run: &Run) -> Vec<Tensor> {
        let arg = |place: &Place| match *place {
            Place::Input(at) => Arg::from(run.inputs[at].clone()),
            Place::Output(at) => {
                // Nothing that is right already: other sizes and other bytes.
                let mut tensor = run.outputs[at].clone();
                tensor.data = vec![0x77; tensor.data.len()];
                Arg::from(tensor)
            }
        };
        let mut args = Args::new(self.args.iter().map(arg).collect());
        assert_eq!(handle.execute(&mut args), OK, "{}: {}", self.name, last_error());
        let mut outputs = vec![None; run.outputs.len()];
        for (at, place) in self.args.iter().enumerate() {
            if let Place::Output(place) = place {
                outputs[*place] = Some(args.tensor(at).clone());
            }
        }
        // An input that is returned as it is.
        outputs.into_iter().enumerate().map(|(at, o)| o.unwrap_or_else(|| run.outputs[at].clone())).collect()
    }

    /// Whether `found` is what the run must give, within the fixture's tolerance.
    pub(super) fn compare(&self, run: &Run, found: &[Tensor]) {
        for (index, (found, want)) in found.iter().zip(&run.outputs).enumerate() {
            assert_eq!(found.sizes, want.sizes, "{} output {index}", self.name);
            match want.scalar_type {
                6 => {
                    for (at, (x, want)) in found.to_floats().iter().zip(want.to_floats()).enumerate() {
                        let (x, want) = (f64::from(*x), f64::from(want));
                        let near = (x - want).abs() <= self.atol + self.rtol * want.abs();
                        let same = x == want || (x.is_nan() && want.is_nan());
                        assert!(near || same, "{} output {index}[{at}]: {x}, expected {want}", self.name);
                    }
                }
                _ => assert_eq!(found.data, want.data, "{} output {index}", self.name),
            }
        }
    }
}
