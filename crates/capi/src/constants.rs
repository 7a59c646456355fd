//! Which constants delegates have, to recognise a buffer that two delegates of a program hold copies of.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use etvk::payload::{ConstantId, ConstantSource, Graph};

/// The constants of a delegate, and which program it is a part of.
#[derive(Debug)]
pub(crate) struct Constants {
    /// The named data of its program, and its method.
    program: (usize, Option<String>),
    /// Hash of its payload: the same delegate may be there several times.
    payload: u64,
    /// By what they are recognised: the key of named data, which is a hash, and the length of others.
    ids: HashMap<ConstantId, String>,
}

impl Constants {
    pub(crate) fn new(named_data: usize, method: Option<String>, payload: &[u8], graph: &Graph) -> Self {
        let id = |(index, constant): (u32, &etvk::payload::Constant)| {
            let id = match &constant.source {
                ConstantSource::Named(key) => key.clone(),
                ConstantSource::Inline { .. } => format!("{} bytes", constant.length),
            };
            (ConstantId(index), id)
        };
        let mut hasher = DefaultHasher::new();
        payload.hash(&mut hasher);
        let ids = (0..).zip(&graph.constants).map(id).collect();
        Self { program: (named_data, method), payload: hasher.finish(), ids }
    }

    /// Whether `other` is another delegate of the same method, and may hold a copy of one of these constants.
    pub(crate) fn shares(&self, mut constants: impl Iterator<Item = ConstantId>, other: &Self) -> bool {
        let held = |constant: ConstantId| {
            self.ids.get(&constant).is_some_and(|id| other.ids.values().any(|known| known == id))
        };
        self.program == other.program && self.payload != other.payload && constants.any(held)
    }
}
