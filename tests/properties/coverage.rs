//! No operator goes without a twin and a property.

use std::collections::BTreeSet;

use crate::{
    copy, fill, gather, linear_q, map, matmul, norm, qparams, reduce, rope, sdpa, softmax, symbolic,
};

#[test]
fn every_operator_has_a_twin_and_a_property() {
    let twins: BTreeSet<&str> = etvk_reference::OPERATORS.iter().map(|(name, _)| *name).collect();
    let compared: BTreeSet<&str> = [
        copy::names(),
        fill::names(),
        gather::names(),
        linear_q::names(),
        map::names(),
        matmul::names(),
        norm::names(),
        qparams::names(),
        reduce::names(),
        rope::names(),
        sdpa::names(),
        softmax::names(),
        symbolic::names(),
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
