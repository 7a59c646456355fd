//! Element-wise operators.

use etvk_tests::{Draw, Fill, Outcome, Tolerance, property, result};
use etvk_vkgraph::{DType, GraphBuilder, ValueId};

use crate::broadcast::Broadcast;

const EXACT: Tolerance = Tolerance::EXACT;
const SINGLE: Tolerance = Tolerance::SINGLE;
const TRIGONOMETRIC: Tolerance = Tolerance::TRIGONOMETRIC;

/// Float functions of one tensor: name, range of operands, tolerance.
const UNARY: &[(&str, f64, f64, Tolerance)] = &[
    ("aten.ceil.default", -9.0, 9.0, EXACT),
    ("aten.cos.default", -9.0, 9.0, TRIGONOMETRIC),
    ("aten.erf.default", -4.0, 4.0, SINGLE),
    ("aten.exp.default", -20.0, 10.0, SINGLE),
    ("aten.floor.default", -9.0, 9.0, EXACT),
    ("aten.hardsigmoid.default", -5.0, 5.0, SINGLE),
    ("aten.hardswish.default", -5.0, 5.0, SINGLE),
    ("aten.log.default", 1e-3, 50.0, SINGLE),
    ("aten.log10.default", 1e-3, 50.0, SINGLE),
    ("aten.reciprocal.default", 0.01, 9.0, SINGLE),
    ("aten.round.default", -9.0, 9.0, EXACT),
    ("aten.rsqrt.default", 1e-3, 50.0, SINGLE),
    ("aten.sigmoid.default", -30.0, 30.0, SINGLE),
    ("aten.sin.default", -9.0, 9.0, TRIGONOMETRIC),
    ("aten.sqrt.default", 0.0, 50.0, SINGLE),
    ("aten.tan.default", -1.2, 1.2, Tolerance { absolute: 2e-3, relative: 2e-3, ..SINGLE }),
    ("aten.tanh.default", -30.0, 30.0, SINGLE),
    ("aten.trunc.default", -9.0, 9.0, EXACT),
];

/// Functions of one tensor of any type.
const UNARY_ANY: &[&str] =
    &["aten.abs.default", "aten.neg.default", "aten.relu.default", "aten.relu6.default"];

/// Functions of two tensors.
const BINARY: &[&str] = &["aten.maximum.default", "aten.minimum.default", "aten.mul.Tensor"];
const BINARY_ALPHA: &[&str] = &["aten.add.Tensor", "aten.sub.Tensor"];
const COMPARE: &[&str] = &[
    "aten.eq.Tensor",
    "aten.ge.Tensor",
    "aten.gt.Tensor",
    "aten.le.Tensor",
    "aten.lt.Tensor",
    "aten.ne.Tensor",
];
const COMPARE_SCALAR: &[&str] = &[
    "aten.eq.Scalar",
    "aten.ge.Scalar",
    "aten.gt.Scalar",
    "aten.le.Scalar",
    "aten.lt.Scalar",
    "aten.ne.Scalar",
];
const LOGICAL: &[&str] = &["aten.logical_and.default", "aten.logical_or.default", "aten.logical_xor.default"];
const BITWISE: &[&str] = &["aten.bitwise_and.Tensor", "aten.bitwise_or.Tensor", "aten.bitwise_xor.Tensor"];
const CASTS: &[&str] = &["aten._to_copy.default", "dim_order_ops._to_dim_order_copy.default"];
const OTHERS: &[&str] = &[
    "aten.bitwise_not.default",
    "aten.clamp.default",
    "aten.div.Tensor",
    "aten.div.Tensor_mode",
    "aten.gelu.default",
    "aten.hardshrink.default",
    "aten.hardtanh.default",
    "aten.leaky_relu.default",
    "aten.logical_not.default",
    "aten.pow.Tensor_Scalar",
    "aten.pow.Tensor_Tensor",
    "aten.where.self",
];

/// Every operator these properties compare.
pub(crate) fn names() -> Vec<&'static str> {
    let lists = [UNARY_ANY, BINARY, BINARY_ALPHA, COMPARE, COMPARE_SCALAR, LOGICAL, BITWISE, CASTS, OTHERS];
    UNARY.iter().map(|row| row.0).chain(lists.into_iter().flatten().copied()).collect()
}

/// Elements that are often equal and that single precision multiplies exactly.
const STEPS: Fill = Fill::Grid { low: -6.0, high: 6.0, step: 0.5 };
const WHOLE: Fill = Fill::Grid { low: -50.0, high: 50.0, step: 1.0 };
const ANY_TYPE: &[DType] =
    &[DType::Float32, DType::Int32, DType::Float16, DType::Int8, DType::UInt8, DType::Int64];

