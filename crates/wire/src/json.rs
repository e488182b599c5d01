//! Strict JSON: what the server reads is valid UTF-8 JSON of bounded depth without duplicate keys, and
//! holds no field that its type does not list (spec 01).

use crate::limits::JSON_DEPTH;
use serde::de::{self, DeserializeOwned, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use std::collections::HashSet;
use std::fmt;

/// Reads `bytes` as `T`, or says in one sentence what is wrong.
pub fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
    check(bytes)?;
    serde_json::from_slice(bytes).map_err(|e| format!("The body does not fit: {e}."))
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

/// Keys are few and short in most objects: a scan of a small list is quicker than hashing.
#[derive(Default)]
struct Keys {
    few: Vec<String>,
    many: HashSet<String>,
}

impl Keys {
    fn is_new(&mut self, key: String) -> bool {
        if self.many.is_empty() && self.few.len() < 24 {
            if self.few.contains(&key) {
                return false;
            }
            self.few.push(key);
            return true;
        }
        if self.many.is_empty() {
            self.many.extend(self.few.drain(..));
        }
        self.many.insert(key)
    }
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
        while let Some(key) = entries.next_key::<String>()? {
            let shown: String = key.chars().take(64).collect();
            if !keys.is_new(key) {
                return Err(de::Error::custom(format!("the key `{shown}` stands twice in one object")));
            }
            entries.next_value_seed(Level(below))?;
        }
        Ok(())
    }
}

impl Level {
    fn deeper<E: de::Error>(&self) -> Result<usize, E> {
        if self.0 >= JSON_DEPTH {
            return Err(E::custom(format!("it is nested more than {JSON_DEPTH} deep")));
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
    fn duplicate_keys_are_refused_at_any_depth() {
        for text in [r#"{"a":1,"a":2}"#, r#"{"x":[{"b":1,"c":{"d":1,"d":1}}]}"#] {
            assert!(check(text.as_bytes()).unwrap_err().contains("twice"), "{text}");
        }
        let many: String = (0..60).map(|i| format!("\"k{i}\":1,")).collect::<String>() + "\"k3\":1";
        assert!(check(format!("{{{many}}}").as_bytes()).is_err());
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
