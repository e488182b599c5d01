//! Strict JSON: what the server reads is valid UTF-8 JSON of bounded depth without duplicate keys, and
//! holds no field that its type does not list (spec 01).

mod objects;

use crate::limits::JSON_DEPTH;
use serde::de::{self, DeserializeOwned, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;

/// Reads `bytes` as `T`, or says in one sentence what is wrong.
pub fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
    check(bytes)?;
    fit(bytes)
}

/// Reads `bytes` as `T` where every type with named fields is an object, or says what does not fit. The
/// type itself must refuse what [`check`] would.
pub(crate) fn fit<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
    let mut input = serde_json::Deserializer::from_slice(bytes);
    let value = T::deserialize(objects::Objects(&mut input));
    value.and_then(|value| input.end().map(|()| value)).map_err(|e| format!("The body does not fit: {e}."))
}

/// Checks depth and duplicate keys of a whole document without keeping any of it.
pub fn check(bytes: &[u8]) -> Result<(), String> {
    let mut input = serde_json::Deserializer::from_slice(bytes);
    // The check has its own bound, which is below the parser's.
    Level(0).deserialize(&mut input).map_err(|e| format!("The body is not acceptable JSON: {e}."))?;
    input.end().map_err(|e| format!("The body is not acceptable JSON: {e}."))
}

/// Canonical JSON: keys sorted, no spaces. Equal values have equal bytes, so that they can be hashed.
pub fn canonical(value: &serde_json::Value) -> String {
    // serde_json's map is ordered by key (its `preserve_order` feature is off), which the test pins.
    value.to_string()
}

struct Level(usize);

impl<'de> DeserializeSeed<'de> for Level {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, input: D) -> Result<(), D::Error> {
        input.deserialize_any(self)
    }
}

/// A key, which is borrowed from the text unless it is written with escapes.
pub(crate) struct Key;

impl<'de> DeserializeSeed<'de> for Key {
    type Value = Cow<'de, str>;
    fn deserialize<D: Deserializer<'de>>(self, input: D) -> Result<Self::Value, D::Error> {
        input.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for Key {
    type Value = Cow<'de, str>;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }
    fn visit_borrowed_str<E>(self, key: &'de str) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(key))
    }
    fn visit_str<E>(self, key: &str) -> Result<Self::Value, E> {
        Ok(Cow::Owned(key.to_owned()))
    }
}

/// Keys are few and short in most objects: a scan of a small list is quicker than hashing.
#[derive(Default)]
struct Keys<'de> {
    few: Vec<Cow<'de, str>>,
    many: HashSet<Cow<'de, str>>,
}

impl<'de> Keys<'de> {
    fn has(&self, key: &str) -> bool {
        self.few.iter().any(|known| known == key) || self.many.contains(key)
    }
    fn add(&mut self, key: Cow<'de, str>) {
        if self.many.is_empty() && self.few.len() < 24 {
            return self.few.push(key);
        }
        if self.many.is_empty() {
            self.many.extend(self.few.drain(..));
        }
        self.many.insert(key);
    }
}

/// The refusal of a key that an object has already.
pub(crate) fn twice<E: de::Error>(key: &str) -> E {
    let shown: String = key.chars().take(64).collect();
    E::custom(format!("the key `{shown}` stands twice in one object"))
}

/// A value that is read and checked in one go: where a type keeps fields that it does not list, and a
/// check of the whole document beside the reading would cost as much again.
pub(crate) struct Strict {
    /// How deep the value may nest.
    pub(crate) levels: usize,
}

impl<'de> DeserializeSeed<'de> for Strict {
    type Value = Value;
    fn deserialize<D: Deserializer<'de>>(self, input: D) -> Result<Value, D::Error> {
        input.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict {
    type Value = Value;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }
    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }
    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }
    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }
    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }
    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }
    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let levels = self.levels.checked_sub(1).ok_or_else(too_deep)?;
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(Strict { levels })? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }
    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let levels = self.levels.checked_sub(1).ok_or_else(too_deep)?;
        let mut map = Map::new();
        while let Some(key) = entries.next_key_seed(Key)? {
            if map.contains_key(key.as_ref()) {
                return Err(twice(&key));
            }
            map.insert(key.into_owned(), entries.next_value_seed(Strict { levels })?);
        }
        Ok(Value::Object(map))
    }
}