fn fill(dtype: DType) -> Fill {
    match dtype {
        DType::UInt8 => Fill::Grid { low: 0.0, high: 200.0, step: 1.0 },
        dtype if dtype.is_float() => STEPS,
        _ => WHOLE,
    }
}

/// One call on one whole operand: the arguments between it and the output, and the output's type.
fn unary(
    draw: &mut Draw<'_>,
    name: &str,
    (dtype, fill, to): (DType, Fill, DType),
    tolerance: Tolerance,
    arguments: impl FnOnce(&mut GraphBuilder) -> Vec<ValueId>,
) -> Outcome {
    let (mut graph, mut sizes) = (GraphBuilder::new(), Broadcast::new(draw));
    let mut args = vec![sizes.whole(draw, &mut graph, dtype, fill)];
    args.extend(arguments(&mut graph));
    call(&mut graph, name, args, to, &sizes.result());
    sizes.run(draw, &graph, tolerance)
}

/// Ends the graph with a call.
pub(crate) fn call(graph: &mut GraphBuilder, name: &str, mut args: Vec<ValueId>, to: DType, dims: &[u32]) {
    let out = result(graph, to, dims);
    args.push(out);
    graph.call(name, &args);
    graph.outputs(&[out]);
}

fn optional(graph: &mut GraphBuilder, number: Option<f64>) -> ValueId {
    match number {
        Some(number) => graph.double(number),
        None => graph.null(),
    }
}

/// One call on two operands: the arguments between them and the output.
fn binary(
    draw: &mut Draw<'_>,
    name: &str,
    operands: [(DType, Fill); 2],
    to: DType,
    tolerance: Tolerance,
    arguments: impl FnOnce(&mut GraphBuilder) -> Vec<ValueId>,
) -> Outcome {
    let (mut graph, mut sizes) = (GraphBuilder::new(), Broadcast::new(draw));
    let mut args: Vec<ValueId> =
        operands.iter().map(|&(dtype, fill)| sizes.operand(draw, &mut graph, dtype, fill)).collect();
    args.extend(arguments(&mut graph));
    call(&mut graph, name, args, to, &sizes.result());
    sizes.run(draw, &graph, tolerance)
}

#[test]
fn functions_of_one_float_tensor() -> anyhow::Result<()> {
    for &(name, low, high, tolerance) in UNARY {
        property(&[name], 3, |draw| {
            let dtype = draw.float();
            let negative = name == "aten.reciprocal.default" && draw.once_in(2);
            let fill =
                if negative { Fill::Uniform { low: -high, high: -low } } else { Fill::Uniform { low, high } };
            unary(draw, name, (dtype, fill, dtype), tolerance, |_| Vec::new())
        })?;
    }
    Ok(())
}

#[test]
fn functions_of_one_tensor() -> anyhow::Result<()> {
    for &name in UNARY_ANY {
        property(&[name], 6, |draw| {
            let dtype = draw.pick(ANY_TYPE);
            unary(draw, name, (dtype, fill(dtype), dtype), EXACT, |_| Vec::new())
        })?;
    }
    Ok(())
}

#[test]
fn functions_with_parameters() -> anyhow::Result<()> {
    for name in ["aten.hardshrink.default", "aten.leaky_relu.default"] {
        property(&[name], 4, |draw| {
            let (dtype, parameter) = (draw.float(), draw.pick(&[0.5, 0.0, 1.0, 0.25]));
            unary(draw, name, (dtype, STEPS, dtype), SINGLE, |graph| vec![graph.double(parameter)])
        })?;
    }
    property(&["aten.gelu.default"], 8, |draw| {
        let (dtype, form) = (draw.float(), draw.below(2));
        let range = Fill::Uniform { low: -12.0, high: 12.0 };
        unary(
            draw,
            "aten.gelu.default",
            (dtype, range, dtype),
            Tolerance { absolute: 1e-7, ..SINGLE },
            |graph| vec![graph.string(if form == 0 { "none" } else { "tanh" })],
        )
    })?;
    for name in ["aten.clamp.default", "aten.hardtanh.default"] {
        property(&[name], 8, |draw| {
            let dtype = draw.pick(&ANY_TYPE[..4]);
            let mut bounds =
                [draw.pick(&[Some(-1.0), None, Some(2.0)]), draw.pick(&[Some(3.0), None, Some(0.0)])];
            if name == "aten.hardtanh.default" {
                bounds = [bounds[0].or(Some(-1.0)), bounds[1].or(Some(1.0))];
            }
            unary(draw, name, (dtype, fill(dtype), dtype), EXACT, |graph| {
                bounds.map(|bound| optional(graph, bound)).to_vec()
            })
        })?;
    }
    Ok(())
}

