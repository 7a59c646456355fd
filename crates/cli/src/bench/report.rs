//! Results: a table for people, lines of JSON for programs.

use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;

use anyhow::Context;
use etvk::Capabilities;
use serde_json::{Value as Json, json};
use sha2::{Digest, Sha256};

use crate::bench::kernels::Kernels;
use crate::bench::measure::{Test, Times};
use crate::bench::memory::Memory;
use crate::bench::seat::{Seat, Subject};

/// What one seat did in one test.
#[derive(Clone, Debug)]
pub(crate) struct Result {
    pub(crate) test: Test,
    seat: String,
    times: Times,
    load: f64,
    device: Option<f64>,
    buffers: Option<u64>,
    counts: Option<(u64, u64)>,
    memory: Memory,
    pub(crate) kernels: Option<Kernels>,
}

impl Result {
    pub(crate) fn new(test: Test, seat: &mut Seat, times: Times) -> Self {
        Self {
            test,
            seat: seat.name.clone(),
            times,
            load: seat.load.as_secs_f64(),
            device: seat.device.map(|time| time.as_secs_f64()),
            buffers: seat.buffers,
            counts: seat.counts(),
            memory: seat.memory(),
            kernels: None,
        }
    }

    /// Names of the columns.
    pub(crate) fn header(out: &mut dyn Write) -> std::io::Result<()> {
        writeln!(
            out,
            "{:14}  {:>22}  {:>9}  {:>9}  {:>9}  {:>10}  {:>8}  seat",
            "test", "a second", "ms median", "least", "first", "dispatches", "barriers"
        )
    }

    /// A row.
    pub(crate) fn write(&self, out: &mut dyn Write) -> std::io::Result<()> {
        let (rate, deviation) = self.times.rate(self.test.tokens().unwrap_or(1));
        let (median, least, _) = self.times.milliseconds();
        let (dispatches, barriers) = match self.counts {
            Some((dispatches, barriers)) => (dispatches.to_string(), barriers.to_string()),
            None => ("-".to_owned(), "-".to_owned()),
        };
        let first = self.times.first.as_secs_f64() * 1e3;
        writeln!(
            out,
            "{:14}  {:>22}  {median:>9.3}  {least:>9.3}  {first:>9.3}  {dispatches:>10}  {barriers:>8}  {}",
            self.test.name(),
            format!("{rate:.2} ± {deviation:.2}"),
            self.seat
        )?;
        out.flush()
    }

    /// How a seat's program was loaded, and its process's memory so far.
    pub(crate) fn write_seat(seat: &mut Seat, out: &mut dyn Write) -> std::io::Result<()> {
        let mebibytes = |bytes: Option<u64>| bytes.map_or("?".to_owned(), |n| (n >> 20).to_string());
        let device = seat.device.map_or(String::new(), |t| format!(" (device {:.3} s)", t.as_secs_f64()));
        let Memory { peak, anonymous } = seat.memory();
        writeln!(
            out,
            "load    {:.3} s{device}, {} MiB resident at most, {} MiB anonymous, {} MiB in device buffers: {}",
            seat.load.as_secs_f64(),
            mebibytes(peak),
            mebibytes(anonymous),
            mebibytes(seat.buffers),
            seat.name
        )
    }

    /// A line of JSON; `about` holds what all lines have in common.
    pub(crate) fn json(&self, about: &Json) -> Json {
        let (median, least, mean) = self.times.milliseconds();
        let rate = |count| {
            let (mean, deviation) = self.times.rate(count);
            json!({ "mean": mean, "stddev": deviation })
        };
        let samples: usize = self.times.repetitions.iter().map(Vec::len).sum();
        let mut line = about.clone();
        let own = json!({
            "test": self.test.name(),
            "seat": self.seat,
            "repetitions": self.times.repetitions.len(),
            "samples": samples,
            "tokens_per_second": self.test.tokens().map(rate),
            "repetitions_per_second": rate(1),
            "ms": { "median": median, "min": least, "mean": mean },
            "first_seconds": self.times.first.as_secs_f64(),
            "load_seconds": self.load,
            "device_seconds": self.device,
            "dispatches": self.counts.map(|counts| counts.0),
            "barriers": self.counts.map(|counts| counts.1),
            "peak_rss_bytes": self.memory.peak,
            "anonymous_bytes": self.memory.anonymous,
            "device_buffer_bytes": self.buffers,
            "copy_bytes_per_second": self.kernels.as_ref().map(Kernels::bandwidth),
            "kernels": self.kernels.as_ref().map(Kernels::json),
        });
        if let (Json::Object(line), Json::Object(own)) = (&mut line, own) {
            line.extend(own);
        }
        line
    }
}

/// What all lines have in common.
pub(crate) fn about(
    subject: &Subject,
    device: Option<&Capabilities>,
    commit: Option<&str>,
    cache: &str,
) -> anyhow::Result<Json> {
    Ok(json!({
        "file": subject.file.file_name().map(|name| name.to_string_lossy()),
        "file_bytes": std::fs::metadata(&subject.file)?.len(),
        "file_sha256": sha256(&subject.file)?,
        "method": subject.method,
        "device": device.map(|caps| caps.name.clone()),
        "driver": device.map(|caps| caps.driver_name.clone()),
        "driver_version": device.map(|caps| caps.driver_info.clone()),
        "vulkan": device.map(|caps| caps.api_version.to_string()),
        "etvk": env!("CARGO_PKG_VERSION"),
        "commit": commit,
        "pipeline_cache": cache,
    }))
}

fn sha256(path: &Path) -> anyhow::Result<String> {
    let mut hash = Sha256::new();
    let mut file = File::open(path).with_context(|| path.display().to_string())?;
    let mut piece = vec![0; 1 << 20];
    loop {
        match file.read(&mut piece).with_context(|| path.display().to_string())? {
            0 => break,
            read => hash.update(&piece[..read]),
        }
    }
    Ok(hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}
