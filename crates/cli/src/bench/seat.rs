//! Where a program sits while it is timed: in this process, or in ExecuTorch's runtime.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Context;
use etvk::{Method, Module, ModuleOptions, Passes, Runtime, Timing};

use crate::bench::memory::Memory;
use crate::conformance::Step;
use crate::conformance::door::{ExecuTorch, Runner, Seat as _};

/// The program to time.
#[derive(Clone, Debug)]
pub(crate) struct Subject {
    pub(crate) file: PathBuf,
    /// External data.
    pub(crate) data: Vec<PathBuf>,
    pub(crate) method: String,
    pub(crate) passes: Passes,
}

/// A loaded program.
pub(crate) struct Seat {
    /// What reports call it.
    pub(crate) name: String,
    place: Place,
    /// From opening the file to a method that can be executed; opening the device is part of it.
    pub(crate) load: Duration,
    /// Opening the device, where that can be told apart.
    pub(crate) device: Option<Duration>,
    /// Bytes of the device's buffers, where they are known.
    pub(crate) buffers: Option<u64>,
    /// The most anonymous memory seen.
    anonymous: Option<u64>,
}

enum Place {
    Own(Box<Method>),
    ExecuTorch(Box<Runner>),
}

impl Seat {
    /// Loads a program in this process.
    pub(crate) fn own(subject: &Subject, runtime: &Runtime, timestamps: bool) -> anyhow::Result<Self> {
        let start = Instant::now();
        let (data, runtime) = (subject.data.clone(), runtime.clone());
        let module = Module::open_with(
            &subject.file,
            ModuleOptions { data, runtime: runtime.clone(), timestamps, passes: subject.passes },
        )?;
        let mut device = None;
        if module.method_info(&subject.method)?.delegates > 0 {
            let start = Instant::now();
            runtime.device()?;
            device = Some(start.elapsed());
        }
        let mut anonymous = None;
        let mut look = |_| anonymous = anonymous.max(Memory::own().anonymous);
        let method = module.load(&subject.method, Some(&mut look))?;
        let load = start.elapsed();
        anonymous = anonymous.max(Memory::own().anonymous);
        let buffers = runtime.opened().map(|device| device.allocated_bytes());
        let place = Place::Own(Box::new(method));
        Ok(Self { name: "rust".to_owned(), place, load, device, buffers, anonymous })
    }

    /// Loads a program in ExecuTorch's runtime.
    pub(crate) fn executorch(subject: &Subject, door: &ExecuTorch) -> anyhow::Result<Self> {
        let mut runner = Runner::start(door, &subject.file, &subject.data, "bench")?;
        let load = runner.load(&subject.method).with_context(|| door.name.clone())?;
        let place = Place::ExecuTorch(Box::new(runner));
        Ok(Self { name: door.name.clone(), place, load, device: None, buffers: None, anonymous: None })
    }

    /// Executes a step, and says how long that took: inputs in host memory to outputs in host memory.
    pub(crate) fn execute(&mut self, step: &Step) -> anyhow::Result<Duration> {
        match &mut self.place {
            Place::Own(method) => {
                let start = Instant::now();
                let outputs = method.execute(&step.inputs)?;
                let time = start.elapsed();
                drop(outputs);
                Ok(time)
            }
            Place::ExecuTorch(runner) => Ok(runner.execute(step)?.1),
        }
    }

    /// Dispatches and barriers of the last execution, where they are known.
    pub(crate) fn counts(&self) -> Option<(u64, u64)> {
        let Place::Own(method) = &self.place else { return None };
        let counters = method.counters();
        let sum = |count: fn(&etvk::Counters) -> u32| counters.iter().map(|c| u64::from(count(c))).sum();
        Some((sum(|counters| counters.dispatches), sum(|counters| counters.barriers)))
    }

    /// GPU time of every dispatch of the last execution; empty where it is not taken.
    pub(crate) fn timings(&self) -> anyhow::Result<Vec<Timing>> {
        match &self.place {
            Place::Own(method) => Ok(method.timings()?),
            Place::ExecuTorch(_) => Ok(Vec::new()),
        }
    }

    /// Memory of the process it sits in: the most so far, as far as it was looked at.
    pub(crate) fn memory(&mut self) -> Memory {
        let now = match &self.place {
            Place::Own(_) => Memory::own(),
            Place::ExecuTorch(runner) => Memory::of(runner.id()),
        };
        self.anonymous = self.anonymous.max(now.anonymous);
        Memory { anonymous: self.anonymous, ..now }
    }
}

/// Whether a file was there, in words, for what is kept from one run to the next.
pub(crate) fn cache_state(path: Option<&Path>) -> &'static str {
    match path {
        None => "none",
        Some(path) if path.exists() => "warm",
        Some(_) => "cold",
    }
}
