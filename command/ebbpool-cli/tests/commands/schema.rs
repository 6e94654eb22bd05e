//! Tests of `ebbpool schema`: the JSON of each command is valid by its schema, for a validator that is not ours.
#![cfg(unix)]

use std::collections::BTreeSet;
use std::fs;

use boon::{Compiler, SchemaIndex, Schemas};
use serde_json::{Map, Value, json};

use crate::harness::{Ebbpool, ROOT, SMALL_FLASH, TABLE_2, empty_sqlite_database};

/// A schema, compiled as it is printed, and again so that it refuses fields that it does not name.
struct Validator {
    schemas: Schemas,
    printed: SchemaIndex,
    closed: SchemaIndex,
}

impl Validator {
    fn of(schema: &Value) -> Self {
        let mut schemas = Schemas::new();
        let mut compile = |schema: Value, location: &str| {
            let mut compiler = Compiler::new();
            compiler.enable_format_assertions();
            compiler.add_resource(location, schema).expect("a schema of draft 2020-12");
            let compiled = compiler.compile(location, &mut schemas);
            compiled.unwrap_or_else(|error| panic!("{location}: {error:#}"))
        };
        let id = schema["$id"].as_str().expect("a name");
        let printed = compile(schema.clone(), id);
        let mut closed = schema.clone();
        let other_id = format!("{id}:closed");
        closed["$id"] = json!(other_id);
        close(&mut closed);
        let closed = compile(closed, &other_id);
        Validator { schemas, printed, closed }
    }

    fn accepts(&self, json: &Value) -> Result<(), String> {
        let by_printed = self.schemas.validate(json, self.printed);
        by_printed.map_err(|error| format!("{error:#}"))?;
        let by_closed = self.schemas.validate(json, self.closed);
        by_closed.map_err(|error| format!("a field is not in the schema: {error:#}"))
    }

    fn refuses(&self, json: &Value) -> bool {
        self.schemas.validate(json, self.printed).is_err()
    }
}

/// Forbids fields that an object's schema does not name.
fn close(schema: &mut Value) {
    match schema {
        Value::Object(keywords) => {
            let names_fields = keywords.contains_key("properties");
            keywords.values_mut().for_each(close);
            if names_fields && !keywords.contains_key("additionalProperties") {
                keywords.insert("unevaluatedProperties".into(), json!(false));
            }
        }
        Value::Array(items) => items.iter_mut().for_each(close),
        _ => {}
    }
}

/// The same JSON with one field of its first result changed.
fn mutated(json: &Value, change: impl Fn(&mut Map<String, Value>)) -> Value {
    let mut json = json.clone();
    let result = match &mut json {
        Value::Array(results) => results.first_mut().expect("a result"),
        result => result,
    };
    change(result.as_object_mut().expect("an object"));
    json
}

