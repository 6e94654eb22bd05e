//! Small charts for the terminal, drawn with block characters.

use std::fmt::Write;

use ebbpool_trace::stats::Curve;

/// Lines of a chart, without title and axis.
const LINES: usize = 8;
/// Columns before the bars.
const MARGIN: usize = 8;
/// Bars that fill 0, 1/8, … 8/8 of a character.
const BARS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Draws a curve as an area chart with one column for each point. The y axis goes from 0 to 100 %. The
/// x axis is the per cent of pages, on a logarithmic scale.
pub(crate) fn of_curve(title: &str, curve: &Curve) -> String {
    let mut text = format!("{title}\n");
    let eighths: Vec<usize> =
        curve.points.iter().map(|point| (point.share.clamp(0.0, 1.0) * (LINES * 8) as f64).round() as usize).collect();
    for line in (0..LINES).rev() {
        let label = match line + 1 {
            LINES => "100 %",
            line if line == LINES / 2 => "50 %",
            _ => "",
        };
        let bars: String = eighths.iter().map(|&height| BARS[height.saturating_sub(line * 8).min(8)]).collect();
        let _ = writeln!(text, "{label:>0$} │{1}", MARGIN - 2, bars.trim_end());
    }
    let mut axis = String::new();
    let mut labels = String::new();
    for (column, point) in curve.points.iter().enumerate() {
        let is_tick = [0.1, 1.0, 10.0, 100.0].contains(&point.percent);
        axis.push(if is_tick { '┴' } else { '─' });
        if is_tick {
            // The label starts below its tick.
            let _ = write!(labels, "{:1$}", "", column - labels.chars().count());
            let _ = write!(labels, "{} %", point.percent);
        }
    }
    let _ = writeln!(text, "{:>1$} └{axis}", "0 %", MARGIN - 2);
    let _ = writeln!(text, "{:MARGIN$}{labels}", "");
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use ebbpool_trace::stats::Collector;

    #[test]
    fn a_chart_fits_80_columns_and_its_area_grows() {
        let mut collector = Collector::new();
        let all = (0..10_000u64).map(|i| (i * i % 997, false)).collect();
        collector.add(&all).expect("few pages");
        let info = collector.info(None);
        let text = of_curve("A title", &info.popularity);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 1 + LINES + 2);
        assert!(lines.iter().all(|line| line.chars().count() <= 79), "{text}");
        // All references go to all pages: the last bar is full.
        assert!(lines[1].ends_with('█') && lines[1].chars().count() == MARGIN + 61, "{text}");
        let full = |line: &str| line.chars().filter(|&letter| letter == '█').count();
        assert!(lines[1..=LINES].windows(2).all(|pair| full(pair[0]) <= full(pair[1])));
        // Labels stand under their ticks.
        let columns = |line: &str, test: fn(char) -> bool| {
            let found = line.chars().enumerate().filter(|&(_, letter)| test(letter));
            found.map(|(column, _)| column).collect::<Vec<_>>()
        };
        let ticks = columns(lines[LINES + 1], |letter| letter == '┴');
        assert_eq!(ticks, [8, 28, 48, 68]);
        for tick in ticks {
            let below = lines[LINES + 2].chars().nth(tick);
            assert!(below.is_some_and(|letter| letter.is_ascii_digit()), "{text}");
        }
    }

    #[test]
    fn a_curve_without_points_is_an_empty_chart() {
        let text = of_curve("Nothing", &Curve::default());
        assert_eq!(text.lines().count(), 1 + LINES + 2);
    }
}
