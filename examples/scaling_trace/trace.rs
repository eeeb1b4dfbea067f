//! A trace as a table of comma-separated values: what a fleet told over time.

use std::{error::Error, fmt};

/// One row: what was told at a time. `None`: the cell is empty.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Row {
    pub(crate) seconds: f64,
    pub(crate) running: Option<u32>,
    pub(crate) in_flight: Option<u64>,
    pub(crate) gauges: [Option<f64>; Gauge::ALL.len()],
}

impl Row {
    pub(crate) fn gauge(&self, gauge: Gauge) -> Option<f64> {
        self.gauges[gauge as usize]
    }
}

/// What may be told, beside the time, the instances and the requests in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gauge {
    CpuCores,
    DemandCores,
    ConcurrencyOne,
    ConcurrencyTen,
    Queued,
    Refused,
    Effective,
}

impl Gauge {
    pub(crate) const ALL: [(&'static str, Self); 7] = [
        ("cpu_cores", Self::CpuCores),
        ("demand_cores", Self::DemandCores),
        ("concurrency_1m", Self::ConcurrencyOne),
        ("concurrency_10m", Self::ConcurrencyTen),
        ("queued", Self::Queued),
        ("refused", Self::Refused),
        ("effective_streams", Self::Effective),
    ];
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Column {
    Gauge(Gauge),
    InFlight,
    Running,
    Seconds,
}

impl Column {
    fn named(name: &str) -> Option<Self> {
        match name {
            "in_flight" => Some(Self::InFlight),
            "running" => Some(Self::Running),
            "seconds" => Some(Self::Seconds),
            name => Gauge::ALL.iter().find(|(known, _)| *known == name).map(|(_, gauge)| Self::Gauge(*gauge)),
        }
    }
}

/// What a text has that no trace has. Lines count from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TraceError {
    Cells { line: u64, found: u64, expected: u64 },
    Encoding { line: u64 },
    Number { line: u64, column: String, value: String },
    Order { line: u64, value: String },
    Read { message: String },
    Rows,
    Seconds,
    Twice { column: String },
    Unknown { column: String },
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cells { line, found, expected } => write!(f, "line {line}: {found} cells, and {expected} columns"),
            Self::Encoding { line } => write!(f, "line {line}: not UTF-8"),
            Self::Number { line, column, value } => write!(f, "line {line}: {column} is {value:?}, which is no such number"),
            Self::Order { line, value } => write!(f, "line {line}: seconds is {value:?}, which is not after the line before"),
            Self::Read { message } => f.write_str(message),
            Self::Rows => f.write_str("no rows below the names of the columns"),
            Self::Seconds => f.write_str("line 1: no column is named seconds"),
            Self::Twice { column } => write!(f, "line 1: two columns are named {column:?}"),
            Self::Unknown { column } => {
                let known = Gauge::ALL.map(|(name, _)| name).join(", ");
                write!(f, "line 1: no column is named {column:?}; there are seconds, running, in_flight, {known}")
            }
        }
    }
}

impl Error for TraceError {}

impl From<csv::Error> for TraceError {
    fn from(error: csv::Error) -> Self {
        let line = error.position().map_or(0, csv::Position::line);
        match error.kind() {
            csv::ErrorKind::UnequalLengths { expected_len, len, .. } => {
                Self::Cells { line, found: *len, expected: *expected_len }
            }
            csv::ErrorKind::Utf8 { .. } => Self::Encoding { line },
            _ => Self::Read { message: error.to_string() },
        }
    }
}

/// Rows in order, and which gauges they have columns for.
#[derive(Debug)]
pub(crate) struct Trace {
    pub(crate) rows: Vec<Row>,
    gauges: Vec<Gauge>,
}

impl Trace {
    pub(crate) fn has(&self, gauge: Gauge) -> bool {
        self.gauges.contains(&gauge)
    }

    /// Of any bytes.
    pub(crate) fn read(text: &[u8]) -> Result<Self, TraceError> {
        let mut reader = csv::ReaderBuilder::new().comment(Some(b'#')).trim(csv::Trim::All).from_reader(text);
        let mut columns = Vec::new();
        for name in reader.headers()? {
            let column = Column::named(name).ok_or_else(|| TraceError::Unknown { column: name.to_owned() })?;
            if columns.contains(&(column, name.to_owned())) {
                return Err(TraceError::Twice { column: name.to_owned() });
            }
            columns.push((column, name.to_owned()));
        }
        if !columns.iter().any(|(column, _)| *column == Column::Seconds) {
            return Err(TraceError::Seconds);
        }
        let mut rows: Vec<Row> = Vec::new();
        for record in reader.records() {
            let record = record?;
            let line = record.position().map_or(0, csv::Position::line);
            let row = Row::read(&columns, &record, line)?;
            if rows.last().is_some_and(|last| row.seconds <= last.seconds) {
                return Err(TraceError::Order { line, value: row.seconds.to_string() });
            }
            rows.push(row);
        }
        let gauges = columns.iter().filter_map(|(column, _)| match column {
            Column::Gauge(gauge) => Some(*gauge),
            _ => None,
        });
        if rows.is_empty() { Err(TraceError::Rows) } else { Ok(Self { rows, gauges: gauges.collect() }) }
    }
}

