//! Exported programs through the C interface give what PyTorch gave.

use super::fixtures;

#[test]
fn exported_programs_give_their_goldens() {
    // Every sort of fixture, but of variants that differ in size alone only some.
    let wanted = |name: &str| {
        ["models", "tiny", "format", "external", "delegate", "bundled"].iter().any(|part| name.contains(part))
            || (name.ends_with("fp32") && !name.contains("d512") && !name.contains("d256"))
    };
    let fixtures = fixtures::all(wanted);
    assert!(fixtures.len() >= 40, "{}", fixtures.len());
    for fixture in fixtures {
        let handle = fixture.create();
        for run in &fixture.runs {
            let found = fixture.execute(&handle, run);
            fixture.compare(run, &found);
        }
    }
}