#[test]
fn powers() -> anyhow::Result<()> {
    property(&["aten.pow.Tensor_Scalar"], 12, |draw| {
        let exponent: f64 = draw.pick(&[2.0, 3.0, 1.0, 0.0, 0.5, -1.0, -0.5, 2.5, 4.0]);
        let low: f64 = if exponent < 0.0 {
            0.2
        } else if exponent.fract() == 0.0 {
            -3.0
        } else {
            0.0
        };
        let whole = exponent >= 0.0 && exponent.fract() == 0.0;
        let dtype = if whole { draw.pick(&[DType::Float32, DType::Int32]) } else { draw.float() };
        let fill = Fill::Uniform { low, high: 4.0 };
        unary(draw, "aten.pow.Tensor_Scalar", (dtype, fill, dtype), SINGLE, |graph| {
            vec![graph.double(exponent)]
        })
    })?;
    property(&["aten.pow.Tensor_Tensor"], 8, |draw| {
        let name = "aten.pow.Tensor_Tensor";
        if draw.once_in(2) {
            let fills = [(-3.0, 3.0), (0.0, 5.0)].map(|(low, high)| Fill::Grid { low, high, step: 1.0 });
            let dtype = draw.pick(&[DType::Int32, DType::Float32]);
            return binary(draw, name, fills.map(|fill| (dtype, fill)), dtype, SINGLE, |_| Vec::new());
        }
        let fills = [(0.1, 4.0), (-3.0, 3.0)].map(|(low, high)| Fill::Uniform { low, high });
        binary(draw, name, fills.map(|fill| (DType::Float32, fill)), DType::Float32, SINGLE, |_| Vec::new())
    })
}

#[test]
fn functions_of_two_tensors() -> anyhow::Result<()> {
    for &name in BINARY {
        property(&[name], 8, |draw| {
            let dtype = draw.pick(ANY_TYPE);
            binary(draw, name, [(dtype, fill(dtype)); 2], dtype, EXACT, |_| Vec::new())
        })?;
    }
    for &name in BINARY_ALPHA {
        property(&[name], 8, |draw| {
            let (dtype, alpha) = (draw.pick(ANY_TYPE), draw.pick(&[1, 2, -3]));
            let half = dtype.is_float() && draw.once_in(2);
            binary(draw, name, [(dtype, fill(dtype)); 2], dtype, EXACT, |graph| {
                vec![if half { graph.double(0.5) } else { graph.int(alpha) }]
            })
        })?;
        property(&[name], 4, |draw| {
            let mixed = [(DType::Float32, STEPS), (DType::Int32, WHOLE)];
            let operands = if draw.once_in(2) { [mixed[1], mixed[0]] } else { mixed };
            binary(draw, name, operands, DType::Float32, EXACT, |graph| vec![graph.int(1)])
        })?;
    }
    Ok(())
}

#[test]
fn integers_wrap() -> anyhow::Result<()> {
    let wide = Fill::Grid { low: -2.0e9, high: 2.0e9, step: 1.0 };
    for name in ["aten.add.Tensor", "aten.sub.Tensor", "aten.mul.Tensor"] {
        property(&[name], 2, |draw| {
            binary(draw, name, [(DType::Int32, wide); 2], DType::Int32, EXACT, |graph| {
                if name == "aten.mul.Tensor" { Vec::new() } else { vec![graph.int(1)] }
            })
        })?;
    }
    Ok(())
}

#[test]
fn quotients() -> anyhow::Result<()> {
    property(&["aten.div.Tensor"], 8, |draw| {
        let operands = [draw.pick(&ANY_TYPE[..4]), draw.pick(&ANY_TYPE[..3])];
        let divisor = if operands[1].is_float() {
            Fill::Uniform { low: 0.3, high: 9.0 }
        } else {
            Fill::Grid { low: 1.0, high: 9.0, step: 1.0 }
        };
        let operands = [(operands[0], fill(operands[0])), (operands[1], divisor)];
        binary(draw, "aten.div.Tensor", operands, DType::Float32, SINGLE, |_| Vec::new())
    })?;
    property(&["aten.div.Tensor_mode"], 16, |draw| {
        let mode = draw.pick(&["floor", "trunc", ""]);
        let negative = draw.once_in(2);
        let sign = |low: f64, high: f64| if negative { (-high, -low) } else { (low, high) };
        let (dtype, dividend, (low, high)) = if mode.is_empty() || draw.once_in(2) {
            // No quotient is near a whole number.
            (DType::Float32, Fill::Grid { low: -20.0625, high: 20.0, step: 0.125 }, sign(2.0, 2.0))
        } else {
            (DType::Int32, WHOLE, sign(1.0, 9.0))
        };
        let divisor = Fill::Grid { low, high, step: 1.0 };
        binary(draw, "aten.div.Tensor_mode", [(dtype, dividend), (dtype, divisor)], dtype, SINGLE, |graph| {
            vec![if mode.is_empty() { graph.null() } else { graph.string(mode) }]
        })
    })
}