fn too_deep<E: de::Error>() -> E {
    E::custom(format!("it is nested more than {JSON_DEPTH} deep"))
}

impl<'de> Visitor<'de> for Level {
    type Value = ();
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }
    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }
    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }
    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }
    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }
    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }
    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let below = self.deeper()?;
        while items.next_element_seed(Level(below))?.is_some() {}
        Ok(())
    }
    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<(), A::Error> {
        let below = self.deeper()?;
        let mut keys = Keys::default();
        while let Some(key) = entries.next_key_seed(Key)? {
            if keys.has(&key) {
                return Err(twice(&key));
            }
            keys.add(key);
            entries.next_value_seed(Level(below))?;
        }
        Ok(())
    }
}

impl Level {
    fn deeper<E: de::Error>(&self) -> Result<usize, E> {
        if self.0 >= JSON_DEPTH {
            return Err(too_deep());
        }
        Ok(self.0 + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Body {
        #[serde(rename = "name")]
        _name: String,
    }

    #[test]
    fn unknown_fields_are_named() {
        let fault = read::<Body>(br#"{"name":"a","colour":1}"#).unwrap_err();
        assert!(fault.contains("`colour`"), "{fault}");
    }

    #[test]
    fn a_list_of_values_is_no_object() {
        let fault = read::<Body>(br#"["a"]"#).unwrap_err();
        assert!(fault.contains("sequence"), "{fault}");
        assert!(read::<Vec<Body>>(br#"[{"name":"a"}]"#).is_ok());
        assert!(read::<Vec<Option<Body>>>(br#"[null,["a"]]"#).is_err());
        assert!(read::<Body>(br#"{"name":"a"} 1"#).is_err());
        assert_eq!(read::<Value>(br#"[1,{"a":["b"]}]"#), Ok(serde_json::json!([1, {"a": ["b"]}])));
    }

    #[test]
    fn duplicate_keys_are_refused_at_any_depth() {
        for text in [r#"{"a":1,"a":2}"#, r#"{"x":[{"b":1,"c":{"d":1,"d":1}}]}"#] {
            assert!(check(text.as_bytes()).unwrap_err().contains("twice"), "{text}");
        }
        let many: String = (0..60).map(|i| format!("\"k{i}\":1,")).collect::<String>() + "\"k3\":1";
        assert!(check(format!("{{{many}}}").as_bytes()).is_err());
    }

    #[test]
    fn a_value_that_is_read_strictly_is_the_value_and_has_the_same_bounds() {
        let read = |text: &str, levels| {
            Strict { levels }
                .deserialize(&mut serde_json::Deserializer::from_str(text))
                .map_err(|e| e.to_string())
        };
        let text = r#"{"a":[1,-2,3.5,"\u00e9",null,true,{"b":{}}],"\u0063":18446744073709551615}"#;
        assert_eq!(read(text, 4), Ok(serde_json::from_str(text).unwrap()));
        assert!(read(text, 3).unwrap_err().contains("nested"));
        assert!(read(r#"{"a":{"b":1,"\u0062":2}}"#, 4).unwrap_err().contains("`b` stands twice"));
    }

    #[test]
    fn nesting_ends_at_64() {
        let nested = |n: usize| format!("{}1{}", "[".repeat(n), "]".repeat(n));
        assert!(check(nested(64).as_bytes()).is_ok());
        assert!(check(nested(65).as_bytes()).unwrap_err().contains("64"));
        assert!(check(nested(100_000).as_bytes()).is_err());
    }

    #[test]
    fn what_is_not_json_is_refused() {
        for bad in [&b""[..], b"{", b"\xff", b"{} x", b"NaN", b"'a'"] {
            assert!(check(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn canonical_form_sorts_keys() {
        let value = serde_json::json!({"b": 1, "a": {"d": 2, "c": [1, 2]}});
        assert_eq!(canonical(&value), r#"{"a":{"c":[1,2],"d":2},"b":1}"#);
    }
}
