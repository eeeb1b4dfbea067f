//! Instances over time, and what each driver asked for.

use std::{error::Error, path::Path};

use keywake::scaling::Driver;
use plotters::{
    chart::{ChartBuilder, SeriesLabelPosition},
    prelude::{Circle, IntoDrawingArea, PathElement, SVGBackend},
    series::LineSeries,
    style::{BLACK, Color, RED, RGBColor, WHITE},
};

use crate::replay::Step;

/// One for each of [`Driver::ALL`].
const COLOURS: [RGBColor; Driver::ALL.len()] = [
    RGBColor(200, 30, 30),
    RGBColor(30, 90, 200),
    RGBColor(110, 170, 240),
    RGBColor(240, 130, 20),
    RGBColor(130, 60, 160),
    RGBColor(20, 130, 90),
    RGBColor(235, 140, 140),
    RGBColor(130, 190, 110),
];
const GREY: RGBColor = RGBColor(150, 150, 150);

/// A number that holds until the next one. Only where it changes there are points: a trace may have a million rows.
fn stairs(steps: &[Step], value: impl Fn(&Step) -> Option<u32>) -> Vec<(f64, f64)> {
    let known = steps.iter().filter_map(|step| Some((step.seconds / 3600.0, f64::from(value(step)?))));
    let (mut points, mut last): (Vec<(f64, f64)>, _) = (Vec::new(), None);
    for (hour, count) in known {
        let before = points.last().map(|(_, before)| *before);
        if before != Some(count) {
            points.extend(before.map(|before| (hour, before)));
            points.push((hour, count));
        }
        last = Some((hour, count));
    }
    points.extend(last);
    points
}

/// As SVG.
pub(crate) fn write(path: &Path, title: &str, steps: &[Step]) -> Result<(), Box<dyn Error>> {
    let hours = |step: Option<&Step>| step.map_or(0.0, |step| step.seconds / 3600.0);
    let (first, last) = (hours(steps.first()), hours(steps.last()));
    let votes = steps.iter().flat_map(|step| step.decision.votes.iter().map(|vote| vote.count));
    // Votes may be beyond any limit; the plot shows twice what was decided.
    let decided = steps.iter().map(|step| step.decision.count.max(step.running)).max().unwrap_or_default();
    let most = votes.max().unwrap_or_default().max(decided).min(decided.saturating_mul(2).max(1));
    let area = SVGBackend::new(path, (1100, 600)).into_drawing_area();
    area.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&area)
        .caption(title, ("sans-serif", 20))
        .margin(12)
        .x_label_area_size(45)
        .y_label_area_size(60)
        .build_cartesian_2d(first..last.max(first + 1e-3), 0.0..f64::from(most) * 1.05)?;
    chart.configure_mesh().x_desc("hours").y_desc("instances").light_line_style(WHITE).draw()?;
    for (driver, colour) in Driver::ALL.into_iter().zip(COLOURS) {
        let of = |step: &Step| step.decision.votes.iter().find(|vote| vote.driver == driver).map(|vote| vote.count.min(most));
        let points = stairs(steps, of);
        if points.is_empty() {
            continue;
        }
        let line = chart.draw_series(LineSeries::new(points, colour))?.label(driver.name());
        line.legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], colour));
    }
    let running = LineSeries::new(stairs(steps, |step| Some(step.running)), GREY.stroke_width(2));
    chart.draw_series(running)?.label("running").legend(|(x, y)| PathElement::new([(x, y), (x + 18, y)], GREY.stroke_width(2)));
    let count = LineSeries::new(stairs(steps, |step| Some(step.decision.count)), BLACK.stroke_width(3));
    chart.draw_series(count)?.label("wanted").legend(|(x, y)| PathElement::new([(x, y), (x + 18, y)], BLACK.stroke_width(3)));
    let unusable = steps.iter().filter(|step| !step.decision.is_valid());
    let dots: Vec<_> = unusable.map(|step| (step.seconds / 3600.0, f64::from(step.decision.count))).collect();
    if !dots.is_empty() {
        let dots = chart.draw_series(dots.into_iter().map(|at| Circle::new(at, 3, RED.filled())))?;
        dots.label("a number is unusable").legend(|(x, y)| Circle::new((x + 9, y), 3, RED.filled()));
    }
    let labels = chart.configure_series_labels().position(SeriesLabelPosition::UpperRight).background_style(WHITE).draw();
    labels?;
    area.present()?;
    Ok(())
}
