use super::*;

#[test]
fn members_of_a_group_differ_by_their_ends() {
    assert_eq!(beginning(&["pool 1", "pool 16"]), "pool ");
    assert_eq!(beginning(&["pool 1", "looks 1"]), "");
    assert_eq!(beginning(&["pool 1"]), "");
    assert_eq!(beginning(&["lru", "arc"]), "");
}

#[test]
fn a_line_looks_the_same_in_every_panel_and_like_no_other() {
    let plan = |lines: &[(&str, &'static str)]| PanelPlan {
        bases: lines.iter().map(|(_, base)| *base).collect(),
        panel: Panel { title: String::new(), x: axis(), y: axis(), series: lines.iter().map(|(name, _)| line(name)).collect() },
    };
    let panels = with_marks(vec![
        plan(&[("as printed", "fd-buffer"), ("exact", "fd-buffer"), ("best", "fd-static")]),
        plan(&[("exact", "fd-buffer"), ("LRU", "lru"), ("as printed", "fd-buffer")]),
    ]);
    let [first, second] = [&panels[0].series, &panels[1].series];
    assert_eq!(Some(first[0].mark), LineStyle::for_policy("fd-buffer"));
    assert_eq!(Some(second[1].mark), LineStyle::for_policy("lru"));
    assert_eq!(first[1].mark, second[0].mark);
    assert_eq!(first[0].mark, second[2].mark);
    assert!(first[0].mark != first[1].mark && first[1].mark != first[2].mark);
}

fn axis() -> Axis {
    Axis { label: String::new(), range: 0.0..1.0, is_log: false, ticks: Ticks::Round("") }
}

fn line(name: &str) -> DataSeries {
    DataSeries { name: name.into(), mark: LineStyle::default(), points: Vec::new() }
}

#[test]
fn few_values_have_a_tick_each() {
    let across = |count: usize| {
        let value = |at: usize| (at as f64, format!("{at}%"));
        Across::Numbers((1..=count).map(value).collect())
    };
    assert!(matches!(across(9).ticks(), Ticks::At(ticks) if ticks.len() == 9));
    assert!(matches!(across(10).ticks(), Ticks::Round("%")));
}