/// The commands that print JSON, with the names of their schemas.
const OUTPUTS: &[(&str, &[&str])] = &[
    ("compare", &["compare", "t.txt", "--bound", "--frames", "1,2", "--asymmetry", "1,2.5"]),
    ("compare", &["compare", "t.txt", "--frames", "2", "--asymmetry", "rm1:base=4,epoch=4"]),
    ("compare", &["compare", "t.txt", "--frames", "2", "--device", "s3-standard"]),
    ("compare", &["compare", "t.txt", "--frames", "2", "--device", SMALL_FLASH, "--rate", "10"]),
    ("run", &["run", "t.txt", "--policy", "lru", "--frames", "2", "--device", "hdd1"]),
    ("run", &["run", "t.txt", "--policy", "lru", "--frames", "2", "--page-size", "4096"]),
    ("curve", &["curve", "zipf:pages=300,refs=6000", "--policies", "lru,cflru", "--target", "bill 3"]),
    ("bound", &["bound", "t.txt", "--frames", "2"]),
    ("bound", &["bound", "t.txt", "--frames", "1,2", "--at-end", "flush"]),
    ("replay", &["replay", "t.txt", "--memory", "--policy", "lru", "--frames", "2"]),
    ("replay", &["replay", "t.txt", "--memory", "--policies", "lru,ebb", "--frames", "2"]),
    ("device replay", &["device", "replay", "t.txt", "--device", SMALL_FLASH, "--bytes-per-day", "1e9"]),
    ("device measure", &["device", "measure", ".", "--size", "4MiB", "--seconds", "0.002"]),
    ("devices", &["devices"]),
    ("devices", &["devices", "flash-136"]),
    ("trace info", &["trace", "info", "t.txt"]),
    ("reproduce", &["reproduce", "cikm-table2", "cfdc-fig3"]),
    ("reproduce list", &["reproduce", "--list"]),
    (
        "db bench",
        &[
            "db", "bench", "a.db", "--workload", "cfdc", "--queries", "30", "--updates", "20", "--scans", "1",
            "--scan-updates", "1",
        ],
    ),
    ("db check", &["db", "check", "a.db"]),
    ("db stats", &["db", "stats", "a.db"]),
    #[cfg(target_os = "linux")]
    ("sqlite status", &["sqlite", "status", "home.db"]),
    #[cfg(target_os = "linux")]
    ("sqlite check", &["sqlite", "check", "home.db"]),
    #[cfg(target_os = "linux")]
    ("sqlite recover", &["sqlite", "recover", "home.db"]),
    #[cfg(target_os = "linux")]
    ("sqlite measure", &["sqlite", "measure", "home.db", "--minutes", "0.002"]),
    ("advise", &["advise", "t.txt", "--frames", "2", "--rate", "100/s"]),
];

#[test]
fn the_json_of_every_command_is_valid_by_its_schema_and_no_other_is() {
    let ebbpool = Ebbpool::in_scratch();
    ebbpool.file("t.txt", TABLE_2);
    ebbpool.stdout(&["db", "load", "a.db", "--records", "2000"]);
    ebbpool.file("home.db", empty_sqlite_database());
    let mut seen = BTreeSet::new();
    for &(name, args) in OUTPUTS {
        let output = ebbpool.json(args);
        check(&ebbpool, name, &output);
        seen.insert(name);
        let text = output.to_string();
        ebbpool.file("before.json", &text);
        ebbpool.file("after.json", text);
        let diff = ebbpool.json(&["diff", "before.json", "after.json"]);
        assert_eq!(diff["command"], name);
        assert_eq!(diff["changes"], json!([]), "{name}");
    }
    ebbpool.file("a.json", ebbpool.stdout(&[OUTPUTS[0].1, &["--format", "json"]].concat()));
    let other = ["--policies", "lru,arc", "--asymmetry", "3"];
    let other = [&OUTPUTS[0].1[..5], &other, &["--format", "json"]].concat();
    ebbpool.file("b.json", ebbpool.stdout(&other));
    check(&ebbpool, "diff", &ebbpool.json(&["diff", "a.json", "b.json"]));
    seen.insert("diff");
    let listed = ebbpool.stdout(&["schema"]);
    let listed = listed.lines().map(|line| line.split("  ").next().unwrap_or_default());
    let untested: Vec<&str> = listed.filter(|name| !seen.contains(name)).collect();
    assert_eq!(untested, [""; 0], "these commands have a schema and no test");
}

