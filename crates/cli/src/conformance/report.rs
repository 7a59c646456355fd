//! Rows of results, and all of them as JSON.

use std::io::Write;
use std::time::Duration;

use serde_json::{Value as Json, json};

use crate::conformance::case::Case;
use crate::conformance::compare::{Difference, Tolerance};

/// The result of one case.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    group: String,
    name: String,
    tolerance: Tolerance,
    /// Greatest errors; `None` while nothing was compared.
    errors: Option<(f64, f64)>,
    /// Time of all executions.
    pub(crate) time: Duration,
    /// Why the case failed.
    pub(crate) error: Option<String>,
}

impl Row {
    /// The row of a case that has not run yet.
    pub(crate) fn new(case: &Case) -> Self {
        Self {
            group: case.group.clone(),
            name: case.name.clone(),
            tolerance: case.tolerance,
            errors: None,
            time: Duration::ZERO,
            error: None,
        }
    }

    /// Adds the errors of one output.
    pub(crate) fn add(&mut self, difference: &Difference) {
        let (max_abs, max_rel) = self.errors.unwrap_or_default();
        self.errors = Some((max_abs.max(difference.max_abs), max_rel.max(difference.max_rel)));
    }

    fn json(&self) -> Json {
        json!({
            "name": self.name,
            "group": self.group,
            "pass": self.error.is_none(),
            // Infinities have no number in JSON and become null.
            "max_abs": self.errors.map(|(max_abs, _)| max_abs),
            "max_rel": self.errors.map(|(_, max_rel)| max_rel),
            "atol": self.tolerance.atol,
            "rtol": self.tolerance.rtol,
            "ms": self.time.as_secs_f64() * 1e3,
            "error": self.error,
        })
    }
}

/// The results of a run.
pub(crate) struct Report {
    device: String,
    /// Width of the longest name.
    width: usize,
    rows: Vec<Row>,
}

impl Report {
    /// A report of what these cases will give.
    pub(crate) fn new(device: String, cases: &[Case]) -> Self {
        let width = cases.iter().map(|case| case.full_name().len()).max().unwrap_or(0);
        Self { device, width, rows: Vec::new() }
    }

    /// Adds and prints the result of a case.
    pub(crate) fn row(&mut self, out: &mut dyn Write, row: Row) -> std::io::Result<()> {
        let (max_abs, max_rel) = match row.errors {
            Some((max_abs, max_rel)) => (format!("{max_abs:.2e}"), format!("{max_rel:.2e}")),
            None => ("-".to_owned(), "-".to_owned()),
        };
        writeln!(
            out,
            "{:4}  {:width$}  abs {max_abs:>8}  rel {max_rel:>8}  tol {:.1e} + {:.1e}  {:9.2} ms{}",
            if row.error.is_none() { "ok" } else { "FAIL" },
            format!("{}/{}", row.group, row.name),
            row.tolerance.atol,
            row.tolerance.rtol,
            row.time.as_secs_f64() * 1e3,
            row.error.as_ref().map(|error| format!("  {error}")).unwrap_or_default(),
            width = self.width,
        )?;
        // Rows are watched as they come.
        out.flush()?;
        self.rows.push(row);
        Ok(())
    }

    /// Number of cases that failed.
    pub(crate) fn failed(&self) -> usize {
        self.rows.iter().filter(|row| row.error.is_some()).count()
    }

    /// Prints the last line.
    pub(crate) fn summary(&self, out: &mut dyn Write) -> std::io::Result<()> {
        writeln!(out, "{} passed, {} failed", self.rows.len() - self.failed(), self.failed())
    }

    /// Everything.
    pub(crate) fn json(&self) -> Json {
        json!({ "device": self.device, "cases": self.rows.iter().map(Row::json).collect::<Vec<_>>() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_counted_and_written() {
        let row = |name: &str, error: Option<&str>, errors| Row {
            group: "ops".to_owned(),
            name: name.to_owned(),
            tolerance: Tolerance { atol: 1e-5, rtol: 1e-4 },
            errors,
            time: Duration::from_micros(1500),
            error: error.map(str::to_owned),
        };
        let mut report = Report { device: "test".to_owned(), width: 8, rows: Vec::new() };
        let mut out = Vec::new();
        report.row(&mut out, row("add", None, Some((1e-6, 2e-6)))).unwrap();
        report.row(&mut out, row("conv", Some("no kernel"), None)).unwrap();
        report.summary(&mut out).unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "ok    ops/add   abs  1.00e-6  rel  2.00e-6  tol 1.0e-5 + 1.0e-4       1.50 ms\n\
             FAIL  ops/conv  abs        -  rel        -  tol 1.0e-5 + 1.0e-4       1.50 ms  no kernel\n\
             1 passed, 1 failed\n"
        );
        let json = report.json();
        assert_eq!((json["device"].as_str(), json["cases"][0]["pass"].as_bool()), (Some("test"), Some(true)));
        assert_eq!((&json["cases"][1]["max_abs"], json["cases"][1]["ms"].as_f64()), (&Json::Null, Some(1.5)));
    }
}
