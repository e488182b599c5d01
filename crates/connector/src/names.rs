//! The names that the fields for person, machine and team begin with.

use teamlamp_wire::name::clean;
use teamlamp_wire::window::SuggestedNames;

/// The person and the computer as this system knows them, and a team for them.
pub fn suggested() -> SuggestedNames {
    let environment = |name: &str| std::env::var(name).ok();
    from(
        environment("USER").or_else(|| environment("LOGNAME")).or_else(|| environment("USERNAME")).as_deref(),
        sysinfo::System::host_name().ok().as_deref(),
    )
}

fn from(user: Option<&str>, host: Option<&str>) -> SuggestedNames {
    let person = user.and_then(|user| clean(user).ok()).unwrap_or_else(|| "Me".into());
    let host = host.and_then(|host| host.split('.').next()).and_then(|host| clean(host).ok());
    let machine = host.filter(|host| host != "localhost").unwrap_or_else(|| format!("{person}'s computer"));
    let team = clean(&format!("{person}'s team")).unwrap_or_else(|_| "My team".into());
    SuggestedNames { person, machine, team }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_suggested_even_where_the_system_knows_none() {
        let known = from(Some("ada"), Some("ada-laptop.example.org"));
        assert_eq!((known.person.as_str(), known.machine.as_str()), ("ada", "ada-laptop"));
        let unknown = from(None, Some("localhost"));
        assert_eq!((unknown.person.as_str(), unknown.machine.as_str()), ("Me", "Me's computer"));
        assert!(!suggested().machine.is_empty());
    }
}
