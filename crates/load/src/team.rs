//! A team with as many people as a load needs, made through the protocol like any other.

use crate::http::{From, call};
use crate::process::Measured;
use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::path::Path;

/// A team and its people.
pub(crate) struct Team {
    /// Its id.
    pub(crate) id: String,
    /// One credential each; the first is the owner's.
    pub(crate) people: Vec<From>,
}

fn text(value: &Value, pointer: &str) -> Result<String> {
    Ok(value
        .pointer(pointer)
        .and_then(Value::as_str)
        .with_context(|| format!("{pointer} in {value}"))?
        .to_owned())
}

impl Team {
    /// Makes the team on a new server and lets `count` people in. Thirty come from each loopback address,
    /// below the limit of what one address may ask without a credential.
    pub(crate) async fn make(server: &Measured, data: &Path, count: usize) -> Result<Self> {
        let link = std::fs::read_to_string(data.join("first-owner-link"))?;
        let code = link
            .split("code=")
            .nth(1)
            .and_then(|c| c.split('&').next())
            .context("a code in the owner's link")?;
        let to = server.address;
        let mut owner = From { place: 1, token: String::new() };
        let body = json!({"code": code.trim(), "name": "Owner", "team_name": "Load"});
        let made = call(to, &owner, "POST", "/v1/invitations/accept", &body).await?;
        owner.token = text(&made, "/data/credential/token")?;
        let id = text(&made, "/data/team/id")?;
        let mut people = vec![owner];
        let mut code = String::new();
        for number in 1..count {
            if number % 100 == 1 {
                let body = json!({"role": "member", "max_uses": 100});
                let made =
                    call(to, &people[0], "POST", &format!("/v1/teams/{id}/invitations"), &body).await?;
                code = text(&made, "/data/code")?;
            }
            let mut person = From { place: u8::try_from(1 + number / 30)?, token: String::new() };
            let body = json!({"code": code, "name": format!("Person {number}")});
            let made = call(to, &person, "POST", "/v1/invitations/accept", &body).await?;
            person.token = text(&made, "/data/credential/token")?;
            people.push(person);
        }
        Ok(Self { id, people })
    }
}
