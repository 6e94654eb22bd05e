//! `ebbpool devices`: lists the named devices, or shows the figures of one.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, Write};

use clap::{Args, ValueEnum};
use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, Width};
use ebbpool_device::profiles::{ProfileFigure, Quantity};
use ebbpool_device::{AsymmetryKind, DeviceProfile};
use ebbpool_lab::LabError;
use schemars::JsonSchema;
use serde::Serialize;

use crate::failure::Failure;
use crate::table;

#[derive(Args)]
pub(crate) struct DevicesArgs {
    /// A device by name, or your own profile as a TOML file: shows all its figures with their sources
    #[arg(value_name = "NAME")]
    pub(crate) device: Option<String>,
    /// Output format; toml, for one device, is a starting point for your own profile
    #[arg(long, value_enum, default_value_t = DevicesFormat::Table)]
    pub(crate) format: DevicesFormat,
    /// Print Markdown, as in docs/generated/devices.md
    #[arg(long, conflicts_with_all = ["device", "format"])]
    pub(crate) markdown: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum DevicesFormat {
    Table,
    Json,
    Toml,
}

/// Stands for an unknown figure.
const UNKNOWN: &str = "-";

const COLUMNS: u16 = 80;

pub(crate) fn devices(args: &DevicesArgs) -> Result<(), Failure> {
    let text = match &args.device {
        Some(name) => profile_text(&DeviceProfile::find(name)?, args.format)?,
        None if args.markdown => markdown(DeviceProfile::all()?),
        None => list(DeviceProfile::all()?, args.format)?,
    };
    io::stdout().write_all(text.as_bytes())?;
    Ok(())
}

fn list(profiles: &[DeviceProfile], format: DevicesFormat) -> Result<String, Failure> {
    match format {
        DevicesFormat::Table => Ok(overview(profiles)),
        DevicesFormat::Json => {
            let all = profiles.iter().map(DeviceDescription::new);
            Ok(json(&all.collect::<Vec<_>>())?)
        }
        DevicesFormat::Toml => Err(Failure::Usage(
            "--format toml prints one device; name it, as in ebbpool devices flash-136 --format toml".into(),
        )),
    }
}

fn profile_text(profile: &DeviceProfile, format: DevicesFormat) -> Result<String, Failure> {
    match format {
        DevicesFormat::Table => Ok(details(profile)),
        DevicesFormat::Json => Ok(json(&DeviceDescription::new(profile))?),
        DevicesFormat::Toml => profile.to_toml().map_err(|error| Failure::Output(io::Error::other(error))),
    }
}

/// The JSON of one device, or without a name of all.
pub(crate) fn json_of(name: Option<&str>) -> Result<String, LabError> {
    let text = match name {
        Some(name) => json(&DeviceDescription::new(&DeviceProfile::find(name)?)),
        None => {
            let all = DeviceProfile::all()?.iter().map(DeviceDescription::new);
            json(&all.collect::<Vec<_>>())
        }
    };
    text.map_err(|source| LabError::Output { what: "devices as JSON".into(), source })
}

fn json(value: &impl Serialize) -> io::Result<String> {
    let mut text = serde_json::to_string_pretty(value)?;
    text.push('\n');
    Ok(text)
}

/// A profile, and the asymmetries that follow from its figures.
#[derive(Serialize, JsonSchema)]
pub(crate) struct DeviceDescription<'a> {
    #[serde(flatten)]
    profile: &'a DeviceProfile,
    policy_asymmetry: f64,
    asymmetries: BTreeMap<AsymmetryKind, f64>,
    asymmetry_in_cache: Option<f64>,
    asymmetry_after_cache: Option<f64>,
}

impl<'a> DeviceDescription<'a> {
    fn new(profile: &'a DeviceProfile) -> Self {
        let entry = |kind| Some((kind, profile.asymmetry(kind)?.ratio()));
        DeviceDescription {
            profile,
            policy_asymmetry: profile.policy_asymmetry().ratio(),
            asymmetries: AsymmetryKind::ALL.into_iter().filter_map(entry).collect(),
            asymmetry_in_cache: profile.asymmetry_in_cache().map(|r| r.ratio()),
            asymmetry_after_cache: profile.asymmetry_after_cache().map(|r| r.ratio()),
        }
    }
}

const HEADER: [&str; 8] = ["device", "page", "read", "write", "R qd1", "steady", "chip", "price"];

