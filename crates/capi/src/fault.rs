//! Faults that tests force at given points. Outside the tests of this crate nothing of it is compiled in.

use crate::error::Error;

/// Where a fault can be forced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Point {
    /// A payload is about to be loaded.
    Load,
    /// A payload was loaded, its handle is not made yet.
    Loaded,
    /// Arguments are about to be read.
    Arguments,
    /// An execution is about to be submitted.
    Execute,
    /// Outputs are about to be written.
    Outputs,
    /// A delegate is about to be freed.
    Destroy,
}

/// Fails, or panics, where a test of this thread wants it.
#[cfg(not(test))]
#[inline]
pub(crate) fn at(_: Point) -> Result<(), Error> {
    Ok(())
}

#[cfg(test)]
pub(crate) use forced::{Fault, at, force};

#[cfg(test)]
mod forced {
    use std::cell::Cell;

    use super::{Error, Point};

    /// What happens there.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) enum Fault {
        Panic,
        DeviceMemory,
        HostMemory,
        DeviceLost,
        Unsupported,
    }

    thread_local! {
        static FORCED: Cell<Option<(Point, Fault)>> = const { Cell::new(None) };
    }

    /// Makes the next visit of `point` on this thread fail, once.
    pub(crate) fn force(point: Point, fault: Fault) {
        FORCED.set(Some((point, fault)));
    }

    pub(crate) fn at(point: Point) -> Result<(), Error> {
        let Some((_, fault)) = FORCED.get().filter(|(wanted, _)| *wanted == point) else { return Ok(()) };
        FORCED.set(None);
        let what = || "a test".to_owned();
        let error = match fault {
            Fault::Panic => panic!("forced at {point:?}"),
            Fault::DeviceMemory => etvk::DeviceError::OutOfDeviceMemory { what: what(), bytes: 1 << 40 },
            Fault::HostMemory => etvk::DeviceError::OutOfHostMemory { what: what(), bytes: 1 << 40 },
            Fault::DeviceLost => etvk::DeviceError::DeviceLost,
            Fault::Unsupported => etvk::DeviceError::Unsupported { what: what() },
        };
        Err(error.into())
    }
}
