//! The matrix as lines over the number of readers; and the source's workload over the number of keys.

use std::{error::Error, path::Path};

use plotters::{
    chart::{ChartBuilder, SeriesLabelPosition},
    prelude::{Circle, IntoDrawingArea, IntoLogRange, IntoTextStyle, PathElement, SVGBackend},
    series::LineSeries,
    style::{BLACK, Color, RGBColor, WHITE},
};

use crate::{
    contenders::ALL,
    crowd::{Figures, Place},
    matrix::Cell,
    measure::words::rounded,
};

struct Plot {
    file: &'static str,
    title: &'static str,
    unit: &'static str,
    value: fn(&Figures) -> f64,
}

const PLOTS: [Plot; 4] = [
    Plot {
        file: "writer",
        title: "Publish to N waiting tasks: the writer's time",
        unit: "us, median",
        value: |f| f.writer_p50 / 1e3,
    },
    Plot { file: "last", title: "Until the last of N tasks has the event", unit: "us, median", value: |f| f.last_p50 / 1e3 },
    Plot { file: "cpu", title: "Processor time per delivery, the writer's spinning taken off", unit: "ns", value: |f| f.cpu },
    Plot { file: "switches", title: "Context switches per publish", unit: "", value: |f| f.switches },
];

/// One for each contender, in their order; greys are what no channel can go below.
const COLOURS: [RGBColor; ALL.len()] = [
    RGBColor(200, 30, 30),
    RGBColor(235, 140, 140),
    RGBColor(240, 130, 20),
    RGBColor(30, 90, 200),
    RGBColor(110, 170, 240),
    RGBColor(20, 130, 90),
    RGBColor(130, 190, 110),
    RGBColor(130, 60, 160),
    RGBColor(190, 150, 210),
    RGBColor(150, 150, 150),
    RGBColor(60, 60, 60),
];

/// A line: its name, its colour, how thick, and its points.
struct Line {
    name: String,
    colour: RGBColor,
    width: u32,
    points: Vec<(f64, f64)>,
}

/// Writes all of them, for one key, one worker and the writer outside.
pub(crate) fn write_matrix(folder: &Path, surroundings: &str, cells: &[Cell]) -> Result<(), Box<dyn Error>> {
    for plot in PLOTS {
        let lines: Vec<Line> = ALL
            .iter()
            .zip(COLOURS)
            .map(|(kind, colour)| {
                let shown = cells.iter().filter(|cell| {
                    cell.name == kind.name && cell.workers == 1 && cell.place == Place::Outside && cell.shape.keys == 1
                });
                let points = shown.map(|cell| (cell.shape.per_key as f64, (plot.value)(&cell.figures))).collect();
                Line { name: kind.name.to_owned(), colour, width: if kind.in_large_crowds { 2 } else { 1 }, points }
            })
            .collect();
        let names = Names { title: plot.title, x: "readers that wait for the key", y: plot.unit, below: surroundings };
        draw(&folder.join(format!("wake_cost_{}.svg", plot.file)), &names, &lines, SeriesLabelPosition::UpperLeft)?;
    }
    Ok(())
}

/// `rows` are (name, keys, ns of processor time per publish).
pub(crate) fn write_source(folder: &Path, surroundings: &str, rows: &[(String, u64, f64)]) -> Result<(), Box<dyn Error>> {
    let mut lines: Vec<Line> = Vec::new();
    for (name, keys, nanos) in rows {
        let at = lines.iter().position(|line| line.name == *name).unwrap_or_else(|| {
            let colour = COLOURS[[4, 1, 3, 2, 0][lines.len() % 5]];
            lines.push(Line { name: name.clone(), colour, width: 2, points: Vec::new() });
            lines.len() - 1
        });
        lines[at].points.push((*keys as f64, nanos / 1e3));
    }
    let names = Names {
        title: "The source's workload: 70,000 subscriptions, spread evenly",
        x: "keys",
        y: "us of CPU per publish",
        below: surroundings,
    };
    draw(&folder.join("wake_cost_source.svg"), &names, &lines, SeriesLabelPosition::LowerLeft)
}

struct Names<'a> {
    title: &'a str,
    x: &'a str,
    y: &'a str,
    below: &'a str,
}

fn draw(path: &Path, names: &Names<'_>, lines: &[Line], legend: SeriesLabelPosition) -> Result<(), Box<dyn Error>> {
    // Nothing is 0 on a logarithmic axis.
    let points = |line: &Line| line.points.iter().map(|(x, y)| (*x, y.max(1e-2))).collect::<Vec<_>>();
    let all: Vec<(f64, f64)> = lines.iter().flat_map(points).collect();
    if all.is_empty() {
        return Ok(());
    }
    let span = |values: fn(&(f64, f64)) -> f64| {
        let (least, most) = all.iter().map(values).fold((f64::MAX, f64::MIN), |(least, most), v| (least.min(v), most.max(v)));
        (least / 1.3)..(most * 1.3)
    };
    let area = SVGBackend::new(path, (960, 600)).into_drawing_area();
    area.fill(&WHITE)?;
    let (upper, lower) = area.split_vertically(578);
    lower.draw_text(names.below, &("sans-serif", 12).into_text_style(&lower), (12, 2))?;
    let mut chart = ChartBuilder::on(&upper)
        .caption(names.title, ("sans-serif", 20))
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(72)
        .build_cartesian_2d(span(|point| point.0).log_scale(), span(|point| point.1).log_scale())?;
    chart
        .configure_mesh()
        .x_desc(names.x)
        .y_desc(names.y)
        .x_label_formatter(&number)
        .y_label_formatter(&number)
        .light_line_style(BLACK.mix(0.04))
        .draw()?;
    for line in lines {
        let (points, colour) = (points(line), line.colour);
        chart
            .draw_series(LineSeries::new(points.clone(), colour.stroke_width(line.width)))?
            .label(line.name.as_str())
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(2)));
        chart.draw_series(points.into_iter().map(|point| Circle::new(point, 3, colour.filled())))?;
    }
    chart.configure_series_labels().position(legend).background_style(WHITE.mix(0.8)).border_style(BLACK.mix(0.3)).draw()?;
    area.present()?;
    Ok(())
}

/// On an axis.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "what the crate calls it with")]
fn number(value: &f64) -> String {
    if *value < 1.0 { format!("{value}") } else { rounded(*value) }
}
