//! Where the GPU's time goes: dispatches by operator and kernel.

use std::collections::HashMap;
use std::io::Write;

use etvk::Timing;
use serde_json::{Value as Json, json};

use crate::bench::measure::{self, Script};
use crate::bench::seat::Seat;

/// What the dispatches of a test's first sample took.
#[derive(Clone, Debug)]
pub(crate) struct Kernels {
    /// By operator and kernel, longest first.
    rows: Vec<Row>,
    /// Bytes a second that copies on the device move.
    bandwidth: f64,
}

/// Dispatches of one kernel for one operator.
#[derive(Clone, Debug, PartialEq)]
struct Row {
    operator: String,
    kernel: &'static str,
    /// Dispatches of a sample.
    count: f64,
    microseconds: f64,
    bytes: f64,
}

impl Row {
    fn bytes_per_second(&self) -> f64 {
        self.bytes / self.microseconds.max(1e-6) * 1e6
    }
}

impl Kernels {
    /// Runs a test's first sample, once for every repetition, on a seat that takes GPU times.
    pub(crate) fn measure(script: &Script, seat: &mut Seat, bandwidth: f64) -> anyhow::Result<Self> {
        measure::warm_up(script, seat)?;
        let mut timings = Vec::new();
        for _ in 0..script.repetitions {
            for step in script.sample() {
                seat.execute(step)?;
                timings.extend(seat.timings()?);
            }
        }
        Ok(Self { rows: rows(timings, script.repetitions), bandwidth })
    }

    /// The table.
    pub(crate) fn write(&self, out: &mut dyn Write, test: &str) -> std::io::Result<()> {
        let total: f64 = self.rows.iter().map(|row| row.microseconds).sum();
        let bytes: f64 = self.rows.iter().map(|row| row.bytes).sum();
        let count: f64 = self.rows.iter().map(|row| row.count).sum();
        let whole = Row { operator: "all".into(), kernel: "", count, microseconds: total, bytes };
        let width = |text: fn(&Row) -> usize, least| self.rows.iter().map(text).max().unwrap_or(0).max(least);
        let operators = width(|row| row.operator.len(), 8);
        let kernels = width(|row| row.kernel.len(), 6);
        writeln!(out, "\nGPU time of {test}; copies on this device move {:.1} GB/s", self.bandwidth / 1e9)?;
        writeln!(
            out,
            "{:operators$}  {:kernels$}  {:>6}  {:>10}  {:>5}  {:>10}  {:>8}  {:>8}",
            "operator", "kernel", "count", "us", "time", "MB", "GB/s", "of limit"
        )?;
        for row in self.rows.iter().chain([&whole]) {
            writeln!(
                out,
                "{:operators$}  {:kernels$}  {:>6}  {:>10.1}  {:>4.0}%  {:>10.3}  {:>8.1}  {:>7.1}%",
                row.operator,
                row.kernel,
                row.count,
                row.microseconds,
                100.0 * row.microseconds / total.max(1e-12),
                row.bytes / 1e6,
                row.bytes_per_second() / 1e9,
                100.0 * row.bytes_per_second() / self.bandwidth
            )?;
        }
        Ok(())
    }

    /// Bytes a second that copies on the device move.
    pub(crate) fn bandwidth(&self) -> f64 {
        self.bandwidth
    }

    /// The rows.
    pub(crate) fn json(&self) -> Json {
        let row = |row: &Row| {
            json!({
                "operator": row.operator,
                "kernel": row.kernel,
                "count": row.count,
                "microseconds": row.microseconds,
                "bytes": row.bytes,
                "bytes_per_second": row.bytes_per_second(),
                "share_of_limit": row.bytes_per_second() / self.bandwidth,
            })
        };
        self.rows.iter().map(row).collect()
    }
}

/// Means by operator and kernel over `repetitions` samples.
fn rows(timings: Vec<Timing>, repetitions: usize) -> Vec<Row> {
    let mut sums: HashMap<(String, &'static str), (u64, u64, u64)> = HashMap::new();
    for timing in timings {
        let (count, nanoseconds, bytes) = sums.entry((timing.operator, timing.kernel)).or_default();
        *count += 1;
        *nanoseconds = nanoseconds.saturating_add(timing.nanoseconds);
        *bytes = bytes.saturating_add(timing.bytes);
    }
    let mean = |sum: u64| sum as f64 / repetitions.max(1) as f64;
    let row = |((operator, kernel), (count, nanoseconds, bytes))| Row {
        operator,
        kernel,
        count: mean(count),
        microseconds: mean(nanoseconds) / 1e3,
        bytes: mean(bytes),
    };
    let mut rows: Vec<Row> = sums.into_iter().map(row).collect();
    let names = |a: &Row, b: &Row| (&a.operator, a.kernel).cmp(&(&b.operator, b.kernel));
    rows.sort_by(|a, b| b.microseconds.total_cmp(&a.microseconds).then_with(|| names(a, b)));
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dispatches_are_summed_by_operator_and_kernel() {
        let timing = |operator: &str, kernel, nanoseconds, bytes| Timing {
            call: 0,
            operator: operator.to_owned(),
            kernel,
            nanoseconds,
            bytes,
        };
        let once =
            [timing("add", "map", 1000, 10), timing("mul", "map", 5000, 40), timing("add", "map", 2000, 20)];
        let rows = rows(once.iter().chain(&once).cloned().collect(), 2);
        let names: Vec<_> =
            rows.iter().map(|row| (row.operator.as_str(), row.count, row.microseconds)).collect();
        assert_eq!(names, [("mul", 1.0, 5.0), ("add", 2.0, 3.0)]);
        let kernels = Kernels { rows, bandwidth: 16e6 };
        let json = kernels.json();
        assert_eq!(json[0]["share_of_limit"], 0.5);
        let mut text = Vec::new();
        kernels.write(&mut text, "pp8").unwrap();
        let text = String::from_utf8(text).unwrap();
        assert!(
            text.starts_with("\nGPU time of pp8; copies on this device move 0.0 GB/s\noperator  kernel"),
            "{text}"
        );
        assert_eq!(text.lines().count(), 6);
    }
}
