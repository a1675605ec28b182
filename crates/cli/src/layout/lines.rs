//! Lines of a table of keys from a JSON schema.

use serde_json::Value;

/// The keys of an object's schema, a line each as in a table of keys.
pub(super) fn of(schema: &Value) -> String {
    let mut rows = Vec::new();
    add_rows(schema, "", &mut rows);
    let width = |of: fn(&[String; 3]) -> &str| rows.iter().map(|row| of(row).chars().count()).max().unwrap_or_default();
    let (paths, types) = (width(|row| &row[0]), width(|row| &row[1]));
    let line = |[path, kind, about]: &[String; 3]| format!("{path:paths$} {kind:types$} {about}\n");
    rows.iter().map(line).collect()
}

fn add_rows(object: &Value, path: &str, rows: &mut Vec<[String; 3]>) {
    let Some(properties) = object["properties"].as_object() else { return };
    let is_required = |key: &str| object["required"].as_array().is_some_and(|keys| keys.iter().any(|its| its == key));
    for (key, property) in properties {
        let mut place = format!("{path}{key}{}", if is_required(key) { "" } else { "?" });
        let mut inner = property;
        loop {
            let is_map = inner.get("properties").is_none() && inner["additionalProperties"].is_object();
            let (sign, each) = if is_map { ("{}", "additionalProperties") } else { ("[]", "items") };
            let Some(next) = inner.get(each) else { break };
            place.push_str(sign);
            inner = next;
        }
        rows.push([place.clone(), types(inner), about(property)]);
        // An object that may be null is one of two alternatives.
        let alternatives = inner["anyOf"].as_array().into_iter().flatten();
        let holder = alternatives.chain([inner]).find(|of| of.get("properties").is_some());
        if let Some(holder) = holder {
            add_rows(holder, &format!("{place}."), rows);
        }
    }
}

/// The types of a schema, as `number|null`.
fn types(schema: &Value) -> String {
    match (&schema["type"], schema["anyOf"].as_array()) {
        (Value::String(one), _) => one.clone(),
        (Value::Array(several), _) => several.iter().filter_map(Value::as_str).collect::<Vec<_>>().join("|"),
        (_, Some(several)) => several.iter().map(types).collect::<Vec<_>>().join("|"),
        _ => "any".into(),
    }
}

/// The description as a line of a table has it: without a capital or a full stop.
fn about(schema: &Value) -> String {
    let text = schema["description"].as_str().unwrap_or_default().replace('\n', " ");
    let text = text.trim_end_matches('.');
    let is_acronym = text.chars().nth(1).is_some_and(|second| !second.is_ascii_lowercase() && second != ' ');
    let first = text.chars().next().filter(|_| !is_acronym).map_or(0, char::len_utf8);
    text[..first].to_lowercase() + &text[first..]
}
