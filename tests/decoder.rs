//! A decoder from a fixture, step by step.

use anyhow::Context as _;
use etvk_engine::{Context, Executor, Input, LoadOptions, PortInfo};
use etvk_vkgraph::{DType, Payload};

use crate::Fixture;

/// A language model: token ids \[1, S\] and positions \[S\] (or the first of them, \[1\]) in, logits out.
pub struct Decoder {
    executor: Executor,
    /// Where the tokens are among the inputs.
    tokens: usize,
    /// Whether each token has a position of its own.
    all_positions: bool,
}

/// Tokens and positions of one step as inputs.
pub struct Step {
    rows: u32,
    tokens: Vec<u8>,
    positions: Vec<u8>,
}

impl Step {
    /// `rows` tokens at positions from `start` on.
    #[must_use]
    pub fn new(start: i32, rows: u32) -> Self {
        let rows_end = i32::try_from(rows).unwrap_or(0);
        let bytes = |items: Vec<i32>| items.iter().flat_map(|item| item.to_le_bytes()).collect();
        let tokens = (0..rows_end).map(|row| (start + row) * 7 % 40).collect();
        Self { rows, tokens: bytes(tokens), positions: bytes((start..start + rows_end).collect()) }
    }
}

impl Decoder {
    /// Loads a fixture.
    ///
    /// # Errors
    /// Anything that keeps it from loading, or inputs of another kind.
    pub fn load(context: &Context, name: &str) -> anyhow::Result<Self> {
        let fixture = Fixture::read(name)?;
        let (payload, named) = (Payload::parse(fixture.payload()?)?, fixture.named()?);
        let options = LoadOptions { named: Some(&named), ..LoadOptions::default() };
        let executor = Executor::load(context, &payload, options)?;
        let bounds: Vec<&[u32]> = executor
            .inputs()
            .iter()
            .map(|port| match port {
                PortInfo::Tensor { bound, .. } => bound.as_slice(),
                PortInfo::Int => &[],
            })
            .collect();
        let tokens = bounds.iter().position(|bound| bound.len() == 2).context("token ids")?;
        let positions = bounds.iter().find(|bound| bound.len() == 1).context("positions")?;
        let all_positions = **positions != [1];
        anyhow::ensure!(bounds.len() == 2, "{} inputs", bounds.len());
        Ok(Self { executor, tokens, all_positions })
    }

    /// The engine's side.
    pub fn executor(&mut self) -> &mut Executor {
        &mut self.executor
    }

    /// Executes one step.
    ///
    /// # Errors
    /// What the engine says.
    pub fn execute(&mut self, step: &Step) -> Result<(), etvk_engine::Error> {
        let tokens_sizes = [1, step.rows];
        let positions_sizes = [if self.all_positions { step.rows } else { 1 }];
        let positions = if self.all_positions { &step.positions[..] } else { &step.positions[..4] };
        let tokens = Input::Tensor { dtype: DType::Int32, sizes: &tokens_sizes, data: &step.tokens };
        let positions = Input::Tensor { dtype: DType::Int32, sizes: &positions_sizes, data: positions };
        let inputs = if self.tokens == 0 { [tokens, positions] } else { [positions, tokens] };
        self.executor.execute(&inputs)
    }

    /// Copies the logits of the last step.
    ///
    /// # Errors
    /// What the engine says; `logits` of another length.
    pub fn read(&self, logits: &mut [u8]) -> Result<(), etvk_engine::Error> {
        self.executor.read_output(0, DType::Float32, logits)
    }

    /// Bytes of the logits of the last step.
    ///
    /// # Errors
    /// What the engine says.
    pub fn logits_bytes(&self) -> Result<usize, etvk_engine::Error> {
        Ok(self.executor.output_sizes(0)?.iter().product::<u32>() as usize * 4)
    }
}
