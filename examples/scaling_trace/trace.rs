//! A trace as lines of comma-separated numbers: what a fleet told over time.

use std::{
    error::Error,
    fmt,
    io::{BufRead, Read},
    str,
};

/// What is longer is no line of a trace.
const MOST_BYTES: u64 = 4096;
/// What is longer is nothing to look at: a year of minutes has 525,600 rows.
const MOST_ROWS: usize = 1_000_000;

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
    /// In the order in which they are numbered.
    pub(crate) const ALL: [(&'static str, Self); 7] = [
        ("cpu_cores", Self::CpuCores),
        ("demand_cores", Self::DemandCores),
        ("concurrency_1m", Self::ConcurrencyOne),
        ("concurrency_10m", Self::ConcurrencyTen),
        ("queued", Self::Queued),
        ("refused", Self::Refused),
        ("effective_streams", Self::Effective),
    ];

    fn name(self) -> &'static str {
        Self::ALL[self as usize].0
    }

    /// Without which no driver can read it.
    fn beside(self) -> Option<Self> {
        match self {
            Self::ConcurrencyOne | Self::CpuCores | Self::Effective => None,
            Self::ConcurrencyTen | Self::Queued | Self::Refused => Some(Self::ConcurrencyOne),
            Self::DemandCores => Some(Self::CpuCores),
        }
    }
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

    fn name(self) -> &'static str {
        match self {
            Self::Gauge(gauge) => gauge.name(),
            Self::InFlight => "in_flight",
            Self::Running => "running",
            Self::Seconds => "seconds",
        }
    }
}