/// One row under [`HEADER`]; `*` marks the asymmetry that policies use, `~` marks rough figures.
fn row(profile: &DeviceProfile) -> [String; 8] {
    let (read, write) = profile.asymmetry.figures();
    let cost = |quantity| match profile.figures.get(&quantity) {
        Some(figure) => format!("{}{}", tilde(figure), cost(quantity, figure.value)),
        None => UNKNOWN.into(),
    };
    let asymmetry = |kind| match profile.asymmetry(kind) {
        Some(asymmetry) => {
            let mark = if profile.asymmetry == kind { "*" } else { "" };
            // Eight columns fit into 80 characters only if ratios are short.
            let (rough, significant) = match profile.is_rough(kind) {
                true => ("~", 3),
                false => ("", 4),
            };
            let ratio = (asymmetry.ratio() * 1e3).round() / 1e3;
            format!("{rough}{}{mark}", digits(ratio, significant))
        }
        None => UNKNOWN.into(),
    };
    let [qd1, steady, chip, price] = AsymmetryKind::ALL.map(asymmetry);
    [profile.name.clone(), page(profile), cost(read), cost(write), qd1, steady, chip, price]
}

fn overview(profiles: &[DeviceProfile]) -> String {
    let mut table = table::plain();
    table.add_row(HEADER);
    for profile in profiles {
        table.add_row(row(profile));
    }
    let mut text = table::finish(table);
    let _ = writeln!(text, "\n{}", endurances(profiles));
    text.push_str(
        "\nR is the cost of a write in reads; * marks the R that policies use; ~ is rough.\n\
qd1: ratio of times with nothing else in flight; steady: ratio of operations per\n\
second with many in flight; chip: ratio of program and read time of the chip;\n\
price: ratio of prices. Read and write belong to the marked R; $ is per million.\n\
Endurance is what a host may write in the device's life, with its range.\n\
`ebbpool devices NAME` shows all figures of a device and their sources.\n",
    );
    text
}

/// The devices that writes wear out, with what a host may write to them in their life.
fn endurances(profiles: &[DeviceProfile]) -> String {
    let mut table = table::plain();
    table.add_row(["device", "endurance", "basis"]);
    for profile in profiles {
        if let Some(endurance) = profile.endurance() {
            let basis = endurance.basis.to_string();
            table.add_row([profile.name.clone(), endurance.text(), basis]);
        }
    }
    table::finish_left(table).trim_end().into()
}

/// The endurance and its basis, or a dash.
fn endurance(profile: &DeviceProfile) -> String {
    match profile.endurance() {
        Some(endurance) => endurance.text(),
        None => UNKNOWN.into(),
    }
}

/// A sentence on the endurance and what it rests on, or on why there is none.
fn endurance_sentence(profile: &DeviceProfile) -> String {
    match profile.endurance() {
        Some(endurance) => format!(
            "A host may write {} in the device's life ({}). {}",
            endurance.text(),
            endurance.basis,
            endurance.assumption
        ),
        None => format!("It has no endurance: {}.", profile.no_endurance()),
    }
}

