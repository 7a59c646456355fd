//! No operator goes without a twin and a property.

use std::collections::BTreeSet;

use crate::{
    channel_norm, conv, conv_int8, copy, fill, fused, gather, index, linear_q, map, matmul, norm, pool,
    qparams, quantize, reduce, repeat, resample, rope, sdpa, softmax, symbolic, training,
};

#[test]
fn every_operator_has_a_twin_and_a_property() {
    let twins: BTreeSet<&str> = etvk_reference::OPERATORS.iter().map(|(name, _)| *name).collect();
    let compared: BTreeSet<&str> = [
        channel_norm::names(),
        conv::names(),
        conv_int8::names(),
        copy::names(),
        fill::names(),
        fused::names(),
        gather::names(),
        index::names(),
        linear_q::names(),
        map::names(),
        matmul::names(),
        norm::names(),
        pool::names(),
        qparams::names(),
        quantize::names(),
        reduce::names(),
        repeat::names(),
        resample::names(),
        rope::names(),
        sdpa::names(),
        softmax::names(),
        symbolic::names(),
        training::names(),
    ]
    .into_iter()
    .flatten()
    .collect();
    let names = etvk_engine::OPERATORS.iter().map(|operator| operator.name);
    let (without_twin, without_property): (Vec<&str>, Vec<&str>) = (
        names.clone().filter(|name| !twins.contains(name)).collect(),
        names.filter(|name| !compared.contains(name)).collect(),
    );
    assert!(without_twin.is_empty(), "no CPU twin: {without_twin:?}");
    assert!(without_property.is_empty(), "no property: {without_property:?}");
}
