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
";

fn page() -> String {
    let mut families: BTreeMap<&str, Vec<&Operator>> = BTreeMap::new();
    for operator in OPERATORS {
        families.entry(operator.family).or_default().push(operator);
    }
    let mut page = format!("{HEAD}\n{} names in {} families.\n", OPERATORS.len(), families.len());
    for (family, operators) in families {
        let _ = write!(
            page,
            "\n## {family}\n\n| Name | Types | Since | Writes to |\n| --- | --- | --- | --- |\n"
        );
        for operator in operators {
            let writes: Vec<String> = operator.mutates.iter().map(usize::to_string).collect();
            let (name, types, since) = (operator.name, operator.types(), operator.since);
            let _ = writeln!(page, "| `{name}` | {types} | {since} | {} |", writes.join(", "));
        }
    }
    page
}

#[test]
fn the_page_is_the_table() -> std::io::Result<()> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/operators.md");
    let want = page();
    if std::env::var_os("ETVK_BLESS").is_some() {
        return std::fs::write(path, want);
    }
    let found = std::fs::read_to_string(path)?;
    assert!(found == want, "docs/operators.md is not the operator table; rewrite it with ETVK_BLESS=1");
    Ok(())
}
