//! Plays the traces of `hand_worked.txt` on the model and on the policy: both have the victims that were found by hand, and
//! the same events.

use std::collections::BTreeSet;

use ebbpool_model::{FutureUse, ModelEvent, model};

use super::{Buffer, class_of, next_uses};

const CASES: &str = include_str!("hand_worked.txt");

fn page(item: &str) -> u64 {
    item[1..].parse().expect("a page number")
}

/// The victims of a trace in order.
fn victims(spec: &str, frames: u32, trace: &str, context: &str) -> Vec<u64> {
    let references: Vec<(u64, bool)> =
        trace.split(' ').filter(|item| item.starts_with(['R', 'W'])).map(|item| (page(item), item.starts_with('W'))).collect();
    let mut references = references.iter().zip(next_uses(&references));
    let mut model = model(spec, frames as usize);
    let mut buffer = Buffer::new(spec, frames);
    let mut pinned = BTreeSet::new();
    let mut victims = Vec::new();
    for item in trace.split(' ') {
        match &item[..1] {
            "+" => assert!(pinned.insert(page(item)), "{context}"),
            "-" => assert!(pinned.remove(&page(item)), "{context}"),
            "C" => {
                model.clean(page(item));
                buffer.clean(page(item));
            }
            "E" => {
                let (item, erases) = item.split_once('=').expect("a number of erases");
                let erases = erases.parse().expect("a number");
                model.erases(page(item), erases);
                buffer.policy.erase_count(buffer.table[&page(item)], erases);
            }
            _ => {
                let (&(page, write), next) = references.next().expect("a reference");
                model.class(class_of(page));
                let events = model.reference(page, write, next, &pinned);
                let blind = FutureUse::default();
                let fast = buffer.reference(page, write, next, blind, &pinned);
                assert_eq!(fast, events, "{context}: {item}");
                victims.extend(events.iter().filter_map(|event| match event {
                    ModelEvent::Evict(page) => Some(*page),
                    _ => None,
                }));
            }
        }
    }
    victims
}

#[test]
fn model_and_policy_evict_what_was_worked_out_by_hand() {
    for (line, text) in (1..).zip(CASES.lines()) {
        if text.is_empty() || text.starts_with('#') {
            continue;
        }
        let context = format!("hand_worked.txt:{line}: {text}");
        let fields: Vec<&str> = text.split('|').map(str::trim).collect();
        let [spec, frames, trace, expected] = fields[..] else {
            panic!("{context}: not four fields");
        };
        let frames = frames.parse().expect("a number of frames");
        let expected: Vec<u64> = expected.split_whitespace().map(|page| page.parse().expect("a page number")).collect();
        assert_eq!(victims(spec, frames, trace, &context), expected, "{context}");
    }
}