impl Row {
    fn read(columns: &[(Column, String)], cells: &csv::StringRecord, line: u64) -> Result<Self, TraceError> {
        let mut row = Self::default();
        for ((column, name), cell) in columns.iter().zip(cells) {
            let wrong = || TraceError::Number { line, column: name.clone(), value: cell.to_owned() };
            match column {
                // What no duration can hold is no time.
                Column::Seconds => {
                    let seconds = cell.parse().ok().filter(|seconds: &f64| (0.0..=1e9).contains(seconds));
                    row.seconds = seconds.ok_or_else(wrong)?;
                }
                _ if cell.is_empty() => {}
                Column::InFlight => row.in_flight = Some(cell.parse().map_err(|_| wrong())?),
                Column::Running => row.running = Some(cell.parse().map_err(|_| wrong())?),
                // NaN is a number that a meter may have told.
                Column::Gauge(gauge) => row.gauges[*gauge as usize] = Some(cell.parse().map_err(|_| wrong())?),
            }
        }
        Ok(row)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn row_is_what_stands_in_it_and_an_empty_cell_is_not_known() {
        let trace = Trace::read(b"# a comment\nseconds, cpu_cores,queued,running\n0,1.5,,2\n60, NaN ,3,\n").unwrap();
        assert_eq!((trace.rows.len(), trace.has(Gauge::Queued), trace.has(Gauge::Refused)), (2, true, false));
        assert_eq!((trace.rows[0].gauge(Gauge::CpuCores), trace.rows[0].gauge(Gauge::Queued)), (Some(1.5), None));
        assert_eq!((trace.rows[0].running, trace.rows[1].running, trace.rows[1].in_flight), (Some(2), None, None));
        assert!(trace.rows[1].gauge(Gauge::CpuCores).unwrap().is_nan());
    }

    #[test]
    fn what_is_no_trace_is_told_with_its_line_and_value() {
        let error = |text: &str| Trace::read(text.as_bytes()).unwrap_err().to_string();
        assert_eq!(error(""), "line 1: no column is named seconds");
        assert_eq!(error("cpu_cores\n1\n"), "line 1: no column is named seconds");
        assert_eq!(error("seconds\n"), "no rows below the names of the columns");
        assert!(error("seconds,memory\n0,1\n").starts_with("line 1: no column is named \"memory\"; there are seconds, running"));
        assert_eq!(error("seconds,queued,queued\n0,1,1\n"), "line 1: two columns are named \"queued\"");
        assert_eq!(error("seconds,queued\n0,1\n1,x\n"), "line 3: queued is \"x\", which is no such number");
        assert_eq!(error("seconds,running\n0,-1\n"), "line 2: running is \"-1\", which is no such number");
        assert_eq!(error("seconds,queued\n0,1\n1\n"), "line 3: 1 cells, and 2 columns");
        assert_eq!(error("seconds\n5\n5\n"), "line 3: seconds is \"5\", which is not after the line before");
        for time in ["NaN", "inf", "-1", "1e300", ""] {
            let text = format!("seconds,queued\n{time},1\n");
            assert_eq!(error(&text), format!("line 2: seconds is {time:?}, which is no such number"));
        }
        assert_eq!(Trace::read(b"seconds,queued\n0,\xff\n").unwrap_err(), TraceError::Encoding { line: 2 });
    }

    #[test]
    fn no_bytes_are_too_much() {
        // Every text of a few bytes out of those that mean something.
        let alphabet = b"s,\"\n\r#0.-\xffN";
        for seed in 0..5000_u64 {
            let mut text = b"seconds,queued\n".to_vec();
            let mut left = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            while left > 0 {
                text.push(alphabet[usize::try_from(left % alphabet.len() as u64).unwrap()]);
                left /= 97;
            }
            match Trace::read(&text) {
                Ok(trace) => assert!(!trace.rows.is_empty()),
                Err(error) => assert!(!error.to_string().is_empty()),
            }
        }
    }
}
