//! A run as a table.

use ebbpool_lab::DetailedResult;
use ebbpool_lab::numbers::{digits, rounded};

use crate::table::{add_row, finish, millijoules, plain};

/// One run, a line a figure.
pub(crate) fn of_run(detailed: &DetailedResult) -> String {
    let result = detailed.result;
    let mut table = plain();
    let unknown = || "unknown".to_string();
    let mut row = |name: &str, value: String| add_row(&mut table, vec![name.into(), value]);
    row("trace", result.trace.clone());
    row("policy", result.policy.clone());
    row("frames", result.frames.to_string());
    row(
        "page size",
        result
            .page_size
            .map_or_else(unknown, |size| format!("{size} bytes")),
    );
    if let Some(device) = &result.device {
        row("device", device.clone());
    }
    row(
        "asymmetry",
        match detailed.asymmetry_changes {
            Some(changes) => format!("{} at first, then {changes}", rounded(result.asymmetry.0)),
            None => rounded(result.asymmetry.0),
        },
    );
    row("references", result.references.to_string());
    row("warm-up", result.warmup.to_string());
    row("distinct pages", result.distinct_pages.to_string());
    row("hits", result.hits.to_string());
    row("hit ratio", format!("{:.4}", result.hit_ratio));
    row("reads", result.reads.to_string());
    row("writes", result.writes.to_string());
    row("dirty left", result.dirty_left.to_string());
    row(
        "bill per reference",
        format!("{} page reads", digits(result.cost)),
    );
    if let Some(us) = result.cost_us {
        row("time per reference", format!("{us:.2} µs of the device"));
    }
    if let Some(joules) = result.joules_per_reference {
        row("energy per reference", millijoules(joules));
    }
    if let Some(energy) = &detailed.energy {
        row(
            "energy of the device",
            format!("{:.3} J", energy.device_j()),
        );
        if let Some(host_j) = energy.host_j() {
            row("energy of the host", format!("{host_j:.3} J"));
        }
    }
    if let Some(idle) = detailed.device_idle_seconds.filter(|idle| *idle > 0.0) {
        row("device idle", format!("{idle:.3} s"));
    }
    if let Some(dollars) = detailed.dollars_per_reference {
        row("price of a million", format!("$ {:.4}", 1e6 * dollars));
    }
    if let Some(inside) = &detailed.flash {
        row("erases", inside.erases.to_string());
        row(
            "write amplification",
            match inside.write_amplification {
                Some(amplification) => format!("{amplification:.3}"),
                None => "not steady yet".into(),
            },
        );
        if let Some(bytes) = inside.lifetime_host_bytes {
            row("lifetime", format!("{:.3} TB", bytes / 1e12));
        }
    }
    if result.padding_reads > 0 {
        row("padding reads", result.padding_reads.to_string());
    }
    row("cluster switches", result.cluster_switches.to_string());
    row(
        "cluster switch factor",
        format!("{:.4}", result.cluster_switch_factor),
    );
    if let (Some(seconds), Some(rate)) = (result.seconds, result.references_per_second) {
        row("seconds", format!("{seconds:.2}"));
        row("references per second", format!("{rate:.0}"));
    }
    finish(table)
}
