//! Pipelines of a device: compiled side by side while a program's constants are uploaded, or else when a recording first
//! wants them.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

use etvk_kernels::Kernel;
use etvk_vulkan::{Device, Pipeline, PipelineDesc};

use crate::error::Error;

/// Drivers gain little from more threads.
const MOST_THREADS: usize = 8;

/// Pipelines of a device, made once for each kernel.
#[derive(Debug, Default)]
pub(crate) struct Pipelines(Mutex<HashMap<Kernel, Pipeline>>);

impl Pipelines {
    /// The pipeline of a kernel, compiled if it is not there yet.
    pub(crate) fn get(&self, device: &Device, kernel: &Kernel) -> Result<Pipeline, Error> {
        if let Some(pipeline) = self.lock().get(kernel) {
            return Ok(pipeline.clone());
        }
        // Others compile meanwhile. If two compile the same kernel, the first one's stays.
        let pipeline = device.pipeline(&PipelineDesc {
            label: kernel.shader.name,
            spirv: kernel.shader.spirv,
            bindings: kernel.shader.bindings,
            push_bytes: kernel.shader.push_words * 4,
            specialization: &kernel.specialization,
            subgroup_size: None,
        })?;
        Ok(self.lock().entry(kernel.clone()).or_insert(pipeline).clone())
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.lock().len()
    }

    /// Does `work` on this thread while others compile `kernels`, and waits for both.
    ///
    /// # Errors
    /// What `work` says, or else the device.
    pub(crate) fn compile_during<T>(
        &self,
        device: &Device,
        mut kernels: Vec<Kernel>,
        work: impl FnOnce() -> Result<T, Error>,
    ) -> Result<T, Error> {
        kernels.retain(|kernel| !self.lock().contains_key(kernel));
        // The longest first, so that none is left over for one thread at the end.
        kernels.sort_by_key(|kernel| Reverse(kernel.shader.spirv.len()));
        let next = AtomicUsize::new(0);
        let compile = || {
            while let Some(kernel) = kernels.get(next.fetch_add(1, Ordering::Relaxed)) {
                self.get(device, kernel)?;
            }
            Ok(())
        };
        let threads =
            thread::available_parallelism().map_or(1, usize::from).min(MOST_THREADS).min(kernels.len());
        thread::scope(|scope| {
            // Where a thread cannot be started, recordings compile what is missing.
            let start =
                |_| thread::Builder::new().name("etvk compile".into()).spawn_scoped(scope, compile).ok();
            let threads: Vec<_> = (0..threads).filter_map(start).collect();
            let done = work();
            if done.is_err() {
                next.store(kernels.len(), Ordering::Relaxed);
            }
            let join = |thread: thread::ScopedJoinHandle<'_, Result<(), Error>>| {
                thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            };
            let compiled: Vec<Result<(), Error>> = threads.into_iter().map(join).collect();
            let done = done?;
            compiled.into_iter().collect::<Result<(), Error>>()?;
            Ok(done)
        })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Kernel, Pipeline>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
