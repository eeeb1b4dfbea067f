//! Tables and reports as text: what the embedded store's files hold, and what other stores may keep as one value.
//!
//! One fact a line, its last field the rest of the line; the last line is `end` and the number of rows, so that a text that was cut short is
//! told from one that is whole. Rows of a table that cannot be used are kept as they are.

use std::{fmt, str::FromStr, time::Duration};

use super::{
    cores::Cores,
    name::{Fleet, Index, Owner},
    report::{OwnerLoad, Pressure, Report},
    table::{MalformedRow, Row, StoreTime, Table, Version},
};

/// The first line of a table.
const TABLE: &str = "keywake placement table 1";
/// The first line of a report.
const REPORT: &str = "keywake placement report 1";

/// A text that is no table, or no report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextError {
    /// The line, from 1; behind the last one where lines are missing.
    pub line: usize,
    /// What stands there, cut to what is legible.
    pub value: String,
    /// What should stand there.
    pub wanted: &'static str,
}

impl fmt::Display for TextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {:?} where {} should stand", self.line, self.value, self.wanted)
    }
}

impl std::error::Error for TextError {}

/// Lines, taken one by one.
struct Lines<'a> {
    lines: std::str::Lines<'a>,
    line: usize,
    current: &'a str,
}

impl<'a> Lines<'a> {
    fn new(text: &'a str) -> Self {
        Self { lines: text.lines(), line: 0, current: "" }
    }

    fn fault(&self, wanted: &'static str) -> TextError {
        TextError { line: self.line, value: self.current.chars().take(80).collect(), wanted }
    }

    fn next(&mut self) -> Option<&'a str> {
        let next = self.lines.next();
        self.line += 1;
        self.current = next.unwrap_or_default();
        next
    }

    /// The next line must be this one.
    fn exactly(&mut self, line: &'static str) -> Result<(), TextError> {
        if self.next() == Some(line) { Ok(()) } else { Err(self.fault(line)) }
    }

    /// The next line must begin with this word; what stands behind it.
    fn field(&mut self, name: &'static str) -> Result<&'a str, TextError> {
        let line = self.next().unwrap_or_default();
        let rest = line.strip_prefix(name).and_then(|rest| rest.strip_prefix(' '));
        rest.ok_or_else(|| self.fault(name))
    }

    fn number<T: FromStr>(&mut self, name: &'static str) -> Result<T, TextError> {
        let field = self.field(name)?;
        field.parse().map_err(|_| self.fault("a number"))
    }

    fn optional<T: FromStr>(&mut self, name: &'static str) -> Result<Option<T>, TextError> {
        match self.field(name)? {
            "-" => Ok(None),
            field => field.parse().map(Some).map_err(|_| self.fault("a number or -")),
        }
    }

    fn flag(&mut self, name: &'static str) -> Result<bool, TextError> {
        match self.field(name)? {
            "yes" => Ok(true),
            "no" => Ok(false),
            _ => Err(self.fault("yes or no")),
        }
    }

    fn fleet(&mut self) -> Result<Fleet, TextError> {
        let field = self.field("fleet")?;
        Fleet::new(field).map_err(|_| self.fault("the name of a fleet"))
    }

    /// Every line up to `end`, which counts them.
    fn until_end(&mut self, mut each: impl FnMut(&Self, &'a str) -> Result<(), TextError>) -> Result<(), TextError> {
        let mut count = 0_u64;
        while let Some(line) = self.next() {
            let Some(counted) = line.strip_prefix("end ") else {
                each(self, line)?;
                count += 1;
                continue;
            };
            if counted.parse() != Ok(count) {
                return Err(self.fault("the number of rows"));
            }
            return if self.next().is_none() { Ok(()) } else { Err(self.fault("nothing")) };
        }
        Err(self.fault("end"))
    }
}

fn shown<T: fmt::Display>(value: Option<T>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}

fn yes(flag: bool) -> &'static str {
    if flag { "yes" } else { "no" }
}

/// `row INDEX free|pinned MOVED_AT OWNER`.
fn row(line: &str) -> Result<(Owner, Row), String> {
    let mut fields = line.splitn(5, ' ');
    let mut field = |name| fields.next().ok_or_else(|| format!("has no {name}"));
    if field("kind")? != "row" {
        return Err("is no row".to_owned());
    }
    let index = field("index")?;
    let index = index.parse().map(Index).map_err(|_| format!("{index:?} is no index of a process"))?;
    let pinned = match field("pin")? {
        "free" => false,
        "pinned" => true,
        other => return Err(format!("{other:?} is neither free nor pinned")),
    };
    let moved_at = match field("time")? {
        "-" => None,
        millis => {
            let parsed = millis.parse().map_err(|_| format!("{millis:?} is no time in milliseconds"))?;
            Some(StoreTime(Duration::from_millis(parsed)))
        }
    };
    let owner = Owner::new(field("owner")?).map_err(|error| error.to_string())?;
    Ok((owner, Row { index, pinned, moved_at }))
}

