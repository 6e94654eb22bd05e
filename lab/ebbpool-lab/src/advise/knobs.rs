//! What the settings of the running server would save.

use schemars::JsonSchema;
use serde::Serialize;

use super::load::SystemLoad;
use super::server::ServerKind;
use crate::numbers::saving;

/// A setting of the running server, and what another value would save.
#[derive(Clone, Debug, JsonSchema, Serialize)]
#[non_exhaustive]
pub struct ServerSetting {
    /// The setting.
    pub setting: String,
    /// Its present value, if it is known.
    pub from: Option<String>,
    /// The other value.
    pub to: Option<String>,
    /// Whether the figures come from a simulation; there are none otherwise.
    pub simulated: bool,
    /// The saving of the bill in per cent of the present one; below 0 it costs more.
    pub saves_cost: Option<f64>,
    /// The saving of page reads, in per cent.
    pub saves_reads: Option<f64>,
    /// The saving of page writes, in per cent.
    pub saves_writes: Option<f64>,
    /// Bytes written in a day with it.
    pub bytes_written_per_day: Option<f64>,
    /// The device's life with it.
    pub life_years: Option<f64>,
    /// The least and the most years, where the device's endurance has a range.
    pub life_range_years: Option<[f64; 2]>,
    /// $ a month with it.
    pub dollars_per_month: Option<f64>,
    /// What limits the figures, or why there are none.
    pub note: Option<String>,
}

impl ServerSetting {
    /// A setting without figures.
    pub(super) fn without_figures(setting: &str, note: &str) -> Self {
        ServerSetting {
            setting: setting.into(),
            from: None,
            to: None,
            simulated: false,
            saves_cost: None,
            saves_reads: None,
            saves_writes: None,
            bytes_written_per_day: None,
            life_years: None,
            life_range_years: None,
            dollars_per_month: None,
            note: Some(note.into()),
        }
    }

    /// Another size of the buffer.
    pub(super) fn size(server: ServerKind, page_size: Option<u64>, now: &SystemLoad, other: &SystemLoad) -> Self {
        ServerSetting {
            setting: server.size_setting().into(),
            from: Some(server.size_value(now.frames, page_size)),
            to: Some(server.size_value(other.frames, page_size)),
            simulated: true,
            saves_cost: saving(other.cost, now.cost),
            saves_reads: saving(other.reads_per_reference, now.reads_per_reference),
            saves_writes: saving(other.writes_per_reference, now.writes_per_reference),
            bytes_written_per_day: other.bytes_written_per_day,
            life_years: other.life_years,
            life_range_years: other.life_range_years,
            dollars_per_month: other.dollars_per_month,
            note: None,
        }
    }
}

/// The knobs of a server: sizes of its buffer, intervals of its checkpoints, and the settings that are not simulated.
pub(super) fn of_server(
    server: ServerKind,
    page_size: Option<u64>,
    now: &SystemLoad,
    larger: &[SystemLoad],
    checkpoints: Vec<ServerSetting>,
) -> Vec<ServerSetting> {
    let mut knobs: Vec<ServerSetting> = larger.iter().map(|other| ServerSetting::size(server, page_size, now, other)).collect();
    if knobs.is_empty() {
        knobs.push(ServerSetting::without_figures(
            server.size_setting(),
            "not simulated: a buffer of twice the size holds all pages of the trace",
        ));
    }
    knobs.extend(checkpoints);
    let others = server.other_settings().iter();
    knobs.extend(others.map(|(setting, why)| ServerSetting::without_figures(setting, why)));
    knobs
}
