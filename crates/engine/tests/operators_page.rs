//! `docs/operators.md` is the operator table.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use etvk_engine::{OPERATORS, Operator};

const HEAD: &str = "# Operators

Made from the operator table (`crates/engine/src/ops/table.rs`), which also lowers graphs and answers `etvk check`;
rewrite it with `ETVK_BLESS=1 cargo test -p etvk-engine --test operators_page`.

Tensors may be constants, inputs or results, may have no elements, and their sizes may change between executions. Ranks go
up to 8; element-wise kernels take six dimensions after neighbours have been merged, and a call that needs more says so.
*Types* are those of the tensors: halves and doubles are floats, integers of any width are ints. *Since* is the first
release of ExecuTorch whose exporter writes the name (0.5: or earlier); a dash is a name of upstream's tests or
internals, another spelling, or an operator that exporters leave on the CPU today. A family is a file in
`crates/engine/src/ops/`. Arguments that an operator writes to, by position, keep their contents from one execution to the
next. What differs from upstream is in [differences.md](differences.md).

*Cases* counts the programs in `tests/fixtures` that call the name: upstream's exporter wrote them, PyTorch computed what
they should give. Every name has besides a property that compares it with the CPU reference on random graphs.
";

/// How many programs in the fixtures call each name.
fn cases() -> std::io::Result<BTreeMap<String, usize>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/manifest.json");
    let manifest: serde_json::Value = serde_json::from_slice(&std::fs::read(path)?)?;
    let mut cases = BTreeMap::new();
    for case in manifest["cases"].as_array().into_iter().flatten() {
        for name in case["vulkan_ops"].as_object().into_iter().flat_map(|calls| calls.keys()) {
            *cases.entry(name.clone()).or_default() += 1;
        }
    }
    Ok(cases)
}

fn page() -> std::io::Result<String> {
    let cases = cases()?;
    let mut families: BTreeMap<&str, Vec<&Operator>> = BTreeMap::new();
    for operator in OPERATORS {
        families.entry(operator.family).or_default().push(operator);
    }
    let mut page = format!("{HEAD}\n{} names in {} families.\n", OPERATORS.len(), families.len());
    for (family, operators) in families {
        let _ = write!(
            page,
            "\n## {family}\n\n| Name | Types | Since | Cases | Writes to |\n| --- | --- | --- | --- | --- |\n"
        );
        for operator in operators {
            let writes: Vec<String> = operator.mutates.iter().map(usize::to_string).collect();
            let (name, types, since) = (operator.name, operator.types(), operator.since);
            let count = cases.get(name).copied().unwrap_or(0);
            let _ = writeln!(page, "| `{name}` | {types} | {since} | {count} | {} |", writes.join(", "));
        }
    }
    Ok(page)
}

#[test]
fn the_page_is_the_table() -> std::io::Result<()> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/operators.md");
    let want = page()?;
    if std::env::var_os("ETVK_BLESS").is_some() {
        return std::fs::write(path, want);
    }
    let found = std::fs::read_to_string(path)?;
    assert!(
        found == want,
        "docs/operators.md is not the operator table with its fixtures; rewrite it with ETVK_BLESS=1"
    );
    Ok(())
}
