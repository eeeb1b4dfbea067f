//! What can be said on the command line.

use std::{error::Error, ffi::OsString, fmt, path::PathBuf, str::FromStr};

pub(crate) const USAGE: &str = "\
Replays a trace of a fleet and shows how many instances there should have been.

    cargo run --example scaling_trace -- TRACE.csv [options]

A first one to try: examples/scaling_trace/day.csv

    --svg FILE             where the plot goes [scaling_trace.svg in cargo's target folder]
    --cpus N               CPUs per instance [1]
    --max-concurrency N    requests at once per instance [80]
    --nominal N            streams of nominal cost of an instance at its target [0.6 x max-concurrency]
    --min N, --max N       limits of the count [0, 100]
    --from N               instances at the beginning [1]
    --stabilize SECONDS    for how long the count stays at what was asked for [0]
    --start-up SECONDS     from wanted to running, where the trace does not tell what ran [10]

The first line of a trace names its columns; there must be `seconds`, and there may be
    running, in_flight                                  what ran; requests at that time
    cpu_cores, demand_cores                             sums over the fleet, mean of a minute
    concurrency_1m, concurrency_10m                     requests at once, mean of one and ten minutes
    queued, refused                                     requests that wait; those that were refused, as requests at once
    effective_streams                                   the sum of the effective gauges
Each column that is there brings its driver. An empty cell is a number that is not known. Lines that begin with # are passed over.
Where `running` is there, each row stands by itself: what would have been wanted of what ran then. Leave it out to see the fleet go
where it is told; the use in the trace stays what it was.
";

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Options {
    pub(crate) trace: PathBuf,
    /// Where the plot is to be; `None`: with what is built.
    pub(crate) svg: Option<PathBuf>,
    pub(crate) cpus: f64,
    pub(crate) max_concurrency: u32,
    pub(crate) nominal: u32,
    pub(crate) min: u32,
    pub(crate) max: u32,
    pub(crate) from: u32,
    pub(crate) stabilize: f64,
    pub(crate) start_up: f64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            trace: PathBuf::new(),
            svg: None,
            cpus: 1.0,
            max_concurrency: 80,
            nominal: 48,
            min: 0,
            max: 100,
            from: 1,
            stabilize: 0.0,
            start_up: 10.0,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum OptionsError {
    NoValue { option: String },
    NotANumber { option: String, value: String },
    TwoTraces { second: String },
    Unknown { option: String },
}

impl fmt::Display for OptionsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoValue { option } => write!(f, "{option} needs a value"),
            Self::NotANumber { option, value } => write!(f, "{option} is {value:?}, which is no such number"),
            Self::TwoTraces { second } => write!(f, "one trace at a time: {second:?} is a second one"),
            Self::Unknown { option } => write!(f, "there is no option {option}"),
        }
    }
}

impl Error for OptionsError {}

impl Options {
    /// `None`: no trace is named.
    pub(crate) fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Option<Self>, OptionsError> {
        let mut arguments = arguments.into_iter();
        let (mut options, mut trace, mut svg, mut nominal) = (Self::default(), None, None, None);
        while let Some(argument) = arguments.next() {
            let told = argument.to_string_lossy().into_owned();
            if !told.starts_with("--") {
                if trace.is_some() {
                    return Err(OptionsError::TwoTraces { second: told });
                }
                trace = Some(PathBuf::from(argument));
                continue;
            }
            if told == "--help" {
                return Ok(None);
            }
            let value = arguments.next();
            match told.as_str() {
                "--cpus" => options.cpus = number(told, value)?,
                "--from" => options.from = number(told, value)?,
                "--max" => options.max = number(told, value)?,
                "--max-concurrency" => options.max_concurrency = number(told, value)?,
                "--min" => options.min = number(told, value)?,
                "--nominal" => nominal = Some(number(told, value)?),
                "--stabilize" => options.stabilize = time(told, value)?,
                "--start-up" => options.start_up = time(told, value)?,
                "--svg" => svg = Some(value.map(PathBuf::from).ok_or(OptionsError::NoValue { option: told })?),
                _ => return Err(OptionsError::Unknown { option: told }),
            }
        }
        let Some(trace) = trace else { return Ok(None) };
        options.nominal = nominal.unwrap_or_else(|| (options.max_concurrency.saturating_mul(3) / 5).max(1));
        options.svg = svg;
        options.trace = trace;
        Ok(Some(options))
    }
}

fn number<T: FromStr>(option: String, value: Option<OsString>) -> Result<T, OptionsError> {
    let Some(value) = value else { return Err(OptionsError::NoValue { option }) };
    let value = value.to_string_lossy();
    value.parse().map_err(|_| OptionsError::NotANumber { option, value: value.into_owned() })
}

/// As those of a trace: what no duration can hold is none.
fn time(option: String, value: Option<OsString>) -> Result<f64, OptionsError> {
    let seconds = number(option.clone(), value)?;
    if (0.0..=1e9).contains(&seconds) {
        Ok(seconds)
    } else {
        Err(OptionsError::NotANumber { option, value: seconds.to_string() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Option<Options>, OptionsError> {
        Options::parse(line.split_whitespace().map(OsString::from))
    }

    #[test]
    fn options_are_those_that_were_said_and_else_the_defaults() {
        let options = parse("a/day.csv --cpus 2 --max-concurrency 10 --min 1 --svg b.svg").unwrap().unwrap();
        assert_eq!((options.cpus, options.max_concurrency, options.nominal, options.min, options.max), (2.0, 10, 6, 1, 100));
        assert_eq!((options.trace, options.svg), ("a/day.csv".into(), Some("b.svg".into())));
        assert_eq!(parse("a/day.csv").unwrap().unwrap().svg, None);
        assert_eq!([parse(""), parse("--help"), parse("--cpus 2")], [Ok(None), Ok(None), Ok(None)]);
    }

    #[test]
    fn what_is_no_option_is_told() {
        let error = |line| parse(line).unwrap_err().to_string();
        assert_eq!(error("a.csv --what 1"), "there is no option --what");
        assert_eq!(error("a.csv --cpus"), "--cpus needs a value");
        assert_eq!(error("a.csv --svg"), "--svg needs a value");
        assert_eq!(error("a.csv --max -1"), "--max is \"-1\", which is no such number");
        assert_eq!(error("a.csv b.csv"), "one trace at a time: \"b.csv\" is a second one");
        for time in ["NaN", "inf", "-1"] {
            let wrong = parse(&format!("a.csv --start-up {time}")).unwrap_err().to_string();
            assert_eq!(wrong, format!("--start-up is {time:?}, which is no such number"));
        }
    }

    #[cfg(unix)]
    #[test]
    fn arguments_that_are_not_utf_8_are_paths_and_nothing_else() {
        use std::os::unix::ffi::OsStringExt;
        let odd = || OsString::from_vec(b"\xff.csv".to_vec());
        let options = Options::parse([odd(), "--svg".into(), odd()]).unwrap().unwrap();
        assert_eq!((options.trace, options.svg), (odd().into(), Some(odd().into())));
        assert!(Options::parse([odd(), "--cpus".into(), odd()]).is_err());
        assert!(Options::parse([OsString::from_vec(b"--\xff".to_vec())]).is_err());
    }
}
