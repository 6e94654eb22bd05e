//! JSON Schemas (draft 2020-12) of results, generated from the declarations of their fields.
//!
//! Beside the keywords of the standard a field may have `x-unit`, and `x-role` with the name of a [`FieldRole`].

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema};
use serde_json::{Map, Value, json};

use super::{Field, FieldRole, FieldType, ResultRow};

/// The schema of one field of a declared row.
fn field_schema(field: &Field) -> Value {
    let (name, format) = match field.field_type {
        FieldType::Text => ("string", None),
        FieldType::Whole => ("integer", Some("uint64")),
        FieldType::Real => ("number", Some("double")),
    };
    let mut schema = Map::new();
    schema.insert("description".into(), field.about.trim().into());
    let types = match field.nullable {
        true => json!([name, "null"]),
        false => json!(name),
    };
    schema.insert("type".into(), types);
    if let Some(format) = format {
        schema.insert("format".into(), format.into());
    }
    if field.field_type == FieldType::Whole {
        schema.insert("minimum".into(), 0.into());
    }
    if !field.unit.is_empty() {
        schema.insert("x-unit".into(), field.unit.into());
    }
    if field.role != FieldRole::Figure {
        schema.insert("x-role".into(), field.role.name().into());
    }
    Value::Object(schema)
}

/// The schema of a declared row, as an object in which every field is required.
pub(crate) fn row_schema<R: ResultRow>() -> Schema {
    let properties = R::FIELDS.iter();
    let properties = properties.map(|field| (field.name.to_string(), field_schema(field)));
    let required: Vec<&str> = R::FIELDS.iter().map(|field| field.name).collect();
    let mut schema = Map::new();
    schema.insert("type".into(), "object".into());
    schema.insert("description".into(), R::ABOUT.trim().into());
    schema.insert("properties".into(), Value::Object(properties.collect()));
    schema.insert("required".into(), required.into());
    schema.into()
}

/// The shape of a command's JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResultShape {
    /// One result, as an object.
    One,
    /// An array of results.
    Rows,
    /// An object if the command line asks for one result, else an array.
    OneOrRows,
}

/// The schema of a command's JSON.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ResultSchema {
    /// The command without `ebbpool`, such as `device replay`.
    pub command: &'static str,
    /// The version. It rises when a program that reads the results could fail: a field is removed or renamed, or has
    /// another type, unit or meaning. A new field does not change it.
    pub version: u32,
    /// The shape of the JSON.
    pub shape: ResultShape,
    /// The schema of one result.
    row: Value,
}

impl ResultSchema {
    /// The schema of a command whose results serialize as `T`.
    pub fn for_type<T: JsonSchema>(command: &'static str, version: u32, shape: ResultShape) -> Self {
        let mut settings = SchemaSettings::draft2020_12().for_serialize();
        // A reader, and the comparison of results, find each field where it is.
        settings.inline_subschemas = true;
        let mut row = settings.into_generator().into_root_schema_for::<T>();
        for of_a_document in ["$schema", "title"] {
            row.remove(of_a_document);
        }
        ResultSchema { command, version, shape, row: row.into() }
    }

    /// The document's name, such as `urn:ebbpool:schema:device-replay:1`.
    pub fn id(&self) -> String {
        let command = self.command.replace(' ', "-");
        format!("urn:ebbpool:schema:{command}:{}", self.version)
    }

    /// The schema as a document.
    pub fn to_json(&self) -> Value {
        let mut document = json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "$id": self.id(),
            "title": format!("JSON of `ebbpool {}`", self.command),
            "$defs": { "result": self.row },
        });
        let result = json!({ "$ref": "#/$defs/result" });
        let rows = json!({ "type": "array", "items": result });
        let shape = match self.shape {
            ResultShape::One => result,
            ResultShape::Rows => rows,
            ResultShape::OneOrRows => json!({ "anyOf": [result, rows] }),
        };
        if let (Value::Object(document), Value::Object(shape)) = (&mut document, shape) {
            document.extend(shape);
        }
        document
    }

    /// The declaration of one result.
    pub(crate) fn result(&self) -> DeclaredField<'_> {
        DeclaredField(Some(&self.row))
    }
}

/// The part of a schema that declares a value; empty where the schema says nothing about it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DeclaredField<'s>(Option<&'s Value>);

impl<'s> DeclaredField<'s> {
    /// This schema, and those of which it is a combination.
    fn parts(self) -> impl Iterator<Item = &'s Value> {
        let combined = ["anyOf", "oneOf", "allOf"].into_iter();
        let nested = combined.filter_map(move |keyword| self.0?.get(keyword)?.as_array());
        self.0.into_iter().chain(nested.flatten())
    }

    fn keyword(self, keyword: &str) -> Option<&'s Value> {
        self.parts().find_map(|part| part.get(keyword))
    }

    /// The declaration of a field that the schema names.
    fn named(self, name: &str) -> Option<&'s Value> {
        let mut parts = self.parts();
        parts.find_map(|part| part.get("properties")?.get(name))
    }

    /// The declaration of a field of this object.
    pub(crate) fn field(self, name: &str) -> DeclaredField<'s> {
        let found = self.named(name);
        DeclaredField(found.or_else(|| self.keyword("additionalProperties")))
    }

    /// The declaration of this array's items.
    pub(crate) fn items(self) -> DeclaredField<'s> {
        DeclaredField(self.keyword("items"))
    }

    /// The role of a value in this field.
    pub(crate) fn role(self) -> FieldRole {
        let role = self.keyword("x-role").and_then(Value::as_str);
        role.map_or(FieldRole::Figure, FieldRole::named)
    }

    /// The role of a field of this object. Texts in fields whose names a schema cannot state, such as the parameters of
    /// an experiment, are keys.
    pub(crate) fn role_of(self, name: &str, value: &Value) -> FieldRole {
        match self.named(name) {
            None if value.is_string() && self.keyword("additionalProperties").is_some() => FieldRole::Key,
            _ => self.field(name).role(),
        }
    }

    /// The unit; empty if there is none.
    pub(crate) fn unit(self) -> &'s str {
        let unit = self.keyword("x-unit").and_then(Value::as_str);
        unit.unwrap_or_default()
    }

    /// The names of the fields of this object.
    pub(crate) fn names(self) -> impl Iterator<Item = &'s str> {
        let properties = self.parts().filter_map(|part| part.get("properties"));
        let properties = properties.filter_map(Value::as_object);
        properties.flat_map(|fields| fields.keys().map(String::as_str))
    }

    /// The names of the fields that every such object has.
    pub(crate) fn required(self) -> impl Iterator<Item = &'s str> {
        let required = self.0.and_then(|schema| schema.get("required")?.as_array());
        required.into_iter().flatten().filter_map(Value::as_str)
    }

    /// True if the value may be null.
    pub(crate) fn may_be_null(self) -> bool {
        let types = self.keyword("type").and_then(Value::as_array);
        types.is_some_and(|types| types.iter().any(|name| name == "null"))
    }

    /// The names of the key fields that the schema names.
    pub(crate) fn keys(self) -> impl Iterator<Item = &'s str> {
        let is_key = move |name: &&str| self.field(name).role() == FieldRole::Key;
        self.names().filter(is_key)
    }
}