fn details(profile: &DeviceProfile) -> String {
    let mut text = format!("{}\n{}\n", profile.name, profile.about);
    if !profile.aliases.is_empty() {
        let _ = writeln!(text, "Also called {}.", profile.aliases.join(", "));
    }
    let _ = writeln!(text, "\npage: {}", page(profile));
    if let Some(pages) = profile.erase_block_pages() {
        let _ = writeln!(text, "erase block: {pages} pages");
    }
    for kind in AsymmetryKind::ALL {
        if let Some(asymmetry) = profile.asymmetry(kind) {
            let mark = match profile.asymmetry == kind {
                true => ", the one that policies use",
                false => "",
            };
            let rough = if profile.is_rough(kind) { "~" } else { "" };
            let ratio = digits(asymmetry.ratio(), 4);
            let _ = writeln!(text, "R {kind}: {rough}{ratio}{mark}");
        }
    }
    for (state, asymmetry) in [
        ("while the SLC cache takes writes", profile.asymmetry_in_cache()),
        ("once the SLC cache is full", profile.asymmetry_after_cache()),
    ] {
        if let Some(asymmetry) = asymmetry {
            let ratio = digits(asymmetry.ratio(), 4);
            let _ = writeln!(text, "R {} {state}: {ratio}", profile.asymmetry);
        }
    }
    let mut table = table::plain();
    table.set_width(COLUMNS);
    table.set_content_arrangement(ContentArrangement::Dynamic);
    for paragraph in profile.caveat.iter().chain([&endurance_sentence(profile)]) {
        let mut table = table.clone();
        table.add_row([paragraph]);
        let _ = write!(text, "\n{}", lines(table));
    }
    for (&quantity, figure) in &profile.figures {
        table.add_row([quantity.label().to_string(), value_and_range(quantity, figure), source(figure)]);
    }
    for (column, most) in table.column_iter_mut().zip([30, 20]) {
        column.set_constraint(ColumnConstraint::UpperBoundary(Width::Fixed(most)));
        if column.index == 1 {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let _ = write!(text, "\n{}", lines(table));
    text
}

fn lines(mut table: comfy_table::Table) -> String {
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    let mut text = String::new();
    for line in table.lines() {
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// The text before the table of figures in `docs/generated/devices.md`.
const INTRODUCTION: &str = "# Devices

Look up here what a page read and a page write cost on each device that `ebbpool` has a profile of, with the source of
every figure, and write a profile of your own. `cargo run --release -- devices --markdown` prints this page, and a test
checks that it is current.

R, the asymmetry, is the cost of a page write in page reads. One device can have several values of R that differ up to
fortyfold, so each has a name:

| R | definition |
| --- | --- |
| `qd1` | time of a write over time of a read, with no other request in flight (queue depth 1) |
| `steady` | reads a second over writes a second, with many requests in flight, once the device has reached a steady state |
| `chip` | program time over read time of the flash chip, without bus and controller |
| `price` | price of a write over price of a read |

In the table of all devices, `*` marks the R that policies see and that Ebbpool computes costs with. The columns read and
write belong to this R: they are a time, operations a second, or the price of a million operations. `~` marks figures
that are a range, typical of a class of devices, or from memory. These figures were not looked up, so do not cite them.

A profile of your own is a TOML file. `ebbpool devices NAME --format toml > my.toml` writes one to start from. These keys
are enough:

```toml
name = \"my-ssd\"
about = \"the drive under my desk\"
medium = \"ssd\"        # hdd, ssd, card, emmc, chip, cloud-disk or object-store
page_size = 4096
asymmetry = \"qd1\"     # the one that a policy sees: qd1, steady, chip or price
[figures]
read_us = 95
write_us = { value = 240, range = [200, 300], basis = \"measured\", source = \"fio\" }
```

`basis` is one of `measured`, `paper`, `datasheet`, `review`, `derived`, `typical`, `memory` and `given` (the default). A
profile can have these figures:

| key | unit | what it is |
| --- | --- | --- |
";

/// The text after the table of figures.
const EXPLANATION: &str = "
`alpha`, `k_r` and `k_w` are named as by Papon and Athanassoulis; alpha is R.

If a profile has `slc_cache_pages`, the device has a cache of SLC cells for that many page writes. Until the cache is
full, a write costs `write_us` (`qd1`), or writes run at `write_iops_cached` (`steady`). Afterwards a write costs
`write_us_after`, or writes run at `write_iops_ss`. The policy receives the R of the cache's current state. A device that
is idle at times (with `--rate`) moves a page out of the cache every `slc_drain_us`. Without a rate the device is never
idle, and the cache fills once.

The figures are for the device's own page size, `page_size`. A page of a trace that is larger takes n = trace page /
`page_size` pages of the device, rounded up, and a run prints a note that says so:

| R | cost of n pages |
| --- | --- |
| `qd1` | the time of one page, plus n - 1 times `transfer_read_us` or `transfer_write_us`; n times the time of a page where the profile does not have these, and for `write_us_after` |
| `steady` | n operations |
| `chip` | n times the chip's time, as the flash model counts it without its bus |
| `price` | n operations; one where the profile has no `page_size`, since an object has any size |

A write takes room for n pages in the SLC cache, and one that finds less room goes past it. A page of a trace that is
smaller than `page_size`, or whose size is not known, is charged as one page of the device. The costs of the papers'
devices are those of whole pages of 8 KiB, as the papers measured them.

The endurance of a device is the number of bytes that its host may write before it is worn out: `tbw`, else `dwpd` times
`capacity_bytes` over `warranty_years`, else `endurance_cycles` times `capacity_bytes` over `write_amplification`, and
with the ranges of these figures the least and the most. Where a profile has no `write_amplification`, it is assumed: 3
(1.5 to 10) for an SSD, 10 (2 to 40) for a card, 4 (2 to 10) for eMMC, and 1 for a chip, which as a device has no cleaning.
For a card or a board of your own, write a profile with its size: it lives twice as long with twice the size. `ebbpool run`
prints the endurance, and how long the device lives under the load of the run, with whole pages of the device for each
page written.

The energy of a run is `idle_w` for the whole run, plus the difference between `active_w` and `idle_w` while the device is
busy (`active_read_w` and `active_write_w` where the profile has them). A host draws `host_active_w` for the whole run. A run lasts as long as the device is busy, or with `--rate` until the
last reference has arrived and has been served.

The chips at the end of the list are those of the [flash model](../flash-model.md). Named without `flash:`, they are devices
without cleaning.

## All devices

";

fn markdown(profiles: &[DeviceProfile]) -> String {
    let mut text = String::from(INTRODUCTION);
    for quantity in Quantity::ALL {
        let _ = writeln!(text, "| `{}` | {} | {} |", quantity.key(), quantity.unit(), quantity.label());
    }
    text.push_str(EXPLANATION);
    let _ = writeln!(text, "| {} | endurance |", HEADER.join(" | "));
    text.push_str("| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n");
    for profile in profiles {
        let mut cells = row(profile);
        cells[0] = format!("[{0}](#{1})", cells[0], anchor(&cells[0]));
        let cells = escaped(&cells.join(" | "));
        let _ = writeln!(text, "| {cells} | {} |", endurance(profile));
    }
    profiles.iter().for_each(|profile| add_section(&mut text, profile));
    text
}

/// Adds the section of a device, with all its figures and their sources.
fn add_section(text: &mut String, profile: &DeviceProfile) {
    let _ = writeln!(text, "\n## {}\n\n{}.", profile.name, profile.about);
    if !profile.aliases.is_empty() {
        let aliases: Vec<String> = profile.aliases.iter().map(|a| format!("`{a}`")).collect();
        let _ = writeln!(text, "Also called {}.", aliases.join(", "));
    }
    if let Some(caveat) = &profile.caveat {
        let _ = writeln!(text, "\n{}", escaped(caveat));
    }
    let _ = writeln!(text, "\n{}", escaped(&endurance_sentence(profile)));
    text.push_str("\n| figure | value | basis and source |\n| --- | ---: | --- |\n");
    for (&quantity, figure) in &profile.figures {
        let _ =
            writeln!(text, "| {} | {} | {} |", quantity.label(), value_and_range(quantity, figure), escaped(&source(figure)));
    }
}

/// Escapes the characters that Markdown reads as emphasis or a formula.
fn escaped(text: &str) -> String {
    text.replace('*', "\\*").replace('$', "\\$")
}

/// The anchor that Markdown renderers give a heading.
fn anchor(heading: &str) -> String {
    heading.replace('.', "")
}

fn page(profile: &DeviceProfile) -> String {
    match profile.page_size {
        Some(size) if size % 1024 == 0 => format!("{} KiB", size / 1024),
        Some(size) => format!("{size} B"),
        None => "object".into(),
    }
}

fn tilde(figure: &ProfileFigure) -> &'static str {
    if figure.is_rough() { "~" } else { "" }
}

/// The cost of an operation in a short form.
fn cost(quantity: Quantity, value: f64) -> String {
    match quantity.unit() {
        "µs" if value >= 1e6 => format!("{} s", digits(value / 1e6, 3)),
        "µs" if value >= 1e3 => format!("{} ms", digits(value / 1e3, 3)),
        "µs" => format!("{} µs", digits(value, 3)),
        "1/s" if value >= 1e6 => format!("{} M/s", digits(value / 1e6, 3)),
        "1/s" if value >= 1e3 => format!("{} k/s", digits(value / 1e3, 3)),
        "1/s" => format!("{} /s", digits(value, 3)),
        _ => format!("${}", digits(value * 1e6, 3)),
    }
}

fn value_and_range(quantity: Quantity, figure: &ProfileFigure) -> String {
    let unit = match quantity.unit() {
        "" => String::new(),
        unit => format!(" {unit}"),
    };
    match figure.range {
        Some([low, high]) => format!("{} ({low} to {high}){unit}", figure.value),
        None => format!("{}{unit}", figure.value),
    }
}

fn source(figure: &ProfileFigure) -> String {
    if figure.source.is_empty() {
        return figure.basis.to_string();
    }
    format!("{}: {}", figure.basis, figure.source)
}

/// The number with `significant` digits, without trailing zeros behind the point.
fn digits(number: f64, significant: i32) -> String {
    if number == 0.0 || !number.is_finite() {
        return number.to_string();
    }
    let places = (significant - 1 - number.abs().log10().floor() as i32).clamp(0, 12);
    let text = format!("{number:.*}", places as usize);
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_string(),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_given_significant_digits() {
        for (number, significant, text) in [
            (136.2001, 4, "136.2"),
            (0.228_26, 4, "0.2283"),
            (1.0, 4, "1"),
            (10_780.8, 4, "10781"),
            (200_176.0, 3, "200176"),
            (0.0, 3, "0"),
            (1e-20, 3, "0"),
        ] {
            assert_eq!(digits(number, significant), text);
        }
        assert_eq!(cost(Quantity::WriteUs, 200_176.0), "200 ms");
        assert_eq!(cost(Quantity::ReadUs, 1_469.72), "1.47 ms");
        assert_eq!(cost(Quantity::ReadUs, 8.9), "8.9 µs");
        assert_eq!(cost(Quantity::WriteUs, 2.5e6), "2.5 s");
        assert_eq!(cost(Quantity::ReadIopsSs, 840_000.0), "840 k/s");
        assert_eq!(cost(Quantity::ReadIopsSs, 5.0), "5 /s");
        assert_eq!(cost(Quantity::ReadUsd, 3e-8), "$0.03");
    }
}
