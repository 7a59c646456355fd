//! Results as JUnit's XML, which most build servers read.

use crate::conformance::report::{Row, Status};

/// The document.
pub(crate) fn write(device: &str, rows: &[Row]) -> String {
    let mut out = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let failed = rows.iter().filter(|row| row.status().failed()).count();
    out.push_str(&format!(
        "<testsuite name=\"etvk conformance on {}\" tests=\"{}\" failures=\"{failed}\">\n",
        escape(device),
        rows.len()
    ));
    for row in rows {
        out.push_str(&format!(
            "  <testcase classname=\"{}\" name=\"{}\" time=\"{:.6}\"",
            escape(&format!("{}.{}", row.via, row.group)),
            escape(&row.name),
            row.time.as_secs_f64()
        ));
        match row.status() {
            Status::Pass => out.push_str("/>\n"),
            Status::Fail(error) => child(&mut out, "failure", error),
            Status::ExpectedFailure(reason) => child(&mut out, "skipped", reason),
            Status::UnexpectedPass(reason) => {
                child(&mut out, "failure", &format!("passes, but was expected to fail: {reason}"));
            }
        }
    }
    out.push_str("</testsuite>\n");
    out
}

fn child(out: &mut String, tag: &str, message: &str) {
    out.push_str(&format!("><{tag} message=\"{}\"/></testcase>\n", escape(message)));
}

fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            // XML has no way to write the others.
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_escaped() {
        assert_eq!(escape("a<b> & \"c\"\u{1}\n"), "a&lt;b&gt; &amp; &quot;c&quot;  ");
    }
}
