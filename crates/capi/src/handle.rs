//! Delegates that exist. A handle is a number in the shape of a pointer, never followed and never used twice, so that
//! any number that a caller gives can be checked.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use etvk::payload::{Executor, PortInfo};

use crate::abi::EtvkDelegate;
use crate::constants::Constants;
use crate::device;
use crate::error::Error;
use crate::events::Operators;
use crate::fault;
use crate::option::Place;

/// A delegate.
pub(crate) struct Delegate {
    pub(crate) inputs: Vec<PortInfo>,
    pub(crate) outputs: Vec<PortInfo>,
    /// Where it runs.
    pub(crate) place: Place,
    /// For the events of its dispatches, if it measures them.
    pub(crate) operators: Option<Operators>,
    /// Its constants.
    pub(crate) constants: Constants,
    state: Mutex<State>,
}

enum State {
    Ready(Box<Executor>),
    /// A panic may have left the executor half changed.
    Broken,
    Destroyed,
}

static DELEGATES: LazyLock<Mutex<HashMap<usize, Arc<Delegate>>>> = LazyLock::new(Mutex::default);

thread_local! {
    /// Delegates that execute further up the stack.
    static EXECUTING: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

fn delegates() -> MutexGuard<'static, HashMap<usize, Arc<Delegate>>> {
    DELEGATES.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Delegate {
    pub(crate) fn new(
        executor: Executor,
        place: Place,
        operators: Option<Operators>,
        constants: Constants,
    ) -> Self {
        Self {
            inputs: executor.inputs().to_vec(),
            outputs: executor.outputs().to_vec(),
            place,
            operators,
            constants,
            state: Mutex::new(State::Ready(executor.into())),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Keeps a delegate, for its handle.
pub(crate) fn keep(delegate: Delegate) -> *mut EtvkDelegate {
    // Aligned like pointers, and nowhere near null.
    static NEXT: AtomicUsize = AtomicUsize::new(0x1000);
    let id = NEXT.fetch_add(16, Ordering::Relaxed);
    delegates().insert(id, Arc::new(delegate));
    std::ptr::without_provenance_mut(id)
}

fn find(handle: *mut EtvkDelegate) -> Result<Arc<Delegate>, Error> {
    delegates().get(&handle.addr()).cloned().ok_or(Error::Handle { found: handle.addr() })
}

/// Where the delegates that exist run.
pub(crate) fn places() -> Vec<Place> {
    delegates().values().map(|delegate| delegate.place.clone()).collect()
}

/// Whether a buffer that an execution without values for the first outputs changes may also be a constant of another
/// delegate, which would not change with it.
pub(crate) fn is_shared(delegate: &Delegate, executor: &Executor, surplus: usize) -> bool {
    let shares = |other: &Arc<Delegate>| {
        delegate.constants.shares(executor.replaced().take(surplus), &other.constants)
    };
    delegates().values().any(shares)
}

fn check_not_executing(handle: *mut EtvkDelegate) -> Result<(), Error> {
    match EXECUTING.with_borrow(|executing| executing.contains(&handle.addr())) {
        true => Err(Error::Reentered),
        false => Ok(()),
    }
}

/// # Safety
/// As `etvk_delegate_ports`.
pub(crate) unsafe fn ports(
    handle: *mut EtvkDelegate,
    inputs: *mut usize,
    outputs: *mut usize,
) -> Result<(), Error> {
    let delegate = find(handle)?;
    // SAFETY: as this function's.
    if let Some(inputs) = unsafe { inputs.as_mut() } {
        *inputs = delegate.inputs.len();
    }
    // SAFETY: as this function's.
    if let Some(outputs) = unsafe { outputs.as_mut() } {
        *outputs = delegate.outputs.len();
    }
    Ok(())
}

/// Does `work` with a delegate that no other thread uses meanwhile. After a panic in it the delegate is of no use.
pub(crate) fn with<T>(
    handle: *mut EtvkDelegate,
    work: impl FnOnce(&Delegate, &mut Executor) -> Result<T, Error>,
) -> Result<T, Error> {
    struct Leave;
    impl Drop for Leave {
        fn drop(&mut self) {
            EXECUTING.with_borrow_mut(Vec::pop);
        }
    }
    let delegate = find(handle)?;
    check_not_executing(handle)?;
    let mut state = delegate.lock();
    let mut executor = match std::mem::replace(&mut *state, State::Broken) {
        State::Ready(executor) => executor,
        State::Broken => return Err(Error::Broken),
        State::Destroyed => {
            *state = State::Destroyed;
            return Err(Error::Handle { found: handle.addr() });
        }
    };
    EXECUTING.with_borrow_mut(|executing| executing.push(handle.addr()));
    let _leave = Leave;
    let result = work(&delegate, &mut executor);
    *state = State::Ready(executor);
    result
}

/// Destroys a delegate when no other thread executes it.
pub(crate) fn destroy(handle: *mut EtvkDelegate) -> Result<(), Error> {
    if handle.is_null() {
        return Ok(());
    }
    check_not_executing(handle)?;
    let delegate = delegates().remove(&handle.addr()).ok_or(Error::Handle { found: handle.addr() })?;
    let state = std::mem::replace(&mut *delegate.lock(), State::Destroyed);
    let fault = fault::at(fault::Point::Destroy);
    drop(state);
    if !delegate.place.pipeline_cache_path.is_empty()
        && let Some(device) = device::runtime(&delegate.place).opened()
    {
        device.save_pipeline_cache();
    }
    fault
}
