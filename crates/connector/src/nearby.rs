//! Team servers on the local network: asked for by multicast DNS, for a few seconds. What is found is
//! what anyone there says; who it is shows when it is asked, by the key that was pinned.

use mdns_sd::{ServiceDaemon, ServiceEvent};
use std::collections::BTreeMap;
use std::time::Duration;
use teamlamp_clock::Clock;
pub use teamlamp_wire::nearby::Found;
use teamlamp_wire::nearby::SERVICE;

/// How long people wait for it: a server answers at once, one that is busy within a second or two.
pub const LOOK: Duration = Duration::from_secs(3);
/// The most servers that are listed; who fills a network with inventions gets no further.
const MOST: usize = 32;
/// How long the end of the search may take.
const END: Duration = Duration::from_secs(1);

/// Why nobody could be asked.
#[derive(Debug, thiserror::Error)]
#[error("The local network can't be searched ({0}): use the invitation's link instead.")]
pub struct NearbyFault(String);

/// The servers that answered within `time`, by name. An interface that takes no multicast is passed over.
///
/// # Errors
/// Where the system gives no socket for it.
pub async fn discover(clock: &Clock, time: Duration) -> Result<Vec<Found>, NearbyFault> {
    let told = |fault: mdns_sd::Error| NearbyFault(fault.to_string());
    let daemon = ServiceDaemon::new().map_err(told)?;
    let events = daemon.browse(SERVICE).map_err(told)?;
    let mut found = BTreeMap::new();
    let heard = async {
        while let Ok(event) = events.recv_async().await {
            take(&mut found, event);
        }
    };
    clock.within(time, heard).await;
    let ended = async {
        let _ = daemon.stop_browse(SERVICE);
        if let Ok(ended) = daemon.shutdown() {
            let _ = ended.recv_async().await;
        }
    };
    clock.within(END, ended).await;
    let mut servers: Vec<Found> = found.into_values().collect();
    servers.sort_by(|a, b| (&a.name, &a.server_id).cmp(&(&b.name, &b.server_id)));
    Ok(servers)
}

/// What an event changes in what was found, by the announcement's name.
fn take(found: &mut BTreeMap<String, Found>, event: ServiceEvent) {
    match event {
        ServiceEvent::ServiceResolved(service) => {
            let addresses = service.addresses.iter().map(mdns_sd::ScopedIp::to_ip_addr);
            let read = Found::read(|key| service.get_property_val_str(key), addresses, service.port);
            match read {
                Some(read) if found.len() < MOST || found.contains_key(&service.fullname) => {
                    found.insert(service.fullname.clone(), read);
                }
                Some(_) => tracing::debug!("more servers are announced than are listed"),
                None => tracing::debug!("an announcement was passed over: it can't be used"),
            }
        }
        ServiceEvent::ServiceRemoved(_, name) => {
            found.remove(&name);
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mdns_sd::ServiceInfo;
    use teamlamp_wire::nearby::Announced;

    fn announced(number: usize) -> ServiceEvent {
        let said = Announced {
            server_id: format!("srv_{number:032}").as_str().into(),
            name: "Office".into(),
            fingerprint: Some("0a".repeat(32)),
            origin: None,
        };
        let properties = said.properties();
        let info =
            ServiceInfo::new(SERVICE, &said.instance(), &said.host(), "192.168.1.4", 8720, &properties[..]);
        ServiceEvent::ServiceResolved(Box::new(info.unwrap().as_resolved_service()))
    }

    #[test]
    fn what_comes_and_goes_is_counted_once_and_bounded() {
        let mut found = BTreeMap::new();
        take(&mut found, announced(1));
        take(&mut found, announced(1));
        let (name, server) = found.first_key_value().unwrap();
        assert_eq!(
            (server.name.as_str(), &server.origins[..]),
            ("Office", &["https://192.168.1.4:8720".into()][..])
        );
        let gone = ServiceEvent::ServiceRemoved(SERVICE.into(), name.clone());
        take(&mut found, gone);
        assert!(found.is_empty());
        for number in 0..100 {
            take(&mut found, announced(number));
        }
        assert_eq!(found.len(), MOST);
    }
}
