//! Passes: each makes an equivalent program with fewer nodes or less memory traffic. A pass is one file here and can be
//! switched off by name; every program runs without any of them.

mod epilogues;
mod heads;
mod identity_views;
mod joined_linears;
mod order;
mod prologues;
mod repeated_writes;
mod residual;
mod rewrite;
mod rms_norm;
mod rotary;
mod windows;

use crate::ir::{Program, TensorId, Weight};
use rewrite::Rewrite;

/// What passes ask about constants.
pub(crate) trait Constants {
    /// The number that a constant of one element holds.
    fn scalar(&self, weight: &Weight) -> Option<f32>;
    /// The bytes of a constant of the payload.
    fn bytes(&self, weight: &Weight) -> Option<&[u8]>;
}

type Pass = fn(&mut Rewrite, &dyn Constants);

/// All passes in the order they run, by name.
const PASSES: &[(&str, Pass)] = &[
    ("identity_views", identity_views::run),
    ("repeated_writes", repeated_writes::run),
    ("rms_norm", rms_norm::run),
    ("rotary", rotary::run),
    ("heads", heads::run),
    ("residual", residual::run),
    ("windows", windows::run),
    ("joined_linears", joined_linears::run),
    ("epilogues", epilogues::run),
    ("prologues", prologues::run),
];

/// Which passes run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passes(u32);

impl Default for Passes {
    fn default() -> Self {
        Self::all()
    }
}

impl Passes {
    /// All of them.
    #[must_use]
    pub fn all() -> Self {
        Self(u32::MAX)
    }

    /// None: every operator runs as the payload has it.
    #[must_use]
    pub fn none() -> Self {
        Self(0)
    }

    /// The names of all passes, in the order they run.
    pub fn names() -> impl Iterator<Item = &'static str> {
        PASSES.iter().map(|(name, _)| *name)
    }

    /// These without the pass called `name`; `None` when there is no such pass.
    #[must_use]
    pub fn without(self, name: &str) -> Option<Self> {
        let index = Self::names().position(|known| known == name)?;
        Some(Self(self.0 & !(1 << index)))
    }
}

/// Runs the passes that are switched on.
pub(crate) fn run(mut program: Program, passes: Passes, constants: &dyn Constants) -> Program {
    for (index, (_, pass)) in PASSES.iter().enumerate() {
        if passes.0 & (1 << index) == 0 {
            continue;
        }
        let mut rewrite = Rewrite::new(program.clone());
        pass(&mut rewrite, constants);
        // A pass whose nodes cannot be put in order is undone as a whole.
        if let Some(changed) = rewrite.finish() {
            program = changed;
        }
    }
    program
}

/// The number a tensor of one element holds, if it is a constant.
fn scalar(program: &Program, id: TensorId, constants: &dyn Constants) -> Option<f32> {
    let tensor = program.tensor(id);
    let crate::ir::Origin::Weight(weight) = tensor.origin else { return None };
    if tensor.bound.iter().product::<u32>() != 1 {
        return None;
    }
    constants.scalar(&program.weights[weight.index()])
}
