//! A run as a table.

use std::fmt::Write;

use ebbpool_lab::DetailedResult;
use ebbpool_lab::numbers::{digits, pages_and_bytes, rounded};

use crate::table::{FigureTable, millijoules};

/// The result of a run, with one line per figure.
pub(crate) fn of_run(detailed: &DetailedResult) -> String {
    let result = detailed.result;
    let mut figures = FigureTable::new();
    add_counts(&mut figures, detailed);
    add_device(&mut figures, detailed);
    if result.padding_reads > 0 {
        figures.row("padding reads", result.padding_reads.to_string());
    }
    for (name, pages) in [("background writes", result.background_writes), ("checkpoint writes", result.checkpoint_writes)] {
        if pages > 0 {
            figures.row(name, pages.to_string());
        }
    }
    figures.row("cluster switches", result.cluster_switches.to_string());
    figures.row("cluster switch factor", format!("{:.4}", result.cluster_switch_factor));
    if let (Some(seconds), Some(rate)) = (result.seconds, result.references_per_second) {
        figures.row("seconds", format!("{seconds:.2}"));
        figures.row("references per second", format!("{rate:.0}"));
    }
    let mut text = figures.right_aligned();
    if let Some(end) = result.sentence_on_end() {
        let _ = writeln!(text, "\n{end}");
    }
    if let Some(load) = &detailed.life {
        let _ = writeln!(text, "\n{}", load.endurance.assumption);
    }
    text
}

fn add_counts(figures: &mut FigureTable, detailed: &DetailedResult) {
    let result = detailed.result;
    let unknown = || "unknown".to_string();
    figures.row("trace", result.trace.clone());
    figures.row("policy", result.policy.clone());
    figures.row("frames", pages_and_bytes(result.frames, result.page_size));
    figures.row("page size", result.page_size.map_or_else(unknown, |size| format!("{size} bytes")));
    if let Some(device) = &result.device {
        figures.row("device", device.clone());
    }
    figures.row(
        "asymmetry",
        match &result.asymmetry_changes {
            Some(changes) => format!("{} at first, then {changes}", rounded(result.asymmetry.0)),
            None => rounded(result.asymmetry.0),
        },
    );
    figures.row("references", result.references.to_string());
    figures.row("warm-up", result.warmup.to_string());
    figures.row("distinct pages", result.distinct_pages.to_string());
    figures.row("hits", result.hits.to_string());
    figures.row("hit ratio", format!("{:.4}", result.hit_ratio));
    figures.row("reads", result.reads.to_string());
    if result.overwrites > 0 {
        figures.row("  none for misses that overwrite", result.overwrites.to_string());
    }
    figures.row("writes", result.writes.to_string());
    if result.end_writes > 0 {
        figures.row("  at the end", result.end_writes.to_string());
    }
    if result.trimmed > 0 {
        figures.row("  none for trimmed pages", result.trimmed.to_string());
    }
    if result.dirty_before > 0 {
        figures.row("dirty before", result.dirty_before.to_string());
    }
    figures.row("dirty left", result.dirty_left.to_string());
    figures.row("bill per reference", format!("{} page reads", digits(result.cost)));
}

fn add_device(figures: &mut FigureTable, detailed: &DetailedResult) {
    let result = detailed.result;
    if let Some(us) = result.cost_us {
        figures.row("time per reference", format!("{us:.2} µs of the device"));
    }
    if let Some(joules) = result.joules_per_reference {
        figures.row("energy per reference", millijoules(joules));
    }
    if let Some(energy) = &detailed.energy {
        figures.row("energy of the device", format!("{:.3} J", energy.device_j()));
        if let Some(host_j) = energy.host_j() {
            figures.row("energy of the host", format!("{host_j:.3} J"));
        }
    }
    if let Some(idle) = detailed.device_idle_seconds.filter(|idle| *idle > 0.0) {
        figures.row("device idle", format!("{idle:.3} s"));
    }
    if let Some(dollars) = detailed.dollars_per_reference {
        figures.row("price of a million", format!("$ {:.4}", 1e6 * dollars));
    }
    if let Some(load) = &detailed.life {
        figures.row("endurance", load.endurance.text());
        if let Some(life) = &load.life {
            figures.row("lifetime", format!("{life} {}", load.load()));
        }
    }
    if let Some(inside) = &detailed.flash {
        figures.row("erases", inside.erases.to_string());
        figures.row(
            "write amplification",
            match inside.write_amplification {
                Some(amplification) => match inside.byte_write_amplification {
                    Some(bytes) if bytes > amplification => {
                        format!("{amplification:.3} by pages, {bytes:.3} by bytes")
                    }
                    _ => format!("{amplification:.3}"),
                },
                None => "not steady yet".into(),
            },
        );
        if let Some(bytes) = inside.lifetime_host_bytes {
            figures.row("lifetime", format!("{:.3} TB", bytes / 1e12));
            if let Some(assumption) = &inside.lifetime_assumes {
                figures.row("  assumes", assumption.clone());
            }
        }
    }
}
