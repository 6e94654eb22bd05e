//! The picture of the report in README.md and docs/report.md: it shows the figures of the table below it.
#![cfg(unix)]

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::harness::{Ebbpool, ROOT};

/// The picture, the document that says which figures it shows, and how that line begins.
const PICTURE: &str = "docs/report.png";
const DOCUMENT: &str = "docs/report.md";
const SHOWN: &str = "<!-- figures of report.png: ";

/// A number for the figures of all results (FNV-1a), in hexadecimal digits.
fn digest(ebbpool: &Ebbpool) -> String {
    let rows = ebbpool.rows(&["compare"]);
    let mut hash = 0xcbf2_9ce4_8422_2325u64;
    for row in &rows {
        let cost = row["cost"].as_f64().expect("a bill");
        let text = format!("{} {} {} {cost:.4}\n", row["policy"], row["frames"], row["asymmetry"]);
        for byte in text.bytes() {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
    format!("{hash:016x}")
}

/// Makes the picture anew, as docs/report.md says.
fn photograph() {
    let ebbpool = Ebbpool::in_scratch();
    ebbpool.stdout(&["compare", "--report", "report.html"]);
    let picture = Path::new(ROOT).join(PICTURE);
    let taken = Command::new("chromium")
        .args(["--headless", "--no-sandbox", "--hide-scrollbars", "--window-size=1280,920"])
        .arg(format!("--screenshot={}", picture.display()))
        .arg(format!("file://{}", ebbpool.path("report.html").display()))
        .output()
        .expect("chromium, which makes docs/report.png");
    assert!(taken.status.success(), "{taken:?}");
}

/// `EBBPOOL_WRITE_DOCS=1 cargo test -p ebbpool-cli --test commands documents` makes the picture anew, with Chromium, when it
/// writes the table that README.md has below it.
#[test]
fn the_picture_of_the_report_shows_todays_figures() {
    let document = Path::new(ROOT).join(DOCUMENT);
    let text = fs::read_to_string(&document).expect("the document");
    let (before, rest) = text.split_once(SHOWN).expect("the line that names the figures");
    let (shown, after) = rest.split_once(' ').expect("the end of the line");
    let current = digest(&Ebbpool::in_repository());
    if shown == current {
        return;
    }
    assert!(
        std::env::var_os("EBBPOOL_WRITE_DOCS").is_some(),
        "{PICTURE} shows figures {shown}, and `ebbpool compare` has {current}; \
         run: EBBPOOL_WRITE_DOCS=1 cargo test -p ebbpool-cli --test commands documents"
    );
    photograph();
    let written = format!("{before}{SHOWN}{current} {after}");
    fs::write(&document, written).expect("the document is written");
}
