//! Loads as SVG.

use std::{error::Error, path::Path};

use plotters::{
    chart::{ChartBuilder, SeriesLabelPosition},
    prelude::{Circle, IntoDrawingArea, PathElement, SVGBackend},
    series::LineSeries,
    style::{BLACK, Color, RGBColor, WHITE},
};

pub(crate) const RED: RGBColor = RGBColor(200, 30, 30);
pub(crate) const BLUE: RGBColor = RGBColor(30, 90, 200);
pub(crate) const GREY: RGBColor = RGBColor(150, 150, 150);
pub(crate) const GREEN: RGBColor = RGBColor(20, 130, 90);

pub(crate) struct Line {
    pub(crate) name: &'static str,
    pub(crate) colour: RGBColor,
    pub(crate) points: Vec<(f64, f64)>,
}

pub(crate) fn lines<const N: usize>(of: [(&'static str, RGBColor); N]) -> [Line; N] {
    of.map(|(name, colour)| Line { name, colour, points: Vec::new() })
}

/// What is at the foot, in whole numbers, and whether what lies between two of them means anything.
pub(crate) enum Foot {
    Single(&'static str),
    Steady(&'static str),
}

pub(crate) fn draw(path: &Path, title: &str, foot: &Foot, lines: &[Line]) -> Result<(), Box<dyn Error>> {
    let all = || lines.iter().flat_map(|line| &line.points);
    let ends = |of: fn(&(f64, f64)) -> f64| {
        all().map(of).fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), value| (least.min(value), most.max(value)))
    };
    let (left, right) = ends(|point| point.0);
    let top = ends(|point| point.1).1.max(1.0) * 1.25;
    let (described, margin, are_single) = match foot {
        Foot::Single(what) => (what, 0.5, true),
        Foot::Steady(what) => (what, 0.0, false),
    };
    let area = SVGBackend::new(path, (900, 500)).into_drawing_area();
    area.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&area)
        .caption(title, ("sans-serif", 20))
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(55)
        .build_cartesian_2d(left - margin..right + margin, 0.0..top)?;
    let mut mesh = chart.configure_mesh();
    mesh.x_desc(*described).y_desc("load, cores").light_line_style(WHITE).x_labels(14);
    mesh.x_label_formatter(&|x: &f64| format!("{x:.0}")).draw()?;
    for line in lines {
        let style = line.colour.stroke_width(2);
        let points = line.points.iter().copied();
        let drawn = if are_single {
            chart.draw_series(points.map(|point| Circle::new(point, 5, line.colour.filled())))?
        } else {
            chart.draw_series(LineSeries::new(points, style))?
        };
        drawn.label(line.name).legend(move |(x, y)| PathElement::new([(x, y), (x + 20, y)], style));
    }
    let mut labels = chart.configure_series_labels();
    labels.position(SeriesLabelPosition::UpperRight).background_style(WHITE).border_style(BLACK).draw()?;
    area.present()?;
    Ok(())
}
