//! The announcement by multicast DNS on the local network (`_teamlamp._tcp`), while the server asks for
//! it. An interface that takes no multicast is passed over by the library; nothing here can end a server.

use crate::app::App;
use mdns_sd::{IfKind, ServiceDaemon, ServiceInfo};
use std::time::Duration;
use teamlamp_wire::nearby;

/// How long a goodbye may take to leave.
const GOODBYE: Duration = Duration::from_secs(1);

/// Announces the server until it ends, and says goodbye then.
pub(crate) async fn announce(app: App, port: u16) {
    let (daemon, name) = match begin(&app, port) {
        Ok(begun) => begun,
        Err(fault) => {
            tracing::warn!(%fault, "the server is not announced on the local network: links work all the same");
            return;
        }
    };
    app.tasks.token().cancelled().await;
    let goodbye = async {
        if let Ok(gone) = daemon.unregister(&name) {
            let _ = gone.recv_async().await;
        }
        if let Ok(ended) = daemon.shutdown() {
            let _ = ended.recv_async().await;
        }
    };
    if app.clock.within(GOODBYE, goodbye).await.is_none() {
        tracing::debug!("the announcement ends without a goodbye");
    }
}

fn begin(app: &App, port: u16) -> Result<(ServiceDaemon, String), mdns_sd::Error> {
    let said = nearby::Announced {
        server_id: app.server_id.clone(),
        name: app.config.name.clone(),
        fingerprint: app.fingerprint.clone(),
        origin: app.fingerprint.is_none().then(|| app.origin.clone()),
    };
    let (instance, host) = (said.instance(), said.host());
    let properties = said.properties();
    let service = ServiceInfo::new(nearby::SERVICE, &instance, &host, "", port, &properties[..])?;
    let service = service.enable_addr_auto();
    let name = service.get_fullname().to_owned();
    let daemon = ServiceDaemon::new()?;
    // Loopback reaches nobody else, and its address would be of no use to them.
    daemon.disable_interface(vec![IfKind::LoopbackV4, IfKind::LoopbackV6])?;
    daemon.register(service)?;
    Ok((daemon, name))
}
