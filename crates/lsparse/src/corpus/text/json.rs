//! Pick two fields out of a JSON object without keeping the rest.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};

use crate::error::brief;

/// What is wrong with a line, and what to do about it.
type Problem = (String, String);

/// The text in `field` and the name in `id_field` of an object.
pub(in crate::corpus) fn pick(
    line: &str,
    field: &str,
    id_field: Option<&str>,
) -> Result<(String, Option<String>), Problem> {
    let mut json = serde_json::Deserializer::from_str(line);
    let found = Fields { field, id_field }.deserialize(&mut json).and_then(|found| json.end().map(|()| found));
    let found = found.map_err(|error| {
        let remedy = "give one JSON object a line";
        (format!("it is no JSON object ({})", brief(error)), remedy.to_owned())
    })?;
    let known = |except: &str| {
        let names = found.names.iter().filter(|name| *name != except);
        let names: Vec<String> = names.map(|name| format!("{name:?}")).collect();
        if names.is_empty() {
            "give objects with a field of text".to_owned()
        } else {
            format!("choose one of {}", names.join(", "))
        }
    };
    let missing = |field: &str| (format!("the object has no field {field:?}"), known(field));
    let not_text = |field: &str| (format!("the field {field:?} is not text"), known(field));
    let text = match &found.text {
        Value::Missing => return Err(missing(field)),
        // Nothing is known to be written there.
        Value::Null => String::new(),
        Value::Text(text) => text.clone(),
        Value::Number(_) | Value::Other => return Err(not_text(field)),
    };
    let id = match (id_field, &found.id) {
        (None, _) | (_, Value::Null) => None,
        (Some(field), Value::Missing) => return Err(missing(field)),
        (Some(field), Value::Other) => return Err(not_text(field)),
        (_, Value::Text(id) | Value::Number(id)) => Some(id.clone()),
    };
    Ok((text, id))
}

/// What an object has in each of these fields, as text; blank where there is nothing.
pub(in crate::corpus) fn pick_all(line: &str, fields: &[String]) -> Result<Vec<String>, Problem> {
    let object: serde_json::Map<String, serde_json::Value> = serde_json::from_str(line).map_err(|error| {
        (format!("it is no JSON object ({})", brief(error)), "give one JSON object a line".to_owned())
    })?;
    let value = |field: &String| match object.get(field) {
        None | Some(serde_json::Value::Null) => Ok(String::new()),
        Some(serde_json::Value::String(text)) => Ok(text.clone()),
        Some(value @ (serde_json::Value::Number(_) | serde_json::Value::Bool(_))) => Ok(value.to_string()),
        Some(_) => Err((format!("the field {field:?} is neither text nor a number"), "keep others".to_owned())),
    };
    fields.iter().map(value).collect()
}

/// Names that a message can show.
const MAX_NAMES: usize = 12;

struct Fields<'a> {
    field: &'a str,
    id_field: Option<&'a str>,
}

struct Found {
    text: Value,
    id: Value,
    names: Vec<String>,
}

#[derive(Clone)]
enum Value {
    Missing,
    Null,
    Text(String),
    Number(String),
    Other,
}

impl<'de> DeserializeSeed<'de> for Fields<'_> {
    type Value = Found;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Found, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Fields<'_> {
    type Value = Found;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Found, A::Error> {
        let mut found = Found { text: Value::Missing, id: Value::Missing, names: Vec::new() };
        while let Some(name) = map.next_key::<String>()? {
            let (is_text, is_id) = (name == self.field, Some(name.as_str()) == self.id_field);
            if is_text || is_id {
                let value = map.next_value_seed(AnyValue)?;
                if is_id {
                    found.id = value.clone();
                }
                if is_text {
                    found.text = value;
                }
            } else {
                map.next_value::<IgnoredAny>()?;
            }
            if found.names.len() < MAX_NAMES {
                found.names.push(name.chars().take(40).collect());
            }
        }
        Ok(found)
    }
}

struct AnyValue;

impl<'de> DeserializeSeed<'de> for AnyValue {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for AnyValue {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(Value::Text(text.to_owned()))
    }

    fn visit_string<E>(self, text: String) -> Result<Value, E> {
        Ok(Value::Text(text))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.to_string()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.to_string()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Value::Number(value.to_string()))
    }

    fn visit_bool<E>(self, _: bool) -> Result<Value, E> {
        Ok(Value::Other)
    }

    fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Value::Other)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Value::Other)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn fields_are_picked() {
        let line = r#"{"a": [1, {"text": "no"}], "text": "caf\u00e9\n", "id": 7, "x": null, "b": true}"#;
        assert_eq!(pick(line, "text", None).unwrap(), ("caf\u{e9}\n".into(), None));
        assert_eq!(pick(line, "text", Some("id")).unwrap().1.as_deref(), Some("7"));
        assert_eq!(pick(line, "text", Some("text")).unwrap().1.as_deref(), Some("caf\u{e9}\n"));
        assert_eq!(pick(line, "x", Some("x")).unwrap(), (String::new(), None));
        for (field, id, expected) in [
            ("body", None, "no field \"body\""),
            ("text", Some("name"), "no field \"name\""),
            ("a", None, "\"a\" is not text"),
            ("id", None, "\"id\" is not text"),
            ("b", None, "\"b\" is not text"),
        ] {
            let (detail, remedy) = pick(line, field, id).unwrap_err();
            assert!(detail.contains(expected) && remedy.contains("\"text\""), "{detail}; {remedy}");
        }
        for line in ["", "[]", "{", "{} {}", "{\"text\": \"\\ud800\"}", "nonsense"] {
            assert!(pick(line, "text", None).is_err(), "{line}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]

        #[test]
        fn damaged_lines_do_not_panic(at in 0usize..50, with in "\\PC{0,3}", deep in 0usize..2000) {
            let mut line = r#"{"text": "caf\u00e9", "id": 7, "x": [1, {"y": 2e5}]}"#.to_owned();
            if line.is_char_boundary(at) {
                line.insert_str(at, &with);
            }
            let _ = pick(&line, "text", Some("id"));
            let _ = pick(&format!("{{\"text\": {}", "[".repeat(deep)), "text", None);
        }
    }
}
