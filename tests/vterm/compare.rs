//! Compares two states of a terminal.

use serde_json::Value;

/// The first thing in which the states differ, or nothing.
pub(crate) fn difference(whole: &Value, restored: &Value) -> Option<String> {
    at("", whole, restored)
}

fn at(path: &str, whole: &Value, restored: &Value) -> Option<String> {
    match (whole, restored) {
        (Value::Object(left), Value::Object(right)) => {
            left.keys().chain(right.keys()).find_map(|key| {
                let (left, right) = (&whole[key], &restored[key]);
                at(&format!("{path}.{key}"), left, right)
            })
        }
        (Value::Array(left), Value::Array(right)) => {
            let unequal = (0..left.len().max(right.len())).find_map(|index| {
                let (left, right) = (&whole[index], &restored[index]);
                at(&format!("{path}[{index}]"), left, right)
            });
            unequal.map(|what| {
                if left.len() == right.len() {
                    what
                } else {
                    format!("{path}: {} and {} entries; {what}", left.len(), right.len())
                }
            })
        }
        _ if whole == restored => None,
        _ => Some(format!(
            "{path}: the stream gives {whole}, the snapshot {restored}"
        )),
    }
}

/// Takes away which rows go on from the row above.
pub(crate) fn without_joins(state: &mut Value) {
    for screen in ["normal", "alternate"] {
        let lines = state[screen].get_mut("lines").and_then(Value::as_array_mut);
        for line in lines.into_iter().flatten() {
            line["wrapped"] = false.into();
        }
    }
}

/// Takes away in which row the cursor of the primary screen was saved.
pub(crate) fn without_saved_row(state: &mut Value) {
    state["normal"]["saved"]["y"] = Value::Null;
}
