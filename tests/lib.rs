//! What the suites that need several crates share: random graphs, executed by the engine on a device and by the
//! reference on the CPU, and compared.

mod decoder;
mod device;
mod draw;
mod fixture;
mod property;
mod twin;

pub use decoder::{Decoder, Step};
pub use device::{check_validation, context, open};
pub use draw::{Draw, Fill};
pub use fixture::{Fixture, Named};
pub use property::{Outcome, property};
pub use twin::{Tolerance, Twin, result};
