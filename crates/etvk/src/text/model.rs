//! A language model that is loaded, with the tokens in its caches.

use crate::error::Result;
use crate::method::Method;
use crate::module::{LoadProgress, Module};
use crate::text::{Fault, Interface, Logits, Metadata};
use crate::value::Value;

/// A method that takes tokens and gives logits, loaded, with caches that hold what it has been fed.
#[derive(Debug)]
pub struct LanguageModel {
    method: Method,
    interface: Interface,
    metadata: Metadata,
    /// Tokens that were fed.
    position: usize,
}

impl LanguageModel {
    /// Loads the method of that name: the one that takes the tokens, `forward` in what exporters write. `progress` is
    /// told how far that is.
    ///
    /// # Errors
    /// [`Fault::Interface`] if it is no language model's, [`Fault::NoCache`] if the program says that it has no caches;
    /// as [`Metadata::read`] and [`Module::load`].
    pub fn load(
        module: &Module,
        method: &str,
        progress: Option<&mut dyn FnMut(LoadProgress)>,
    ) -> Result<Self> {
        let interface = Interface::infer(&module.method_info(method)?)?;
        let metadata = Metadata::read(module)?;
        if metadata.kv_cache == Some(false) {
            return Err(Fault::NoCache { method: method.to_owned() }.into());
        }
        let method = module.load(method, progress)?;
        Ok(Self { method, interface, metadata, position: 0 })
    }

    /// What the method takes and gives.
    #[must_use]
    pub fn interface(&self) -> &Interface {
        &self.interface
    }

    /// What the program says of itself.
    #[must_use]
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// The loaded method.
    #[must_use]
    pub fn method(&self) -> &Method {
        &self.method
    }

    /// Position of the next token: the number of those that were fed.
    #[must_use]
    pub fn position(&self) -> usize {
        self.position
    }

    /// Most tokens that the caches hold, if the program tells.
    #[must_use]
    pub fn context(&self) -> Option<usize> {
        self.metadata.max_context
    }

    /// Forgets all tokens: the next one stands at position 0. What is left in the caches is not attended to.
    pub fn reset(&mut self) {
        self.position = 0;
    }

    /// Appends tokens to those that were fed, in as many executions as that takes, and returns the last logits.
    ///
    /// # Errors
    /// [`Fault::TooFewTokens`] without tokens, [`Fault::Token`] for one that the model does not know, [`Fault::Context`]
    /// if there are too many, [`Fault::FixedLength`] if the method takes only another number of them; as
    /// [`Method::execute`]. After an error in one execution the tokens of those before it stay.
    pub fn feed(&mut self, tokens: &[u32]) -> Result<Logits> {
        let mut last = None;
        self.feed_each(tokens, |logits| {
            last = Some(logits);
            Ok(())
        })?;
        last.ok_or_else(|| Fault::TooFewTokens { what: "the text", least: 1, found: 0 }.into())
    }

    /// As [`feed`](Self::feed), with the logits of every execution for `look`.
    pub(crate) fn feed_each(
        &mut self,
        tokens: &[u32],
        mut look: impl FnMut(Logits) -> Result<()>,
    ) -> Result<()> {
        let ids = self.known(tokens)?;
        self.room_for(tokens.len())?;
        let limit = self.metadata.max_tokens.unwrap_or(usize::MAX);
        for chunk in self.interface.chunks(ids.len(), limit)? {
            look(self.execute(ids.get(chunk).unwrap_or_default())?)?;
        }
        Ok(())
    }

    /// The tokens as the method takes them.
    fn known(&self, tokens: &[u32]) -> Result<Vec<i64>> {
        let vocabulary = self.interface.vocabulary();
        let known = |&token: &u32| usize::try_from(token).is_ok_and(|token| token < vocabulary);
        match tokens.iter().find(|token| !known(token)) {
            Some(&token) => Err(Fault::Token { token, vocabulary }.into()),
            None => Ok(tokens.iter().copied().map(i64::from).collect()),
        }
    }

    fn room_for(&self, tokens: usize) -> Result<()> {
        let position = self.position;
        match self.context() {
            Some(limit) if tokens > limit.saturating_sub(position) => {
                Err(Fault::Context { tokens, position, limit }.into())
            }
            _ => Ok(()),
        }
    }

    /// One execution.
    fn execute(&mut self, tokens: &[i64]) -> Result<Logits> {
        let start = i64::try_from(self.position).unwrap_or(i64::MAX);
        let outputs = self.method.execute(&self.interface.inputs(tokens, start)?)?;
        let vocabulary = self.interface.vocabulary();
        let logits = match outputs.get(self.interface.logits).and_then(Value::as_tensor) {
            Some(tensor) => Logits::new(tensor, vocabulary, tokens.len(), self.position)?,
            None => return Err(Fault::Logits { tokens: tokens.len(), vocabulary, found: 0 }.into()),
        };
        self.position = self.position.saturating_add(tokens.len());
        Ok(logits)
    }
}
