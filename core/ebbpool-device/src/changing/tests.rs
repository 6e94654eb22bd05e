use std::io::Write;

use ebbpool_cost::PAPERS_BASE;
use proptest::prelude::*;

use super::*;

fn load(text: &str) -> ChangingAsymmetry {
    let spec: AsymmetrySpec = text.parse().expect(text);
    spec.load(PAPERS_BASE).expect(text)
}

fn refused(text: &str) -> String {
    let refused = text.parse::<AsymmetrySpec>();
    refused.expect_err(text).to_string()
}

fn from_csv(content: &[u8]) -> Result<ChangingAsymmetry, String> {
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    file.write_all(content).expect("written");
    let path = file.path().to_str().expect("a path in UTF-8");
    let spec: AsymmetrySpec = format!("file:{path}").parse().expect("a file");
    spec.load(PAPERS_BASE).map_err(|error| error.to_string().replace(path, "FILE"))
}

#[test]
fn rm1_grows_by_a_tenth_of_the_base_each_epoch() {
    let rm1 = load("rm1");
    assert_eq!(rm1.ratio_at(0), 32.0);
    assert_eq!(rm1.ratio_at(4_999), 32.0);
    assert_eq!(rm1.ratio_at(5_000), 32.0 * 1.1);
    assert_eq!(rm1.ratio_at(10 * 5_000), 64.0);
    // The TPC-C trace of the papers has 16.8 million references.
    assert_eq!(rm1.epochs_within(16_800_000), 3_360);
    assert!((rm1.ratio_at(16_799_999) - 10_780.8).abs() < 1e-9);
    let device = "rm1:epoch=10".parse::<AsymmetrySpec>().expect("a model");
    let device = device.load(Asymmetry::saturating(136.0)).expect("no file");
    assert_eq!(device.ratio_at(100), 272.0);
}

#[test]
fn rm1_can_be_stopped() {
    let rm1 = load("rm1:base=10,epoch=100,epochs=3");
    let ratios: Vec<f64> = rm1.epochs().map(|epoch| epoch.ratio).collect();
    assert_eq!(ratios, [10.0, 11.0, 12.0]);
    assert_eq!(rm1.ratio_at(u64::MAX), 12.0);
    assert_eq!(rm1.epochs_within(1_000_000), 3);
    assert_eq!(rm1.epochs_within(0), 0);
}

#[test]
fn rm2_alternates_in_both_readings() {
    let of = |text| -> Vec<f64> { load(text).epochs().take(4).map(|e| e.ratio).collect() };
    assert_eq!(of("rm2"), [32.0, 30.4, 32.0, 30.4]);
    assert_eq!(of("rm2:reading=absolute"), [32.0, 0.95, 32.0, 0.95]);
    assert_eq!(of("rm2:base=100,reading=literal"), [100.0, 95.0, 100.0, 95.0]);
}

#[test]
fn spellings_are_canonical() {
    for (text, canonical) in [
        ("32", "32"),
        ("rm1", "rm1"),
        (" rm1:epoch=5000 ", "rm1"),
        ("rm1:epochs=7,epoch=10,base=2.5", "rm1:base=2.5,epoch=10,epochs=7"),
        ("rm2:reading=literal", "rm2"),
        ("rm2:reading=absolute,base=25", "rm2:base=25,reading=absolute"),
        ("file:a:b,c=1.csv", "file:a:b,c=1.csv"),
    ] {
        let spec: AsymmetrySpec = text.parse().expect(text);
        assert_eq!(spec.to_string(), canonical);
        assert_eq!(canonical.parse(), Ok(spec));
    }
    let constant: AsymmetrySpec = "32".parse().expect("a number");
    assert_eq!(constant.constant(), Some(PAPERS_BASE));
    assert_eq!(load("8").epochs().count(), 1);
    assert_eq!(load("8").ratio_at(u64::MAX), 8.0);
}

#[test]
fn errors_name_the_accepted_spellings() {
    for (text, words) in [
        ("", "rm1 or rm2"),
        ("-1", "a number from 0 to 1e15"),
        ("1e308", "a number from 0 to 1e15"),
        ("rm1:base=1e16", "a number from 0 to 1e15"),
        ("rm3", "rm1 or rm2"),
        ("file:", "the path is missing"),
        (
            "rm1:reading=literal",
            "rm1: unknown parameter 'reading'; it takes base (a number from 0 to 1e15; default the device's, or 32), epoch",
        ),
        ("rm2:reading=other", "expected literal or absolute"),
        ("rm1:epoch=0", "a whole number from 1 to"),
        ("rm1:epochs=x", "a whole number from 1 to"),
        ("rm1:base=NaN", "base=NaN: expected a number"),
        ("rm1:base=1,base=2", "given twice"),
    ] {
        assert!(refused(text).contains(words), "{text}: {}", refused(text));
    }
}

