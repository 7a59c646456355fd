//! Rows of results, and all of them as JSON.

use std::io::Write;
use std::time::Duration;

use serde_json::{Value as Json, json};

use crate::conformance::case::Case;
use crate::conformance::compare::{Difference, Tolerance};

/// The result of one case behind one door.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) group: String,
    pub(crate) name: String,
    /// The door.
    pub(crate) via: String,
    tolerance: Tolerance,
    /// Greatest errors; `None` while nothing was compared.
    errors: Option<(f64, f64)>,
    /// Time of all executions.
    pub(crate) time: Duration,
    /// Hash of all outputs.
    pub(crate) hash: Option<String>,
    /// How it compares with the first door.
    pub(crate) versus: Option<Versus>,
    /// Why the case failed.
    pub(crate) error: Option<String>,
    /// Why it is expected to fail.
    pub(crate) expected: Option<String>,
}

/// One door beside the first one.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Versus {
    /// The first door.
    pub(crate) base: String,
    /// Greatest absolute difference of their outputs.
    pub(crate) max_abs: f64,
    /// Greatest error over that of the first one; `None` if that is 0.
    pub(crate) error_ratio: Option<f64>,
    /// Time over that of the first one.
    pub(crate) time_ratio: f64,
}

/// How a case went, given what was expected.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Status<'a> {
    Pass,
    Fail(&'a str),
    ExpectedFailure(&'a str),
    UnexpectedPass(&'a str),
}

impl Status<'_> {
    /// Whether the run fails by it.
    pub(crate) fn failed(self) -> bool {
        matches!(self, Self::Fail(_) | Self::UnexpectedPass(_))
    }

    fn word(self) -> &'static str {
        match self {
            Self::Pass => "ok",
            Self::Fail(_) => "FAIL",
            Self::ExpectedFailure(_) => "xfail",
            Self::UnexpectedPass(_) => "XPASS",
        }
    }
}

impl Row {
    /// The row of a case that has not run yet.
    pub(crate) fn new(case: &Case, via: &str) -> Self {
        Self {
            group: case.group.clone(),
            name: case.name.clone(),
            via: via.to_owned(),
            tolerance: case.tolerance,
            errors: None,
            time: Duration::ZERO,
            hash: None,
            versus: None,
            error: None,
            expected: None,
        }
    }

    /// Adds the errors of one output.
    pub(crate) fn add(&mut self, difference: &Difference) {
        let (max_abs, max_rel) = self.errors.unwrap_or_default();
        self.errors = Some((max_abs.max(difference.max_abs), max_rel.max(difference.max_rel)));
    }

    /// Keeps the first thing that went wrong.
    pub(crate) fn fail(&mut self, error: String) {
        self.error.get_or_insert(error);
    }

    /// Puts the row beside that of the first door; their outputs differ by `max_abs` at most.
    pub(crate) fn compare(&mut self, base: &Self, max_abs: f64) {
        let ratio = |a: f64, b: f64| (b > 0.0).then(|| a / b);
        let error = |row: &Self| row.errors.map_or(0.0, |(max_abs, _)| max_abs);
        self.versus = Some(Versus {
            base: base.via.clone(),
            max_abs,
            error_ratio: ratio(error(self), error(base)),
            time_ratio: ratio(self.time.as_secs_f64(), base.time.as_secs_f64()).unwrap_or(1.0),
        });
    }

    pub(crate) fn status(&self) -> Status<'_> {
        match (&self.error, &self.expected) {
            (None, None) => Status::Pass,
            (Some(error), None) => Status::Fail(error),
            (Some(_), Some(reason)) => Status::ExpectedFailure(reason),
            (None, Some(reason)) => Status::UnexpectedPass(reason),
        }
    }

    /// What stands at the end of the row.
    fn remark(&self) -> String {
        let versus = self.versus.as_ref().map_or(String::new(), |versus| {
            let error = versus.error_ratio.map_or(String::new(), |ratio| format!(", error x{ratio:.2}"));
            format!("  vs {} abs {:.2e}{error}, time x{:.2}", versus.base, versus.max_abs, versus.time_ratio)
        });
        match self.status() {
            Status::Pass => versus,
            Status::Fail(error) => format!("{versus}  {error}"),
            Status::ExpectedFailure(reason) => format!("{versus}  as expected: {reason}"),
            Status::UnexpectedPass(reason) => format!("{versus}  passes, expected to fail: {reason}"),
        }
    }

    fn json(&self) -> Json {
        let versus = self.versus.as_ref().map(|versus| {
            json!({
                "base": versus.base,
                "max_abs": versus.max_abs,
                "error_ratio": versus.error_ratio,
                "time_ratio": versus.time_ratio,
            })
        });
        json!({
            "name": self.name,
            "group": self.group,
            "via": self.via,
            "pass": !self.status().failed(),
            "status": self.status().word(),
            // Infinities have no number in JSON and become null.
            "max_abs": self.errors.map(|(max_abs, _)| max_abs),
            "max_rel": self.errors.map(|(_, max_rel)| max_rel),
            "atol": self.tolerance.atol,
            "rtol": self.tolerance.rtol,
            "ms": self.time.as_secs_f64() * 1e3,
            "hash": self.hash,
            "versus": versus,
            "error": self.error,
            "expected_failure": self.expected,
        })
    }
}

