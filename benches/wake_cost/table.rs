//! The table "work, against, to reach, reached", whose rows are README's.

use std::fmt;

use crate::measure::words::three_digits;

/// One line of it.
pub(crate) struct Row {
    work: String,
    against: String,
    to_reach: String,
    reached: String,
}

impl Row {
    pub(crate) fn new(work: impl Into<String>, against: impl Into<String>) -> Self {
        Self { work: work.into(), against: against.into(), to_reach: String::new(), reached: String::new() }
    }

    /// A ratio that must be at most `most`; `figures` are what it is made of.
    pub(crate) fn ratio(self, ratio: f64, most: f64, figures: impl fmt::Display) -> Self {
        let to_reach = format!("<= {most}x");
        self.with(to_reach, ratio <= most, format_args!("{}x ({figures})", three_digits(ratio)))
    }

    /// As [`ratio`](Self::ratio), where both are small and better told the other way round.
    pub(crate) fn fraction(self, ratio: f64, most: f64, figures: impl fmt::Display) -> Self {
        let to_reach = format!("<= 1/{:.0}", 1.0 / most);
        self.with(to_reach, ratio <= most, format_args!("1/{} ({figures})", three_digits(1.0 / ratio)))
    }

    /// Something that must be so.
    pub(crate) fn with(mut self, to_reach: impl Into<String>, is_reached: bool, reached: impl fmt::Display) -> Self {
        self.to_reach = to_reach.into();
        self.reached = if is_reached { reached.to_string() } else { format!("**missed**: {reached}") };
        self
    }

    /// Nothing must be reached, it is shown beside the others.
    pub(crate) fn shown(mut self, reached: impl fmt::Display) -> Self {
        self.reached = reached.to_string();
        self
    }
}

/// What stands above the rows.
pub(crate) const HEAD: &str = "| work | against | to reach | reached |\n|---|---|---|---|";

#[expect(clippy::print_stdout, reason = "the table is what this program is for")]
pub(crate) fn print(rows: &[Row]) {
    println!("{HEAD}");
    for Row { work, against, to_reach, reached } in rows {
        println!("| {work} | {against} | {to_reach} | {reached} |");
    }
    println!();
}