#[test]
fn changes_come_from_a_file() {
    let changes = from_csv(b"reference,R\n# fresh\n0,4\n1000, 8.5\n2500,1\n").expect("changes");
    let epochs: Vec<AsymmetryPeriod> = changes.epochs().collect();
    assert_eq!(
        epochs.iter().map(|e| (e.index, e.start, e.end, e.ratio)).collect::<Vec<_>>(),
        [(0, 0, Some(1000), 4.0), (1, 1000, Some(2500), 8.5), (2, 2500, None, 1.0)]
    );
    assert_eq!(changes.ratio_at(999), 4.0);
    assert_eq!(changes.ratio_at(1000), 8.5);
    assert_eq!(changes.epochs_within(2501), 3);
}

#[test]
fn a_wrong_file_is_refused_with_its_line() {
    for (content, message) in [
        (&b""[..], "FILE: has no line"),
        (b"reference,R\n", "FILE: has no line"),
        (b"reference,R\n0,4\n0,5\n", "FILE, line 3: reference 0 does not come after 0"),
        (b"0,4\n\n9,5\n8,5\n", "FILE, line 4: reference 8"),
        (b"5,4\n", "FILE, line 1: the first change is at reference 5"),
        (b"R,reference\n32,0\n", "FILE, line 1: the columns are R,reference; put"),
        (b"0\n", "FILE, line 1: expected two fields"),
        (b"0,4\n7,x\n", "FILE, line 2: 'x' is not an asymmetry"),
        (b"0,4\nx,7\n", "FILE, line 2: 'x' is no reference"),
        (b"0,4\n\xff,7\n", "FILE, line 2: '\u{fffd}' is no reference"),
        (b"0,-4\n", "FILE, line 1: '-4' is not an asymmetry"),
    ] {
        let error = from_csv(content).expect_err(message);
        assert!(error.starts_with(message), "{error}");
    }
    let missing: AsymmetrySpec = "file:/no/such.csv".parse().expect("a path");
    let error = missing.load(PAPERS_BASE).expect_err("no file").to_string();
    assert!(error.starts_with("/no/such.csv: cannot read: "), "{error}");
}

fn schedules() -> impl Strategy<Value = ChangingAsymmetry> {
    let model = ("rm1|rm2|rm2:reading=absolute", 1..50u64, proptest::option::of(1..9u64)).prop_map(|(model, epoch, epochs)| {
        let sign = if model.contains(':') { ',' } else { ':' };
        let epochs = epochs.map_or(String::new(), |epochs| format!(",epochs={epochs}"));
        load(&format!("{model}{sign}epoch={epoch}{epochs}"))
    });
    let table = proptest::collection::btree_map(1..500u64, 0.0..100.0f64, 0..20).prop_map(|rows| {
        let lines = rows.iter().map(|(reference, r)| format!("{reference},{r}\n"));
        let content: String = std::iter::once("0,1\n".to_string()).chain(lines).collect();
        from_csv(content.as_bytes()).expect("changes")
    });
    prop_oneof![model, table]
}

proptest! {
    #[test]
    fn epochs_cover_every_reference_once(changing in schedules(), reference in 0..600u64) {
        let mut at = 0;
        for (index, epoch) in changing.epochs().enumerate() {
            prop_assert_eq!(epoch.index, index as u64);
            prop_assert_eq!(epoch.start, at);
            if epoch.contains(reference) {
                prop_assert_eq!(epoch, changing.epoch_at(reference));
                prop_assert_eq!(changing.ratio_at(reference), epoch.ratio);
                break;
            }
            at = epoch.end.expect("the last epoch holds all that follow");
            prop_assert!(at > epoch.start);
        }
    }

    #[test]
    fn references_near_the_largest_number_do_not_overflow(changing in schedules(), back in 0..100u64) {
        let epoch = changing.epoch_at(u64::MAX - back);
        prop_assert!(epoch.contains(u64::MAX - back));
        prop_assert!(epoch.ratio.is_finite());
    }

    #[test]
    fn any_text_is_parsed_or_refused(text in "(rm1|rm2|file)?:?[a-z0-9=,.]{0,20}") {
        if let Ok(spec) = text.parse::<AsymmetrySpec>() {
            prop_assert_eq!(spec.to_string().parse(), Ok(spec));
        }
    }

    #[test]
    fn any_file_is_read_or_refused(content in proptest::collection::vec(any::<u8>(), 0..100)) {
        if let Ok(changing) = from_csv(&content) {
            prop_assert!(changing.ratio_at(0).is_finite());
        }
    }
}
