//! What the suites that need several crates share: random graphs, executed by the engine on a device and by the
//! reference on the CPU, and compared.

mod device;
mod draw;
mod property;
mod twin;

pub use device::{check_validation, context};
pub use draw::{Draw, Fill};
pub use property::{Outcome, property};
pub use twin::{Tolerance, Twin, result};
