//! Delegate payloads of the fixtures.

use std::path::Path;

use anyhow::Context as _;
use etvk_pte::Program;
use etvk_vkgraph::NamedData;

/// The first delegate of a program's first method, with the program's named data.
pub struct Fixture {
    file: Vec<u8>,
}

impl Fixture {
    /// Reads `tests/fixtures/NAME.pte`.
    ///
    /// # Errors
    /// No such file, or a program without a delegate.
    pub fn read(name: &str) -> anyhow::Result<Self> {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(name).with_extension("pte");
        let file = std::fs::read(&path).with_context(|| path.display().to_string())?;
        Ok(Self { file })
    }

    /// The delegate's payload.
    ///
    /// # Errors
    /// What is wrong with the program.
    pub fn payload(&self) -> anyhow::Result<&[u8]> {
        let program = Program::parse(&self.file)?;
        let name = program.method_names().next().context("a method")?.to_owned();
        let method = program.method(&name)?;
        Ok(method.delegates().first().context("a delegate")?.payload)
    }

    /// The program's named data.
    ///
    /// # Errors
    /// What is wrong with the program.
    pub fn named(&self) -> anyhow::Result<Named<'_>> {
        Ok(Named(Program::parse(&self.file)?))
    }
}

/// Constants that a program holds beside its payloads.
pub struct Named<'a>(Program<'a>);

impl NamedData for Named<'_> {
    fn get(&self, key: &str) -> Option<&[u8]> {
        self.0.named_data().get(key)
    }
}
