//! `ebbpool schema`: prints the JSON Schema of a command's results.

use std::io::{self, Write};

use clap::Args;
#[cfg(feature = "reproduce")]
use ebbpool_experiments::{ExperimentData, ListedExperiment};
use ebbpool_lab::schema::{self, ResultSchema, ResultShape};

use crate::advise::AdviceDocument;
#[cfg(feature = "device")]
use crate::device::replay_result::DeviceReplayResult;
use crate::devices::DeviceDescription;
use crate::failure::Failure;
use crate::left_out;
use crate::trace::TraceDescription;

#[derive(Args)]
pub(crate) struct SchemaArgs {
    /// The command whose JSON to describe, such as compare or trace info; without one the command lists the names
    #[arg(value_name = "COMMAND")]
    command: Vec<String>,
}

/// The schemas of all commands that print JSON.
pub(crate) fn all() -> Vec<ResultSchema> {
    use ResultShape::{One, OneOrRows};
    let mut all = ebbpool_lab::result_schemas();
    // The library may have it for experiments, where this program has no such command.
    if cfg!(not(all(feature = "replay", unix))) {
        all.retain(|it| it.command != "replay");
    }
    all.extend([
        ResultSchema::for_type::<AdviceDocument<'_>>("advise", 1, One),
        #[cfg(feature = "device")]
        ResultSchema::for_type::<DeviceReplayResult>("device replay", 1, One),
        #[cfg(all(feature = "device", unix))]
        ResultSchema::for_type::<crate::measure::report::MeasureReport>("device measure", 1, One),
        ResultSchema::for_type::<DeviceDescription<'_>>("devices", 1, OneOrRows),
        ResultSchema::for_type::<TraceDescription>("trace info", 1, One),
        #[cfg(feature = "reproduce")]
        ResultSchema::for_type::<ExperimentData<'_>>("reproduce", 1, ResultShape::Rows),
        #[cfg(feature = "reproduce")]
        ResultSchema::for_type::<ListedExperiment<'_>>("reproduce list", 1, ResultShape::Rows),
    ]);
    #[cfg(all(feature = "db", unix))]
    all.extend(crate::db::schemas());
    #[cfg(all(feature = "sqlite", target_os = "linux"))]
    all.extend(crate::sqlite::schemas());
    all
}

pub(crate) fn schema(args: &SchemaArgs) -> Result<(), Failure> {
    let all = all();
    let mut out = io::stdout().lock();
    let name = args.command.join(" ");
    let name = name.strip_prefix("ebbpool ").unwrap_or(&name);
    if name.is_empty() {
        for schema in &all {
            writeln!(out, "{:<16}{}", schema.command, schema.id())?;
        }
        return Ok(());
    }
    let is_it =
        |schema: &&ResultSchema| schema.command == name || schema.command.replace(' ', "-") == name || schema.id() == name;
    let Some(found) = all.iter().find(is_it) else {
        let command = name.split([' ', '-']).next().unwrap_or_default();
        left_out::check(&["ebbpool".into(), command.into()])?;
        let names: Vec<&str> = all.iter().map(|schema| schema.command).collect();
        return Err(Failure::Usage(format!("'{name}' has no schema; these commands have one: {}", names.join(", "))));
    };
    schema::write_json(&mut out, &found.to_json())?;
    Ok(())
}
