//! Running a property over many random cases.

use std::cell::RefCell;
use std::collections::BTreeSet;

use proptest::collection::vec;
use proptest::num::u16;
use proptest::test_runner::{Config, RngSeed, TestCaseError, TestError, TestRunner};

use crate::{Draw, check_validation};

/// What one case comes to.
pub type Outcome = Result<(), TestCaseError>;

/// Of the cases that are tried.
const SEED: RngSeed = RngSeed::Fixed(20_260_822);

/// Choices one case can make.
const TAPE: usize = 160;

thread_local! {
    /// Operators in the graphs that were compared on this thread since the property started.
    static COMPARED: RefCell<BTreeSet<String>> = const { RefCell::new(BTreeSet::new()) };
}

/// Notes that operators were compared.
pub(crate) fn compared<'a>(names: impl Iterator<Item = &'a str>) {
    COMPARED.with_borrow_mut(|set| set.extend(names.map(str::to_owned)));
}

/// Runs `test` on random cases: `cases` of them and always the same ones, unless the environment variables
/// `PROPTEST_CASES` and `PROPTEST_RNG_SEED` say otherwise.
///
/// # Errors
/// The simplest failing case found; a name in `names` that no case compared; messages of the validation layer.
pub fn property(names: &[&str], cases: u32, test: impl Fn(&mut Draw<'_>) -> Outcome) -> anyhow::Result<()> {
    COMPARED.with_borrow_mut(BTreeSet::clear);
    let given = Config::default();
    let config = Config {
        cases: if std::env::var_os("PROPTEST_CASES").is_some() { given.cases } else { cases },
        rng_seed: if given.rng_seed == RngSeed::Random { SEED } else { given.rng_seed },
        failure_persistence: None,
        max_shrink_iters: 400,
        ..given
    };
    let result = TestRunner::new(config).run(&vec(u16::ANY, TAPE), |tape| test(&mut Draw::new(&tape)));
    match result {
        Ok(()) => {}
        Err(TestError::Fail(reason, _)) => anyhow::bail!("{names:?}: {reason}"),
        Err(TestError::Abort(reason)) => anyhow::bail!("{names:?}: gave up: {reason}"),
    }
    let compared = COMPARED.with_borrow_mut(std::mem::take);
    let missing: Vec<&&str> = names.iter().filter(|name| !compared.contains(**name)).collect();
    anyhow::ensure!(missing.is_empty(), "no case has {missing:?}");
    check_validation()
}
