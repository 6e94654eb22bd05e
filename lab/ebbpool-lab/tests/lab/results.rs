//! Tests that results are the same in every format, and that their fields are documented.

use std::collections::BTreeMap;

use ebbpool_lab::schema::{self, Field, FieldType, FieldValue, ResultRow};
use ebbpool_lab::{
    AtEnd, BoundRequest, BoundResult, CompareRequest, CurveRequest, CurveRow, Lab, PolicySelection, PricingRequest, RunResult,
    Settings, Silent, Source,
};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field as Cell;

fn source() -> Source {
    Source::parse("zipf:pages=300,refs=6000,write=0.4", None).expect("a trace")
}

fn lab() -> Lab<'static> {
    Lab::new(Settings::default(), &Silent)
}

fn run_results() -> Vec<RunResult> {
    let pricing = |text: &str| PricingRequest::Asymmetry(text.parse().expect("an asymmetry"));
    let device = PricingRequest::new(None, Some("flash-136")).expect("a device");
    let mut all = Vec::new();
    let constant = (vec![pricing("1.5"), pricing("4")], true);
    let changing = (vec![pricing("rm1:base=4")], false);
    for (pricing, bound) in [constant, changing, (vec![device], false)] {
        let sizes = ["7", "5%"].map(|size| size.parse().expect("a size"));
        let policies = PolicySelection::lists(["lru,cfdc:cluster=4,ebb"]);
        let mut request = CompareRequest::new(policies, sizes.into(), pricing);
        request.bound = bound;
        let comparison = lab().compare(&source(), &request).expect("results");
        all.extend(comparison.finished().cloned());
    }
    all
}

fn curve_rows() -> Vec<CurveRow> {
    let policies = PolicySelection::lists(["lru,cflru"]);
    let asymmetry = "8".parse().expect("an asymmetry");
    let mut request = CurveRequest::new(policies, asymmetry);
    request.clean_pools = Some("40".parse().expect("a size"));
    request.target = Some("bill 3".parse().expect("a target"));
    lab().curve(&source(), &request).expect("a study").rows()
}

fn bounds() -> Vec<BoundResult> {
    let sizes = vec!["10".parse().expect("a size")];
    let asymmetries = vec!["2.5".parse().expect("an asymmetry")];
    let mut request = BoundRequest::new(sizes, asymmetries);
    request.at_end = AtEnd::Flush;
    lab().bound(&source(), &request).expect("a bound")
}

fn from_json<R: ResultRow>(rows: &[R]) -> Vec<BTreeMap<String, FieldValue>> {
    let mut text = Vec::new();
    schema::write_json(&mut text, rows).expect("JSON");
    let read: Vec<serde_json::Map<String, serde_json::Value>> = serde_json::from_slice(&text).expect("JSON");
    let value = |field: &Field, value: &serde_json::Value| match (field.field_type, value) {
        (_, serde_json::Value::Null) => FieldValue::Null,
        (FieldType::Text, value) => FieldValue::Text(value.as_str().expect("text").into()),
        (FieldType::Whole, value) => FieldValue::Whole(value.as_u64().expect("a whole number")),
        (FieldType::Real, value) => FieldValue::Real(value.as_f64().expect("a number")),
    };
    read.iter()
        .map(|row| {
            assert_eq!(row.len(), R::FIELDS.len());
            R::FIELDS.iter().map(|field| (field.name.to_string(), value(field, &row[field.name]))).collect()
        })
        .collect()
}

fn from_csv<R: ResultRow>(rows: &[R]) -> Vec<BTreeMap<String, FieldValue>> {
    let mut text = Vec::new();
    schema::write_csv(&mut text, rows).expect("CSV");
    let mut reader = csv::Reader::from_reader(text.as_slice());
    let names: Vec<String> = reader.headers().expect("names").iter().map(String::from).collect();
    assert_eq!(names, R::FIELDS.iter().map(|field| field.name).collect::<Vec<_>>());
    let value = |field: &Field, text: &str| match (field.field_type, text) {
        (_, "") if field.nullable => FieldValue::Null,
        (FieldType::Text, text) => FieldValue::Text(text.into()),
        (FieldType::Whole, text) => FieldValue::Whole(text.parse().expect("a whole number")),
        (FieldType::Real, text) => FieldValue::Real(text.parse().expect("a number")),
    };
    reader
        .records()
        .map(|row| {
            let row = row.expect("a row");
            let cells = R::FIELDS.iter().zip(row.iter());
            cells.map(|(field, text)| (field.name.to_string(), value(field, text))).collect()
        })
        .collect()
}

fn from_parquet<R: ResultRow>(rows: &[R]) -> Vec<BTreeMap<String, FieldValue>> {
    let bytes = schema::parquet(rows).expect("a file");
    let reader = SerializedFileReader::new(bytes::Bytes::from(bytes)).expect("Parquet");
    let value = |cell: &Cell| match cell {
        Cell::Null => FieldValue::Null,
        Cell::Str(text) => FieldValue::Text(text.clone()),
        Cell::Long(number) => FieldValue::Whole(u64::try_from(*number).expect("not negative")),
        Cell::Double(number) => FieldValue::Real(*number),
        other => panic!("{other:?}"),
    };
    let rows = reader.get_row_iter(None).expect("rows");
    rows.map(|row| {
        let row = row.expect("a row");
        let cells = row.get_column_iter();
        cells.map(|(name, cell)| (name.clone(), value(cell))).collect()
    })
    .collect()
}

fn assert_same_in_all_formats<R: ResultRow>(rows: &[R]) {
    assert!(!rows.is_empty());
    let values = |row: &R| -> BTreeMap<String, FieldValue> {
        let fields = R::FIELDS.iter().map(|field| field.name.to_string());
        fields.zip(row.values()).collect()
    };
    let expected: Vec<_> = rows.iter().map(values).collect();
    assert_eq!(from_json(rows), expected, "JSON");
    assert_eq!(from_csv(rows), expected, "CSV");
    assert_eq!(from_parquet(rows), expected, "Parquet");
}

#[test]
fn every_format_has_every_field_of_every_result() {
    assert_same_in_all_formats(&run_results());
    assert_same_in_all_formats(&curve_rows());
    assert_same_in_all_formats(&bounds());
}

/// The page below its introduction: all of this text is generated.
const TABLES: &str = "\n## ";

/// `EBBPOOL_WRITE_DOCS=1 cargo test -p ebbpool-lab --test lab results::` writes the tables again.
#[test]
fn the_page_on_results_has_every_field() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/generated/results.md");
    let table = |heading: &str, table: String| format!("## {heading}\n\n{table}\n");
    // A crate from a registry has no `docs` directory beside it.
    let Ok(found) = std::fs::read_to_string(page) else {
        return;
    };
    let (prose, _) = found.split_once(TABLES).expect("the heading of a table");
    let mut text = format!("{prose}\n");
    text += &table("`ebbpool compare` and `ebbpool run`", schema::markdown::<RunResult>());
    text += &table("`ebbpool curve`", schema::markdown::<CurveRow>());
    text += &table("`ebbpool bound`", schema::markdown::<BoundResult>());
    let text = format!("{}\n", text.trim_end());
    if std::env::var_os("EBBPOOL_WRITE_DOCS").is_some() {
        std::fs::write(page, &text).expect("the page is written");
        return;
    }
    assert!(found == text, "docs/generated/results.md is out of date");
}
