//! The result of a trace on a simulated device, as a table.

use ebbpool_cost::ByteSize;
use ebbpool_device::flash::FlashReport;

use super::replay_result::DeviceReplayResult;
use crate::table::{FigureTable, millijoules};

/// The result of a trace on a device, with one line per figure.
pub(crate) fn of_replay(result: &DeviceReplayResult) -> String {
    let report = &result.report;
    let mut figures = FigureTable::new();
    add_requests(&mut figures, report);
    add_wear(&mut figures, report);
    add_times(&mut figures, result);
    if let Some(bytes) = report.lifetime_host_bytes {
        let days = result.lifetime_days;
        let days = days.map_or(String::new(), |days| format!(", {days:.0} days"));
        figures.row("lifetime", format!("{:.3} TB written by the host{days}", bytes / 1e12));
        if let Some(assumption) = &report.lifetime_assumes {
            figures.row("  assumes", assumption.clone());
        }
    }
    if let Some(failed) = &result.failed {
        figures.row("failed", failed.clone());
    }
    figures.left_aligned()
}

fn add_requests(figures: &mut FigureTable, report: &FlashReport) {
    figures.row("device", report.device.clone());
    figures.row("logical pages", format!("{}, {} of them with data", report.logical_pages, report.mapped_pages));
    figures.row("rho", format!("{}; now {:.4}", report.rho, report.rho_eff));
    figures.row("host reads", report.host_reads.to_string());
    figures.row("host writes", format!("{} ({})", report.host_writes, ByteSize::new(report.host_bytes)));
    let by = &report.programs_by_cause;
    figures.row(
        "programs",
        format!(
            "{}: host {}, cleaning {}, merges {}, map {}, wear {}",
            report.programs, by.host, by.cleaning, by.merge, by.map, by.wear
        ),
    );
    let merges = &report.merges;
    figures.row("merges", format!("switch {}, partial {}, full {}", merges.switch, merges.partial, merges.full));
}

fn add_wear(figures: &mut FigureTable, report: &FlashReport) {
    figures.row("erases", report.erases.to_string());
    figures.row(
        "write amplification",
        match (report.write_amplification, &report.not_steady) {
            (Some(amplification), _) => match report.byte_write_amplification {
                Some(bytes) if bytes > amplification => {
                    format!("{amplification:.3} by pages, {bytes:.3} by bytes")
                }
                _ => format!("{amplification:.3}"),
            },
            (None, Some(reason)) => format!("not known: {reason}"),
            (None, None) => "not known".into(),
        },
    );
    if let Some(predicted) = report.predicted_write_amplification {
        figures.row("  theory, random writes", format!("{predicted:.3}"));
    }
    let wear = &report.wear;
    figures.row(
        "erases a block",
        format!("{} to {}, mean {:.2}, sd {:.2}; {} blocks worn out", wear.min, wear.max, wear.mean, wear.sd, wear.bad_blocks),
    );
}

fn add_times(figures: &mut FigureTable, result: &DeviceReplayResult) {
    let report = &result.report;
    figures.row("device time", format!("{:.3} s", report.device_seconds));
    if report.idle_seconds > 0.0 {
        figures.row("device idle", format!("{:.3} s", report.idle_seconds));
    }
    figures.row(
        "energy",
        match &report.energy {
            Some(energy) => format!(
                "{:.4} J: reads {:.4}, programs {:.4}, erases {:.4}, idle {:.4}",
                energy.total_j, energy.read_j, energy.program_j, energy.erase_j, energy.idle_j
            ),
            None => "not known: the chip states no power".into(),
        },
    );
    if let Some(joules) = result.joules_per_reference {
        figures.row("energy per reference", millijoules(joules));
    }
    for (name, times) in [("read", &report.read_time), ("write", &report.write_time)] {
        if times.count > 0 {
            figures.row(
                &format!("{name} time"),
                format!(
                    "mean {:.1} µs, 99 % {:.1}, 99.9 % {:.1}, longest {:.1}",
                    times.mean_us, times.p99_us, times.p999_us, times.max_us
                ),
            );
        }
    }
}
