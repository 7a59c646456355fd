//! What can go wrong with text.

use std::path::PathBuf;

/// Why text could not be made or read. The variant of [`Error`](crate::Error) that holds it is
/// [`Text`](crate::Error::Text).
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// A tokenizer file that cannot be read or understood.
    #[error("{}: {reason}", path.display())]
    TokenizerFile {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// Text that the tokenizer cannot turn into tokens.
    #[error("text of {bytes} bytes cannot be encoded: {reason}")]
    Encode {
        /// Its length.
        bytes: usize,
        /// What is wrong.
        reason: String,
    },
    /// Tokens that the tokenizer cannot turn into text.
    #[error("{tokens} tokens cannot be decoded: {reason}")]
    Decode {
        /// How many.
        tokens: usize,
        /// What is wrong.
        reason: String,
    },
    /// A method that is not a language model's.
    #[error(
        "{method} takes ({inputs}) and gives ({outputs}): a language model takes (tokens int64[1, S], start int64[1]) or \
         (tokens int64[1, S], positions int64[S]) and gives logits"
    )]
    Interface {
        /// The method.
        method: String,
        /// What it takes.
        inputs: String,
        /// What it gives.
        outputs: String,
    },
    /// A method of fixed sizes that are not those asked for.
    #[error("{method} takes {expected} tokens at a time, not {found}")]
    FixedLength {
        /// The method.
        method: String,
        /// Tokens of every execution.
        expected: usize,
        /// Tokens to be executed.
        found: usize,
    },
    /// A method that says that it keeps no state from one execution to the next.
    #[error(
        "{method} has no KV cache (use_kv_cache is false): only programs with one can go on from a position"
    )]
    NoCache {
        /// The method.
        method: String,
    },
    /// A metadata method that gives something else than it should.
    #[error("{method} gives {found}, must give {expected}")]
    Metadata {
        /// The metadata method.
        method: String,
        /// What it should give.
        expected: &'static str,
        /// What it gives.
        found: String,
    },
    /// Logits of other sizes than the method told.
    #[error(
        "logits of {tokens} tokens over {vocabulary} have {found} elements, must have {vocabulary} or {tokens} times that"
    )]
    Logits {
        /// Tokens of the execution.
        tokens: usize,
        /// Logits of a token.
        vocabulary: usize,
        /// Elements there are.
        found: usize,
    },
    /// A logit that is not a number.
    #[error("the logit of token {token} at position {position} is not a number")]
    NotANumber {
        /// The first such token.
        token: usize,
        /// Position of the token whose logits these are.
        position: usize,
    },
    /// No tokens where there must be some.
    #[error("{what} has {found} tokens, must have {least} or more")]
    TooFewTokens {
        /// What has too few.
        what: &'static str,
        /// The least number.
        least: usize,
        /// How many there are.
        found: usize,
    },
    /// Tokens beyond what the program has caches for.
    #[error("{tokens} tokens from position {position} on exceed the context of {limit} tokens")]
    Context {
        /// Tokens to be executed.
        tokens: usize,
        /// Position of the first.
        position: usize,
        /// Most tokens there may be.
        limit: usize,
    },
    /// A token that the model does not know: the tokenizer is another model's.
    #[error(
        "token {token} is not in the model's vocabulary of {vocabulary}: the tokenizer is not this model's"
    )]
    Token {
        /// The token.
        token: u32,
        /// Tokens that the model knows.
        vocabulary: usize,
    },
    /// A sampling parameter out of range.
    #[error("{what} is {found}, must be {expected}")]
    Sampling {
        /// Which one.
        what: &'static str,
        /// What it may be.
        expected: &'static str,
        /// What it is.
        found: f32,
    },
    /// A tokenizer without the special tokens of any known chat format.
    #[error("the tokenizer has no tokens of a known chat format; looked for {looked_for}")]
    ChatFormat {
        /// Tokens that would have told a format, separated by commas.
        looked_for: String,
    },
}
