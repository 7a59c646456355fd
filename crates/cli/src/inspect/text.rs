//! What is in a file, as text.

use std::io::{Result, Write};

use crate::inspect::describe::{DelegateText, File, MethodText, ValueText};
use crate::inspect::graph::{Graph, GraphValue};

/// Writes a file's description.
pub(crate) fn write(out: &mut dyn Write, file: &File) -> Result<()> {
    writeln!(out, "{}, {} bytes", file.kind, file.bytes)?;
    for method in &file.methods {
        write_method(out, method)?;
    }
    if !file.named_data.is_empty() {
        let bytes: usize = file.named_data.iter().map(|blob| blob.bytes).sum();
        writeln!(out, "named data: {} of {bytes} bytes", file.named_data.len())?;
        for blob in &file.named_data {
            let layout = blob.layout.as_ref().map(|layout| format!("  {layout}")).unwrap_or_default();
            writeln!(out, "  {:>10}  {}{layout}", blob.bytes, blob.key)?;
        }
    }
    for suite in &file.test_cases {
        writeln!(out, "test cases: {} for {}", suite.cases, suite.method)?;
    }
    Ok(())
}

fn write_method(out: &mut dyn Write, method: &MethodText) -> Result<()> {
    writeln!(
        out,
        "method {}: {} values, planned memory {:?}",
        method.name, method.values, method.planned_memory
    )?;
    values(out, "inputs", &method.inputs)?;
    values(out, "outputs", &method.outputs)?;
    values(out, "constants and buffers", &method.constants)?;
    for chain in &method.chains {
        writeln!(out, "  instructions")?;
        for (at, instruction) in chain.iter().enumerate() {
            writeln!(out, "    {at:>4}  {instruction}")?;
        }
    }
    for (index, delegate) in method.delegates.iter().enumerate() {
        write_delegate(out, index, delegate)?;
    }
    Ok(())
}

fn values(out: &mut dyn Write, title: &str, values: &[ValueText]) -> Result<()> {
    if !values.is_empty() {
        writeln!(out, "  {title}")?;
    }
    for value in values {
        let name = value.name.as_ref().map(|name| format!("  {name}")).unwrap_or_default();
        writeln!(out, "    %{:<4} {}{name}", value.value, value.kind)?;
    }
    Ok(())
}

fn write_delegate(out: &mut dyn Write, index: usize, delegate: &DelegateText) -> Result<()> {
    writeln!(out, "  delegate {index}: {}, {} bytes", delegate.backend, delegate.payload_bytes)?;
    for (key, value) in &delegate.options {
        writeln!(out, "    option {key} = {value}")?;
    }
    if let Some(error) = &delegate.error {
        writeln!(out, "    cannot be read: {error}")?;
    }
    match &delegate.graph {
        Some(graph) => write_graph(out, graph),
        None => Ok(()),
    }
}

fn write_graph(out: &mut dyn Write, graph: &Graph) -> Result<()> {
    graph_values(out, "inputs", &graph.inputs)?;
    graph_values(out, "outputs", &graph.outputs)?;
    writeln!(out, "    operators")?;
    for (name, count) in &graph.operators {
        writeln!(out, "      {count:>5}  {name}")?;
    }
    writeln!(out, "    calls")?;
    for (at, call) in graph.calls.iter().enumerate() {
        let (output, args) =
            call.args.split_last().map_or(("", &[][..]), |(last, args)| (last.as_str(), args));
        writeln!(out, "      {at:>4}  {output} = {}({})", call.name, args.join(", "))?;
    }
    graph_values(out, &format!("tensors, of {} values", graph.values), &graph.tensors)?;
    let bytes = graph.constants.iter().fold(0, |sum, constant| constant.bytes.saturating_add(sum));
    writeln!(out, "    constants: {} of {bytes} bytes", graph.constants.len())?;
    for (at, constant) in graph.constants.iter().enumerate() {
        writeln!(out, "      {at:>4}  {:>10}  {}", constant.bytes, constant.source)?;
    }
    Ok(())
}

fn graph_values(out: &mut dyn Write, title: &str, values: &[GraphValue]) -> Result<()> {
    writeln!(out, "    {title}")?;
    for value in values {
        writeln!(out, "      %{:<4} {}", value.value, value.kind)?;
    }
    Ok(())
}