/// What a text has that no trace has. Lines count from 1, and all do, also those that are passed over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TraceError {
    line: u64,
    what: Wrong,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Wrong {
    Alone { column: &'static str, beside: &'static str },
    Cells { found: usize, expected: usize },
    Encoding { column: String },
    Long,
    ManyRows,
    NoGauge,
    NoRow,
    NoSeconds,
    Number { column: &'static str, value: String },
    Order { value: String },
    Read { message: String },
    Twice { column: &'static str },
    Unknown { column: String },
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let gauges = || Gauge::ALL.map(|(name, _)| name).join(", ");
        write!(f, "line {}: ", self.line)?;
        match &self.what {
            Wrong::Alone { column, beside } => write!(f, "{column} needs a column {beside} beside it"),
            Wrong::Cells { found, expected } => write!(f, "{found} cells, and {expected} columns"),
            Wrong::Encoding { column } => write!(f, "{column} is not UTF-8"),
            Wrong::Long => write!(f, "longer than {MOST_BYTES} bytes"),
            Wrong::ManyRows => write!(f, "more than {MOST_ROWS} rows"),
            Wrong::NoGauge => write!(f, "no column says what is used; there are {}", gauges()),
            Wrong::NoRow => f.write_str("the end, and no row below the names of the columns"),
            Wrong::NoSeconds => f.write_str("no column is named seconds"),
            Wrong::Number { column, value } => write!(f, "{column} is {value:?}, which is no such number"),
            Wrong::Order { value } => write!(f, "seconds is {value:?}, which is not after the row before"),
            Wrong::Read { message } => f.write_str(message),
            Wrong::Twice { column } => write!(f, "two columns are named {column:?}"),
            Wrong::Unknown { column } => {
                write!(f, "no column is named {column:?}; there are seconds, running, in_flight, {}", gauges())
            }
        }
    }
}

impl Error for TraceError {}

/// The lines of a text, one at a time.
struct Lines<R> {
    input: R,
    /// Of the line that was read last.
    number: u64,
    line: Vec<u8>,
}

impl<R: BufRead> Lines<R> {
    /// The next line that says something: neither empty nor a comment.
    fn read(&mut self) -> Result<Option<&[u8]>, Wrong> {
        loop {
            self.number += 1;
            self.line.clear();
            let mut most = self.input.by_ref().take(MOST_BYTES + 1);
            let read = most.read_until(b'\n', &mut self.line).map_err(|error| Wrong::Read { message: error.to_string() })?;
            match read as u64 {
                0 => return Ok(None),
                read if read > MOST_BYTES => return Err(Wrong::Long),
                _ => {}
            }
            // What some programs write before everything else.
            if self.number == 1 && self.line.starts_with(b"\xef\xbb\xbf") {
                self.line.drain(..3);
            }
            let text = self.line.trim_ascii();
            if !text.is_empty() && !text.starts_with(b"#") {
                break;
            }
        }
        Ok(Some(self.line.trim_ascii()))
    }
}

/// No number has a comma in it, so that quotes around one say nothing.
fn cells(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(|byte| *byte == b',').map(|cell| {
        let cell = cell.trim_ascii();
        cell.strip_prefix(b"\"").and_then(|cell| cell.strip_suffix(b"\"")).unwrap_or(cell)
    })
}

/// As much of a cell as tells which one it is.
fn shown(cell: &str) -> String {
    cell.chars().take(40).collect()
}

/// Rows in order, and which gauges they have columns for.
#[derive(Debug)]
pub(crate) struct Trace {
    pub(crate) rows: Vec<Row>,
    columns: Vec<Column>,
}

impl Trace {
    pub(crate) fn has(&self, gauge: Gauge) -> bool {
        self.columns.contains(&Column::Gauge(gauge))
    }

    /// Of any bytes, however many.
    pub(crate) fn read(input: impl BufRead) -> Result<Self, TraceError> {
        let mut lines = Lines { input, number: 0, line: Vec::new() };
        Self::of(&mut lines).map_err(|what| TraceError { line: lines.number, what })
    }

    fn of(lines: &mut Lines<impl BufRead>) -> Result<Self, Wrong> {
        let columns = columns(lines.read()?.ok_or(Wrong::NoSeconds)?)?;
        let mut rows: Vec<Row> = Vec::new();
        while let Some(line) = lines.read()? {
            let row = Row::read(&columns, line)?;
            if rows.last().is_some_and(|last| row.seconds <= last.seconds) {
                return Err(Wrong::Order { value: row.seconds.to_string() });
            }
            if rows.len() == MOST_ROWS {
                return Err(Wrong::ManyRows);
            }
            rows.push(row);
        }
        if rows.is_empty() { Err(Wrong::NoRow) } else { Ok(Self { rows, columns }) }
    }
}

/// Of the first line.
fn columns(line: &[u8]) -> Result<Vec<Column>, Wrong> {
    let mut columns = Vec::new();
    for (index, name) in cells(line).enumerate() {
        let name = str::from_utf8(name).map_err(|_| Wrong::Encoding { column: format!("the name of column {}", index + 1) })?;
        let column = Column::named(name).ok_or_else(|| Wrong::Unknown { column: shown(name) })?;
        if columns.contains(&column) {
            return Err(Wrong::Twice { column: column.name() });
        }
        columns.push(column);
    }
    if !columns.contains(&Column::Seconds) {
        return Err(Wrong::NoSeconds);
    }
    let gauges = || Gauge::ALL.into_iter().map(|(_, gauge)| gauge).filter(|gauge| columns.contains(&Column::Gauge(*gauge)));
    for gauge in gauges() {
        if let Some(beside) = gauge.beside().filter(|beside| !columns.contains(&Column::Gauge(*beside))) {
            return Err(Wrong::Alone { column: gauge.name(), beside: beside.name() });
        }
    }
    if gauges().next().is_none() { Err(Wrong::NoGauge) } else { Ok(columns) }
}

impl Row {
    fn read(columns: &[Column], line: &[u8]) -> Result<Self, Wrong> {
        let found = cells(line).count();
        if found != columns.len() {
            return Err(Wrong::Cells { found, expected: columns.len() });
        }
        let mut row = Self::default();
        for (column, cell) in columns.iter().zip(cells(line)) {
            let cell = str::from_utf8(cell).map_err(|_| Wrong::Encoding { column: column.name().to_owned() })?;
            let wrong = || Wrong::Number { column: column.name(), value: shown(cell) };
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
    use std::io::{self, BufReader};

    use super::*;

    fn error(text: impl AsRef<[u8]>) -> String {
        Trace::read(text.as_ref()).unwrap_err().to_string()
    }

    #[test]
    fn row_is_what_stands_in_it_and_an_empty_cell_is_not_known() {
        let text = b"# a comment\nseconds, concurrency_1m,queued,running\n0,1.5,,2\n60, NaN ,3,\n";
        let trace = Trace::read(&text[..]).unwrap();
        assert_eq!((trace.rows.len(), trace.has(Gauge::Queued), trace.has(Gauge::Refused)), (2, true, false));
        assert_eq!((trace.rows[0].gauge(Gauge::ConcurrencyOne), trace.rows[0].gauge(Gauge::Queued)), (Some(1.5), None));
        assert_eq!((trace.rows[0].running, trace.rows[1].running, trace.rows[1].in_flight), (Some(2), None, None));
        assert!(trace.rows[1].gauge(Gauge::ConcurrencyOne).unwrap().is_nan());
    }

    #[test]
    fn what_other_programs_write_is_read_alike() {
        let plain = Trace::read(&b"seconds,cpu_cores\n0,1\n60,2\n"[..]).unwrap().rows;
        for text in [
            "\u{feff}seconds,cpu_cores\n0,1\n60,2\n",
            "seconds,cpu_cores\r\n0,1\r\n60,2\r\n",
            "\"seconds\",\"cpu_cores\"\n\"0\",\"1\"\n\"60\",\"2\"\n",
            "\n# a\n seconds , cpu_cores\n\n0,1\n  \n# b\n60 , 2",
        ] {
            assert_eq!(Trace::read(text.as_bytes()).unwrap().rows, plain, "{text:?}");
        }
    }

    #[test]
    fn what_is_no_trace_is_told_with_its_line_column_and_value() {
        assert_eq!(error(""), "line 1: no column is named seconds");
        assert_eq!(error("cpu_cores\n1\n"), "line 1: no column is named seconds");
        assert_eq!(error("seconds,queued\n"), "line 1: queued needs a column concurrency_1m beside it");
        assert_eq!(error("seconds,demand_cores\n0,1"), "line 1: demand_cores needs a column cpu_cores beside it");
        assert!(error("seconds,running\n0,1\n").starts_with("line 1: no column says what is used; there are cpu_cores, demand_"));
        assert_eq!(error("seconds,cpu_cores\n"), "line 2: the end, and no row below the names of the columns");
        assert!(error("seconds,memory\n0,1\n").starts_with("line 1: no column is named \"memory\"; there are seconds, running"));
        assert_eq!(error("seconds,cpu_cores,cpu_cores\n0,1,1\n"), "line 1: two columns are named \"cpu_cores\"");
        assert_eq!(error("seconds,cpu_cores\n0,1\n1,x\n"), "line 3: cpu_cores is \"x\", which is no such number");
        assert_eq!(error("seconds,cpu_cores\n0,\"1\n2\"\n"), "line 2: cpu_cores is \"\\\"1\", which is no such number");
        assert_eq!(error("seconds,cpu_cores,running\n0,1,-1\n"), "line 2: running is \"-1\", which is no such number");
        assert_eq!(error("seconds,cpu_cores\n0,1\n1\n"), "line 3: 1 cells, and 2 columns");
        assert_eq!(error("seconds,cpu_cores\n0,1,\n"), "line 2: 3 cells, and 2 columns");
        assert_eq!(error("seconds,cpu_cores\n5,1\n5,1\n"), "line 3: seconds is \"5\", which is not after the row before");
        for time in ["NaN", "inf", "-1", "1e300", ""] {
            let text = format!("seconds,cpu_cores\n{time},1\n");
            assert_eq!(error(&text), format!("line 2: seconds is {time:?}, which is no such number"));
        }
        assert_eq!(error(b"seconds,cpu_cores\n0,\xff\n"), "line 2: cpu_cores is not UTF-8");
        assert_eq!(error(b"seconds,\xff\n0,1\n"), "line 1: the name of column 2 is not UTF-8");
    }

    #[test]
    fn line_that_is_told_is_the_one_an_editor_shows() {
        let wrong = "cpu_cores is \"x\", which is no such number";
        for (text, line) in [
            ("seconds,cpu_cores\r\n0,1\r\n60,x\r\n", 3),
            ("# a\n# b\nseconds,cpu_cores\n# c\n\n\n0,1\n# d\n60,x\n", 9),
            ("# a\r\n\r\nseconds,cpu_cores\r\n\r\n60,x", 5),
        ] {
            assert_eq!(error(text), format!("line {line}: {wrong}"), "{text:?}");
        }
        assert!(error("# a\n\nseconds,what\n").starts_with("line 3: no column is named \"what\""));
    }

    #[test]
    fn text_without_end_is_read_to_its_limits() {
        // One line of it, then ever more rows.
        assert_eq!(Trace::read(BufReader::new(io::repeat(b'1'))).unwrap_err().to_string(), "line 1: longer than 4096 bytes");
        let mut value = "seconds,cpu_cores\n0,".to_owned();
        value.extend(std::iter::repeat_n('x', 4000));
        assert!(error(&value).len() < 100, "{}", error(&value));
        struct Rows(u64);
        impl Read for Rows {
            fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
                let line = if self.0 == 0 { "seconds,cpu_cores\n".to_owned() } else { format!("{},1\n", self.0) };
                self.0 += 1;
                line.as_bytes().read(into)
            }
        }
        let endless = Trace::read(BufReader::new(Rows(0))).unwrap_err().to_string();
        assert_eq!(endless, "line 1000002: more than 1000000 rows");
    }

    #[test]
    fn what_cannot_be_read_on_is_told_with_its_line() {
        struct Broken;
        impl Read for Broken {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                Err(io::Error::other("the disk is gone"))
            }
        }
        let text = b"seconds,cpu_cores\n0,1\n".chain(Broken);
        assert_eq!(Trace::read(BufReader::new(text)).unwrap_err().to_string(), "line 3: the disk is gone");
    }

    #[test]
    fn no_bytes_are_too_much() {
        // Every text of a few bytes out of those that mean something.
        let alphabet = b"s,\"\n\r#0.-\xffN";
        for seed in 0..5000_u64 {
            let mut text = b"seconds,cpu_cores\n".to_vec();
            let mut left = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            while left > 0 {
                text.push(alphabet[usize::try_from(left % alphabet.len() as u64).unwrap()]);
                left /= 97;
            }
            match Trace::read(&text[..]) {
                Ok(trace) => assert!(!trace.rows.is_empty()),
                Err(error) => assert!(error.to_string().starts_with("line ")),
            }
        }
    }
}
