//! Tests the answers of curves.

use ebbpool_lab::{CurveRequest, CurveStudy, Lab, MemorySize, PolicySelection, Settings, Silent, Source};

fn study(trace: &str, policies: &str, sizes: &[u64], sample: Option<f64>) -> CurveStudy {
    let source = Source::parse(trace, None).expect("a trace");
    let asymmetry = "8".parse().expect("an asymmetry");
    let mut request = CurveRequest::new(PolicySelection::lists([policies]), asymmetry);
    request.sizes = sizes.iter().map(|&size| MemorySize::frames(size)).collect();
    request.sample = sample;
    let lab = Lab::new(Settings::default(), &Silent);
    lab.curve(&source, &request).expect("curves")
}

#[test]
fn policies_without_a_miniature_are_exact_and_named() {
    let policies = "cflru,ebb,ace:policy=fd-buffer";
    let trace = "zipf:pages=6000,refs=60000,write=0.3";
    let sampled = study(trace, policies, &[3000], Some(0.1));
    assert_eq!(sampled.without_miniature(), ["ebb", "ace:policy=fd-buffer"]);
    let exact = |study: &CurveStudy| -> Vec<bool> {
        let estimates = study.estimates.iter().flatten();
        estimates.map(|one| one.sample.is_all()).collect()
    };
    assert_eq!(exact(&sampled), [false, true, true]);
    let all = study(trace, policies, &[3000], Some(1.0));
    assert_eq!(all.without_miniature(), [""; 0]);
    assert_eq!(exact(&all), [true; 3]);
    assert_eq!(sampled.estimates[1..], all.estimates[1..]);
}

#[test]
fn without_a_target_the_answer_is_the_knee() {
    // With 1,000 frames all pages are in memory.
    let of = |sizes: &[u64]| study("uniform:pages=1000,refs=60000,write=0.3", "lru,fifo", sizes, None);
    let study = of(&[125, 250, 500, 1000, 2000, 4000]);
    assert_eq!(study.knee(), Some(1000));
    let sentence = study.sentence();
    assert_eq!(
        sentence,
        "at R=8 more memory pays up to 1,000 frames (100%) with lru: each further doubling saves less than 10 % of the least bill"
    );
    let falls = of(&[250, 500]);
    assert_eq!(falls.knee(), None);
    let falls = falls.sentence();
    assert!(falls.contains("still pays at the largest size, 500 frames (50%) with"), "{falls}");
    let flat = of(&[1000, 2000]).sentence();
    assert!(flat.contains("the smallest size, 1,000 frames (100%), is enough with lru"), "{flat}");
    let one = of(&[1000]).sentence();
    assert!(one.starts_with("at R=8 lru's bill is"), "{one}");
}
