//! Every fixture parses, and says what the manifest says.
mod common;

#[test]
fn every_fixture_parses() {
    for path in common::files(&["pte", "ptd", "bpte"]) {
        let map = etvk_pte::Map::open(&path).unwrap();
        let seen = common::walk(&map).unwrap_or_else(|e| panic!("{}: {e:?}", path.display()));
        assert!(seen > 0, "{}", path.display());
    }
}