/// The results of a run.
pub(crate) struct Report {
    device: String,
    /// Width of the longest name.
    width: usize,
    /// Width of the longest door; 0 if there is one only.
    doors: usize,
    rows: Vec<Row>,
}

impl Report {
    /// A report of what these cases will give behind doors of these names.
    pub(crate) fn new(device: String, cases: &[Case], doors: &[&str]) -> Self {
        let width = cases.iter().map(|case| case.full_name().len()).max().unwrap_or(0);
        let doors =
            if doors.len() > 1 { doors.iter().map(|door| door.len() + 2).max().unwrap_or(0) } else { 0 };
        Self { device, width, doors, rows: Vec::new() }
    }

    /// Adds and prints the result of a case.
    pub(crate) fn row(&mut self, out: &mut dyn Write, row: Row) -> std::io::Result<()> {
        let (max_abs, max_rel) = match row.errors {
            Some((max_abs, max_rel)) => (format!("{max_abs:.2e}"), format!("{max_rel:.2e}")),
            None => ("-".to_owned(), "-".to_owned()),
        };
        writeln!(
            out,
            "{:5} {:width$}{:doors$}  abs {max_abs:>8}  rel {max_rel:>8}  tol {:.1e} + {:.1e}  {:9.2} ms{}",
            row.status().word(),
            format!("{}/{}", row.group, row.name),
            if self.doors > 0 { format!("  {}", row.via) } else { String::new() },
            row.tolerance.atol,
            row.tolerance.rtol,
            row.time.as_secs_f64() * 1e3,
            row.remark(),
            width = self.width,
            doors = self.doors,
        )?;
        // Rows are watched as they come.
        out.flush()?;
        self.rows.push(row);
        Ok(())
    }

    /// The rows so far.
    pub(crate) fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// Number of rows that fail the run.
    pub(crate) fn failed(&self) -> usize {
        self.rows.iter().filter(|row| row.status().failed()).count()
    }

    /// Prints the last line.
    pub(crate) fn summary(&self, out: &mut dyn Write) -> std::io::Result<()> {
        let expected = |row: &&Row| matches!(row.status(), Status::ExpectedFailure(_));
        let expected = self.rows.iter().filter(expected).count();
        let passed = self.rows.len() - self.failed() - expected;
        write!(out, "{passed} passed, {} failed", self.failed())?;
        match expected {
            0 => writeln!(out),
            expected => writeln!(out, ", {expected} failed as expected"),
        }
    }

    /// Everything.
    pub(crate) fn json(&self) -> Json {
        json!({ "device": self.device, "cases": self.rows.iter().map(Row::json).collect::<Vec<_>>() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::junit;

    fn row(name: &str, error: Option<&str>, errors: Option<(f64, f64)>) -> Row {
        Row {
            group: "ops".to_owned(),
            name: name.to_owned(),
            via: "rust".to_owned(),
            tolerance: Tolerance { atol: 1e-5, rtol: 1e-4, of_output: false },
            errors,
            time: Duration::from_micros(1500),
            hash: None,
            versus: None,
            error: error.map(str::to_owned),
            expected: None,
        }
    }

    fn report(rows: Vec<Row>) -> (Report, String) {
        let mut report = Report { device: "test".to_owned(), width: 8, doors: 0, rows: Vec::new() };
        let mut out = Vec::new();
        rows.into_iter().for_each(|row| report.row(&mut out, row).unwrap());
        report.summary(&mut out).unwrap();
        (report, String::from_utf8(out).unwrap())
    }

    #[test]
    fn rows_are_counted_and_written() {
        let rows = vec![row("add", None, Some((1e-6, 2e-6))), row("conv", Some("no kernel"), None)];
        let (report, text) = report(rows);
        assert_eq!(
            text,
            "ok    ops/add   abs  1.00e-6  rel  2.00e-6  tol 1.0e-5 + 1.0e-4       1.50 ms\n\
             FAIL  ops/conv  abs        -  rel        -  tol 1.0e-5 + 1.0e-4       1.50 ms  no kernel\n\
             1 passed, 1 failed\n"
        );
        let json = report.json();
        assert_eq!((json["device"].as_str(), json["cases"][0]["pass"].as_bool()), (Some("test"), Some(true)));
        assert_eq!((&json["cases"][1]["max_abs"], json["cases"][1]["ms"].as_f64()), (&Json::Null, Some(1.5)));
    }

    #[test]
    fn what_is_expected_to_fail_may_not_pass() {
        let expected = |name: &str, error| {
            let mut row = row(name, error, None);
            row.expected = Some("a <driver>".to_owned());
            row
        };
        let (report, text) = report(vec![expected("add", Some("wrong")), expected("mul", None)]);
        assert!(text.ends_with("0 passed, 1 failed, 1 failed as expected\n"), "{text}");
        let xml = junit::write("test", report.rows());
        assert!(xml.contains("tests=\"2\" failures=\"1\""), "{xml}");
        assert!(xml.contains("<skipped message=\"a &lt;driver&gt;\"/>"), "{xml}");
    }

    #[test]
    fn a_second_door_stands_beside_the_first() {
        let (first, mut second) = (row("add", None, Some((1e-6, 0.0))), row("add", None, Some((2e-6, 0.0))));
        second.time *= 3;
        second.compare(&first, 5e-7);
        assert!(second.remark().starts_with("  vs rust abs 5.00e-7, error x2.00, time x3.00"));
    }
}
