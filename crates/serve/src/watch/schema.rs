//! Schemas of what the server reports as JSON, from the types themselves and the tables whose rows become keys.

use ioweir_config::{SHARE_NUMBERS, ShareNumber};
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Map, Value, json};

use super::metrics;

/// The JSON schema of a type, without references.
#[must_use]
pub fn of<T: JsonSchema>() -> Value {
    let mut settings = SchemaSettings::draft2020_12().for_serialize();
    settings.inline_subschemas = true;
    settings.meta_schema = None;
    settings.into_generator().into_root_schema_for::<T>().to_value()
}

/// The numbers of a share.
pub(super) fn share(_: &mut SchemaGenerator) -> Schema {
    shares(json!("object"))
}

/// The numbers of a share, or null.
pub(super) fn share_or_null(_: &mut SchemaGenerator) -> Schema {
    shares(json!(["object", "null"]))
}

fn shares(types: Value) -> Schema {
    let property = |number: &ShareNumber| {
        let unit = if number.unit.is_empty() { String::new() } else { format!(" ({})", number.unit) };
        let about = format!("The {} of the share{unit}.", number.title);
        (number.name.to_string(), json!({ "type": ["number", "null"], "description": about }))
    };
    let required: Vec<&str> = SHARE_NUMBERS.iter().map(|number| number.name).collect();
    let properties: Map<String, Value> = SHARE_NUMBERS.iter().map(property).collect();
    json_schema!({ "type": types, "properties": properties, "required": required })
}

/// Adds the numbers of a class that come from the table of metrics to its schema.
pub(super) fn add_numbers(schema: &mut Schema) {
    let Some(class) = schema.as_object_mut() else { return };
    class.remove("additionalProperties");
    for (key, help, is_always) in metrics::keys() {
        let property = json!({ "type": "integer", "description": help });
        if let Some(properties) = class.get_mut("properties").and_then(Value::as_object_mut) {
            properties.insert(key.into(), property);
        }
        if is_always && let Some(required) = class.get_mut("required").and_then(Value::as_array_mut) {
            required.push(key.into());
        }
    }
}