#[test]
fn comparisons() -> anyhow::Result<()> {
    for &name in COMPARE {
        property(&[name], 4, |draw| {
            let dtypes = [draw.pick(ANY_TYPE), draw.pick(&ANY_TYPE[..2])];
            let operands = dtypes.map(|dtype| (dtype, if dtype.is_float() { STEPS } else { fill(dtype) }));
            binary(draw, name, operands, DType::Bool, EXACT, |_| Vec::new())
        })?;
    }
    for &name in COMPARE_SCALAR {
        property(&[name], 4, |draw| {
            let (dtype, other) = (draw.pick(&ANY_TYPE[..4]), draw.pick(&[1.0, 0.0, -3.0, 0.5]));
            unary(draw, name, (dtype, fill(dtype), DType::Bool), EXACT, |graph| vec![graph.double(other)])
        })?;
    }
    Ok(())
}

#[test]
fn truth_values_and_bits() -> anyhow::Result<()> {
    let steps = Fill::Grid { low: -1.0, high: 2.0, step: 1.0 };
    for &name in LOGICAL {
        property(&[name], 4, |draw| {
            let operands = [draw.pick(&[DType::Bool, DType::Int32, DType::Float32]), DType::Bool];
            binary(draw, name, operands.map(|dtype| (dtype, steps)), DType::Bool, EXACT, |_| Vec::new())
        })?;
    }
    for &name in BITWISE {
        property(&[name], 4, |draw| {
            let dtype = draw.pick(&[DType::Bool, DType::Int32, DType::UInt8]);
            binary(draw, name, [(dtype, fill(dtype)); 2], dtype, EXACT, |_| Vec::new())
        })?;
    }
    property(&["aten.logical_not.default"], 4, |draw| {
        let dtype = draw.pick(&[DType::Bool, DType::Int32, DType::Float32]);
        unary(draw, "aten.logical_not.default", (dtype, steps, DType::Bool), EXACT, |_| Vec::new())
    })?;
    property(&["aten.bitwise_not.default"], 4, |draw| {
        let dtype = draw.pick(&[DType::Bool, DType::Int32]);
        unary(draw, "aten.bitwise_not.default", (dtype, fill(dtype), dtype), EXACT, |_| Vec::new())
    })
}

#[test]
fn choice_by_condition() -> anyhow::Result<()> {
    property(&["aten.where.self"], 10, |draw| {
        let (mut graph, mut sizes) = (GraphBuilder::new(), Broadcast::new(draw));
        let condition = draw.pick(&[DType::Bool, DType::Int32]);
        let dtype = draw.pick(ANY_TYPE);
        let steps = Fill::Grid { low: 0.0, high: 1.0, step: 1.0 };
        let args = [(condition, steps), (dtype, fill(dtype)), (dtype, fill(dtype))];
        let args = args.map(|(dtype, fill)| sizes.operand(draw, &mut graph, dtype, fill));
        call(&mut graph, "aten.where.self", args.to_vec(), dtype, &sizes.result());
        sizes.run(draw, &graph, EXACT)
    })
}

#[test]
fn conversions() -> anyhow::Result<()> {
    const TYPES: &[DType] = &[
        DType::Float32,
        DType::Int32,
        DType::Float16,
        DType::Bool,
        DType::Int8,
        DType::UInt8,
        DType::Int64,
        DType::Float64,
    ];
    for &name in CASTS {
        property(&[name], 24, |draw| {
            let (from, to) = (draw.pick(TYPES), draw.pick(TYPES));
            let range: f64 = draw.pick(&[9.0, 300.0, 3.0e4, 3.0e9]);
            let range = match from {
                DType::Int64 | DType::Int32 => range.min(2.0e9),
                DType::Float16 => range.min(3.0e4),
                DType::Int8 | DType::UInt8 => range.min(120.0),
                _ => range,
            };
            let low = if from == DType::UInt8 { 0.0 } else { -range };
            let fill = Fill::Uniform { low, high: range };
            // Doubles are singles on the device.
            let tolerance = if to == DType::Float64 { SINGLE } else { EXACT };
            unary(draw, name, (from, fill, to), tolerance, |graph| (0..6).map(|_| graph.null()).collect())
        })?;
    }
    Ok(())
}
