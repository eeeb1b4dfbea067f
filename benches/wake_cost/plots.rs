//! The matrix as lines over the number of readers.

use std::{error::Error, path::Path};

use plotters::{
    chart::{ChartBuilder, SeriesLabelPosition},
    prelude::{Circle, IntoDrawingArea, IntoLogRange, PathElement, SVGBackend},
    series::LineSeries,
    style::{BLACK, Color, RGBColor, WHITE},
};

use crate::{
    contenders::ALL,
    crowd::{Figures, Place},
    matrix::Cell,
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

/// Writes all of them, for one key, one worker and the writer outside.
pub(crate) fn write(folder: &Path, surroundings: &str, cells: &[Cell]) -> Result<(), Box<dyn Error>> {
    for plot in PLOTS {
        draw(&folder.join(format!("wake_cost_{}.svg", plot.file)), surroundings, cells, &plot)?;
    }
    Ok(())
}

fn draw(path: &Path, surroundings: &str, cells: &[Cell], plot: &Plot) -> Result<(), Box<dyn Error>> {
    let points = |name: &str| -> Vec<(f64, f64)> {
        let shown = cells
            .iter()
            .filter(|cell| cell.name == name && cell.workers == 1 && cell.place == Place::Outside && cell.shape.keys == 1);
        // Nothing is 0 on a logarithmic axis.
        shown.map(|cell| (cell.shape.per_key as f64, (plot.value)(&cell.figures).max(1e-2))).collect()
    };
    let all: Vec<(f64, f64)> = ALL.iter().flat_map(|kind| points(kind.name)).collect();
    let span = |values: fn(&(f64, f64)) -> f64| {
        let (least, most) = all.iter().map(values).fold((f64::MAX, f64::MIN), |(least, most), v| (least.min(v), most.max(v)));
        (least / 1.3)..(most * 1.3)
    };
    if all.is_empty() {
        return Ok(());
    }
    let area = SVGBackend::new(path, (960, 600)).into_drawing_area();
    area.fill(&WHITE)?;
    let (upper, lower) = area.split_vertically(575);
    lower.draw_text(surroundings, &("sans-serif", 12).into(), (10, 4))?;
    let mut chart = ChartBuilder::on(&upper)
        .caption(plot.title, ("sans-serif", 20))
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(64)
        .build_cartesian_2d(span(|point| point.0).log_scale(), span(|point| point.1).log_scale())?;
    let number = |value: &f64| if *value < 1.0 { format!("{value}") } else { format!("{value:.0}") };
    chart
        .configure_mesh()
        .x_desc("readers that wait for the key")
        .y_desc(plot.unit)
        .x_label_formatter(&number)
        .y_label_formatter(&number)
        .light_line_style(BLACK.mix(0.04))
        .draw()?;
    for (kind, colour) in ALL.iter().zip(COLOURS) {
        let points = points(kind.name);
        let width = if kind.in_large_crowds { 2 } else { 1 };
        chart
            .draw_series(LineSeries::new(points.clone(), colour.stroke_width(width)))?
            .label(kind.name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(2)));
        chart.draw_series(points.into_iter().map(|point| Circle::new(point, 3, colour.filled())))?;
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK.mix(0.3))
        .draw()?;
    area.present()?;
    Ok(())
}
