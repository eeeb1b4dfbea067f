//! How figures are written.

/// As many digits as such a measurement can mean.
pub(crate) fn three_digits(value: f64) -> String {
    match value {
        _ if value.is_nan() => "?".to_owned(),
        _ if value < 10.0 => format!("{value:.2}"),
        _ if value < 100.0 => format!("{value:.1}"),
        _ if value < 1e6 => format!("{value:.0}"),
        _ => format!("{value:.3e}"),
    }
}

/// A time in the unit that suits it.
pub(crate) fn time(nanos: f64) -> String {
    match nanos {
        _ if nanos < 1e3 => format!("{} ns", three_digits(nanos)),
        _ if nanos < 1e6 => format!("{} us", three_digits(nanos / 1e3)),
        _ => format!("{} ms", three_digits(nanos / 1e6)),
    }
}

/// A number that may have been averaged, with its thousands set apart.
pub(crate) fn rounded(number: f64) -> String {
    format!("{number:.0}").parse().map_or_else(|_| "?".to_owned(), grouped)
}

/// A number with its thousands set apart.
pub(crate) fn grouped(number: u64) -> String {
    match number {
        ..1_000 => number.to_string(),
        _ => format!("{},{:03}", grouped(number / 1_000), number % 1_000),
    }
}
