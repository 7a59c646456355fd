//! Text from language models: programs that take tokens and give logits, a tokenizer, and what lies between.
//!
//! A [`LanguageModel`] is a loaded program that keeps what it was fed in its caches; a [`Tokenizer`] is a
//! `tokenizer.json`; a [`Generation`] is a text that is being written, token by token.
//!
//! ```no_run
//! use etvk::Module;
//! use etvk::text::{GenerateOptions, Generation, LanguageModel, Tokenizer, end_tokens};
//!
//! # fn main() -> Result<(), etvk::Error> {
//! let tokenizer = Tokenizer::open("tokenizer.json")?;
//! let mut model = LanguageModel::load(&Module::open("model.pte")?, "forward", None)?;
//! let mut options = GenerateOptions::default();
//! options.stop = end_tokens(model.metadata(), &tokenizer);
//! let prompt = tokenizer.encode("The capital of France is", true)?;
//! for piece in Generation::new(&mut model, &tokenizer, &prompt, &options)? {
//!     print!("{}", piece?.text);
//! }
//! # Ok(())
//! # }
//! ```
//!
//! This module is there with the feature `text`.

mod chat;
mod fault;
mod generate;
mod interface;
mod logits;
mod metadata;
mod model;
mod perplexity;
mod sampler;
mod tokenizer;

pub use chat::{ChatFormat, end_tokens};
pub use fault::Fault;
pub use generate::{GenerateOptions, Generation, Piece, Statistics, StopReason};
pub use interface::Interface;
pub use logits::Logits;
pub use metadata::Metadata;
pub use model::LanguageModel;
pub use perplexity::Perplexity;
pub use sampler::{Sampler, Sampling};
pub use tokenizer::{TextStream, Tokenizer};
