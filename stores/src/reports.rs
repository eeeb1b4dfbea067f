//! A report as a store holds it, under the index that it is filed under.

use std::str;

use keywake::placement::{
    Fleet, Report,
    store::{MalformedReport, Reports},
};

/// Files what stands at `at` under `index`, as a report or as something that is none.
pub(crate) fn file(reports: &mut Reports, at: String, fleet: &Fleet, index: &str, value: &[u8]) {
    match read(fleet, index, value) {
        Ok(report) => reports.reports.push(report),
        Err(reason) => reports.malformed.push(MalformedReport { at, reason }),
    }
}

fn read(fleet: &Fleet, index: &str, value: &[u8]) -> Result<Report, String> {
    let text = str::from_utf8(value).map_err(|error| error.to_string())?;
    let report = Report::from_text(text).map_err(|error| error.to_string())?;
    // A slip of one process is not believed about another one.
    if report.fleet != *fleet || report.index.to_string() != index {
        return Err(format!("it is the report of {} {}", report.fleet, report.index));
    }
    Ok(report)
}