fn check(ebbpool: &Ebbpool, name: &str, output: &Value) {
    let words: Vec<&str> = name.split(' ').collect();
    let schema = ebbpool.stdout(&[&["schema"], &words[..]].concat());
    let schema: Value = serde_json::from_str(&schema).expect("JSON");
    assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
    let validator = Validator::of(&schema);
    if let Err(error) = validator.accepts(output) {
        panic!("{name}: {error}\n{output:#}");
    }
    assert!(validator.refuses(&json!("a text")), "{name}");
    let first = match output {
        Value::Array(results) => &results[0],
        result => result,
    };
    let required = schema["$defs"]["result"]["required"].as_array().expect("fields");
    for field in first.as_object().expect("an object").keys() {
        if required.iter().any(|name| name == field) {
            let without = mutated(output, |result| {
                result.remove(field);
            });
            assert!(validator.refuses(&without), "{name} without {field}");
        }
        let of_other_type = mutated(output, |result| {
            result.insert(field.clone(), json!([[true]]));
        });
        assert!(validator.refuses(&of_other_type), "{name} with another {field}");
    }
}

/// The fields of a schema, a line each: their names, types, and units.
fn fields(path: &str, schema: &Value, lines: &mut BTreeSet<String>) {
    let keyword = |name: &str| schema.get(name);
    if let Some(types) = keyword("const").or_else(|| keyword("type")) {
        let unit = keyword("x-unit").and_then(Value::as_str);
        let unit = unit.map_or(String::new(), |unit| format!(" {unit}"));
        lines.insert(format!("{path} {types}{unit}"));
    }
    for combined in ["anyOf", "oneOf", "allOf"] {
        let parts = keyword(combined).and_then(Value::as_array);
        parts.into_iter().flatten().for_each(|part| fields(path, part, lines));
    }
    let properties = keyword("properties").and_then(Value::as_object);
    for (name, field) in properties.into_iter().flatten() {
        fields(&format!("{path}.{name}"), field, lines);
    }
    let required = keyword("required").and_then(Value::as_array);
    for name in required.into_iter().flatten() {
        lines.insert(format!("{path}.{} required", name.as_str().expect("a name")));
    }
    if let Some(items) = keyword("items") {
        fields(&format!("{path}[]"), items, lines);
    }
    if let Some(others) = keyword("additionalProperties") {
        fields(&format!("{path}.*"), others, lines);
    }
}

/// A field that is removed or renamed, or has another type or unit, needs a new version of its schema. The file has the
/// fields of the present versions; with `EBBPOOL_WRITE_DOCS=1` the test adds new fields to it.
#[test]
fn a_version_keeps_its_fields() {
    let ebbpool = Ebbpool::in_scratch();
    let path = format!("{ROOT}/command/ebbpool-cli/tests/golden/fields-of-results.txt");
    let golden = fs::read_to_string(&path).unwrap_or_default();
    let golden: BTreeSet<String> = golden.lines().map(str::to_string).collect();
    let mut current = BTreeSet::new();
    let mut ids = Vec::new();
    for line in ebbpool.stdout(&["schema"]).lines() {
        let id = line.split_whitespace().last().expect("a name");
        let schema: Value = serde_json::from_str(&ebbpool.stdout(&["schema", id])).expect("JSON");
        let name = id.trim_start_matches("urn:ebbpool:schema:");
        fields(name, &schema["$defs"]["result"], &mut current);
        ids.push(name.to_string());
    }
    let is_of_present = |line: &&String| ids.iter().any(|id| line.starts_with(id.as_str()));
    let missing = golden.iter().filter(is_of_present);
    let missing: Vec<&String> = missing.filter(|line| !current.contains(*line)).collect();
    assert!(
        missing.is_empty(),
        "programs may rely on these fields; raise the version in ResultSchema::for_type, or, if no release had them, delete \
         their lines in {path}: {missing:#?}"
    );
    if std::env::var_os("EBBPOOL_WRITE_DOCS").is_some() {
        let lines: Vec<&str> = current.iter().map(String::as_str).collect();
        fs::write(&path, lines.join("\n") + "\n").expect("the file is written");
        return;
    }
    let new: Vec<&String> = current.difference(&golden).collect();
    assert!(new.is_empty(), "new fields; EBBPOOL_WRITE_DOCS=1 with this test adds them to {path}: {new:#?}");
}