impl Table {
    /// As text, in the order of the owners; times in milliseconds. [`read_at`](Table::read_at) is not in it.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut rows: Vec<_> = self.rows().collect();
        rows.sort_unstable_by_key(|(owner, _)| *owner);
        let mut text = format!("{TABLE}\nfleet {}\nversion {}\nhash {}\n", self.fleet(), self.version(), self.hash_version());
        for (owner, row) in &rows {
            let pin = if row.pinned { "pinned" } else { "free" };
            let moved_at = shown(row.moved_at.map(|at| at.0.as_millis()));
            text.push_str(&format!("row {} {pin} {moved_at} {owner}\n", row.index));
        }
        for malformed in self.malformed() {
            // A line, and not the last one, whatever it is.
            let line = malformed.row.replace(char::is_control, " ");
            text.push_str(if line.starts_with("end ") { "row " } else { "" });
            text.push_str(&line);
            text.push('\n');
        }
        text.push_str(&format!("end {}\n", rows.len() + self.malformed().len()));
        text
    }

    /// A table out of its text, read at `read_at`. Rows that cannot be used are in [`malformed`](Table::malformed).
    ///
    /// # Errors
    /// When it is no table, or not all of it.
    pub fn from_text(text: &str, read_at: StoreTime) -> Result<Self, TextError> {
        let mut lines = Lines::new(text);
        lines.exactly(TABLE)?;
        let fleet = lines.fleet()?;
        let version = Version(lines.number("version")?);
        let hash_version = lines.number("hash")?;
        let mut table = Self::new(fleet, version, read_at).with_hash_version(hash_version);
        lines.until_end(|_, line| {
            match row(line) {
                Ok((owner, row)) => table.insert(owner, row),
                Err(reason) => table.insert_malformed(MalformedRow { row: line.to_owned(), reason }),
            }
            Ok(())
        })?;
        Ok(table)
    }
}

impl Report {
    /// As text; times in nanoseconds, loads in nano-cores.
    #[must_use]
    pub fn to_text(&self) -> String {
        let pressure = &self.pressure;
        let mut text = format!(
            "{REPORT}\nfleet {}\nindex {}\nprocesses {}\nrun {}\nnumber {}\nmodel {}\nwindow {}\nprocess {}\nunattributed {}\ncapped {}\n\
             draining {}\nstream_lag {}\nrelay_lag {}\nrefused {}\n",
            self.fleet,
            self.index,
            self.processes,
            self.run,
            self.number,
            self.model,
            self.window.as_nanos(),
            self.process.nanos(),
            self.unattributed.nanos(),
            yes(self.capped),
            yes(self.draining),
            shown(pressure.stream_lag),
            shown(pressure.relay_lag.map(|lag| lag.as_nanos())),
            shown(pressure.refused),
        );
        for load in &self.owners {
            text.push_str(&format!("owner {} {}\n", load.cores.nanos(), load.owner));
        }
        text.push_str(&format!("end {}\n", self.owners.len()));
        text
    }

    /// A report out of its text.
    ///
    /// # Errors
    /// When it is no report, not all of it, of an empty window, or does not add up.
    pub fn from_text(text: &str) -> Result<Self, TextError> {
        let mut lines = Lines::new(text);
        lines.exactly(REPORT)?;
        let fleet = lines.fleet()?;
        let index = Index(lines.number("index")?);
        let processes = lines.number("processes")?;
        let run = lines.number("run")?;
        let number = lines.number("number")?;
        let model = lines.number("model")?;
        let window = Duration::from_nanos(lines.number("window")?);
        if window.is_zero() {
            return Err(lines.fault("a length above 0"));
        }
        let mut report = Self::new(fleet, index, processes, run, number, window);
        report.model = model;
        report.process = Cores::from_nanos(lines.number("process")?);
        report.unattributed = Cores::from_nanos(lines.number("unattributed")?);
        report.capped = lines.flag("capped")?;
        report.draining = lines.flag("draining")?;
        report.pressure = Pressure {
            stream_lag: lines.optional("stream_lag")?,
            relay_lag: lines.optional("relay_lag")?.map(Duration::from_nanos),
            refused: lines.optional("refused")?,
        };
        lines.until_end(|lines, line| {
            report.owners.push(owner_load(line).ok_or_else(|| lines.fault("owner, nano-cores, its name"))?);
            Ok(())
        })?;
        let owners = report.owners.iter().map(|load| u128::from(load.cores.nanos())).sum::<u128>();
        if owners + u128::from(report.unattributed.nanos()) != u128::from(report.process.nanos()) {
            return Err(lines.fault("owners that add up to the process"));
        }
        Ok(report)
    }
}

fn owner_load(line: &str) -> Option<OwnerLoad> {
    let (cores, owner) = line.strip_prefix("owner ")?.split_once(' ')?;
    Some(OwnerLoad { owner: Owner::new(owner).ok()?, cores: Cores::from_nanos(cores.parse().ok()?) })
}
