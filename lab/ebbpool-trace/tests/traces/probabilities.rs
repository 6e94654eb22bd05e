//! The probabilities that generators state are those of their references.

use ebbpool_trace::{Batch, Format, Metadata, ReadOptions, Source, Writer, generators};

const REFERENCES: u64 = 400_000;

fn source(spec: &str) -> Source {
    Source::parse(spec, None).expect("a generator")
}

/// How often each page is referenced, and how often it is written.
fn counts(source: &Source, pages: usize) -> Vec<[u64; 2]> {
    let mut counts = vec![[0; 2]; pages];
    let mut reader = source.open().expect("a trace");
    let mut batch = Batch::new();
    while reader.next_batch(&mut batch, 1 << 14).expect("references") {
        for (page, write) in batch.iter() {
            counts[page as usize][0] += 1;
            counts[page as usize][1] += u64::from(write);
        }
    }
    counts
}

#[test]
fn references_have_the_stated_probabilities() {
    for (spec, pages, share) in [
        ("zipf:pages=300,read-alpha=0.6,write-alpha=1.2,write=0.4", 300, 0.4),
        ("zipf:pages=300,read-alpha=1,write=0.15,seed=3", 300, 0.15),
        ("zipf:pages=300,read-alpha=0.8,write-alpha=0,write=0.7,shared=true", 300, 0.7),
        ("zipf:pages=300,read-alpha=0,write=0.5", 300, 0.5),
        ("zipf:pages=300,write=1", 300, 1.0),
        ("self-similar:pages=200,write=0.2", 200, 0.2),
        ("self-similar:pages=200,write=0.2,skew=0.7/0.3,shuffled=true", 200, 0.2),
        ("uniform:pages=50,write=0", 50, 0.0),
        ("uniform:pages=50,write=0.3", 50, 0.3),
        ("uniform:pages=1,write=0.3", 1, 0.3),
    ] {
        let source = source(&format!("{spec},refs={REFERENCES}"));
        let known = source.page_probabilities().expect("memory");
        let known = known.expect("the generator knows them");
        let (mut all, mut writes) = (0.0, 0.0);
        for (page, counts) in (0..).zip(counts(&source, pages)) {
            let of_page = known.for_page(page);
            let probabilities = [of_page.reference, of_page.write];
            assert!(of_page.write <= of_page.reference, "{spec}, {of_page:?}");
            for (count, probability) in counts.into_iter().zip(probabilities) {
                let expected = REFERENCES as f64 * probability;
                // Six standard deviations.
                let most = 6.0 * (expected * (1.0 - probability)).sqrt() + 1e-6;
                let off = (count as f64 - expected).abs();
                assert!(off <= most, "{spec}, page {page}: {count}, not {expected}");
            }
            all += of_page.reference;
            writes += of_page.write;
        }
        assert!((all - 1.0).abs() < 1e-9, "{spec}: {all}");
        assert!((writes - share).abs() < 1e-9, "{spec}: {writes}");
    }
}

#[test]
fn pages_of_the_same_rank_are_alike_and_hotter_ones_more_probable() {
    let spec = "zipf:pages=1000,read-alpha=0.9,write=0.3,shared=true";
    let known = source(spec).page_probabilities().expect("memory");
    let known = known.expect("the generator knows them");
    let mut pages: Vec<f64> = (0..1000).map(|page| known.for_page(page).reference).collect();
    pages.sort_by(|one, other| other.total_cmp(one));
    for rank in [1, 9, 99, 999] {
        let ratio = pages[0] / pages[rank];
        let expected = ((rank + 1) as f64).powf(0.9);
        assert!((ratio / expected - 1.0).abs() < 1e-4, "{rank}: {ratio}");
    }
    assert_eq!(known.for_page(1000).reference, 0.0);
    let uniform = source("zipf:pages=777,read-alpha=0,write=0.25");
    let uniform = uniform.page_probabilities().expect("memory");
    let uniform = uniform.expect("the generator knows them");
    assert!((0..777).all(|page| uniform.for_page(page) == uniform.for_page(0)));
}

/// A generator says that it knows probabilities exactly where it has some.
#[test]
fn generators_that_know_them_say_so() {
    for info in generators() {
        let required = match info.name {
            "workload-dynamics" => "workload-dynamics:base=zipf".to_string(),
            name => name.to_string(),
        };
        let source = source(&required);
        let found = source.page_probabilities().expect("memory");
        assert_eq!(found.is_some(), info.knows_probabilities, "{}", info.name);
        assert_eq!(source.knows_page_probabilities(), info.knows_probabilities);
    }
    let names = generators().filter(|info| info.knows_probabilities);
    let names: Vec<&str> = names.map(|info| info.name).collect();
    assert_eq!(names, ["zipf", "uniform", "self-similar"]);
}

#[test]
fn several_parts_and_files_know_none_and_options_change_none() {
    let zipf = "zipf:pages=100,refs=1000".to_string();
    let plain = source(&zipf).page_probabilities().expect("memory");
    assert!(plain.is_some());
    let options =
        ReadOptions { page_size: Some(8192.try_into().expect("not 0")), skip: 100, limit: Some(200), ..ReadOptions::default() };
    let read = Source::parse_with(&zipf, &options).expect("a generator");
    assert_eq!(read.page_probabilities().expect("memory"), plain);

    let twice = Source::concat(&[zipf.clone(), zipf], &options).expect("two parts");
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("t.parquet");
    let mut writer = Writer::create(&path, Format::Native, &Metadata::default()).expect("a file");
    writer.write(&Batch::from_iter([(1, true)])).and_then(|()| writer.finish()).expect("room");
    let stored = source(path.to_str().expect("a plain path"));
    for source in [twice, stored] {
        assert!(!source.knows_page_probabilities());
        assert_eq!(source.page_probabilities().expect("memory"), None);
    }
}
