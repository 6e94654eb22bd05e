//! A comparison of results in a sentence.

use std::collections::BTreeMap;

use serde_json::Value;

use super::file::plain_text;
use super::numbers::{percent, shown};
use super::{FigureChange, ResultDiff};

/// The most fields that a sentence names.
const MOST_FIELDS: usize = 3;

/// A key in words, in the order of the key fields: `cflru, 2702 frames, asymmetry 8`.
pub fn words(diff: &ResultDiff, key: &BTreeMap<String, Value>) -> String {
    let part = |name: &String| {
        let value = key.get(name).filter(|value| !value.is_null())?;
        let value = plain_text(value);
        Some(match name.as_str() {
            "trace" | "policy" | "id" | "name" | "device" => value,
            "frames" => format!("{value} frames"),
            name => format!("{name} {value}"),
        })
    };
    let parts: Vec<String> = diff.keys.iter().filter_map(part).collect();
    parts.join(", ")
}

/// The summary: how many results changed, which fields, and the largest change.
pub fn sentence(diff: &ResultDiff) -> String {
    let mut text = match (diff.matched, diff.changed) {
        (0, _) => "no result is in both files".into(),
        (1, 0) => "the result has not changed".into(),
        (1, _) => "the result has changed".into(),
        (all, 0) => format!("none of {all} results changed"),
        (all, changed) => format!("{changed} of {all} results changed"),
    };
    if diff.changed > 0 {
        text += &fields(diff);
    }
    if diff.within_noise > 0 {
        text += &format!(
            "; {} within the noise of measured figures",
            match diff.matched {
                1 => "it differs".into(),
                _ => format!("{} differ", diff.within_noise),
            }
        );
    }
    let missing = [(diff.only_before.len(), &diff.before), (diff.only_after.len(), &diff.after)];
    for (count, file) in missing.into_iter().filter(|(count, _)| *count > 0) {
        text += &format!("; {count} only in {file}");
    }
    text
}

/// The fields that changed in most results, with the range of their changes, and the largest change.
fn fields(diff: &ResultDiff) -> String {
    let principal: Vec<&FigureChange> = diff.changes.iter().filter(|change| change.is_principal()).collect();
    let mut by_field: Vec<(&str, Vec<&FigureChange>)> = Vec::new();
    for &change in &principal {
        match by_field.iter_mut().find(|(name, _)| *name == change.field) {
            Some((_, changes)) => changes.push(change),
            None => by_field.push((&change.field, vec![change])),
        }
    }
    by_field.sort_by_key(|(_, changes)| std::cmp::Reverse(changes.len()));
    let all = by_field.len();
    let named = by_field.iter().take(MOST_FIELDS);
    let named = named.map(|(name, changes)| format!("{name}{}", range(diff, changes)));
    let mut named: Vec<String> = named.collect();
    if all > MOST_FIELDS {
        named.push(format!("{} more fields", all - MOST_FIELDS));
    }
    let mut text = match named.is_empty() {
        true => String::new(),
        false => format!(": {}", named.join(", ")),
    };
    if let Some(largest) = principal.first().filter(|_| principal.len() > 1) {
        let key = words(diff, &largest.key);
        let of_key = match key.is_empty() {
            true => String::new(),
            false => format!(" of {key}"),
        };
        text += &format!(
            "; the largest change is {}{of_key}, {} -> {}{}",
            largest.field,
            shown(&largest.before),
            shown(&largest.after),
            in_brackets(largest.relative)
        );
    }
    text
}

/// The number of results in which a field changed, and its least and largest change.
fn range(diff: &ResultDiff, changes: &[&FigureChange]) -> String {
    let relative = changes.iter().filter_map(|change| change.relative);
    let (least, most) = relative.fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), it| (least.min(it), most.max(it)));
    let count = match diff.matched {
        1 => String::new(),
        _ => format!(" in {}", changes.len()),
    };
    if least > most {
        return count;
    }
    match (percent(least), percent(most)) {
        (least, most) if least == most => format!("{count} ({least})"),
        (least, most) => format!("{count} ({least} to {most})"),
    }
}

fn in_brackets(relative: Option<f64>) -> String {
    relative.map_or(String::new(), |relative| format!(" ({})", percent(relative)))
}
